"""NumPy's results for calls of operators that have an obvious counterpart there.

Every function of `_REFERENCES` gets the inputs in float64 (integers as they are) and the parameters
of the call, all of them by name, and returns the expected array, or None if the call has no obvious
result. `expected` says how far a result may be from it.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

# Distance from 1 to the next larger value, and the smallest normal number.
_STEP = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_TINY = {"float64": 1e-300, "float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
_LARGEST = {"float64": 1.79e308, "float32": 3.4e38, "float16": 65504.0, "bfloat16": 3.38e38}
_ROUNDINGS = 16

Expected = tuple[np.ndarray, np.ndarray, np.ndarray]  # values, tolerance, which ones are compared
_Reference = Callable[..., Any]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


_UNARY: dict[str, _Reference] = {
    "abs": np.abs, "negative": np.negative, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "arcsinh": np.arcsinh, "arccosh": np.arccosh,
    "arctanh": np.arctanh, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "cbrt": np.cbrt,
    "square": np.square, "rint": np.rint, "ceil": np.ceil, "floor": np.floor,
    "trunc": np.trunc, "fix": np.trunc, "sign": np.sign, "degrees": np.degrees,
    "radians": np.radians, "reciprocal": lambda x: 1 / x, "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x), "sigmoid": _sigmoid, "_copy": lambda x: x,
    "relu": lambda x: np.where(np.isnan(x), x, np.maximum(x, 0)),
    "softsign": lambda x: x / (1 + np.abs(x)), "BlockGrad": lambda x: x,
    "logical_not": lambda x: x == 0,
}  # fmt: skip

_BINARY: dict[str, _Reference] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "maximum": np.maximum, "minimum": np.minimum, "hypot": np.hypot, "equal": np.equal,
    "not_equal": np.not_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "lesser": np.less, "lesser_equal": np.less_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip

_SCALAR: dict[str, _Reference] = {
    "_plus_scalar": np.add, "_minus_scalar": np.subtract, "_mul_scalar": np.multiply,
    "_div_scalar": np.divide, "_rminus_scalar": lambda x, s: s - x,
    "_rdiv_scalar": lambda x, s: s / x, "_maximum_scalar": np.maximum,
    "_minimum_scalar": np.minimum, "_equal_scalar": np.equal,
    "_not_equal_scalar": np.not_equal, "_greater_scalar": np.greater,
    "_greater_equal_scalar": np.greater_equal, "_lesser_scalar": np.less,
    "_lesser_equal_scalar": np.less_equal,
}  # fmt: skip

# Sums: what is summed, and the result of the sums of terms.
_SUMS: dict[str, _Reference] = {
    "sum": lambda x: x, "mean": lambda x: x, "nansum": lambda x: np.where(np.isnan(x), 0, x),
}  # fmt: skip
_EXTREMES: dict[str, _Reference] = {"max": np.max, "min": np.min}


def _axes(rank: int, axis: Any, exclude: bool = False) -> tuple[int, ...]:
    listed = () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    chosen = {a % rank for a in listed} if listed else set(range(rank))
    return tuple(sorted(set(range(rank)) - chosen if exclude and listed else chosen))


def _are_small(low: float, high: float) -> bool:
    """Say whether the bounds are ordered integers that every dtype can hold."""
    return 0 <= low <= high <= 127 and low == int(low) and high == int(high)


# Operators that move elements, with the same call of NumPy.
_MOVES: dict[str, _Reference] = {
    "transpose": lambda x, axes: np.transpose(x, tuple(axes) if axes else None),
    "expand_dims": lambda x, axis: np.expand_dims(x, axis),
    "squeeze": lambda x, axis: np.atleast_1d(np.squeeze(x, axis)),
    "SwapAxis": lambda x, dim1, dim2: np.swapaxes(x, dim1, dim2),
    "reverse": lambda x, axis: np.flip(x, axis),
    "tile": lambda x, reps: np.tile(x, reps),
    "repeat": lambda x, repeats, axis: np.repeat(x, repeats, axis) if x.size else None,
    "Flatten": lambda x: x.reshape((len(x), int(np.prod(x.shape[1:])))),
    "clip": lambda x, a_min, a_max: (
        np.where(np.isnan(x), x, np.clip(x, a_min, a_max)) if _are_small(a_min, a_max) else None
    ),
    "where": lambda c, x, y: np.where(c != 0, x, y),
    "zeros_like": lambda x, dtype: np.zeros(x.shape),
    "ones_like": lambda x, dtype: np.ones(x.shape),
    "broadcast_like": lambda x, y, lhs_axes, rhs_axes: (
        np.broadcast_to(x, y.shape) if lhs_axes is None and rhs_axes is None else None
    ),
}


def _exact(values: Any) -> Expected | None:
    if values is None:
        return None
    values = np.asarray(values)
    return values, np.zeros(values.shape), np.ones(values.shape, bool)


def _smooth(function: _Reference, arrays: list[np.ndarray], dtype: str) -> Expected:
    """Allow what a few roundings of the inputs and of the result change."""
    step = _STEP[dtype]
    values = np.asarray(function(*arrays), np.float64)
    spread = np.zeros(values.shape)
    for factor in (1 - 2 * step, 1 + 2 * step):
        moved = np.asarray(function(*[a * factor for a in arrays]), np.float64)
        change = np.abs(moved - values)
        spread = np.maximum(spread, np.where(np.isnan(change), 0, change))
    size = np.abs(values)
    # Results beside the largest number may round to infinity, and tiny ones to 0.
    compared = ~((size > 0.9 * _LARGEST[dtype]) & np.isfinite(values))
    tolerance = _ROUNDINGS * step * size + spread + 4 * _TINY[dtype]
    return values, tolerance, compared


def _reduced(name: str, x: np.ndarray, params: dict[str, Any], dtype: str) -> Expected | None:
    axes = _axes(x.ndim, params["axis"], params["exclude"])
    options: dict[str, Any] = {"axis": axes, "keepdims": params["keepdims"]}
    count = int(np.prod([x.shape[a] for a in axes]))
    if count == 0 or x.ndim == 0 or not axes:
        return None
    if len(axes) == x.ndim and not params["keepdims"]:  # one element, not a number, as in 1.x
        x, options = x.reshape((1, -1)), {"axis": 1}
    if name in _EXTREMES:
        return _exact(_EXTREMES[name](x, **options))
    terms = _SUMS[name](x)
    total, size = np.sum(terms, **options), np.sum(np.abs(terms), **options)
    factor = 1 / count if name == "mean" else 1.0
    values, size = np.asarray(total * factor), np.asarray(size)
    # Partial sums of large terms may overflow in any order.
    compared = ~(np.isfinite(size) & (size > 0.4 * _LARGEST[dtype]))
    compared &= ~np.isinf(size)
    tolerance = _STEP[dtype] * (np.sqrt(count) + 4) * np.nan_to_num(size) * factor
    return values, 4 * tolerance + 4 * _TINY[dtype], compared


def _rounded_once(result: np.ndarray, dtype: str) -> Expected:
    """Allow one rounding; comparisons are exact."""
    values = np.asarray(result, np.float64)
    size = np.abs(values)
    compared = ~((size > 0.9 * _LARGEST[dtype]) & np.isfinite(values))
    rounding = 0 if np.asarray(result).dtype == bool else 2 * _STEP[dtype]
    return values, rounding * size + (4 * _TINY[dtype] if rounding else 0), compared


#: The operators that `expected` knows.
COMPARED = (
    *_UNARY, *_SCALAR, *_SUMS, *_EXTREMES, *_MOVES, *(f"broadcast_{name}" for name in _BINARY),
    *(f"elemwise_{name}" for name in ("add", "sub", "mul", "div")),
)  # fmt: skip


def expected(
    name: str, arrays: list[np.ndarray], dtype: str, params: dict[str, Any]
) -> Expected | None:
    """Return what NumPy computes; None if it has no obvious counterpart of the call.

    ``name`` is the operator's own name, not an alias. The arrays all have the same dtype in the
    call, which is also that of the result; floating ones are given in float64.
    """
    with np.errstate(all="ignore"):
        if name in _MOVES:
            try:
                values = _MOVES[name](*arrays, **params)
                return _exact(values if dtype != "bool" or values is None else values.astype(bool))
            except ValueError:  # NumPy refuses repeated axes, which 1.x takes
                return None
        if dtype not in _STEP:
            return None
        if name in _SUMS or name in _EXTREMES:
            return _reduced(name, arrays[0], params, dtype)
        if name in _UNARY:
            return _smooth(_UNARY[name], arrays, dtype)
        if name in _SCALAR:
            scalar = np.float64(np.float32(params["scalar"]))
            if scalar != params["scalar"]:  # the scalar may be rounded before it is used
                return None
            return _rounded_once(_SCALAR[name](arrays[0], scalar), dtype)
        for prefix in ("broadcast_", "elemwise_"):
            function = _BINARY.get(name.removeprefix(prefix))
            if name.startswith(prefix) and function is not None:
                return _rounded_once(function(*arrays), dtype)
    return None
