"""Functions along axes: sums, extrema, means, cumulative sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as onp

from .. import _core
from ..base import TypeError_, ValueError_
from .arguments import (
    as_array,
    axes_in,
    axis_in,
    drop_axis_of_0d,
    flatten_for,
    in_type,
    is_real,
    out_type,
    real_array,
    set_name,
    store,
)
from .creation import full, ones, zeros_like
from .elementwise import pick_where
from .ndarray import attach, ndarray

__all__ = [
    "all", "alltrue", "amax", "amin", "any", "argmax", "argmin", "average", "cumprod", "cumsum",
    "cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "product", "ptp",
    "sometrue", "std", "sum", "var",
]  # fmt: skip

_at_least = _core.numpy_operators("maximum")[0]
_argmax = _core.op("_npi_argmax")
_argmin = _core.op("_npi_argmin")
_concat = _core.op("Concat")
_cumsum = _core.op("cumsum")
_max = _core.op("_np_max")
_mean = _core.op("_npi_mean")
_min = _core.op("_np_min")
_moments = _core.op("moments")
_prod = _core.op("_np_prod")
_slice_axis = _core.op("slice_axis")
_sqrt = _core.op("sqrt")
_sum = _core.op("_np_sum")


def _cast_to(a: ndarray, dtype: Any) -> ndarray:
    """Return the array in a dtype, itself if it has that dtype."""
    return a.astype(dtype, copy=False)  # type: ignore[return-value]


# Shared ends of the docstrings of functions that `_extreme`, `_truth` and `_arg` make.
_PARAMETERS = """

    See :func:`sum` for the parameters.
    """
_POSITION = """

    ``axis`` is an int, or None for the position in the flattened array. With ``keepdims``, the axis
    stays with length 1. ``out`` receives the result.
    """


def _is_integer(dtype: Any) -> bool:
    return not is_real(dtype)


def _total(op: Any, a: Any, axis: Any, dtype: Any, keepdims: bool, who: str) -> Any:
    """Return a sum or product; elements are converted to dtype before they are combined."""
    a = as_array(a, who)
    if dtype is None:
        return op(a, axis=axis, keepdims=keepdims)
    if _is_integer(dtype) and is_real(a.dtype):
        a = _cast_to(a, dtype)
    return op(a, axis=axis, dtype=dtype, keepdims=keepdims)


def sum(  # noqa: A001 - NumPy's name, like those below
    a: ndarray,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    out: ndarray | None = None,
    *,
    where: Any = True,
) -> Any:
    """Return the sum over axes.

    Parameters
    ----------
    a : ndarray
    axis : int or tuple of int, optional
        Axes to sum over; None: all.
    dtype : dtype, optional
        Type of the result; default: the array's, or 64 bits for integers and bools.
    keepdims : bool
        Whether reduced axes stay, with length 1.
    initial : number, optional
        Added to the sum.
    out : ndarray, optional
        Receives the result.
    where : ndarray of bool
        True at the elements to sum; broadcast to a's shape.
    """
    if dtype is initial is out is None and where is True:
        return _sum(as_array(a, "sum"), axis=axis, keepdims=keepdims)
    a = as_array(a, "sum")
    if where is not True:
        a = pick_where(where, a, zeros_like(a))
    result = _total(_sum, a, axis, dtype, keepdims, "sum")
    return store(result if initial is None else result + initial, out, "sum")


def prod(
    a: ndarray,
    axis: Any = None,
    dtype: Any = None,
    out: ndarray | None = None,
    keepdims: bool = False,
    initial: Any = None,
    *,
    where: Any = True,
) -> Any:
    """Return the product over axes, 1 for no elements; see :func:`sum` for the parameters."""
    if dtype is initial is out is None and where is True and isinstance(a, ndarray):
        return _prod(a, axis=axis, keepdims=keepdims)
    if where is not True:
        a = as_array(a, "prod")
        a = pick_where(where, a, zeros_like(a) + 1)
    result = _total(_prod, a, axis, dtype, keepdims, "prod")
    return store(result if initial is None else result * initial, out, "prod")


product = prod


def _extreme(name: str, op: Any, join: Any, doc: str) -> Any:
    def function(
        a: ndarray,
        axis: Any = None,
        keepdims: bool = False,
        out: ndarray | None = None,
        *,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        if initial is out is None and where is True and isinstance(a, ndarray):
            return op(a, axis=axis, keepdims=keepdims)
        a = as_array(a, name)
        if where is not True:
            if initial is None:
                raise ValueError_(f"{name}: initial must be a number if where is given, got None")
            a = pick_where(where, a, full(a.shape, initial, a.dtype, ctx=a.ctx))
        if initial is not None and a.size == 0:
            result: Any = sum(a, axis, a.dtype, keepdims) + initial
        else:
            result = op(a, axis=axis, keepdims=keepdims)
            result = result if initial is None else join(result, initial)
        return store(result, out, name)

    return set_name(function, name, doc + _PARAMETERS)


max = amax = _extreme(  # noqa: A001
    "max",
    _max,
    _core.numpy_operators("maximum")[0],
    "Return the largest value over axes; NaN if there is one.",
)
min = amin = _extreme(  # noqa: A001
    "min",
    _min,
    _core.numpy_operators("minimum")[0],
    "Return the smallest value over axes; NaN if there is one.",
)


def _truth(name: str, op: Any, doc: str) -> Any:
    def function(
        a: ndarray,
        axis: Any = None,
        keepdims: bool = False,
        out: ndarray | None = None,
        *,
        where: Any = True,
    ) -> Any:
        a = as_array(a, name)
        if a.dtype != onp.bool_:
            a = _cast_to(a, onp.bool_)
        if where is not True:
            other = zeros_like(a) if op is _sum else ~zeros_like(a)
            a = pick_where(where, a, other)
        return store(op(a, axis=axis, dtype=onp.bool_, keepdims=keepdims), out, name)

    return set_name(function, name, doc + _PARAMETERS)


# A sum of bools in dtype bool is true if any element is true, a product if all elements are.
all = alltrue = _truth("all", _prod, "Return whether all elements along axes are not 0.")  # noqa: A001
any = sometrue = _truth("any", _sum, "Return whether any element along axes is not 0.")  # noqa: A001


def mean(
    a: ndarray,
    axis: Any = None,
    dtype: Any = None,
    out: ndarray | None = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    """Return the mean over axes; NaN for no elements.

    The dtype is ``dtype``, by default the array's, or float32 for integers and bools. The other
    parameters are those of :func:`sum`.
    """
    if dtype is out is None and where is True and isinstance(a, ndarray):
        return _mean(a, axis=axis, keepdims=keepdims)
    a = as_array(a, "mean")
    if dtype is not None and where is True and _is_integer(dtype) and _is_integer(a.dtype):
        # The sum wraps around on overflow, as in official NumPy.
        total = _sum(_cast_to(a, dtype), axis=axis, dtype=dtype, keepdims=keepdims)
        return store(_cast_to(total / _count(a, axis), dtype), out, "mean")
    if dtype is not None or where is not True:
        a = in_type(a, dtype)
    if where is not True:
        total, count = _sum_where(where, a, axis, keepdims)
        result = total / count
    else:
        result = _mean(a, axis=axis, keepdims=keepdims)
    return store(out_type(result, dtype), out, "mean")


def _sum_where(where: Any, a: ndarray, axis: Any, keepdims: bool) -> list[Any]:
    """Return the sum of the elements at which ``where`` is true, and their number."""
    zeros = zeros_like(a)
    parts = (pick_where(where, values, zeros) for values in (a, zeros + 1))
    return [_sum(part, axis=axis, keepdims=keepdims) for part in parts]


def _axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)


def _count(a: ndarray, axis: Any) -> int:
    return math.prod(a.shape[i] for i in _axes_of(axis, a.ndim))


def var(
    a: ndarray,
    axis: Any = None,
    dtype: Any = None,
    out: ndarray | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    where: Any = True,
) -> Any:
    """Return the variance over axes; float32 for integers and bools.

    The sum of squared deviations is divided by the number of elements minus ``ddof``, which
    ``correction`` replaces if given. The other parameters are those of :func:`sum`.
    """
    a = in_type(as_array(a, "var"), dtype)
    ddof = ddof if correction is None else correction
    if axis is not None and not a.ndim:
        axes_in(axis, 0, "var")  # raises unless axis is ()
    if where is not True:
        distance = a - mean(a, axis, keepdims=True, where=where)
        total, count = _sum_where(where, distance * distance, axis, keepdims)
        result = total / _at_least(count - ddof, 0)
    elif axis == () or a.ndim == 0:  # reduces no axes; the operator would reduce all for ()
        result = (a - a) if not ddof else (a - a) / (1 - ddof)
    else:
        axes = tuple(range(a.ndim)) if axis is None else axis  # 1.9.1 reads only files with axes
        result = _moments(a, axes=axes, keepdims=keepdims)[1]
        if ddof:
            n = _count(a, axis)
            result = result * (n / (n - ddof) if n > ddof else math.inf)
        if not keepdims and len(_axes_of(axis, a.ndim)) == a.ndim:
            result = result._reshape_view(())
    return store(out_type(result, dtype), out, "var")


def std(
    a: ndarray,
    axis: Any = None,
    dtype: Any = None,
    out: ndarray | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    where: Any = True,
) -> Any:
    """Return the standard deviation over axes, with the parameters of :func:`var`."""
    real = None if dtype is None or _is_integer(dtype) else dtype
    result = _sqrt(var(a, axis, real, None, ddof, keepdims, correction=correction, where=where))
    return store(out_type(result, dtype), out, "std")


def ptp(a: ndarray, axis: Any = None, out: ndarray | None = None, keepdims: bool = False) -> Any:
    """Return the largest minus the smallest value over axes, as :func:`max` and :func:`min`."""
    return store(max(a, axis, keepdims) - min(a, axis, keepdims), out, "ptp")


def average(
    a: ndarray,
    axis: Any = None,
    weights: ndarray | None = None,
    returned: bool = False,
    out: ndarray | None = None,
    *,
    keepdims: bool = False,
) -> Any:
    """Return the weighted mean over axes.

    Parameters
    ----------
    a : ndarray
    axis : int or tuple of int, optional
    weights : ndarray, optional
        An array of a's shape, or a vector with one weight for each position along the axis.
    returned : bool
        Whether to also return the sums of the weights, as [average, sums].
    out : ndarray, optional
    keepdims : bool

    Raises
    ------
    TypeError, ValueError
        If the weights do not fit the axis.
    """
    a = real_array(a, "average")
    if weights is None:
        result = _mean(a, axis=axis, keepdims=keepdims)
        total: Any = result * 0 + _count(a, axis)
    else:
        scale = real_array(weights, "average")
        if scale.shape != a.shape:
            if not isinstance(axis, int):
                raise TypeError_(
                    "average: axis must be an int if the shapes of a and weights differ, got "
                    f"{axis!r}"
                )
            if scale.ndim != 1 or scale.shape[0] != a.shape[axis]:
                raise ValueError_(
                    f"average: weights must have shape ({a.shape[axis]},), got {scale.shape}"
                )
            ones_around = [1] * a.ndim
            ones_around[axis] = scale.shape[0]
            scale = scale._reshape_view(tuple(ones_around))
        total = _sum(scale + zeros_like(a), axis=axis, keepdims=keepdims)
        result = _sum(a * scale, axis=axis, keepdims=keepdims) / total
    result = store(result, out, "average")
    return [result, total] if returned else result


def _arg(name: str, op: Any, doc: str) -> Any:
    def function(
        a: ndarray, axis: int | None = None, out: ndarray | None = None, *, keepdims: bool = False
    ) -> Any:
        if out is None and isinstance(a, ndarray) and a.ndim:
            return op(a, axis=axis, keepdims=keepdims)
        a = as_array(a, name)
        axis = drop_axis_of_0d(a, axis)
        if axis is not None and not a.shape[axis_in(axis, a.ndim, name)]:
            raise ValueError_(f"{name}: a must have elements along axis {axis}, got {a.shape}")
        result = op(a, axis=axis, keepdims=keepdims)
        return store(result, out, name)

    return set_name(function, name, doc + _POSITION)


argmax = _arg("argmax", _argmax, "Return the index of the first largest value, as int64.")
argmin = _arg("argmin", _argmin, "Return the index of the first smallest value, as int64.")


def _running_type(dtype: Any) -> Any:
    """Return the dtype of running sums of integers and bools; None for floats, which keep it."""
    if is_real(dtype):
        return None
    return onp.uint64 if onp.dtype(dtype).kind == "u" else onp.int64


def cumsum(
    a: ndarray, axis: int | None = None, dtype: Any = None, out: ndarray | None = None
) -> Any:
    """Return the sums of the elements up to and including each position along an axis.

    If axis is None, the array is flattened. ``dtype`` and ``out`` are those of :func:`sum`.
    """
    a = as_array(a, "cumsum")
    axis = drop_axis_of_0d(a, axis)
    if dtype is None:
        dtype = _running_type(a.dtype)
    elif _is_integer(dtype) and is_real(a.dtype):
        a = _cast_to(a, dtype)  # converts the elements, not the sums
    return store(_cumsum(a, axis=axis, dtype=dtype), out, "cumsum")


def cumprod(
    a: ndarray, axis: int | None = None, dtype: Any = None, out: ndarray | None = None
) -> Any:
    """Return products of the elements up to each position; parameters as in :func:`cumsum`."""
    a = as_array(a, "cumprod")
    dtype = _running_type(a.dtype) if dtype is None else dtype
    result: Any = a if dtype is None else _cast_to(a, dtype)
    result, axis = flatten_for(result, drop_axis_of_0d(a, axis), "cumprod")
    n = result.shape[axis]
    by = 1
    while by < n:  # doubling: multiplies each element by the product of the `by` before it
        front = list(result.shape)
        front[axis] = by
        before = ones(front, result.dtype, ctx=result.ctx)
        rest = _slice_axis(result, axis=axis, begin=0, end=n - by)
        result = result * _concat(before, rest, dim=axis)
        by *= 2
    return store(result if result is not a else a.copy(), out, "cumprod")


def _cumulative(name: str, function: Any, start: int, doc: str) -> Any:
    def cumulative(
        x: ndarray,
        /,
        *,
        axis: int | None = None,
        dtype: Any = None,
        include_initial: bool = False,
        out: ndarray | None = None,
    ) -> Any:
        x = as_array(x, name)
        if axis is None and x.ndim != 1:
            raise ValueError_(f"{name}: axis must be an int for {x.ndim} dimensions, got None")
        axis = 0 if axis is None else axis
        result = function(x, axis, dtype)
        if include_initial:
            shape = list(result.shape)
            shape[axis] = 1
            result = _concat(full(shape, start, result.dtype, ctx=x.ctx), result, dim=axis)
        return store(result, out, name)

    return set_name(cumulative, name, doc)


cumulative_sum = _cumulative("cumulative_sum", cumsum, 0, "Return cumulative sums along an axis.")
cumulative_prod = _cumulative(
    "cumulative_prod", cumprod, 1, "Return cumulative products along an axis."
)


def _sum_method(
    self: ndarray,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """Return the sum over axes; see ``mx.np.sum``."""
    if dtype is initial is out is None and where is True:
        return _sum(self, axis=axis, keepdims=keepdims)
    return sum(self, axis, dtype, keepdims, initial, out, where=where)


def _method_with_out(function: Any, op: Any = None) -> Any:
    """Make a method whose parameters have the order of official NumPy's: axis, out, keepdims.

    ``op`` computes the function without further options.
    """

    def method(
        self: ndarray, axis: Any = None, out: Any = None, keepdims: bool = False, **kwargs: Any
    ) -> Any:
        if op is not None and out is None and not kwargs:
            return op(self, axis=axis, keepdims=keepdims)
        return function(self, axis, keepdims, out, **kwargs)

    return set_name(method, function.__name__, function.__doc__)


attach(
    {
        **{f.__name__: _method_with_out(f) for f in (all, any)},
        "max": _method_with_out(max, _max),
        "min": _method_with_out(min, _min),
        **{f.__name__: f for f in (argmax, argmin, cumprod, cumsum, mean, prod, ptp, std, var)},
        "sum": _sum_method,
    }
)
