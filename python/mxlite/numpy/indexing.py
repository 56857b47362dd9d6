"""``a[key]`` and ``a[key] = value`` with NumPy's semantics.

Contiguous parts selected by numbers and slices are views, as in 1.x; everything else is a copy.
Index arrays are combined on the host into positions along one axis, which ``take`` reads.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..base import IndexError_, TracedWriteError, TypeError_
from ..ndarray import NDArray
from ..ndarray import indexing as plain
from ..ndarray.array_like import host_array
from .arguments import check_bounds, fill_array, from_host, has_negative, is_real, refuse_traced
from .manipulation import expand_to
from .ndarray import attach, ndarray

_take = _core.op("take")
_gather = _core.op("gather_nd")
_stack = _core.op("stack")
_cast = _core.op("Cast")
_transpose = _core.op("transpose")
_where = _core.op("where")
_scatter = _core.op("_scatter_set_nd")
_WHOLE = slice(None)


class _Key(NamedTuple):
    """A parsed key: basic items for all axes, then index arrays for some axes of that result."""

    basic: list[Any]  # int, slice or None; slice(None) where an index array selects
    arrays: list[Any]  # official arrays, or traced arrays
    axes: list[int]  # axes of the result of `basic` that the arrays select from
    adjacent: bool  # whether the key's arrays and numbers stand side by side


def _index_values(item: Any) -> Any:
    """Return an index array as official array of int64 or bool; traced arrays stay."""
    if isinstance(item, NDArray):
        if item._traced:
            if item.dtype == np.bool_:
                refuse_traced(item, "index", "a mask selects a number of elements")
            return item
        values = item._host_view()
    else:
        if isinstance(item, (list, tuple)) and any(isinstance(part, NDArray) for part in item):
            item = [part.asnumpy() if isinstance(part, NDArray) else part for part in item]
        values = np.asarray(item)
    if values.dtype.kind not in "biuf" and values.dtype.name != "bfloat16":
        raise IndexError_(f"index: arrays must hold integers or bools, got dtype {values.dtype}")
    return values if values.dtype == np.bool_ else values.astype(np.int64, copy=False)


def _convert(item: Any) -> Any:
    """Return an item of a key as int, slice, None, Ellipsis, or index array."""
    if item is None or item is Ellipsis or type(item) is int:
        return item
    if isinstance(item, slice):
        if any(isinstance(bound, NDArray) for bound in (item.start, item.stop, item.step)):
            return slice(
                *(
                    operator.index(bound) if isinstance(bound, NDArray) else bound
                    for bound in (item.start, item.stop, item.step)
                )
            )
        return item
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, (NDArray, np.ndarray, list, tuple, range)):
        return _index_values(item)
    if hasattr(item, "__index__"):
        return operator.index(item)
    raise IndexError_(
        "index: only integers, slices, ellipsis (`...`), newaxis (`None`) and integer or boolean "
        f"arrays are valid indices, got {type(item).__name__}"
    )


def _is_mask(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype == np.bool_


def _is_advanced(item: Any) -> bool:
    return isinstance(item, (np.ndarray, NDArray))


def _divide(shape: tuple[int, ...], key: Any) -> _Key:
    """Check a key for an array of the shape and split it into basic items and index arrays."""
    items = [_convert(item) for item in (key if isinstance(key, tuple) else (key,))]
    ellipses = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError_("an index can only have a single ellipsis ('...')")
    used = sum(
        item.ndim if _is_mask(item) else item is not None and item is not Ellipsis for item in items
    )
    if used > len(shape):
        raise IndexError_(
            f"too many indices for array: array is {len(shape)}-dimensional, but {used} were "
            "indexed"
        )
    advanced = any(_is_advanced(item) for item in items)
    single = [i for i, item in enumerate(items) if _is_advanced(item) or type(item) is int]
    adjacent = not single or single[-1] - single[0] == len(single) - 1
    at = ellipses[0] if ellipses else len(items)
    items[at : at + 1] = [_WHOLE] * (len(shape) - used)
    result = _Key([], [], [], adjacent)
    axis = place = 0  # axis of the array, and axis of the basic result
    for item in items:
        if _is_mask(item):
            expected = shape[axis : axis + item.ndim]
            for i, (given, size) in enumerate(zip(item.shape, expected)):
                if given != size:
                    raise IndexError_(
                        "boolean index did not match indexed array along dimension "
                        f"{axis + i}; dimension is {size} but corresponding boolean dimension is "
                        f"{given}"
                    )
            found = item.nonzero() if item.ndim else (np.zeros(int(item), np.int64),)
            result.basic.extend([_WHOLE] * item.ndim or [None])
            result.arrays.extend(found)
            result.axes.extend(range(place, place + len(found)))
            axis += item.ndim
            place += len(found)
            continue
        if advanced and type(item) is int:  # next to index arrays, a number is an index array
            item = np.asarray(plain._int_index(item, axis, shape[axis]))
        if _is_advanced(item):
            if isinstance(item, np.ndarray):
                check_bounds(item, axis, shape[axis])
                item = item % shape[axis] if shape[axis] else item
            result.basic.append(_WHOLE)
            result.arrays.append(item)
            result.axes.append(place)
        else:
            result.basic.append(item)
        axis += item is not None
        place += type(item) is not int
    return result


def _common_shape(arrays: Sequence[Any]) -> tuple[int, ...]:
    try:
        return arrays[0].shape if len(arrays) == 1 else np.broadcast_shapes(*map(np.shape, arrays))
    except ValueError:
        raise IndexError_(
            "shape mismatch: indexing arrays could not be broadcast together with shapes "
            + " ".join(str(a.shape) for a in arrays)
        ) from None


def _is_whole(items: Sequence[Any]) -> bool:
    return all(isinstance(item, slice) and item == _WHOLE for item in items)


def _select(array: ndarray, key: _Key) -> ndarray:
    """Return the elements of the basic result at the key's index arrays."""
    arrays, axes = key.arrays, key.axes
    common = _common_shape(arrays)
    first = axes[0] if key.adjacent else 0
    if not key.adjacent:
        others = [axis for axis in range(array.ndim) if axis not in axes]
        array = _transpose(array, axes=(*axes, *others))
    lead, rest = array.shape[:first], array.shape[first + len(axes) :]
    sizes = array.shape[first : first + len(axes)]
    if any(isinstance(a, NDArray) for a in arrays):
        return _select_traced(array, arrays, first, common)
    rows = arrays[0]
    for index, size in zip(arrays[1:], sizes[1:]):
        rows = rows * size + index
    if len(axes) > 1:
        array = array._reshape_view((*lead, prod(sizes), *rest))
    return _take(array, from_host(rows, array.ctx), axis=first, mode="wrap")


def _select_traced(
    array: ndarray, arrays: list[Any], first: int, common: tuple[int, ...]
) -> ndarray:
    """Select with index arrays that are traced; the kernel checks their values."""
    count = len(arrays)
    if first:
        order = (*range(first, first + count), *range(first), *range(first + count, array.ndim))
        array = _transpose(array, axes=order)
    coordinates = []
    for a in arrays:
        index = _cast(a, dtype="int64") if isinstance(a, NDArray) else from_host(a, array.ctx)
        coordinates.append(expand_to(index, common))
    found = _gather(array, _stack(*coordinates, axis=0))
    found = found._reshape_view((*common, *array.shape[count:]))
    if first:
        n = len(common)
        order = (*range(n, n + first), *range(n), *range(n + first, found.ndim))
        found = _transpose(found, axes=order)
    return found


def _plain_items(array: ndarray, key: Any) -> list[Any] | None:
    """Return an item for each axis if a tuple has only numbers and slices, else None."""
    if type(key) is not tuple or not key or len(key) > array.ndim:
        return None
    for item in key:
        if type(item) is not int and type(item) is not slice:
            return None
    return [*key, *[_WHOLE] * (array.ndim - len(key))]


def _at_array(array: ndarray, key: ndarray) -> ndarray | None:
    """Return the elements at integers, or at a mask, that are the whole key, else None."""
    ndim = key.ndim
    if key.dtype != np.bool_:
        if not array.ndim or is_real(key.dtype):
            return None
        has_negative(key, 0, array.shape[0])
        return _take(array, key, axis=0, mode="wrap")
    if not 0 < ndim <= array.ndim or key.shape != array.shape[:ndim]:
        return None
    rows = array if ndim == 1 else array._reshape_view((key.size, *array.shape[ndim:]))
    return _take(rows, _core.nonzero(key, flat=True)[0], axis=0)


def getitem(self: ndarray, key: Any) -> ndarray:
    """Return ``self[key]``.

    Parameters
    ----------
    key : int, slice, None, Ellipsis, array_like of int or bool, or tuple of these
        As in NumPy. Index arrays of floats are truncated to integers, as in 1.x.

    Raises
    ------
    IndexError
        If an index is out of bounds or a mask does not have the array's shape.
    DynamicShapeError
        If a graph is traced that computes the mask, because the number of selected elements is
        unknown. A hybridized block runs operator by operator from then on.
    """
    kind = type(key)
    if kind is int:
        if self.ndim and plain._is_viewable(self):
            size = self.shape[0]
            if -size <= key < size:
                if key < 0:
                    key += size
                if self.ndim > 1:
                    return self._slice_view(key, key + 1, True)
                return self._slice_view(key, key + 1, False)._reshape_view(())
    elif kind is slice and self.ndim:
        return plain._basic(self, [key, *[_WHOLE] * (self.ndim - 1)])  # type: ignore[return-value]
    elif (items := _plain_items(self, key)) is not None:
        if type(items[-1]) is int and plain._is_viewable(self):  # an element
            places = zip(items, self.shape, self._strides)
            if all(type(item) is int for item in items):
                at = sum(plain._int_index(i, k, n) * s for k, (i, n, s) in enumerate(places))
                return self._strided_view((), (), at)
        return plain._basic(self, items)  # type: ignore[return-value]
    elif kind is ndarray and not key._traced and key.ctx == self.ctx and plain._is_viewable(self):
        found = _at_array(self, key)
        if found is not None:
            return found
    elif kind is np.ndarray or kind is list or (kind is ndarray and not key._traced):
        values = _index_values(key)
        if self.ndim and values.dtype != np.bool_:
            check_bounds(values, 0, self.shape[0])
            return _take(self, from_host(values, self.ctx), axis=0, mode="wrap")
        if 0 < values.ndim <= self.ndim and values.shape == self.shape[: values.ndim]:
            rows = self._reshape_view((values.size, *self.shape[values.ndim :]))
            return _take(rows, from_host(np.flatnonzero(values), self.ctx), axis=0)
    divided = _divide(self.shape, key)
    basic = divided.basic
    if not divided.arrays:
        return plain._basic(self, basic) if basic else self._reshape_view(())  # type: ignore[return-value]
    part: Any = self if _is_whole(basic) else plain._basic(self, basic)
    return _select(part, divided)


def _count_whole(key: _Key) -> int:
    """Return the number of trailing axes that a key selects completely."""
    place = sum(type(item) is not int for item in key.basic)
    for count, item in enumerate(reversed(key.basic)):
        place -= 1
        if not isinstance(item, slice) or item != _WHOLE or place in key.axes:
            return count
    return len(key.basic)


def _rows(shape: tuple[int, ...], key: _Key) -> np.ndarray[Any, Any]:
    """Return the positions that a key with index arrays selects in an array of the shape."""
    grids: list[Any] = []  # (indices, distance between them) for each axis of the basic result
    offset, axis = 0, 0
    for item in key.basic:
        if item is None:
            grids.append((np.zeros(1, np.int64), 0))
            continue
        step = prod(shape[axis + 1 :])
        if type(item) is int:
            offset += plain._int_index(item, axis, shape[axis]) * step
        else:
            grids.append((np.arange(shape[axis], dtype=np.int64)[item], step))
        axis += 1
    common = _common_shape(key.arrays)
    others = [at for at in range(len(grids)) if at not in key.axes]
    lead = key.axes[0] if key.adjacent else 0  # number of other axes before the arrays' axes
    rows = np.full((1,) * (len(common) + len(others)), offset, np.int64)
    for index, at in zip(key.arrays, key.axes):
        numbers, step = grids[at]
        tail = (1,) * (len(others) - lead)
        rows = rows + (numbers[index] * step).reshape(index.shape + tail)
    for i, at in enumerate(others):
        numbers, step = grids[at]
        behind = len(others) - i - 1 + (len(common) if i < lead else 0)
        rows = rows + (numbers * step).reshape((-1,) + (1,) * behind)
    return rows


def setitem(self: ndarray, key: Any, value: Any) -> None:
    """Write values into ``self[key]``; numbers fill, lists and arrays broadcast.

    Parameters
    ----------
    key : as in ``self[key]``
        If an index occurs more than once, its last value is stored.
    value : number, array_like or ndarray
        Converted to the array's dtype.

    Raises
    ------
    TypeError
        If the value is None or an ``mx.nd`` array, or inside a hybridized forward.
    IndexError
        If an index is out of bounds or a mask does not have the array's shape.
    ValueError
        If the value does not broadcast to the selected shape.
    """
    if self._traced:
        raise TracedWriteError(
            "x[...] = value: x must have values, got a traced array inside a hybridized forward; "
            "use np.where or np.concatenate, or call net.hybridize(False)"
        )
    _check_value(value)
    if (items := _plain_items(self, key)) is not None and not isinstance(value, NDArray):
        plain._write(plain._strided_target(self, items), self, value)
        return
    masked = isinstance(key, NDArray) and key.dtype == np.bool_ and key.shape == self.shape
    if masked and not key._traced and _is_single(value):
        _core.check_writable(self)
        filled = _fill(self, value)
        _where(key.as_in_context(self.ctx), filled, self.detach(), out=self)
        return
    divided = _divide(self.shape, key)
    if isinstance(value, NDArray) and _core.is_recording() and _core.is_recorded(value):
        # If a mask or index array selects the elements, passes a key of a part, so that
        # _write_recorded raises its error for writes into a part.
        items = [0] if divided.arrays else divided.basic
        plain._write_recorded(self, items, value)
        return
    if not divided.arrays:
        plain._write(plain._strided_target(self, divided.basic), self, value)
        return
    _core.check_writable(self)
    if any(isinstance(a, NDArray) for a in divided.arrays):
        raise TypeError_("x[...] = value: indices must have values, got a traced array")
    _write_rows(self, divided, value)


def _check_value(value: Any) -> None:
    if value is None:
        raise TypeError_("x[...] = value: value must be a number or an array, got None")
    if isinstance(value, NDArray) and not isinstance(value, ndarray):
        raise TypeError_(
            "x[...] = value: value must be a number or an mx.np array, got an mx.nd array; "
            "as_np_ndarray() converts it"
        )


def _is_single(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.generic)) or (
        isinstance(value, ndarray) and value.size == 1
    )


def _fill(like: ndarray, value: Any) -> ndarray:
    if isinstance(value, ndarray):
        value = _cast(value.detach().as_in_context(like.ctx), dtype=like.dtype)
        return expand_to(value._reshape_view((1,) * like.ndim), like.shape)
    return fill_array(like.shape, value, like)


def _write_rows(self: ndarray, key: _Key, value: Any) -> None:
    """Write values at index arrays.

    The array is viewed as a matrix, whose rows contain the last axes. The key selects these axes
    completely.
    """
    whole = _count_whole(key)
    kept = self.ndim - whole
    rows = _rows(self.shape[:kept], key._replace(basic=key.basic[: len(key.basic) - whole]))
    shape = rows.shape + self.shape[kept:]
    inner = prod(self.shape[kept:])
    if isinstance(value, (bool, int, float)):
        source = fill_array(shape, value, self)
    elif isinstance(value, NDArray):
        source = _cast(value.detach().as_in_context(self.ctx), dtype=self.dtype)
        source = source._reshape_view(plain._written_shape(source.shape, shape))
    else:
        host = host_array(value, "x[...] = value", self.dtype)
        host = host.reshape(plain._written_shape(host.shape, shape))
        source = from_host(host, self.ctx, self.dtype)
    if rows.size == 0 or inner == 0:
        return
    source = expand_to(source, shape)._reshape_view((rows.size, inner))
    target = self.detach()._reshape_view((self.size // inner, inner))
    places = from_host(rows.reshape(1, -1), self.ctx)
    _scatter(target, source, places, shape=target.shape, out=target)


attach({"__getitem__": getitem, "__setitem__": setitem})
