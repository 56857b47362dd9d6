"""Percentiles, quantiles and medians."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from ..base import ValueError_
from .arguments import (
    as_array,
    axes_in,
    common_dtype,
    from_host,
    real_array,
    refuse_traced,
    set_name,
    store,
    values_of,
)
from .creation import full_like
from .manipulation import moveaxis
from .ndarray import ndarray
from .reductions import mean
from .sorting import sort, take_along_axis

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

_where = _core.op("where")
_take = _core.op("take")
_slice_axis = _core.op("slice_axis")

# Weight of the sorted element at ceil(p), as a function of the fractional part of the position p;
# the element at floor(p) has the remaining weight.
_METHODS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda fraction: fraction,
    "lower": np.zeros_like,
    "higher": np.ones_like,
    "midpoint": lambda fraction: 0.5 * (fraction > 0),
    "nearest": lambda fraction: fraction,  # the position is rounded, so this is 0
}


def _flat_last(a: ndarray, axes: tuple[int, ...]) -> ndarray:
    """Move axes to the end and join them."""
    kept = [i for i in range(a.ndim) if i not in axes]
    last = tuple(range(len(kept), a.ndim))
    moved = a if axes == last else moveaxis(a, axes, last)
    return moved._reshape_view((*(a.shape[i] for i in kept), math.prod(a.shape[i] for i in axes)))


def _element(rows: ndarray, place: int) -> ndarray:
    """Return one element of each row, with the axis."""
    return _slice_axis(rows, axis=-1, begin=place, end=place + 1)


def _quantile(
    a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: bool, who: str, *,
    percent: bool = False, skip_nan: bool = False,
) -> ndarray:  # fmt: skip
    if method not in _METHODS:
        raise ValueError_(f"{who}: method must be one of {', '.join(_METHODS)}, got {method!r}")
    wanted = np.asarray(values_of(q, who, "q must be checked"), np.float64)
    if percent:
        wanted = wanted / 100
    if not ((wanted >= 0) & (wanted <= 1)).all():
        top = 100 if percent else 1
        raise ValueError_(f"{who}: q must be between 0 and {top}, got {q}")
    array = real_array(a, who)
    axes = tuple(range(array.ndim)) if axis is None else axes_in(axis, array.ndim, who)
    rows = _flat_last(array, axes)
    length, batch = rows.shape[-1], rows.shape[:-1]
    if not length:
        raise ValueError_(f"{who}: a must have at least one element along the axes, got none")
    flat = wanted.reshape(-1)
    if skip_nan:
        refuse_traced(array, who, "the number of elements that are not NaN must be known")
        ordered = sort(_where(rows != rows, full_like(rows, math.inf), rows))
        counts = np.count_nonzero(~np.isnan(rows.asnumpy()), axis=-1, keepdims=True)
        position = flat * np.maximum(counts - 1, 0)
    else:
        ordered, position = sort(rows), flat * (length - 1)
    position = np.rint(position) if method == "nearest" else position
    low = np.floor(position)
    wide = common_dtype((array.dtype, np.float32))  # dtype in which elements are weighted
    first: Any
    last: Any
    between: Any = _METHODS[method](position - low)
    if position.size == 1:
        places = (int(low.item()), math.ceil(position.item()))
        first, last = (_element(ordered, place) for place in places)
        between = float(between.item())
    else:
        first, last = (
            take_along_axis(ordered, from_host(place.astype(np.int64), array.ctx), -1)
            if skip_nan
            else _take(ordered, from_host(place.astype(np.int64), array.ctx), axis=-1)
            for place in (low, np.ceil(position))
        )
        between = from_host(between, array.ctx, wide)
    if wide != array.dtype:
        first, last = first.astype(wide), last.astype(wide)
    result: Any = first + (last - first) * between
    result = result.astype(array.dtype, copy=False)
    if skip_nan:
        empty = np.where(counts > 0, 0.0, math.nan)
        result = result + from_host(empty, array.ctx, array.dtype)
    else:  # a row with NaN, which is its last element, gives NaN
        largest = _element(ordered, length - 1)
        result = result + _where(largest != largest, largest, full_like(largest, 0.0))
    if flat.size > 1:
        result = moveaxis(result, -1, 0)
    rest = tuple(1 if i in axes else n for i, n in enumerate(array.shape)) if keepdims else batch
    return store(result._reshape_view(wanted.shape + rest), out, who)


def _quantile_function(name: str, percent: bool, skip_nan: bool) -> Callable[..., ndarray]:
    def function(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: Any = None,
        interpolation: str | None = None,
        keepdims: bool = False,
        *,
        method: str = "linear",
    ) -> ndarray:
        return _quantile(a, q, axis, out, interpolation or method, keepdims, name,
                         percent=percent, skip_nan=skip_nan)  # fmt: skip

    skipping = " that skip NaN" if skip_nan else ""
    doc = f"""Return {"percentiles" if percent else "quantiles"}{skipping} along axes.

    Parameters
    ----------
    a : ndarray
        Integers and bools become float32.
    q : number or array
        From 0 to {100 if percent else 1}. The result's shape begins with the shape of q.
    axis : int or tuple of int, optional
        All axes by default.
    out : ndarray, optional
    overwrite_input : bool
        Without effect.
    interpolation, method : {{"linear", "lower", "higher", "midpoint", "nearest"}}
        What to return for a position between two elements; "linear" by default.
    keepdims : bool
        Whether reduced axes stay with size 1.

    Raises
    ------
    ValueError
        If q is out of range, or the axes have no elements.
    """
    return set_name(function, name, doc)


percentile = _quantile_function("percentile", percent=True, skip_nan=False)
quantile = _quantile_function("quantile", percent=False, skip_nan=False)
nanpercentile = _quantile_function("nanpercentile", percent=True, skip_nan=True)
nanquantile = _quantile_function("nanquantile", percent=False, skip_nan=True)


def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = None, keepdims: bool = False
) -> ndarray:
    """Return the median along axes, or NaN if there are no elements; see `quantile`."""
    if not as_array(a, "median").size:
        return mean(a, axis, out=out, keepdims=keepdims)
    return quantile(a, 0.5, axis, out, overwrite_input, None, keepdims)


def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = None, keepdims: bool = False
) -> ndarray:
    """Return the median of elements that are not NaN along axes; see `median`."""
    if not as_array(a, "nanmedian").size:
        return mean(a, axis, out=out, keepdims=keepdims)
    return nanquantile(a, 0.5, axis, out, overwrite_input, None, keepdims)
