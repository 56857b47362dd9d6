"""Functions that join and split arrays, and that insert and delete elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from ..base import IndexError_, ShapeError, TypeError_, ValueError_
from ..ndarray import NDArray
from .arguments import (
    as_array,
    axis_in,
    flatten_for,
    from_host,
    promote,
    set_name,
    store,
    values_of,
)
from .manipulation import atleast_1d, atleast_2d, atleast_3d, broadcast_to, moveaxis
from .ndarray import ndarray

__all__ = [
    "append",
    "array_split",
    "column_stack",
    "concat",
    "concatenate",
    "delete",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "insert",
    "row_stack",
    "split",
    "stack",
    "unstack",
    "vsplit",
    "vstack",
]

_concat = _core.op("Concat")
_stack = _core.op("stack")
_split = _core.op("_split_v2")
_take = _core.op("take")
_slice_axis = _core.op("slice_axis")
_cast = _core.op("Cast")
_WHY = "the result's size depends on the indices"


def _arrays(seq: Any, who: str) -> list[ndarray]:
    """Return the arrays of a sequence in their common dtype."""
    if isinstance(seq, NDArray):
        seq = unstack(as_array(seq, who)) if seq.ndim else [seq]
    elif not isinstance(seq, Sequence):
        raise TypeError_(f"{who}: arrays must be a sequence of arrays, got {type(seq).__name__}")
    if not len(seq):
        raise ValueError_(f"{who}: arrays must have at least one array, got none")
    return list(promote([as_array(a, who) for a in seq]))


def concatenate(seq: Any, axis: int | None = 0, out: Any = None) -> ndarray:
    """Join arrays along an existing axis.

    Parameters
    ----------
    seq : sequence of ndarray
        Equal shapes except along the axis; cast to their common dtype.
    axis : int or None
        None joins the flattened arrays.
    out : ndarray, optional

    Raises
    ------
    ValueError
        If there is no array, or shapes differ.
    """
    return store(_concatenate(_arrays(seq, "concatenate"), axis, "concatenate"), out, "concatenate")


concat = concatenate


def _concatenate(arrays: Sequence[ndarray], axis: int | None, who: str) -> ndarray:
    if axis is None:
        arrays, axis = [a._reshape_view((a.size,)) for a in arrays], 0
    first = arrays[0]
    if not first.ndim:
        raise ShapeError(f"{who}: arrays must have at least 1 dimension, got zero-dimensional ones")
    return _concat(*arrays, dim=axis_in(axis, first.ndim, who))


def stack(arrays: Any, axis: int = 0, out: Any = None) -> ndarray:
    """Join arrays of one shape along a new axis."""
    given = _arrays(arrays, "stack")
    if any(a.shape != given[0].shape for a in given):
        raise ShapeError(
            "stack: all input arrays must have the same shape, got "
            f"{', '.join(str(a.shape) for a in given)}"
        )
    axis = axis_in(axis, given[0].ndim + 1, "stack")
    return store(_stack(*given, axis=axis), out, "stack")


def vstack(arrays: Any, out: Any = None) -> ndarray:
    """Join arrays along axis 0; a vector of shape (n,) is a row (1, n)."""
    given = [atleast_2d(a) for a in _arrays(arrays, "vstack")]
    return store(_concatenate(given, 0, "vstack"), out, "vstack")


row_stack = vstack


def hstack(arrays: Any, out: Any = None) -> ndarray:
    """Join arrays along axis 1; vectors along axis 0."""
    given = [atleast_1d(a) for a in _arrays(arrays, "hstack")]
    return store(_concatenate(given, min(given[0].ndim - 1, 1), "hstack"), out, "hstack")


def dstack(arrays: Any, out: Any = None) -> ndarray:
    """Join arrays along axis 2; (n,) becomes (1, n, 1), and (m, n) becomes (m, n, 1)."""
    given = [atleast_3d(a) for a in _arrays(arrays, "dstack")]
    return store(_concatenate(given, 2, "dstack"), out, "dstack")


def column_stack(tup: Any, out: Any = None) -> ndarray:
    """Join arrays along axis 1; a vector of shape (n,) is a column (n, 1)."""
    given = _arrays(tup, "column_stack")
    given = [a if a.ndim > 1 else a._reshape_view((a.size, 1)) for a in given]
    return store(_concatenate(given, 1, "column_stack"), out, "column_stack")


def _begins(places: Any, length: int) -> list[tuple[int, int]]:
    """Return the begin and end of each part if an axis is split at these positions."""
    bounds = [0, *(operator.index(i) for i in places), None]
    ranges = [slice(a, b).indices(length)[:2] for a, b in zip(bounds, bounds[1:])]
    return [(begin, max(begin, end)) for begin, end in ranges]


def _divide(ary: Any, places: Any, axis: int, equal: bool, who: str) -> list[ndarray]:
    ary = as_array(ary, who)
    axis = axis_in(axis, ary.ndim, who)
    length = ary.shape[axis]
    if isinstance(places, NDArray):
        places = values_of(places, who, "the number of parts depends on values").astype(int)
    if np.ndim(places) == 0:
        count = operator.index(places)
        if count <= 0:
            raise ValueError_(f"{who}: the number of sections must be at least 1, got {count}")
        if equal and length % count:
            raise ValueError_(
                f"{who}: the number of sections must give an equal division of {length} elements, "
                f"got {count}"
            )
        given: dict[str, Any] = {"indices": (), "sections": count}
    else:
        bounds = _begins(places, length)
        if any(a[1] != b[0] for a, b in zip(bounds, bounds[1:])):
            return [_slice_axis(ary, axis=axis, begin=b, end=e) for b, e in bounds]
        given = {"indices": [b for b, _ in bounds]}
    parts = _split(ary, axis=axis, squeeze_axis=False, **given)
    return parts if isinstance(parts, list) else [parts]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[ndarray]:
    """Split an array along an axis; the parts are copies.

    Parameters
    ----------
    ary : ndarray
    indices_or_sections : int or sequence of int
        Number of equal parts, or the positions at which the second and later parts begin.
    axis : int

    Raises
    ------
    ValueError
        If the axis cannot be divided into that number of equal parts.
    """
    return _divide(ary, indices_or_sections, axis, True, "split")


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[ndarray]:
    """Split an array like `split`; if the parts cannot be equal, the first ones are longer by 1."""
    return _divide(ary, indices_or_sections, axis, False, "array_split")


def _splitting(name: str, least: int, axis: int) -> Any:
    def function(ary: Any, indices_or_sections: Any) -> list[ndarray]:
        ary = as_array(ary, name)
        if ary.ndim < least:
            raise ValueError_(
                f"{name}: array must have at least {least} dimension{'s' * (least > 1)}, got "
                f"{ary.ndim}"
            )
        return _divide(ary, indices_or_sections, min(axis, ary.ndim - 1), True, name)

    rest = "; a vector along axis 0." if least <= axis else ""
    return set_name(function, name, f"Split an array along axis {axis}{rest}")


vsplit = _splitting("vsplit", 2, 0)
hsplit = _splitting("hsplit", 1, 1)
dsplit = _splitting("dsplit", 3, 2)


def unstack(x: Any, axis: int = 0) -> tuple[ndarray, ...]:
    """Return the slices of an array along an axis, which the slices do not have."""
    x = as_array(x, "unstack")
    axis = axis_in(axis, x.ndim, "unstack")
    if not x.shape[axis]:
        return ()
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    parts = _divide(x, x.shape[axis], axis, True, "unstack")
    return tuple(part._reshape_view(rest) for part in parts)


def append(arr: Any, values: Any, axis: int | None = None) -> ndarray:
    """Return the array followed by values; both flattened unless an axis is given."""
    return _concatenate(_arrays([arr, values], "append"), axis, "append")


def _indices(obj: Any, length: int, who: str) -> np.ndarray[Any, Any]:
    """Return the indices, counted from the start, that an int, slice, sequence or mask selects."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(length))
    found = values_of(obj, who, _WHY)
    if found.dtype == np.bool_ and found.ndim:
        return np.flatnonzero(found)
    found = found.astype(np.int64)
    return np.where(found < 0, found + length, found)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> ndarray:
    """Return a copy with values inserted before indices of an axis.

    Parameters
    ----------
    arr : ndarray
    obj : int, slice, or array of int or bool
        Positions in ``arr``.
    values : ndarray or number
        Cast to the array's dtype and broadcast.
    axis : int or None
        None flattens the array.

    Raises
    ------
    IndexError
        If a position is out of bounds.
    """
    a, axis = flatten_for(arr, axis, "insert")
    length = a.shape[axis]
    at = _indices(obj, length, "insert")
    if at.size and not (at.min() >= 0 and at.max() <= length):
        raise _outside(obj, axis, length, "insert")
    v = as_array(values, "insert")
    v = _cast(v, dtype=a.dtype) if v.dtype is not a.dtype else v
    v = v._reshape_view((1,) * (a.ndim - v.ndim) + v.shape)
    if at.ndim == 0:  # as in NumPy, the first axis of the values is the one along which to insert
        v = moveaxis(v, 0, axis)
    single = at.size == 1
    count = v.shape[axis] if single else at.size
    v = broadcast_to(v, (*a.shape[:axis], count, *a.shape[axis + 1 :]))
    at = np.full(count, at) if single else at.reshape(-1).copy()
    at[np.argsort(at, kind="stable")] += np.arange(count)
    source = np.empty(length + count, np.int64)
    is_new = np.zeros(length + count, bool)
    is_new[at] = True
    source[at] = length + np.arange(count)
    source[~is_new] = np.arange(length)
    return _take(_concat(a, v, dim=axis), from_host(source, a.ctx), axis=axis)


def _outside(obj: Any, axis: int, length: int, who: str) -> Exception:
    return IndexError_(f"{who}: index {obj} is out of bounds for axis {axis} with size {length}")


def delete(arr: Any, obj: Any, axis: int | None = None) -> ndarray:
    """Return a copy from which slices of an axis are deleted.

    Parameters
    ----------
    arr : ndarray
    obj : int, slice, or array of int or bool
        The slices to delete. As in 1.x, an index in an ``mx.np`` array is ignored if it is negative
        or too large. In other sequences, negative indices count from the end.
    axis : int or None
        None flattens the array.

    Raises
    ------
    IndexError
        If a position is out of bounds.
    """
    a, axis = flatten_for(arr, axis, "delete")
    length = a.shape[axis]
    if isinstance(obj, NDArray):
        obj = values_of(obj, "delete", _WHY)
        if obj.dtype != np.bool_:
            obj = obj[(obj >= 0) & (obj < length)]
    gone = _indices(obj, length, "delete")
    if gone.size and not (gone.min() >= 0 and gone.max() < length):
        raise _outside(obj, axis, length, "delete")
    kept = np.delete(np.arange(length), gone)
    return _take(a, from_host(kept, a.ctx), axis=axis)
