"""Compares random calls of mx.np with NumPy: values, dtypes, errors, gradients, hybridized calls.

    python tests/fuzz/numpy_calls.py --calls 20000 --seed 1 --json results.json
    python tests/fuzz/numpy_calls.py --calls 500 --only percentile      # calls of one function

Hypothesis makes the calls. If the result of a call differs from NumPy's, Hypothesis looks for the
shortest call of the function that differs; the program prints this call and leaves the function out
of the rest of the run. The exit code is 1 if any function differs. `numpy_functions.py` defines
which functions are called with which arguments.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import hypothesis
import mxlite as mx
import numpy as onp
from hypothesis import strategies as st
from mxlite import autograd, gluon, np
from numpy_arguments import Call
from numpy_functions import FUNCTIONS

TOLERANCE = {"float16": 2e-2, "float32": 2e-4, "float64": 1e-9}
# Exceptions that mx.np may raise if NumPy raises one, even one of another class.
ERRORS = (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError)


class Difference(AssertionError):
    """The result of a call differs from NumPy's."""


@dataclass
class Figures:
    """Counts of the calls of a run, and the calls that differ."""

    calls: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


def _get(a: Any, key: Any) -> Any:
    return a[key]


def _set(a: Any, key: Any, value: Any) -> Any:
    a = a.copy()
    a[key] = value
    return a


def _function(module: Any, name: str) -> Any:
    """Return a function of a module by its name; ``get`` and ``set`` index arrays."""
    if name in ("get", "set"):
        return _get if name == "get" else _set
    for part in name.split("."):
        module = getattr(module, part)
    return module


def _replace(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return nested sequences in which a function has replaced the NumPy arrays, in order."""
    if isinstance(value, onp.ndarray):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_replace(part, function) for part in value)
    return value


def _arrays(value: Any) -> list[Any]:
    found: list[Any] = []
    _replace(value, found.append)
    return found


def _dtypes(value: Any) -> list[Any]:
    return [array.dtype for array in _arrays(value)]


def _to_mx(array: Any) -> Any:
    return np.array(array, dtype=array.dtype)


def _to_view(array: Any) -> Any:
    """Return a NumPy array as an array of mx.np that is a view of a larger array."""
    around = onp.concatenate([onp.ones((1, *array.shape)), array[None]]).astype(array.dtype)
    return np.array(around, dtype=array.dtype)[1]


def _to_double(array: Any) -> Any:
    """Return integers as float64, because NumPy computes int8 in float16 and mx.np in float32."""
    return array.astype("float64") if array.dtype.kind in "iub" else array


def _parts(result: Any) -> list[Any]:
    if isinstance(result, (list, tuple)):
        return [part for value in result for part in _parts(value)]
    return [result]


def _attempt(function: Any, args: Any, kwargs: Any) -> tuple[Any, Exception | None]:
    try:
        return function(*args, **kwargs), None
    except Exception as error:  # noqa: BLE001 - any error is compared
        return None, error


def _official(call: Call) -> tuple[Any, Exception | None]:
    """Return NumPy's result under mx.np's rules for dtypes."""
    args = call.args
    dtypes = _dtypes([args[i] for i in call.promoted if i < len(args)])
    if len(set(dtypes)) > 1:
        common = np.result_type(*dtypes)
        args = tuple(
            _replace(a, lambda array: array.astype(common)) if i in call.promoted else a
            for i, a in enumerate(args)
        )
    function = _function(onp, call.name)
    result, error = _attempt(function, args, call.kwargs)
    if error is None and any(onp.asarray(r).dtype.kind == "f" for r in _parts(result)):
        if all(dtype.kind in "iub" for dtype in _dtypes(list(args))):
            result, error = _attempt(function, _replace(args, _to_double), call.kwargs)
    return result, error


def _compare(call: Call, found: Any, wanted: Any) -> None:
    found, wanted = _parts(found), _parts(wanted)
    if len(found) != len(wanted):
        raise Difference(f"results must be {len(wanted)} as in NumPy, got {len(found)}")
    dtypes = _dtypes(list(call.args))
    floats = [d.name for d in dtypes if d.kind == "f"]
    if dtypes and not floats:
        floats = ["float32"]  # in which mx.np computes functions of integers
    for one, other in zip(found, wanted):
        other = onp.asarray(other)
        if isinstance(one, np.ndarray):
            one = one.asnumpy()
        one = onp.asarray(one)
        if one.shape != other.shape:
            raise Difference(f"the shape must be {other.shape} as in NumPy, got {one.shape}")
        if one.dtype.kind != other.dtype.kind or (
            one.dtype.kind in "iub" and one.dtype != other.dtype
        ):
            raise Difference(f"the dtype must be {other.dtype} as in NumPy, got {one.dtype}")
        if other.dtype.kind != "f":
            if not onp.array_equal(one, other):
                raise Difference(f"values must be {other.tolist()} as in NumPy, got {one.tolist()}")
            continue
        coarsest = min([one.dtype.name, *floats], key=lambda n: onp.finfo(n).precision)
        tolerance = TOLERANCE[coarsest] * call.looseness
        with onp.errstate(all="ignore"):
            limit = onp.finfo(one.dtype).max
            clipped = onp.where(onp.abs(other) > limit, onp.sign(other) * onp.inf, other)
        scale = max([1.0, *onp.abs(clipped[onp.isfinite(clipped)]).ravel()])
        if not onp.allclose(one, clipped, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            raise Difference(f"values must be {other.tolist()} as in NumPy, got {one.tolist()}")


class _Net(gluon.HybridBlock):
    def __init__(self, call: Call, function: Any) -> None:
        super().__init__()
        self.call, self.function = call, function

    def forward(self, *arrays: Any) -> Any:
        """Call the function with ``arrays`` instead of the arrays in the call."""
        return self.function(*_with_arrays(self.call.args, arrays), **self.call.kwargs)


def _with_arrays(value: Any, arrays: Iterable[Any]) -> Any:
    """Return nested sequences with other arrays in place of the NumPy arrays."""
    rest = iter(arrays)
    return _replace(value, lambda _: next(rest))


def _check_hybrid(call: Call, function: Any, found: Any) -> None:
    net = _Net(call, function)
    net.hybridize()
    again = net(*map(_to_mx, _arrays(call.args)))
    for one, other in zip(_parts(again), _parts(found)):
        if isinstance(other, np.ndarray):
            one, other = one.asnumpy(), other.asnumpy()
            if one.dtype != other.dtype or one.shape != other.shape:
                raise Difference(
                    f"the hybridized result must have dtype {other.dtype} and shape {other.shape}, "
                    f"got {one.dtype} and {one.shape}"
                )
            tolerance = TOLERANCE.get(one.dtype.name, 0)
            if not onp.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
                raise Difference(
                    f"the hybridized result must be {other.tolist()}, got {one.tolist()}"
                )


def _check_written(call: Call, function: Any, found: Any) -> None:
    """Repeat the call with an array to write to, and with the mask of the call."""
    result = found.asnumpy()
    # NumPy computes integers and bools in the dtype of out, mx.np in that of the operands.
    is_same = call.out == "same" or result.dtype.kind != "f"
    dtype = result.dtype if is_same else onp.dtype(call.out)
    mask = {} if call.where is None else {"where": call.where}
    target = onp.ones(result.shape, dtype)
    kwargs = {**call.kwargs, **mask, "out": target}
    wanted, official_error = _official(replace(call, kwargs=kwargs))
    out = np.ones(result.shape, dtype=dtype)
    kwargs = {**call.kwargs, **{key: _to_mx(value) for key, value in mask.items()}, "out": out}
    written, error = _attempt(function, _replace(call.args, _to_mx), kwargs)
    if (error is None) != (official_error is None):
        raise Difference(f"with out, the error must be {official_error!r}, got {error!r}")
    if error is None:
        if written is not out:
            raise Difference("with out, the result must be out")
        _compare(call, out, wanted)


def _check_gradient(call: Call, function: Any) -> None:
    """Compare the gradient along random directions with central differences."""
    arrays = [a.astype("float64") for a in _arrays(call.args)]
    rng = onp.random.default_rng(5)
    one, other = ([rng.normal(size=a.shape) for a in arrays] for _ in range(2))
    inputs = [np.array(a) for a in arrays]
    for a in inputs:
        a.attach_grad()
    with autograd.record():
        result = function(*_with_arrays(call.args, inputs), **call.kwargs)
        head = rng.normal(size=result.shape)
        loss = (result * np.array(head)).sum()
    loss.backward()
    official = _function(onp, call.name)

    def slope_along(directions: list[Any]) -> float | None:
        """Return the central difference, or None if the function has a kink here."""
        step, losses = 1e-6, []
        for factor in (-step, 0.0, step):
            moved = [a + factor * d for a, d in zip(arrays, directions)]
            value = official(*_with_arrays(call.args, moved), **call.kwargs)
            losses.append(float((onp.asarray(value) * head).sum()))
        slope = (losses[2] - losses[0]) / (2 * step)
        bend = abs(losses[2] - 2 * losses[1] + losses[0])
        return slope if bend <= 1e-3 * step * max(1.0, abs(slope)) else None

    with onp.errstate(all="ignore"):
        slopes = [slope_along(d) for d in (one, other, [a + b for a, b in zip(one, other)])]
    if None in slopes:
        return
    scale = max(1.0, *map(abs, slopes))
    if abs(slopes[0] + slopes[1] - slopes[2]) > 1e-3 * scale:
        return  # the function is not differentiable here, as copysign at zeros
    for directions, wanted in zip((one, other), slopes):
        found = sum(float((a.grad.asnumpy() * d).sum()) for a, d in zip(inputs, directions))
        if not abs(found - wanted) <= 1e-3 * scale:
            raise Difference(f"the gradient must be {wanted}, the central difference, got {found}")


def check(call: Call, figures: Figures) -> None:
    """Make one call with mx.np and with NumPy; raise Difference if they differ."""
    figures.calls[call.name] += 1
    function = _function(np, call.name)
    with warnings.catch_warnings(), onp.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted, official_error = _official(call)
        args = _replace(call.args, _to_view if call.is_view else _to_mx)
        found, error = _attempt(function, args, call.kwargs)
        if error is not None and not isinstance(error, ERRORS):
            raise Difference(f"{type(error).__name__}: {error}")
        if (error is None) != (official_error is None):
            raise Difference(f"the error must be {official_error!r} as in NumPy, got {error!r}")
        if error is not None:
            figures.kinds["same error"] += 1
            return
        _compare(call, found, wanted)
        figures.kinds["same"] += 1
        if call.can_trace and _arrays(call.args):
            _check_hybrid(call, function, found)
            figures.kinds["hybridized"] += 1
        if call.out and isinstance(found, np.ndarray):
            _check_written(call, function, found)
            figures.kinds["out"] += 1
        whole = isinstance(found, np.ndarray) and found.size
        floats = all(a.dtype.kind == "f" and a.size for a in _arrays(call.args))
        if call.has_gradient and whole and floats:
            _check_gradient(call, function)
            figures.kinds["gradient"] += 1


def _first_difference(
    names: list[str], calls: int, seed: int, figures: Figures
) -> tuple[Call, str] | None:
    """Make calls until one differs from NumPy; return the shortest such call and what differs."""
    last: list[Call] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=calls,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.data())
    def make_calls(data: Any) -> None:
        name = data.draw(st.sampled_from(names))
        last[:] = [FUNCTIONS[name](data.draw, name)]
        check(last[0], figures)

    try:
        make_calls()
    except Exception as error:  # noqa: BLE001 - every error is a difference
        if not last:
            raise
        return last[0], f"{type(error).__name__}: {error}"
    return None


def run(calls: int, seed: int, only: str = "") -> Figures:
    """Make a number of calls; functions that differ are left out after their first difference."""
    figures = Figures()
    names = [name for name in sorted(FUNCTIONS) if only in ("", name)]
    with mx.util.np_shape(True), mx.util.np_array(True):
        while names and figures.calls.total() < calls:
            left = calls - figures.calls.total()
            found = _first_difference(names, left, seed, figures)
            seed += 1
            if found:
                figures.differences.append(f"{found[0]}: {found[1]}"[:1500])
                print(figures.differences[-1], end="\n\n", flush=True)
                names.remove(found[0].name)
    return figures


def main() -> int:
    """Run the calls that the command line asks for; print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="the function to call")
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()
    begin = time.process_time()
    figures = run(args.calls, args.seed, args.only)
    summary = {
        "command": f"tests/fuzz/numpy_calls.py --calls {args.calls} --seed {args.seed}",
        "calls": figures.calls.total(),
        "functions": len(figures.calls),
        "cpu seconds": round(time.process_time() - begin),
        "results": dict(sorted(figures.kinds.items())),
        "differences": figures.differences,
    }
    print({key: value for key, value in summary.items() if key != "differences"})
    if args.json:
        args.json.write_text(json.dumps(summary, indent=1) + "\n")
    return 1 if figures.differences else 0


if __name__ == "__main__":
    sys.exit(main())
