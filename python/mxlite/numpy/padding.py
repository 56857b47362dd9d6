"""The function ``np.pad``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from ..base import ShapeError, TypeError_, ValueError_
from .arguments import as_array, fill_array, from_host
from .elementwise import around
from .ndarray import ndarray

__all__ = ["pad"]

_concat = _core.op("Concat")
_slice_axis = _core.op("slice_axis")
_take = _core.op("take")
_cast = _core.op("Cast")
_broadcast_to = _core.op("broadcast_to")
_add = _core.op("broadcast_add")
_subtract = _core.op("broadcast_sub")
_floor = _core.op("floor")

# The keyword arguments of each mode, with their defaults.
_MODES: dict[str, dict[str, Any]] = {
    "constant": {"constant_values": 0},
    "edge": {},
    "empty": {},
    "linear_ramp": {"end_values": 0},
    "maximum": {"stat_length": None},
    "mean": {"stat_length": None},
    "median": {"stat_length": None},
    "minimum": {"stat_length": None},
    "reflect": {"reflect_type": "even"},
    "symmetric": {"reflect_type": "even"},
    "wrap": {},
}


def _pairs(value: Any, ndim: int, name: str) -> list[Any]:
    """Return (before, after) for each axis from a number, one pair, or a pair for each axis."""
    try:
        return np.broadcast_to(np.asarray(value), (ndim, 2)).tolist()
    except ValueError:
        raise ShapeError(
            f"pad: {name} must be a number, a pair, or {ndim} pairs, got {value!r}"
        ) from None


def pad(x: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> ndarray:
    """Return the array with elements added before and after every axis.

    Parameters
    ----------
    x : ndarray
    pad_width : int, pair of int, or a pair for every axis
    mode : str
        'constant' (``constant_values``), 'edge', 'empty' (zeros), 'linear_ramp' (``end_values``),
        'maximum', 'mean', 'median' or 'minimum' (``stat_length``: number of elements at the edge,
        all by default), 'reflect' or 'symmetric' (``reflect_type``: 'even' or 'odd'), 'wrap'.
    **kwargs
        The keyword arguments in parentheses above.

    Raises
    ------
    ValueError
        If the mode or one of its keyword arguments is unknown, or a width is negative.
    """
    x = as_array(x, "pad")
    if mode not in _MODES:
        raise ValueError_(f"pad: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    unknown = set(kwargs) - set(_MODES[mode])
    if unknown:
        raise ValueError_(f"pad: unsupported keyword arguments for mode '{mode}': {unknown}")
    if np.asarray(pad_width).dtype.kind not in "iu":
        raise TypeError_(f"pad: pad_width must be integers, got {pad_width!r}")
    widths = _pairs(pad_width, x.ndim, "pad_width")
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError_(f"pad: pad_width must not be negative, got {pad_width!r}")
    (option, given), *_ = {**_MODES[mode], **kwargs}.items() or [("", None)]
    options = [given] * x.ndim
    if option in ("constant_values", "end_values", "stat_length") and given is not None:
        options = _pairs(given, x.ndim, option)
    result = x
    for axis, (before, after) in enumerate(widths):
        if before or after:
            result = _pad_axis(result, axis, before, after, mode, options[axis])
    return _core.op("_copy")(x) if result is x else result


def _pad_axis(a: ndarray, axis: int, before: int, after: int, mode: str, option: Any) -> ndarray:
    length = a.shape[axis]
    if mode in ("constant", "empty"):
        low, high = (0, 0) if option is None else option
        return _join_parts(
            axis, _fill_side(a, axis, before, low), a, _fill_side(a, axis, after, high)
        )
    if not length:
        raise ValueError_(
            f"pad: mode must be 'constant' or 'empty' for empty axis {axis}, got {mode!r}"
        )
    if mode in ("edge", "reflect", "symmetric", "wrap") and option in (None, "even"):
        source = np.pad(np.arange(length), (before, after), mode=mode)  # type: ignore[call-overload]
        return _take(a, from_host(source, a.ctx), axis=axis)
    if mode in ("reflect", "symmetric"):
        if option != "odd":
            raise ValueError_(f"pad: reflect_type must be 'even' or 'odd', got {option!r}")
        return _reflect_odd(a, axis, before, after, 1 if mode == "reflect" else 0)
    if mode == "linear_ramp":
        return _join_parts(
            axis,
            _ramp(a, axis, before, option[0], 0),
            a,
            _ramp(a, axis, after, option[1], length - 1),
        )
    low, high = (None, None) if option is None else option
    return _join_parts(
        axis,
        _statistic(a, axis, before, mode, low, True),
        a,
        _statistic(a, axis, after, mode, high, False),
    )


def _join_parts(axis: int, *parts: ndarray | None) -> ndarray:
    return _concat(*(part for part in parts if part is not None), dim=axis)


def _fill_side(a: ndarray, axis: int, width: int, value: Any) -> ndarray | None:
    if not width:
        return None
    shape = (*a.shape[:axis], width, *a.shape[axis + 1 :])
    return fill_array(shape, value, a)


def _repeat_edge(edge: ndarray, axis: int, width: int) -> ndarray:
    return _broadcast_to(edge, shape=(*edge.shape[:axis], width, *edge.shape[axis + 1 :]))


def _is_integral(a: ndarray) -> bool:
    return np.issubdtype(a.dtype, np.integer) if not isinstance(a.dtype, str) else False


def _ramp(a: ndarray, axis: int, width: int, end: float, at: int) -> ndarray | None:
    """Return values that change evenly from ``end``, outermost, to the edge element ``at``."""
    if not width:
        return None
    edge = _slice_axis(a, axis=axis, begin=at, end=at + 1)
    dtype = "float64" if _is_integral(a) else a.dtype
    share = np.arange(width) / width
    share = (share if at == 0 else share[::-1]).reshape((-1,) + (1,) * (a.ndim - axis - 1))
    weights = from_host(share.reshape((1,) * axis + share.shape), a.ctx, dtype)
    result = (_cast(edge, dtype=dtype) - end) * weights + end
    return _cast(_floor(result), dtype=a.dtype) if _is_integral(a) else result


def _statistic(
    a: ndarray, axis: int, width: int, mode: str, count: int | None, low: bool
) -> ndarray | None:
    if not width:
        return None
    length = a.shape[axis]
    count = length if count is None else min(count, length)
    if count < 1:
        raise ValueError_(f"pad: stat_length must be at least 1 for mode '{mode}', got {count}")
    first = 0 if low else length - count
    part = _slice_axis(a, axis=axis, begin=first, end=first + count)
    if mode in ("maximum", "minimum"):
        edge = _core.op(mode[:3])(part, axis=(axis,), keepdims=True)
        return _repeat_edge(edge, axis, width)
    if _is_integral(a):
        part = _cast(part, dtype="float64")
    if mode == "median":
        part = _core.op("sort")(part, axis=axis)
        part = _slice_axis(part, axis=axis, begin=(count - 1) // 2, end=count // 2 + 1)
    edge = _core.op("mean")(part, axis=(axis,), keepdims=True)
    if _is_integral(a):
        edge = _cast(around(edge), dtype=a.dtype)
    return _repeat_edge(edge, axis, width)


def _reflect_odd(a: ndarray, axis: int, before: int, after: int, skipped: int) -> ndarray:
    """Pad with ``2 * edge - x`` for the elements x near an edge; repeat to fill the width."""
    if a.shape[axis] == 1 and skipped:  # repeats the edge, because no other element exists
        return _join_parts(
            axis,
            _repeat_edge(a, axis, before) if before else None,
            a,
            _repeat_edge(a, axis, after) if after else None,
        )
    while before or after:
        length = a.shape[axis]
        low, high = (min(n, length - skipped) for n in (before, after))
        parts = []
        for width, edge_at in ((low, 0), (high, length - 1)):
            rows = np.arange(width)
            rows = rows[::-1] + skipped if edge_at == 0 else edge_at - skipped - rows
            edge = _slice_axis(a, axis=axis, begin=edge_at, end=edge_at + 1)
            inner = _take(a, from_host(rows, a.ctx), axis=axis)
            parts.append(_subtract(_add(edge, edge), inner) if width else None)
        a = _join_parts(axis, parts[0], a, parts[1])
        before, after = before - low, after - high
    return a
