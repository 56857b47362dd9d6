"""Every operator is called wrongly in every way that a signature allows.

The calls start from a row of the op table that works. Each must return a result or raise an
exception that is an MXNetError, has the fitting builtin class and names the operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from op_cases import all_cases
from op_table import Case, find_op, is_float, to_device

DTYPES = ["float32", "float64", "float16", "bfloat16", "bool"]
DTYPES += [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
AXES = {"axis", "dim", "axes", "axis1", "axis2", "dim1", "dim2"}
WRONG_KINDS = {"list": [1, 2], "text": "text", "number": 3.5, "dict": {}, "nested": [[None]]}

SCHEMAS = {o["name"]: o for o in mx._core.list_ops()}


def _bases() -> dict[str, Case]:
    """Return one row that works for each operator, the one with most elements below 5000."""
    best: dict[str, Case] = {}
    for case in all_cases():
        if case.error is not None:
            continue
        name = find_op(case.name).schema_name
        size = sum(a.size for a in case.inputs)
        known = best.get(name)
        if known is None or (
            sum(a.size for a in known.inputs) < size < 5000
            and min((a.size for a in case.inputs), default=1) > 0
        ):
            best[name] = case
    return best


BASES = _bases()
# An operator without outputs.
BASES["reset_arrays"] = Case("reset_arrays", (np.ones((2, 3)),), {"num_arrays": 1})
# Gradient rules alone call operators that end in _backward, with arrays that fit.
NAMES = sorted(n for n in BASES if not (n.startswith("_") and "_backward" in n))


def _arrays(case: Case) -> list[Any]:
    dtype = case.dtypes[0] if any(is_float(a) for a in case.inputs) else "float32"
    return [to_device(a, dtype, strided=False) for a in case.inputs]


def _call(case: Case, *inputs: Any, **params: Any) -> None:
    """Call the operator of the row and wait for all of its outputs."""
    result = find_op(case.name)(*inputs, **{**case.params, **params})
    for array in result if isinstance(result, list) else [result]:
        array.wait_to_read()


def _problem(case: Case, kinds: Any, inputs: Any, params: dict[str, Any], *words: str) -> str:
    """Return what is wrong with the exception of a call that must raise; empty: nothing."""
    try:
        _call(case, *inputs, **params)
    except kinds as error:
        return _unnamed(case, error, *words)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no exception"


def _unnamed(case: Case, error: BaseException, *words: str) -> str:
    text = str(error)
    if not isinstance(error, mx.MXNetError):
        return f"no MXNetError: {type(error).__name__}: {text}"
    if "internal error" in text:
        return text
    name = find_op(case.name).schema_name
    for word in (name, *words):
        if word not in text:
            return f"{word!r} is not in: {text}"
    return ""


def _tolerant(case: Case, kinds: Any, inputs: Any, params: dict[str, Any]) -> str:
    """Return the result of _problem for a call that may also succeed."""
    problem = _problem(case, kinds, inputs, params)
    return "" if problem == "no exception" else problem


def _changed(case: Case, kinds: Any, change: Callable[[Any], Any]) -> Iterator[str]:
    """Yield the problems of calls with all arrays changed, then with each alone."""
    arrays = _arrays(case)
    for chosen in (range(len(arrays)), *([i] for i in range(len(arrays)))):
        mixed = [change(a) if i in chosen else a for i, a in enumerate(arrays)]
        yield _tolerant(case, kinds, mixed, {})


def _too_few(case: Case, schema: dict[str, Any]) -> Iterator[str]:
    arrays = _arrays(case)
    if arrays:
        yield _problem(case, (TypeError, ValueError), [], {})
    check = _tolerant if schema["variadic"] else _problem
    for count in range(1, len(arrays)):
        yield check(case, (TypeError, ValueError), arrays[:count], {})


def _too_many(case: Case, schema: dict[str, Any]) -> Iterator[str]:
    if schema["variadic"]:
        return
    arrays = _arrays(case)
    # Without parameters the place after the inputs is that of out.
    extra = [mx.nd.ones((2, 3))] * (len(schema["inputs"]) + 2 - len(arrays))
    yield _problem(case, TypeError, [*arrays, *extra], {})


def _wrong_kinds(case: Case, schema: dict[str, Any]) -> Iterator[str]:
    arrays = _arrays(case)
    for i in range(len(arrays)):
        for value in WRONG_KINDS.values():
            inputs: list[Any] = list(arrays)
            inputs[i] = value
            word = [] if schema["variadic"] else [schema["inputs"][i]]
            yield _problem(case, TypeError, inputs, {}, *word)
        inputs[i] = None
        yield _problem(case, TypeError, inputs, {})


def _unknown_parameter(case: Case, schema: dict[str, Any]) -> Iterator[str]:
    for param in schema["params"]:
        name = param["name"]
        yield _problem(case, TypeError, _arrays(case), {name + "x": 1}, "did you mean", name)
    # Operators without parameters ignore keywords, but no arrays.
    value = 1 if schema["params"] or schema["variadic"] else mx.nd.ones((1,))
    yield _problem(case, TypeError, _arrays(case), {"zzzzzz": value}, "zzzzzz")


def _wrong_values(case: Case, schema: dict[str, Any]) -> Iterator[str]:
    for param in schema["params"]:
        value = {"a": 1} if "str" in param["python_type"] else "text"
        name, kinds = param["name"], (TypeError, ValueError)
        if name != "ctx":
            yield _problem(case, kinds, _arrays(case), {name: value}, name)
            yield _tolerant(case, kinds, _arrays(case), {name: None})


def _missing_parameter(case: Case, schema: dict[str, Any]) -> Iterator[str]:
    for param in schema["params"]:
        if param["required"]:
            given = {k: v for k, v in case.params.items() if k != param["name"]}
            bare = Case(case.name, case.inputs, given)
            yield _problem(bare, TypeError, _arrays(case), {}, param["name"])


def _dtypes(case: Case, schema: dict[str, Any]) -> Iterator[str]:
    kinds = (TypeError, ValueError, IndexError)
    for dtype in DTYPES:
        yield from _changed(case, kinds, lambda a, dtype=dtype: a.astype(dtype))


def _axes(case: Case, schema: dict[str, Any]) -> Iterator[str]:
    for param in schema["params"]:
        if param["name"] in AXES and "int" in param["python_type"]:
            for axis in (97, -98):
                value: Any = case.params.get(param["name"])
                if case.name == "transpose":
                    value = range(case.inputs[0].ndim)  # all axes or none
                value = (axis, *value[1:]) if isinstance(value, (tuple, list, range)) else axis
                yield _problem(case, IndexError, _arrays(case), {param["name"]: value}, str(axis))


def _empty(case: Case, schema: dict[str, Any]) -> Iterator[str]:
    def empty(array: Any, axis: int) -> Any:
        if array.ndim == 0:
            return array
        shape = list(array.shape)
        shape[axis] = 0
        return mx.nd.zeros(tuple(shape), dtype=array.dtype)

    for axis in (0, -1):
        yield from _changed(case, (ValueError, IndexError), lambda a, axis=axis: empty(a, axis))


def _shapes(case: Case, schema: dict[str, Any]) -> Iterator[str]:
    """One input with another number of dimensions or elements."""
    arrays = _arrays(case)
    for i, array in enumerate(arrays):
        longer = mx.nd.ones((*array.shape[:-1], 1 + 2 * sum(array.shape[-1:])))
        for other in (longer, mx.nd.ones((1, *array.shape)), mx.nd.ones((1,) * 7), mx.nd.ones(())):
            mixed = list(arrays)
            mixed[i] = other.astype(array.dtype)
            yield _tolerant(case, (ValueError, IndexError, MemoryError), mixed, {})


MISUSES = {
    "too few inputs": _too_few,
    "too many inputs": _too_many,
    "wrong kinds of input": _wrong_kinds,
    "unknown parameter": _unknown_parameter,
    "missing parameter": _missing_parameter,
    "wrong values": _wrong_values,
    "dtypes": _dtypes,
    "axis out of range": _axes,
    "empty inputs": _empty,
    "other shapes": _shapes,
}


@pytest.mark.parametrize("misuse", MISUSES)
@pytest.mark.parametrize("name", NAMES)
def test_misuse_is_an_error_that_names_the_operator(name: str, misuse: str) -> None:
    with np.errstate(all="ignore"):
        problems = {p for p in MISUSES[misuse](BASES[name], SCHEMAS[name]) if p}
    assert not problems, "\n".join(sorted(problems))
    np.testing.assert_array_equal((mx.nd.ones((2, 3)) + 1).asnumpy(), np.full((2, 3), 2))


def test_every_operator_with_a_row_is_misused() -> None:
    rowless = sorted(n for n, o in SCHEMAS.items() if not o["hidden"] and n not in BASES)
    assert not rowless
