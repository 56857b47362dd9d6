"""Histograms, covariances, differences, interpolation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import _core
from ..base import ShapeError, TypeError_, ValueError_
from ..ndarray.dtypes import dtype_name
from .arguments import (
    DYNAMIC_SIZE,
    as_array,
    axis_in,
    from_host,
    is_real,
    promote,
    real_array,
    refuse_traced,
    values_of,
)
from .creation import full_like
from .joining import concatenate
from .manipulation import broadcast_to
from .ndarray import ndarray
from .products import matmul
from .sorting import searchsorted

__all__ = [
    "bincount",
    "corrcoef",
    "cov",
    "diff",
    "digitize",
    "ediff1d",
    "histogram",
    "interp",
    "polyval",
    "trapezoid",
    "trapz",
    "unwrap",
]

_cast = _core.op("Cast")
_sum = _core.op("_np_sum")
_sqrt = _core.op("sqrt")
_where = _core.op("where")
_detach = _core.op("BlockGrad")
_slice = _core.op("slice_axis")

_equal = _core.op("_equal_scalar")
_clip = _core.op("clip")
_take = _core.op("take")
_add_at = _core.op("_backward_gather_nd")


def _reshape(a: ndarray, shape: tuple[int, ...]) -> ndarray:
    return a if a.shape == shape else a._reshape_view(shape)


def histogram(
    a: Any,
    bins: Any = 10,
    range: Any = None,  # noqa: A002 - NumPy's name
    normed: Any = None,
    weights: Any = None,
    density: Any = None,
) -> list[ndarray]:
    """Return [counts, edges] of a histogram, without gradients.

    Parameters
    ----------
    a : ndarray
        Flattened.
    bins : int, ndarray or str
        Number of bins of equal width, edges of the bins, or a name such as "auto" of NumPy's rules.
    range : pair of float, optional
        Ends of the bins; by default, the extremes of a.
    normed, density : bool
        Whether to divide the counts by their sum and by the widths of the bins.
    weights : ndarray, optional

    Returns
    -------
    list of ndarray
        Counts (int64; floats with weights or density) and edges (float32, or the dtype of bins).
    """
    array = as_array(a, "histogram")
    why = "the values of a, bins and weights must be known"
    edges = values_of(bins, "histogram", why) if isinstance(bins, (ndarray, list, tuple)) else bins
    counts, found = np.histogram(
        values_of(array, "histogram", why),
        edges,
        range,
        weights=None if weights is None else values_of(weights, "histogram", why),
        density=bool(density or normed),
    )
    kind = bins.dtype if isinstance(bins, ndarray) else "float32"
    if counts.dtype.kind != "i":
        counts = counts.astype(np.float32)
    return [from_host(counts, array.ctx), from_host(found, array.ctx, kind)]


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> ndarray:
    """Return how often 0, 1, 2, ... occur in a vector of integers, or the sums of their weights.

    Parameters
    ----------
    x : ndarray of int
        At least 0.
    weights : ndarray, optional
        One number for each element of x. They get gradients.
    minlength : int
        The least length of the result.

    Returns
    -------
    ndarray
        int64, or the dtype of the weights.
    """
    array = as_array(x, "bincount")
    if is_real(array.dtype) and array.size:
        raise TypeError_(f"bincount: x must be integers, got {dtype_name(array.dtype)}")
    if minlength < 0:
        raise ValueError_(f"bincount: minlength must be at least 0, got {minlength}")
    refuse_traced(array, "bincount", DYNAMIC_SIZE)
    if array.ndim != 1:
        raise ValueError_(f"bincount: x must have 1 dimension, got {array.ndim}")
    low, high = _core.extremes(array) if array.size else (0, -1)
    if low < 0:
        raise ValueError_(f"bincount: x must be at least 0, got {low}")
    count = max(high + 1, minlength)
    if weights is None:
        numbers = array if array.size else _cast(array, dtype="int64")
        return _core.bincount(numbers, count)  # type: ignore[return-value]
    added = as_array(weights, "bincount")
    if added.shape != array.shape:
        raise ValueError_(
            f"bincount: weights must have the shape of x, {array.shape}, got {added.shape}"
        )
    places = _cast(array, dtype="int64")._reshape_view((1, array.size))
    return _add_at(added, places, shape=(count,))


def _rows(values: Any, name: str, rowvar: bool) -> Any:
    """Return the variables of an argument of `cov` as rows."""
    array = real_array(values, "cov")
    if array.ndim > 2:
        raise ValueError_(f"cov: {name} must have at most 2 dimensions, got {array.ndim}")
    if array.ndim < 2:
        return array.reshape((1, -1))
    return array if rowvar else array.T


def _weight(value: Any, count: int, name: str) -> np.ndarray[Any, Any]:
    values = np.asarray(values_of(value, "cov", f"{name} must be checked"), np.float64)
    if values.shape != (count,):
        raise ShapeError(f"cov: {name} must have shape {(count,)}, got {values.shape}")
    if (values < 0).any():
        raise ValueError_(f"cov: {name} must be at least 0, got {values.min()}")
    return values


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> ndarray:
    """Return the covariance matrix.

    Parameters
    ----------
    m, y : ndarray
        Each row is a variable (each column if not ``rowvar``); a vector is one variable.
    rowvar : bool
    bias : bool
        Divide by the number of observations n instead of n - 1.
    ddof : int, optional
        Divide by n - ddof; replaces ``bias``.
    fweights, aweights : array, optional
        How often each observation occurs, and its relative weight. They get no gradients.
    dtype : dtype, optional

    Returns
    -------
    ndarray of shape (variables, variables), or () for one variable
    """
    rows = _rows(m, "m", rowvar)
    if y is not None:
        rows = concatenate([rows, _rows(y, "y", rowvar)], axis=0)
    if dtype is not None:
        rows = _cast(rows, dtype=dtype)
    count = rows.shape[1]
    taken = (1 if not bias else 0) if ddof is None else ddof
    weight = None
    if fweights is not None:
        weight = _weight(fweights, count, "fweights")
    if aweights is not None:
        relative = _weight(aweights, count, "aweights")
        weight = relative if weight is None else weight * relative
    total = count if weight is None else float(weight.sum())
    if aweights is None or not taken:
        divisor = total - taken
    else:
        divisor = total - taken * float((weight * relative).sum()) / total
    factor = None if weight is None else from_host(weight, rows.ctx, rows.dtype)
    scaled = rows if factor is None else rows * factor
    mean = _sum(scaled, axis=1, keepdims=True) / total
    centered = rows - mean
    right = centered if factor is None else centered * factor
    result = matmul(centered, right.T) * (1 / divisor if divisor > 0 else math.inf)
    return _reshape(result, ()) if result.shape == (1, 1) else result  # type: ignore[return-value,arg-type]


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> ndarray:
    """Return correlation coefficients; see `cov` for the parameters."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c  # type: ignore[return-value]
    deviation = _sqrt(_core.op("diag")(c))
    return _clip(c / deviation / deviation.reshape((-1, 1)), a_min=-1, a_max=1)


def _part(a: ndarray, axis: int, begin: int, end: int | None) -> ndarray:
    return _slice(a, axis=axis, begin=begin, end=end)


def _beside(array: ndarray, value: Any) -> ndarray:
    """Return a value as an array; a number or list gets the dtype of ``array``."""
    return value if isinstance(value, ndarray) else from_host(value, array.ctx, array.dtype)


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> ndarray:
    """Return differences ``a[i + 1] - a[i]`` along an axis, taken n times.

    ``prepend`` and ``append`` are joined to a along the axis first. They are numbers, or arrays
    whose other dimensions are those of a. Differences of bools say whether neighbors differ.
    """
    array = as_array(a, "diff")
    if n < 0:
        raise ValueError_(f"diff: n must be at least 0, got {n}")
    if not n:
        return array
    if not array.ndim:
        raise ValueError_("diff: a must have at least 1 dimension, got shape ()")
    axis = axis_in(axis, array.ndim, "diff")
    parts = [array]
    for value, at in ((prepend, 0), (append, 2)):
        if value is None:
            continue
        part = _beside(array, value)
        if not part.ndim:
            shape = tuple(1 if i == axis else k for i, k in enumerate(array.shape))
            part = broadcast_to(part, shape)
        parts.insert(at, part)
    if len(parts) > 1:
        array = concatenate(parts, axis=axis)
    is_bool = array.dtype == np.bool_
    for _ in range(n):
        length = array.shape[axis]
        if length < 2:
            return _part(array, axis, 0, 0)
        later, earlier = _part(array, axis, 1, None), _part(array, axis, 0, length - 1)
        array = later != earlier if is_bool else later - earlier  # type: ignore[assignment]
    return array


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> ndarray:
    """Return to_begin, the differences of adjacent elements of the flattened array, and to_end."""
    array = as_array(ary, "ediff1d")
    flat = array._reshape_view((array.size,))
    parts = [diff(flat)]
    for value, at in ((to_begin, 0), (to_end, 2)):
        if value is not None:
            part = _beside(array, value)
            parts.insert(at, part._reshape_view((part.size,)))
    return concatenate(parts) if len(parts) > 1 else parts[0]


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None
) -> ndarray:
    """Return the value at x of the piecewise linear function through the points (xp, fp).

    Parameters
    ----------
    x : ndarray or number
    xp : ndarray of shape (n,)
        Ascending, unless period is given.
    fp : ndarray of shape (n,)
    left, right : float, optional
        Results for x before the first and after the last point; default: fp[0] and fp[-1].
    period : float, optional
        Period of the function.

    Notes
    -----
    x and fp get gradients; xp does not.
    """
    at, points, values = promote([real_array(v, "interp") for v in (x, xp, fp)])
    if points.ndim != 1 or points.shape != values.shape:
        raise ValueError_(
            f"interp: xp and fp must be vectors of one length, got shapes {points.shape} and "
            f"{values.shape}"
        )
    if not points.size:
        raise ValueError_("interp: xp must have at least one element, got none")
    points = _detach(points)
    if period is not None:
        if not period:
            raise ValueError_("interp: period must be nonzero, got 0")
        period = abs(period)
        at, points = at % period, points % period  # type: ignore[assignment]
        order = _core.op("argsort")(points, dtype="int64")
        points, values = _take(points, order), _take(values, order)
        points = concatenate([points[-1:] - period, points, points[:1] + period])
        values = concatenate([values[-1:], values, values[:1]])
        left = right = None
    count = points.shape[0]
    shape = at.shape
    flat = at._reshape_view((at.size,))
    if count == 1:
        result = flat * 0 + values
    else:
        upper = _clip(searchsorted(points, _detach(flat), "right"), a_min=1, a_max=count - 1)
        x0, x1 = _take(points, upper - 1), _take(points, upper)
        y0, y1 = _take(values, upper - 1), _take(values, upper)
        inside = _clip((flat - x0) / (x1 - x0), a_min=0, a_max=1)
        result = y0 + (y1 - y0) * inside
        # Takes y0 or y1 at the points themselves, where an infinite difference gives NaN.
        there = _where(inside == 0, y0, _where(inside == 1, y1, result))
        result = _where(result != result, there, result)
    first, last = points[:1], points[-1:]
    for outside, value in ((flat < first, left), (flat > last, right)):
        if value is not None:
            result = _where(outside, full_like(result, float(value)), result)  # type: ignore[arg-type]
    return _reshape(result, shape)  # type: ignore[arg-type]


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> ndarray:
    """Return the integral along an axis by the trapezoidal rule.

    Parameters
    ----------
    y : ndarray
    x : ndarray, optional
        Positions of the values: an array of y's shape, or a vector along the axis.
    dx : float
        Distance between neighboring positions if x is not given.
    axis : int
    """
    values = real_array(y, "trapezoid")
    axis = axis_in(axis, values.ndim, "trapezoid")
    steps: Any = dx
    if x is not None:
        values, places = promote([values, real_array(x, "trapezoid")])
        steps = diff(places, axis=axis if places.ndim > 1 else 0)
        if steps.ndim == 1:
            shape = [1] * values.ndim
            shape[axis] = -1
            steps = steps.reshape(tuple(shape))
    length = values.shape[axis]
    sums = _part(values, axis, 1, None) + _part(values, axis, 0, length - 1)
    return _sum(sums * steps / 2, axis=axis)


trapz = trapezoid


def digitize(x: Any, bins: Any, right: bool = False) -> ndarray:
    """Return the indices (int64) of the bins to which the elements of x belong.

    Index i means ``bins[i - 1] <= x < bins[i]``, or ``bins[i - 1] < x <= bins[i]`` if ``right``.
    For descending bins it means ``bins[i - 1] > x >= bins[i]``, or ``bins[i - 1] >= x > bins[i]``.
    Raises ValueError for unordered bins.
    """
    edges = as_array(bins, "digitize")
    if edges.ndim != 1:
        raise ValueError_(f"digitize: bins must have 1 dimension, got {edges.ndim}")
    steps = np.diff(values_of(edges, "digitize", "the order of bins must be known"))
    side = "left" if right else "right"
    if (steps >= 0).all():
        return searchsorted(edges, x, side)
    if not (steps <= 0).all():
        raise ValueError_("digitize: bins must ascend or descend, got unordered ones")
    return edges.shape[0] - searchsorted(edges[::-1], x, side)  # type: ignore[return-value]


def polyval(p: Any, x: Any) -> ndarray:
    """Return the polynomial with coefficients p at x; p[0] belongs to the highest power."""
    coefficients, at = promote([as_array(p, "polyval"), as_array(x, "polyval")])
    if coefficients.ndim != 1:
        raise ValueError_(f"polyval: p must have 1 dimension, got {coefficients.ndim}")
    result = at * 0
    for i in range(coefficients.shape[0]):
        result = result * at + _reshape(_part(coefficients, 0, i, i + 1), (1,) * max(at.ndim, 0))
    return result  # type: ignore[return-value]


def unwrap(
    p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi
) -> ndarray:
    """Add multiples of the period so that neighbors along an axis differ by at most half of it.

    Only differences of at least ``discont`` (by default, half a period) are changed.
    """
    array = real_array(p, "unwrap")
    axis = axis_in(axis, array.ndim, "unwrap")
    steps = _detach(diff(array, axis=axis))
    half = period / 2
    wrapped = (steps + half) % period - half
    upward = _equal(wrapped, scalar=-half) * (steps > 0)
    change = wrapped + upward * period - steps
    limit = half if discont is None else discont
    change = change * (_core.op("abs")(steps) >= limit)
    rest = _part(array, axis, 1, None) + _core.op("cumsum")(change, axis=axis)
    return concatenate([_part(array, axis, 0, 1), rest], axis=axis)
