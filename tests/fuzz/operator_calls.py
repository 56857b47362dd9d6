"""Random calls of operators: what is called, on which arrays, with which parameters, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import mxlite as mx
import numpy as np
from op_cases import all_cases
from operator_references import COMPARED

DTYPES = (
    "float32", "float64", "float16", "bfloat16", "uint8", "int8", "int32", "int64", "bool",
)  # fmt: skip
MODES = ("eager", "backward", "hybrid", "hybrid backward", "symbol", "sparse", "out", "strided")
_MODE_SHARES = (0.3, 0.22, 0.1, 0.08, 0.1, 0.1, 0.05, 0.05)

SMALL_INTS = (0, 1, 2, 3, 4, 5, 7, 8, -1, -2, -3)
WILD_INTS = (
    -4, 16, 64, 255, 1000, 4096, 65536, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**61 + 1,
    2**63 - 1, -(2**63), 2**63, 2**70,
)  # fmt: skip
SMALL_FLOATS = (0.0, 1.0, -1.0, 0.5, 2.0, 0.1, 3.0)
WILD_FLOATS = (
    1e-30, -1e-30, 1e30, -1e30, 1e300, float("nan"), float("inf"), -float("inf"), 2.0**31, 2.0**53,
)  # fmt: skip
WILD_VALUES = (
    0.0, 1.0, -1.0, 0.5, 2.5, 100.0, -100.0, 1e9, -1e9, 3e9, 1e30, -1e30, 3e38, float("nan"),
    float("inf"), -float("inf"), 1e-40,
)  # fmt: skip
DIMS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 17)
HUGE_DIMS = (255, 1025, 65536, 2**20, 2**31 - 1, 2**31, 2**40, 2**62)
MAX_ELEMENTS = 1 << 17


class Input(NamedTuple):
    """An array; NumPy has no empty one whose other dimensions are huge."""

    values: np.ndarray
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{self.shape}"


@dataclass
class Call:
    """One call: everything that a run needs."""

    op: str
    arrays: list[Input]
    params: dict[str, Any]
    mode: str
    training: bool
    reference: Any = None  # what the result is, as a function of float64 inputs

    def __str__(self) -> str:
        inputs = ", ".join(str(array) for array in self.arrays)
        params = "".join(f", {key}={value!r}" for key, value in self.params.items())
        return f"{self.mode}: {self.op}({inputs}{params})"


# Operators that NumPy has as well get more calls that succeed: arrays that fit, mild parameters.
_COMPARED = [name for name in COMPARED if name in {op["name"] for op in mx._core.list_ops()}]
_CASES = [case for case in all_cases() if case.hybrid or case.error is None]
_OPS = [op for op in mx._core.list_ops() if op["name"] != "_raise_async"]
_BY_NAME = {alias: op for op in _OPS for alias in (op["name"], *op["aliases"])}


class _Random:
    """Choices from a generator."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def chance(self, share: float) -> bool:
        return bool(self.generator.random() < share)

    def one(self, values: Any) -> Any:
        return values[int(self.generator.integers(len(values)))]

    def number(self, small: Any, wild: Any, share: float) -> Any:
        return self.one(wild) if self.chance(share) else self.one(small)


def _int(random: _Random) -> int:
    return int(random.number(SMALL_INTS, WILD_INTS, 0.25))


def _float(random: _Random) -> float:
    return float(random.number(SMALL_FLOATS, WILD_FLOATS, 0.3))


def _edge(random: _Random, kind: str, bounds: str) -> Any:
    """Return a bound of a parameter's range, or the first value on either side of it."""
    edge = float(random.one(re.findall(r"-?\d[\d.e+]*", bounds)))
    number = edge + random.one((0, 0, 1, -1)) if "int" in kind else edge * random.one((1, 1.001))
    value = int(number) if "int" in kind else number
    return (value,) * random.one((1, 2, 3)) if "Seq" in kind and random.chance(0.5) else value


def _param(random: _Random, kind: str, bounds: str = "") -> Any:
    """Return a value for a parameter of that Python type; now and then one of another type."""
    if random.chance(0.02):
        return random.one(["text", None, (1, "a"), b"x", 1.5, -1, (), {}, True])
    if bounds and random.chance(0.25):
        return _edge(random, kind, bounds)
    if kind.endswith("| None") and random.chance(0.2):
        return None
    if kind.startswith("Literal"):
        return random.one(re.findall(r"'([^']*)'", kind))
    if kind.startswith("bool"):
        return random.chance(0.5)
    if kind.startswith("float | Seq"):
        return tuple(_float(random) for _ in range(random.one((0, 1, 1, 2, 2, 3, 4, 5))))
    if kind.startswith("int | Seq"):
        if random.chance(0.2):
            return _int(random)
        values: list[Any] = [_int(random) for _ in range(random.one((0, 1, 1, 2, 2, 2, 3, 4, 6)))]
        if "int | None" in kind:
            values = [None if random.chance(0.2) else value for value in values]
        return tuple(values)
    if kind.startswith("int"):
        return _int(random)
    if kind.startswith("float"):
        return _float(random)
    if kind.startswith("DType"):
        return random.one((*DTYPES, "int16", "complex64", "nonsense"))
    return random.one(("", "NCHW", "NHWC", "ij,jk->ik", "float32", "cpu(0)", "x" * 100))


def _shape(random: _Random) -> tuple[int, ...]:
    rank = random.one((0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 6, 7, 8))
    shape = [int(random.one(DIMS)) for _ in range(rank)]
    if rank and random.chance(0.06):
        shape[int(random.generator.integers(rank))] = int(random.one(HUGE_DIMS))
        if random.chance(0.5):
            shape[int(random.generator.integers(rank))] = 0
    while shape and 0 not in shape and np.prod(shape, dtype=object) > MAX_ELEMENTS:
        shape[int(np.argmax(shape))] //= 7
    return tuple(shape)


def _input(random: _Random, shape: tuple[int, ...], dtype: str) -> Input:
    stored = (0,) if 0 in shape else shape
    return Input(_values(random, stored, dtype), dtype, shape)


def _values(random: _Random, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = random.one(("uniform", "uniform", "normal", "indices", "wild", "constant", "all wild"))
    generator = random.generator
    if kind == "uniform":
        values = generator.uniform(-1, 1, shape)
    elif kind == "normal":
        values = generator.normal(size=shape) * 3
    elif kind == "indices":
        values = generator.integers(-2, 9, shape).astype(np.float64)
    elif kind == "constant":
        values = np.full(shape, random.one(WILD_VALUES))
    else:
        values = generator.uniform(-1, 1, shape)
        chosen = generator.random(shape) < (0.1 if kind == "wild" else 1.0)
        values = np.where(chosen, generator.choice(WILD_VALUES, shape), values)
    return _typed(np.asarray(values), dtype)


def _typed(values: np.ndarray, dtype: str) -> np.ndarray:
    """Return values that NumPy stores for the dtype: integers saturate."""
    if dtype == "bool":
        return np.asarray(values > 0)
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(dtype)
        number = np.nan_to_num(values, nan=0.0, posinf=1e30, neginf=-1e30)
        clipped = np.clip(number, float(info.min), float(info.max))
        result = np.zeros(values.shape, dtype)
        inside = clipped < float(info.max)
        result[inside] = clipped[inside].astype(dtype)
        result[~inside] = info.max
        return result
    with np.errstate(all="ignore"):
        return np.asarray(values).astype("float32" if dtype == "bfloat16" else dtype)


def _random_call(random: _Random) -> tuple[str, list[Input], dict[str, Any]]:
    """Return any operator on any arrays with any parameters."""
    op = random.one(_OPS)
    count = random.one((1, 1, 2, 3, 4, 5)) if op["variadic"] else len(op["inputs"])
    if random.chance(0.05):
        count = max(count + random.one((-1, 1)), 0)
    dtype = random.one(DTYPES) if random.chance(0.6) else "float32"
    first = _shape(random)
    arrays = []
    for _ in range(count):
        shape = first if random.chance(0.6) else _shape(random)
        kind = dtype if random.chance(0.85) else random.one(DTYPES)
        arrays.append(_input(random, shape, kind))
    params = {
        p["name"]: _param(random, p["python_type"], p["range"])
        for p in op["params"]
        if p["name"] != "ctx" and random.chance(0.97 if p["required"] else 0.4)
    }
    return op["name"], arrays, params


def _fitting_shape(random: _Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that broadcasts with another one."""
    cut = int(random.generator.integers(len(shape) + 1)) if random.chance(0.2) else 0
    fits = tuple(1 if random.chance(0.2) else dim for dim in shape[cut:])
    return fits if np.prod(fits, dtype=object) <= MAX_ELEMENTS else shape


def _fitting_param(random: _Random, name: str, entry: dict[str, Any], rank: int) -> Any:
    kind = entry["python_type"]
    within = int(random.generator.integers(-rank, rank)) if rank else 0
    if name in ("axis", "dim1", "dim2", "dim"):
        if "Seq" in kind and random.chance(0.4):
            count = int(random.generator.integers(1, rank + 1)) if rank else 0
            return tuple(int(a) for a in random.generator.permutation(rank)[:count])
        return None if "None" in kind and random.chance(0.3) else within
    if name == "axes":
        return tuple(int(a) for a in random.generator.permutation(rank))
    if name in ("reps", "repeats"):
        count = int(random.generator.integers(1, 4))
        small = [int(random.generator.integers(0, 3)) for _ in range(count)]
        return small[0] if name == "repeats" else tuple(small)
    if kind.startswith("bool"):
        return random.chance(0.5)
    return _param(random, kind, entry["range"])


def _fitting_call(random: _Random) -> tuple[str, list[Input], dict[str, Any]]:
    """Return a call of an operator with a counterpart in NumPy, on arrays that fit."""
    op = _BY_NAME[random.one(_COMPARED)]
    dtype = random.one(DTYPES) if random.chance(0.6) else "float32"
    shape = _shape(random)
    arrays = [_input(random, shape, dtype)]
    for _ in op["inputs"][1:]:
        fits = _fitting_shape(random, shape) if op["name"].startswith("broadcast_") else shape
        arrays.append(_input(random, fits, dtype))
    params = {
        p["name"]: _fitting_param(random, p["name"], p, len(shape))
        for p in op["params"]
        if p["name"] not in ("ctx", "dtype") and random.chance(0.97 if p["required"] else 0.5)
    }
    return op["name"], arrays, params


def _changed_shape(random: _Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    dims = list(shape)
    change = random.one(("dim", "dim", "dim", "drop", "add", "any"))
    if change == "any" or (change != "add" and not dims):
        return _shape(random)
    at = int(random.generator.integers(len(dims) + (change == "add")))
    if change == "add":
        dims.insert(at, random.one((0, 1, 2, 3)))
    elif change == "drop":
        del dims[at]
    else:
        dims[at] = max(random.one((0, 1, 2, 3, 5, dims[at] + 1, dims[at] - 1, 2 * dims[at])), 0)
    return tuple(dims) if np.prod(dims, dtype=object) <= MAX_ELEMENTS else shape


def _changed_case(
    random: _Random,
) -> tuple[str, list[Input], dict[str, Any], Any]:
    """Return a row of the op table with up to three changes; the reference if there are none."""
    case = random.one(_CASES)
    dtype = random.one(case.dtypes) if random.chance(0.5) else "float32"
    if dtype not in case.dtypes:
        dtype = case.dtypes[0]
    arrays = [
        Input(a, dtype if a.dtype.kind == "f" else str(a.dtype), a.shape) for a in case.inputs
    ]
    params = dict(case.params)
    changes = random.one((0, 1, 1, 2, 2, 3))
    described = {p["name"]: p for p in _BY_NAME[case.name]["params"]}
    for _ in range(changes):
        change = random.one(("shape", "dtype", "values", "values", "param", "param", "param",
                             "no param", "order"))  # fmt: skip
        at = int(random.generator.integers(len(arrays))) if arrays else -1
        if change in ("shape", "dtype", "values") and at >= 0:
            values, kind, shape = arrays[at]
            if change == "dtype":
                kind = random.one(DTYPES)
                arrays[at] = Input(_typed(values.astype(np.float64), kind), kind, shape)
            else:
                shape = _changed_shape(random, shape) if change == "shape" else shape
                arrays[at] = _input(random, shape, kind)
        elif change == "param" and described:
            name = random.one(sorted(described))
            if name != "ctx":
                entry = described[name]
                params[name] = _param(random, entry["python_type"], entry["range"])
        elif change == "no param" and params:
            params.pop(random.one(sorted(params)))
        elif change == "order" and len(arrays) > 1:
            arrays[0], arrays[at] = arrays[at], arrays[0]
    checked = changes == 0 and case.error is None and case.check is None and not case.mutates
    return case.name, arrays, params, case if checked else None


def make_call(seed: int, index: int) -> Call:
    """Return the call of that number; the same numbers give the same call."""
    random = _Random(np.random.default_rng([seed, index]))
    reference = None
    source = random.generator.random()
    if source < 0.15:
        op, arrays, params = _fitting_call(random)
    elif source < 0.6:
        op, arrays, params, reference = _changed_case(random)
    else:
        op, arrays, params = _random_call(random)
    mode = str(random.generator.choice(MODES, p=_MODE_SHARES))
    training = random.chance(0.5) if reference is None else reference.training
    return Call(op, arrays, params, mode, training, reference)
