"""Sorting, searching, and selection by index or condition.

If the size of a result depends on values, a function reads the values on the host. It then takes
the elements that it returns from the array by index, so that gradients flow.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .. import _core
from ..base import IndexError_, NotSupportedError, ShapeError, TypeError_, ValueError_
from ..ndarray import NDArray
from ..ndarray import indexing as plain
from .arguments import (
    DYNAMIC_SIZE,
    as_array,
    axes_in,
    broadcast_shape,
    check_bounds,
    flatten_for,
    from_host,
    has_negative,
    is_real,
    promote,
    refuse_traced,
    store,
    values_of,
)
from .dtypes import result_type
from .joining import stack
from .manipulation import expand_to, moveaxis
from .ndarray import attach, ndarray

__all__ = [
    "argpartition",
    "argsort",
    "argwhere",
    "choose",
    "compress",
    "count_nonzero",
    "extract",
    "flatnonzero",
    "lexsort",
    "nonzero",
    "partition",
    "searchsorted",
    "select",
    "sort",
    "take",
    "take_along_axis",
    "where",
]

_sort = _core.op("sort")
_argsort = _core.op("argsort")
_take = _core.op("take")
_take_along = _core.op("_take_along_axis")
_gather = _core.op("gather_nd")
_where = _core.op("where")
_sum = _core.op("_np_sum")
_cast = _core.op("Cast")


def _plain(a: ndarray) -> ndarray:
    """Return bools as uint8, which operators sort."""
    return _cast(a, dtype="uint8") if a.dtype == np.bool_ else a


def refuse_order(order: Any, who: str) -> None:
    """Raise NotSupportedError unless ``order``, the fields to sort by, is None."""
    if order is not None:
        raise NotSupportedError(
            f"{who}: order must be None because arrays have no fields, got {order!r}"
        )


def sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> ndarray:
    """Return a sorted copy; NaN last.

    Parameters
    ----------
    a : ndarray
    axis : int or None
        None sorts the flattened array.
    kind : str, optional
        Ignored: the sort is stable.
    """
    refuse_order(order, "sort")
    a, axis = flatten_for(a, axis, "sort")
    result = _sort(_plain(a), axis=axis)
    return result if result.dtype == a.dtype else _cast(result, dtype=a.dtype)


def argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> ndarray:
    """Return the int64 indices that sort an array; equal values keep their order."""
    refuse_order(order, "argsort")
    a, axis = flatten_for(a, axis, "argsort")
    return _argsort(_plain(a), axis=axis, dtype="int64")


def _check_kth(kth: Any, length: int, who: str) -> None:
    """Raise for positions outside of an axis. As in NumPy, an empty axis allows any position."""
    for k in np.atleast_1d(kth).tolist():
        if not -length <= operator.index(k) < length and length:
            raise ValueError_(f"{who}: kth must be in [{-length}, {length}), got {k}")


def partition(
    a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None
) -> ndarray:
    """Return a sorted copy, in which element ``kth`` is in its sorted position."""
    a, axis = flatten_for(a, axis, "partition")
    _check_kth(kth, a.shape[axis], "partition")
    return sort(a, axis, kind, order)


def argpartition(
    a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None
) -> ndarray:
    """Return the int64 indices that sort an array, and so partition it."""
    a, axis = flatten_for(a, axis, "argpartition")
    _check_kth(kth, a.shape[axis], "argpartition")
    return argsort(a, axis, kind, order)


def lexsort(keys: Any, axis: int = -1) -> ndarray:
    """Return the int64 indices that sort by the last key, then by the one before it, and so on.

    Parameters
    ----------
    keys : sequence of ndarray, or ndarray with the keys along axis 0
        All of one shape.
    axis : int
        The axis of the keys to sort along.
    """
    given = list(keys)
    if not given:
        raise TypeError_("lexsort: keys must have at least one array, got none")
    arrays = [as_array(key, "lexsort") for key in given]
    if any(a.shape != arrays[0].shape for a in arrays):
        raise ShapeError(
            "lexsort: keys must have one shape, got " + ", ".join(str(a.shape) for a in arrays)
        )
    result = argsort(arrays[0], axis)
    for a in arrays[1:]:
        result = take_along_axis(result, argsort(take_along_axis(a, result, axis), axis), axis)
    return result


def nonzero(a: Any) -> tuple[ndarray, ...]:
    """Return the int64 indices of elements that are not 0, one array for each axis.

    As in MXNet 1.9.1, an array without dimensions counts as an array of one element.
    """
    a = as_array(a, "nonzero")
    refuse_traced(a, "nonzero", DYNAMIC_SIZE)
    return tuple(_core.nonzero(a if a.ndim else a._reshape_view((1,))))  # type: ignore[arg-type]


def argwhere(a: Any) -> ndarray:
    """Return the int64 indices of elements that are not 0 as rows: shape (count, ndim)."""
    a = as_array(a, "argwhere")
    refuse_traced(a, "argwhere", DYNAMIC_SIZE)
    return from_host(np.argwhere(a._host_view()), a.ctx)


def flatnonzero(a: Any) -> ndarray:
    """Return the int64 indices of elements of the flattened array that are not 0."""
    a = as_array(a, "flatnonzero")
    refuse_traced(a, "flatnonzero", DYNAMIC_SIZE)
    return _core.nonzero(a, flat=True)[0]  # type: ignore[return-value]


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> ndarray:
    """Return how many elements are not 0 along axes, all by default, as int64."""
    a = as_array(a, "count_nonzero")
    if axis is not None and a.ndim:
        axis = axes_in(axis, a.ndim, "count_nonzero")
    truths = a if a.dtype == np.bool_ else _cast(a, dtype="bool")
    return _sum(truths, axis=axis, keepdims=keepdims)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Return elements of x where a condition is true, else of y.

    Parameters
    ----------
    condition : ndarray
        Any dtype; elements that are not 0 are true.
    x, y : ndarray or number, optional
        Broadcast together with the condition, and cast to their common dtype. If neither is given,
        the result is ``nonzero(condition)``.
    """
    condition = as_array(condition, "where")
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError_("where: both or neither of x and y must be given, got one")
    one, other = _operands(x, y, "where")
    shape = broadcast_shape([condition.shape, one.shape, other.shape], "where")
    result = _where(*(expand_to(a, shape or (1,)) for a in (condition, one, other)))
    return result if shape else result._reshape_view(())


def _operands(x: Any, y: Any, who: str) -> Sequence[ndarray]:
    """Return two operands in one dtype; a number next to an array affects only the dtype's kind."""
    numbers = [isinstance(value, (bool, int, float)) for value in (x, y)]
    if all(numbers) or not any(numbers):
        return promote([as_array(x, who), as_array(y, who)])
    array = as_array(y if numbers[0] else x, who)
    dtype = result_type(array, x if numbers[0] else y)
    return [
        from_host(value, array.ctx, dtype) if is_number else _cast(array, dtype=dtype)
        for value, is_number in zip((x, y), numbers)
    ]


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> ndarray:
    """Return the int64 indices at which values would be inserted into a sorted vector.

    Parameters
    ----------
    a : ndarray
        Vector in ascending order, unless ``sorter`` sorts it.
    v : ndarray or number
    side : {'left', 'right'}
        Whether the index is before or after equal elements.
    sorter : ndarray of int, optional
    """
    if side not in ("left", "right"):
        raise ValueError_(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    a = as_array(a, "searchsorted")
    if a.ndim != 1:
        raise ValueError_(f"searchsorted: a must have 1 dimension, got {a.ndim}")
    if sorter is not None:
        a = take(a, sorter)
    v = as_array(v, "searchsorted")
    one, other = promote([a, v])
    if not (one._traced or other._traced):
        return _core.searchsorted(one, other, side == "right")  # type: ignore[return-value]
    name = "broadcast_lesser" if side == "left" else "broadcast_lesser_equal"
    below = _core.op(name)(one, other._reshape_view((*other.shape, 1)))
    return _sum(_cast(below, dtype="int64"), axis=-1)


def take(
    a: Any, indices: Any, axis: int | None = None, mode: str = "raise", out: Any = None
) -> ndarray:
    """Return the slices of an array at indices along an axis.

    Parameters
    ----------
    a : ndarray
    indices : int, or array of int
    axis : int or None
        None takes from the flattened array.
    mode : {'raise', 'clip', 'wrap'}
        For indices out of bounds: an error, the nearest valid index, or the index modulo the
        length. 'clip' also turns negative indices into 0.
    out : ndarray, optional

    Raises
    ------
    IndexError
        If an index is out of bounds in mode 'raise'. A hybridized block raises it when the result
        is read.
    """
    a, axis = flatten_for(a, axis, "take")
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError_(f"take: mode must be 'raise', 'clip' or 'wrap', got {mode!r}")
    if isinstance(indices, NDArray) and (indices._traced or mode != "raise"):
        places = as_array(indices, "take")
    elif isinstance(indices, ndarray) and indices.dtype == np.int64 and indices.ctx == a.ctx:
        has_negative(indices, axis, a.shape[axis], "take: index")
        places, mode = indices, "wrap"  # the operator adds the length to negative indices
    else:
        values = values_of(indices, "take", "")
        if values.dtype != np.int64:
            values = values.astype(np.int64)
        if mode == "raise":
            check_bounds(values, axis, a.shape[axis], "take: index")
            mode = "wrap"
        places = from_host(values, a.ctx)
    if mode == "raise":  # gather_nd checks the indices when it runs
        places = _cast(places, dtype="int64")
        found = _gather(moveaxis(a, axis, 0), places._reshape_view((1, *places.shape)))
        found = found._reshape_view((*places.shape, *a.shape[:axis], *a.shape[axis + 1 :]))
        lead = tuple(range(places.ndim, places.ndim + axis))
        result = moveaxis(found, lead, tuple(range(axis))) if axis else found
    else:
        result = _take(a, places, axis=axis, mode=mode)
    return store(result, out, "take")


def take_along_axis(arr: Any, indices: Any, axis: int | None) -> ndarray:
    """Return the elements at indices along an axis, each index for its position on other axes.

    Parameters
    ----------
    arr : ndarray
    indices : ndarray of int
        As many dimensions as ``arr``; the others broadcast.
    axis : int or None
        None takes from the flattened array.
    """
    arr, axis = flatten_for(arr, axis, "take_along_axis")
    indices = as_array(indices, "take_along_axis")
    if indices.ndim != arr.ndim:
        raise ValueError_(
            "take_along_axis: indices and arr must have the same number of dimensions, got "
            f"{indices.ndim} and {arr.ndim}"
        )
    length = arr.shape[axis]
    lead = broadcast_shape([arr.shape[:axis], indices.shape[:axis]], "take_along_axis")
    rest = broadcast_shape([arr.shape[axis + 1 :], indices.shape[axis + 1 :]], "take_along_axis")
    shape = (*lead, indices.shape[axis], *rest)
    arr = expand_to(arr, (*lead, length, *rest))
    inner = prod(rest)
    if plain._is_viewable(arr) and not indices._traced and not is_real(indices.dtype):
        places: Any = expand_to(indices, shape)
        if has_negative(indices, axis, length, "take_along_axis: index"):
            places = _core.op("_mod_scalar")(_cast(places, dtype="int64"), scalar=length)
        return _take_along(arr, places, axis=axis)
    # The operator above does not add the gradients of indices that occur more than once.
    start = np.arange(prod(lead)).reshape(-1, 1, 1) * (length * inner) + np.arange(inner)
    if indices._traced:
        wrapped = _core.op("_mod_scalar")(_cast(indices, dtype="int64"), scalar=length)
        spread = expand_to(wrapped, shape)._reshape_view((prod(lead), shape[axis], inner))
        places = spread * inner + from_host(start, arr.ctx)
    else:
        values = indices.asnumpy().astype(np.int64, copy=False)
        check_bounds(values, axis, length, "take_along_axis: index")
        if values.size and values.min() < 0:
            values = np.where(values < 0, values + length, values)
        rows = np.broadcast_to(values, shape).reshape(prod(lead), shape[axis], inner)
        places = from_host(rows + start if inner == 1 else rows * inner + start, arr.ctx)
    return _take(arr._reshape_view((arr.size,)), places._reshape_view(shape))


def select(condlist: Any, choicelist: Any, default: Any = 0) -> ndarray:
    """Return, element by element, the choice of the first condition that is true.

    Parameters
    ----------
    condlist : list of bool ndarray
        An array gives its rows.
    choicelist : list of ndarray or number
        One for each condition; all broadcast together.
    default : ndarray or number
        Taken where no condition is true.
    """
    condlist, choicelist = list(condlist), list(choicelist)
    if len(condlist) != len(choicelist):
        raise ValueError_(
            f"select: choicelist must have {len(condlist)} entries as condlist has, got "
            f"{len(choicelist)}"
        )
    if not condlist:
        raise ValueError_("select: condlist must have at least one condition, got none")
    if any(as_array(c, "select").dtype != np.bool_ for c in condlist):
        raise TypeError_("select: conditions must be bool arrays, got another dtype")
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist)):
        result = where(condition, choice, result)
    return result


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> ndarray:
    """Return, element by element, the value of ``choices[a]`` at the same position.

    Parameters
    ----------
    a : ndarray of int
    choices : sequence of ndarray, or ndarray with the choices along axis 0
        Broadcast together with ``a``.
    mode : {'raise', 'clip', 'wrap'}
        For numbers out of range: an error, the nearest valid one, or the number modulo the count.
    """
    a = as_array(a, "choose")
    arrays = promote([as_array(c, "choose") for c in choices])
    shape = broadcast_shape([a.shape, *(c.shape for c in arrays)], "choose")
    numbers = values_of(a, "choose", "the choice").astype(np.int64)
    count = len(arrays)
    if mode == "raise" and numbers.size and not (numbers.min() >= 0 and numbers.max() < count):
        raise ValueError_(
            f"choose: a must be from 0 to {count - 1} in mode 'raise', got another number"
        )
    numbers = np.clip(numbers, 0, count - 1) if mode == "clip" else numbers % count
    rows = np.broadcast_to(numbers, shape) * prod(shape) + np.arange(prod(shape)).reshape(shape)
    flat = stack([expand_to(c, shape) for c in arrays])._reshape_view((count * prod(shape),))
    return store(_take(flat, from_host(rows, a.ctx)), out, "choose")


def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> ndarray:
    """Return the slices along an axis for which a condition is true."""
    a, axis = flatten_for(a, axis, "compress")
    kept = values_of(condition, "compress", DYNAMIC_SIZE)
    if kept.ndim != 1:
        raise ValueError_(f"compress: condition must be a 1-d array, got {kept.ndim} dimensions")
    rows = np.flatnonzero(kept)
    if rows.size and rows[-1] >= a.shape[axis]:
        raise IndexError_(
            f"compress: index {rows[-1]} is out of bounds for axis {axis} with size {a.shape[axis]}"
        )
    return store(_take(a, from_host(rows, a.ctx, np.int64), axis=axis), out, "compress")


def extract(condition: Any, arr: Any) -> ndarray:
    """Return the elements of the flattened array for which a condition is true."""
    kept = values_of(condition, "extract", DYNAMIC_SIZE)
    return compress(kept.reshape(-1).astype(bool), arr)


def _sort_method(self: ndarray, axis: int = -1, kind: Any = None, order: Any = None) -> Any:
    """Sort the array in place along an axis."""
    self[...] = sort(self.detach(), axis, kind, order)


def _compress_method(self: ndarray, condition: Any, axis: Any = None, out: Any = None) -> Any:
    """Return the slices along an axis for which a condition is true; see `compress`."""
    return compress(condition, self, axis, out)


attach(
    {
        "argsort": argsort,
        "nonzero": nonzero,
        "searchsorted": searchsorted,
        "sort": _sort_method,
        "take": take,
        "compress": _compress_method,
    }
)
