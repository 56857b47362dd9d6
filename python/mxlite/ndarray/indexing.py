"""``a[key]`` and ``a[key] = value``.

As in 1.x, contiguous parts are views, everything else is a copy, and the result of an integer index
has zero dimensions only in numpy mode, whose other rules are in ``mxlite/numpy/indexing.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._core import NDArray
from ..base import (
    IndexError_,
    MXNetError,
    ShapeError,
    TracedWriteError,
    TypeError_,
    ValueError_,
)
from .array_like import host_array
from .ndarray import attach

_gather = _core.op("gather_nd")


def _is_advanced(item: Any) -> bool:
    return isinstance(item, (NDArray, np.ndarray, list, tuple, range))


def _normalize(key: Any, ndim: int) -> list[Any]:
    """Return one item per axis, and None for new axes: int, slice, or index array."""
    items = list(key) if isinstance(key, tuple) else [key]
    ellipses = sum(1 for item in items if item is Ellipsis)
    if ellipses > 1:
        raise IndexError_("an index can only have a single ellipsis ('...')")
    used = sum(1 for item in items if item is not None and item is not Ellipsis)
    if used > ndim:
        raise IndexError_(f"too many indices: array has {ndim} dimensions, {used} were indexed")
    fill = [slice(None)] * (ndim - used)
    if ellipses:
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = fill
    else:
        items += fill
    return items


def _int_index(item: Any, axis: int, size: int) -> int:
    index = int(item)
    if not -size <= index < size:
        raise IndexError_(f"index {index} is out of bounds for axis {axis} with size {size}")
    return index % size


def _check_items(items: list[Any]) -> None:
    for item in items:
        if item is None or isinstance(item, (slice, int, np.integer)) or _is_advanced(item):
            continue
        raise TypeError_(
            "index: each item must be an integer, a slice, None, Ellipsis or an array of "
            f"integers, got {type(item).__name__}"
        )


def _basic(array: NDArray, items: list[Any]) -> NDArray:
    """Index with ints, slices and None only."""
    return array._basic_index(items, _is_viewable(array))


def _is_viewable(array: NDArray) -> bool:
    """Return whether a view can be returned; recorded or traced slices are operators instead."""
    return not array._traced and not (_core.is_recording() and _core.is_recorded(array))


def _is_contiguous(ranges: Sequence[range], shape: tuple[int, ...]) -> bool:
    """Return whether the elements selected by non-empty ranges are contiguous in memory."""
    inside = True  # whether all axes after this one are whole
    for numbers, size in zip(reversed(ranges), reversed(shape)):
        if len(numbers) > 1 and (numbers.step != 1 or not inside):
            return False
        inside = inside and len(numbers) == size
    return True


def _slice_is_contiguous(slc_key: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    """Return whether a tuple of slices or integers selects contiguous elements, that is, a view."""
    if len(slc_key) != len(shape):
        raise ValueError_(
            f"index: key must have at most {len(shape)} items, one for each axis, got "
            f"{len(slc_key)}"
        )
    ranges = [
        range(*item.indices(size)) if isinstance(item, slice) else range(item, item + 1)
        for item, size in zip(slc_key, shape)
    ]
    return any(not numbers for numbers in ranges) or _is_contiguous(ranges, shape)


def _index_array(item: Any) -> np.ndarray[Any, Any]:
    values = host_array(item, "index", np.int64)
    if values.dtype == np.bool_:
        raise TypeError_(
            "indexing with a boolean array is not supported; nd.contrib.boolean_mask(a, mask) "
            "selects elements, nd.where(mask, values, a) replaces them"
        )
    return values.astype(np.int64)


def _flat_indices(array: NDArray, items: list[Any]) -> tuple[np.ndarray[Any, Any], ...]:
    """Return NumPy index arrays, one per axis, that select the same elements as the key."""
    key = tuple(
        _index_array(item) if _is_advanced(item) else item for item in items if item is not None
    )
    for axis, item in enumerate(key):
        size = array.shape[axis]
        if isinstance(item, np.ndarray):
            bad = item[(item < -size) | (item >= size)]
            if bad.size:
                raise IndexError_(
                    f"index {int(bad.flat[0])} is out of bounds for axis {axis} with size {size}"
                )
        elif not isinstance(item, slice):
            _int_index(item, axis, size)
    full_key = tuple(_index_array(item) if _is_advanced(item) else item for item in items)
    grids = np.indices(array.shape, sparse=True)
    return tuple(np.broadcast_to(g, array.shape)[full_key] for g in grids)


def _advanced(array: NDArray, items: list[Any]) -> NDArray:
    single = [i for i, item in enumerate(items) if _is_advanced(item)]
    others_whole = all(
        isinstance(item, slice) and item == slice(None)
        for i, item in enumerate(items)
        if i not in single
    )
    if len(single) == 1 and others_whole and all(item is not None for item in items):
        axis = single[0]
        item = items[axis]
        if not (isinstance(item, NDArray) and item._traced):
            values = _index_array(item)
            size = array.shape[axis]
            bad = values[(values < -size) | (values >= size)]
            if bad.size:
                raise IndexError_(
                    f"index {int(bad.flat[0])} is out of bounds for axis {axis} with size {size}"
                )
            item = _core.array_from_numpy(values, array.ctx, "int64")
        return _core.op("take")(array, item, axis=axis, mode="wrap")
    indices = _flat_indices(array, items)
    if indices[0].size == 0:
        return _core.empty(indices[0].shape, array.ctx, array.dtype)
    stacked = np.stack([np.asarray(i, dtype=np.int64) for i in indices])
    return _gather(array, _core.array_from_numpy(stacked, array.ctx, "int64"))


def getitem(self: NDArray, key: Any) -> NDArray:
    """Return ``self[key]``: basic (ints, slices, None, Ellipsis) or advanced (integer arrays)."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and self.ndim:
        if _is_viewable(self):
            index = _int_index(key, 0, self.shape[0])
            return self._slice_view(index, index + 1, True)
    if isinstance(key, list):
        key = (key,)
    items = _normalize(key, self.ndim)
    _check_items(items)
    if any(_is_advanced(item) for item in items):
        return _advanced(self, items)
    if not items:
        return self._reshape_view((1,))
    return _basic(self, items)


def _strided_target(array: NDArray, items: list[Any]) -> NDArray:
    """Return a strided view of the elements that a basic key selects, for writing only."""
    shape: list[int] = []
    strides: list[int] = []
    offset = 0
    axis = 0
    for item in items:
        if item is None:
            shape.append(1)
            strides.append(0)
            continue
        size, stride = array.shape[axis], array._strides[axis]
        if isinstance(item, slice):
            first, last, step = item.indices(size)
            count = len(range(first, last, step))
            shape.append(count)
            strides.append(stride * step)
            offset += first * stride if count else 0
        else:
            offset += _int_index(item, axis, size) * stride
        axis += 1
    return array._strided_view(tuple(shape), tuple(strides), offset)


def setitem(self: NDArray, key: Any, value: Any) -> None:
    """Write values into ``self[key]``; a number fills, arrays broadcast."""
    if self._traced:
        raise TracedWriteError(
            "x[...] = value is not possible inside a hybridized forward; use nd.where, "
            "nd.concat or nd.slice_axis, or call net.hybridize(False)"
        )
    if isinstance(key, list):
        key = (key,)
    items = _normalize(key, self.ndim)
    _check_items(items)
    if any(isinstance(item, bool) for item in items):
        raise TypeError_(
            f"x[{key!r}] = value: the index must not be a bool; x[:] fills the array, x[1] the "
            "element 1, and nd.where(mask, values, x) replaces where a mask is not 0"
        )
    if isinstance(value, NDArray) and _core.is_recording() and _core.is_recorded(value):
        _write_recorded(self, items, value)
        return
    if any(_is_advanced(item) for item in items):
        host = self.asnumpy()
        host_key = tuple(_index_array(i) if _is_advanced(i) else i for i in items)
        _flat_indices(self, items)
        _core.check_writable(self)
        host[host_key] = host_array(value, "x[...] = value", self.dtype)
        self._write_numpy(host)
        return
    _write(_strided_target(self, items), self, value)


def _write_recorded(owner: NDArray, items: list[Any], value: NDArray) -> None:
    """Replace all values by a recorded result, to which gradients then flow."""
    _core.check_writable(owner)
    sliced = [item for item in items if item is not None]
    if any(
        not isinstance(item, slice) or item.indices(size) != (0, size, 1)
        for item, size in zip(sliced, owner.shape)
    ):
        raise MXNetError(
            "x[...] = value: Inplace operations (+=, -=, x[:]=, etc) are not supported when "
            f"recording with autograd: a recorded result of shape {value.shape} was given for a "
            f"part of an array of shape {owner.shape}"
        )
    target = _strided_target(owner, items)
    source = value if value.shape == target.shape else _broadcast(value, target.shape)
    source = source.as_in_context(owner.ctx).astype(owner.dtype, copy=False)
    _core.op("_copy")(source._reshape_view(owner.shape), out=owner)


def _write(target: NDArray, owner: NDArray, value: Any) -> None:
    # As in 1.x, NumPy arrays may replace the whole value of a recorded array while recording.
    if not isinstance(value, np.ndarray) or target.size < owner.size:
        _core.check_writable(owner)
    if target.size == 0:
        return
    if isinstance(value, NDArray):
        source = value
        if source.shape != target.shape:
            source = _broadcast(source, target.shape)
        if source.ctx != target.ctx:
            source = source.as_in_context(target.ctx)
        source.detach().copyto(target)
        return
    if isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        _core.op("_full")(
            shape=target.shape, value=value, ctx=target.ctx, dtype=target.dtype, out=target
        )
        return
    values = host_array(value, "x[...] = value", target.dtype)
    kept = _written_shape(values.shape, target.shape)
    target._write_numpy(np.broadcast_to(values.reshape(kept), target.shape))


def _written_shape(given: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the given shape without superfluous leading 1s; raise if it does not broadcast."""
    kept = given
    while len(kept) > len(shape) and kept[0] == 1:
        kept = kept[1:]
    if len(kept) > len(shape) or any(
        a not in (1, b) for a, b in zip(reversed(kept), reversed(shape))
    ):
        raise ShapeError(
            f"x[...] = value: values of shape {given} cannot be written into shape {shape}"
        )
    return kept


def _broadcast(source: NDArray, shape: tuple[int, ...]) -> NDArray:
    kept = _written_shape(source.shape, shape)
    source = source._reshape_view((1,) * (len(shape) - len(kept)) + kept)
    return _core.op("broadcast_to")(source, shape=shape)


attach(
    {
        "__getitem__": getitem,
        "__setitem__": setitem,
        "_basic_indexing_slice_is_contiguous": staticmethod(_slice_is_contiguous),
    }
)
