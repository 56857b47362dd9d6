"""Functions that change shapes and the order of axes, and that repeat elements."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from .. import _core
from ..base import ShapeError, TypeError_, ValueError_
from ..ndarray import NDArray
from .arguments import (
    as_array,
    axes_in,
    axis_in,
    broadcast_shape,
    drop_axis_of_0d,
    fill_array,
    flatten_for,
    from_host,
    part_along,
    reshape_to,
    set_name,
    shape_in,
    store,
    values_of,
)
from .ndarray import attach, ndarray

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_to",
    "diag",
    "diagflat",
    "diagonal",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "matrix_transpose",
    "moveaxis",
    "ndim",
    "permute_dims",
    "ravel",
    "repeat",
    "reshape",
    "resize",
    "roll",
    "rollaxis",
    "rot90",
    "shape",
    "size",
    "squeeze",
    "swapaxes",
    "tile",
    "trace",
    "transpose",
]

_copy = _core.op("_copy")
_reshape = _core.op("Reshape")
_transpose = _core.op("transpose")
_broadcast_to = _core.op("broadcast_to")
_concat = _core.op("Concat")
_reverse = _core.op("reverse")
_repeat = _core.op("repeat")
_tile = _core.op("tile")
_take = _core.op("take")
_slice_axis = _core.op("slice_axis")
_sum = _core.op("_np_sum")
_diag = _core.op("diag")
_cast = _core.op("Cast")
_stop = _core.op("BlockGrad")


def shape(a: Any) -> tuple[int, ...]:
    """Return the shape of an array, number or nested list."""
    return a.shape if isinstance(a, NDArray) else np.shape(a)


def ndim(a: Any) -> int:
    """Return the number of dimensions of an array, number or nested list."""
    return a.ndim if isinstance(a, NDArray) else np.ndim(a)


def size(a: Any, axis: int | None = None) -> int:
    """Return the number of elements, or the length of an axis."""
    lengths = shape(a)
    return prod(lengths) if axis is None else lengths[axis_in(axis, len(lengths), "size")]


def _check_index_order(order: str, who: str) -> None:
    if order not in ("C", "F", "A"):
        raise ValueError_(f"{who}: order must be 'C', 'F' or 'A', got {order!r}")


def reshape(a: Any, newshape: Any, order: str = "C", out: Any = None) -> ndarray:
    """Return a copy of the array in another shape.

    Parameters
    ----------
    a : ndarray
    newshape : int or tuple of int
        One dimension may be -1, which is inferred.
    order : {'C', 'F', 'A'}
        'F' reads and writes the elements with the first axis changing fastest.
    out : ndarray, optional

    Raises
    ------
    ValueError
        If the number of elements differs.
    """
    return store(_reshape_in_order(as_array(a, "reshape"), newshape, order), out, "reshape")


def _reshape_in_order(a: ndarray, newshape: Any, order: str) -> ndarray:
    _check_index_order(order, "reshape")
    wanted = shape_in(newshape)
    if order == "F":
        return transpose(_reshape_in_order(transpose(a), wanted[::-1], "C"))
    if wanted.count(-1) == 1 and 0 not in wanted and min(wanted) == -1:
        known = -prod(wanted)
        if a.size % known == 0 and a.size:
            return _reshape(a, shape=wanted)
    elif prod(wanted) == a.size and min(wanted, default=0) >= 0:
        return reshape_to(a, shape=wanted)
    known = prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and not a.size and known > 0 and min(wanted) == -1:
        return reshape_to(a, shape=tuple(0 if n == -1 else n for n in wanted))
    raise ShapeError(
        f"Cannot reshape array of size {a.size} into shape {str(list(wanted)).replace(' ', '')}"
    )


def ravel(x: Any, order: str = "C") -> ndarray:
    """Return a copy of the array with one dimension."""
    x = as_array(x, "ravel")
    return _reshape_in_order(x, (-1,) if x.size else (0,), order)


def transpose(a: Any, axes: Any = None) -> ndarray:
    """Return a copy with its axes in the order ``axes``; reversed by default."""
    a = as_array(a, "transpose")
    if axes is None:
        return _transpose(a)
    order = axes_in(axes, a.ndim, "transpose")
    if len(order) != a.ndim:
        raise ValueError_(f"transpose: axes must have {a.ndim} numbers, got {tuple(axes)}")
    return _transpose(a, axes=order) if order else _copy(a)


def swapaxes(a: Any, axis1: int, axis2: int) -> ndarray:
    """Return a copy with two axes exchanged."""
    a = as_array(a, "swapaxes")
    order = list(range(a.ndim))
    one, other = axis_in(axis1, a.ndim, "swapaxes"), axis_in(axis2, a.ndim, "swapaxes")
    order[one], order[other] = other, one
    return transpose(a, order)


def moveaxis(a: Any, source: Any, destination: Any) -> ndarray:
    """Return a copy with axes moved to new positions; the other axes keep their order."""
    a = as_array(a, "moveaxis")
    begin, end = axes_in(source, a.ndim, "moveaxis"), axes_in(destination, a.ndim, "moveaxis")
    if len(begin) != len(end):
        raise ValueError_(
            "moveaxis: source and destination must have the same number of axes, got "
            f"{len(begin)} and {len(end)}"
        )
    order = [axis for axis in range(a.ndim) if axis not in begin]
    for to, axis in sorted(zip(end, begin)):
        order.insert(to, axis)
    return transpose(a, order)


def rollaxis(a: Any, axis: int, start: int = 0) -> ndarray:
    """Return a copy with one axis moved before the axis ``start``."""
    a = as_array(a, "rollaxis")
    axis = axis_in(axis, a.ndim, "rollaxis")
    start = a.ndim if start == a.ndim else axis_in(start, a.ndim, "rollaxis")
    return moveaxis(a, axis, start - (axis < start))


def permute_dims(a: Any, axes: Any) -> ndarray:
    """Return a copy with its axes in the order ``axes``, which must name all of them."""
    return transpose(a, axes)


def matrix_transpose(x: Any) -> ndarray:
    """Return a copy with the last two axes exchanged."""
    x = as_array(x, "matrix_transpose")
    if x.ndim < 2:
        raise ValueError_(f"matrix_transpose: x must have at least 2 dimensions, got {x.ndim}")
    return swapaxes(x, -1, -2)


def expand_dims(a: Any, axis: Any) -> ndarray:
    """Return a copy with axes of length 1 inserted at these positions of the result."""
    a = as_array(a, "expand_dims")
    count = a.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1)
    places = axes_in(axis, count, "expand_dims")
    lengths = iter(a.shape)
    return reshape_to(a, shape=tuple(1 if i in places else next(lengths) for i in range(count)))


def squeeze(a: Any, axis: Any = None, out: Any = None) -> ndarray:
    """Return a copy without all axes of length 1, or without the given ones."""
    a = as_array(a, "squeeze")
    if axis is None:
        gone = tuple(i for i, n in enumerate(a.shape) if n == 1)
    else:
        gone = axes_in(axis, a.ndim or 1, "squeeze")  # as in NumPy, () has the axes 0 and -1
    for i in gone[: a.ndim]:
        if a.shape[i] != 1:
            raise ShapeError(
                "squeeze: the size of a squeezed axis must be 1, got a size not equal to one: "
                f"axis {i} of shape {a.shape}"
            )
    shape = tuple(n for i, n in enumerate(a.shape) if i not in gone)
    return store(reshape_to(a, shape=shape), out, "squeeze")


def broadcast_to(array: Any, shape: Any) -> ndarray:
    """Return a copy broadcast to a shape; -2 in the shape keeps a dimension, as in 1.x."""
    array = as_array(array, "broadcast_to")
    wanted = shape_in(shape)
    if -2 in wanted:
        kept = (*(-2,) * (len(wanted) - array.ndim), *array.shape)
        wanted = tuple(n if given == -2 else given for given, n in zip(wanted, kept))
    if broadcast_shape([array.shape, wanted], "broadcast_to") != wanted:
        raise ShapeError(
            f"broadcast_to: operands could not be broadcast together with shapes "
            f"{list(array.shape)} {list(wanted)}"
        )
    if array.shape == wanted:
        return _copy(array)
    if array.dtype == np.bool_:  # bools have no gradient, so backward must not sum them
        array = _stop(array)
    array = array._reshape_view((1,) * (len(wanted) - array.ndim) + array.shape)
    for axis, n in enumerate(wanted):  # the operator reads 0 as: keep the dimension
        if n == 0 and array.shape[axis]:
            array = _slice_axis(array, axis=axis, begin=0, end=0)
    return array if array.shape == wanted else _broadcast_to(array, shape=wanted)


def expand_to(a: ndarray, shape: tuple[int, ...]) -> ndarray:
    """Return the array itself if it has the shape, else a copy broadcast to the shape."""
    return a if a.shape == shape else broadcast_to(a, shape)


def broadcast_arrays(*args: Any) -> list[ndarray]:
    """Return copies of arrays broadcast to their common shape."""
    arrays = [as_array(a, "broadcast_arrays") for a in args]
    common = broadcast_shape([a.shape for a in arrays], "broadcast_arrays")
    return [broadcast_to(a, common) for a in arrays]


def _atleast(count: int, resized: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Any:
    name = f"atleast_{count}d"

    def atleast(*arys: Any) -> Any:
        found = [as_array(a, name) for a in arys]
        found = [a if a.ndim >= count else reshape_to(a, shape=resized(a.shape)) for a in found]
        return found[0] if len(found) == 1 else found

    dimensions = f"{count} dimension{'s' * (count > 1)}"
    return set_name(atleast, name, f"Return arrays with at least {dimensions}; several as a list.")


atleast_1d = _atleast(1, lambda s: (1,))
atleast_2d = _atleast(2, lambda s: (1, *(s or (1,))))
atleast_3d = _atleast(3, lambda s: ((1, 1, 1), (1, *s, 1), (*s, 1))[len(s)])


def repeat(a: Any, repeats: Any, axis: int | None = None) -> ndarray:
    """Return the array with each element repeated along an axis.

    Parameters
    ----------
    a : ndarray
    repeats : int or sequence of int
        One count for all elements, or one count for each.
    axis : int or None
        None flattens the array.
    """
    a = as_array(a, "repeat")
    a, axis = flatten_for(a, drop_axis_of_0d(a, axis), "repeat")
    counts = values_of(repeats, "repeat", "the result's size depends on repeats")
    if counts.size and counts.min() < 0:
        raise ValueError_(f"repeat: repeats must not be negative, got {counts.min()}")
    if counts.size == 1 and counts.flat[0] > 0:
        return _repeat(a, repeats=int(counts.flat[0]), axis=axis)
    length = a.shape[axis]
    if counts.size not in (1, length):
        raise ShapeError(f"repeat: repeats must have 1 or {length} numbers, got {counts.size}")
    rows = np.repeat(np.arange(length), counts.reshape(-1).astype(np.int64))
    return _take(a, from_host(rows, a.ctx), axis=axis)


def tile(A: Any, reps: Any) -> ndarray:  # noqa: N803 - NumPy's name
    """Return the array repeated as a whole along every axis."""
    A = as_array(A, "tile")  # noqa: N806
    counts = shape_in(reps.asnumpy() if isinstance(reps, NDArray) else reps)
    if min(counts, default=1) < 0:
        raise ValueError_(f"tile: reps must not be negative, got {counts}")
    whole = max(A.ndim, len(counts))
    A = A._reshape_view((1,) * (whole - A.ndim) + A.shape)  # noqa: N806
    counts = (1,) * (whole - len(counts)) + counts
    for axis, n in enumerate(counts):
        if n == 0:
            A = _slice_axis(A, axis=axis, begin=0, end=0)  # noqa: N806
    counts = tuple(n or 1 for n in counts)
    return _tile(A, reps=counts) if counts else _copy(A)


def resize(a: Any, new_shape: Any) -> ndarray:
    """Return an array of a new shape, filled with the elements in order, repeated if needed."""
    a = as_array(a, "resize")
    wanted = shape_in(new_shape)
    if min(wanted, default=0) < 0:
        raise ValueError_(f"resize: all elements of new_shape must be at least 0, got {wanted}")
    count = prod(wanted)
    if not a.size:
        return fill_array(wanted, 0, a)
    rows = np.arange(count) % a.size
    flat = a._reshape_view((a.size,))
    return _take(flat, from_host(rows, a.ctx))._reshape_view(wanted)


def flip(m: Any, axis: Any = None, out: Any = None) -> ndarray:
    """Return a copy with the elements in reverse order along axes; along all by default."""
    m = as_array(m, "flip")
    axes = tuple(range(m.ndim)) if axis is None else axes_in(axis, m.ndim, "flip")
    result = _reverse(m, axis=axes) if axes else _copy(m)
    return store(result, out, "flip")


def flipud(m: Any) -> ndarray:
    """Return a copy with axis 0 reversed."""
    return flip(m, 0)


def fliplr(m: Any) -> ndarray:
    """Return a copy with axis 1 reversed."""
    return flip(m, 1)


def roll(a: Any, shift: Any, axis: Any = None) -> ndarray:
    """Return a copy with elements shifted along axes; elements past the end come first.

    Parameters
    ----------
    a : ndarray
    shift : int or tuple of int
    axis : int, tuple of int, or None
        None rolls the flattened array.
    """
    a = as_array(a, "roll")
    if axis is None:
        flat = a._reshape_view((a.size,))
        return _roll_axis(flat, sum(np.atleast_1d(shift).tolist()), 0)._reshape_view(a.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
    result = a
    for by, along in np.broadcast(shifts, axes):
        result = _roll_axis(result, int(by), axis_in(along, a.ndim, "roll"))
    return _copy(a) if result is a else result


def _roll_axis(a: ndarray, by: int, axis: int) -> ndarray:
    length = a.shape[axis]
    by = by % length if length else 0
    if not by:
        return a
    at = length - by
    return _concat(part_along(a, axis, at, length), part_along(a, axis, 0, at), dim=axis)


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> ndarray:
    """Return a copy rotated ``k`` times by 90 degrees, from axes[0] towards axes[1]."""
    m = as_array(m, "rot90")
    if len(axes) != 2:
        raise ValueError_(f"rot90: axes must be 2 numbers, got {tuple(axes)}")
    one, other = axes_in(tuple(axes), m.ndim, "rot90")
    k %= 4
    if k == 0:
        return _copy(m)
    if k == 2:
        return flip(m, (one, other))
    if k == 1:
        return swapaxes(flip(m, other), one, other)
    return flip(swapaxes(m, one, other), other)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> ndarray:
    """Return a copy of the diagonals over two axes; the last axis holds the diagonal."""
    a = as_array(a, "diagonal")
    if a.ndim < 2:
        raise ValueError_(f"diagonal: array must have at least 2 dimensions, got {a.ndim}")
    one, other = axes_in((axis1, axis2), a.ndim, "diagonal")
    if -a.shape[one] < offset < a.shape[other]:
        return _diag(a, k=offset, axis1=one, axis2=other)
    rest = [axis for axis in range(a.ndim) if axis not in (one, other)]
    empty = _slice_axis(_transpose(a, axes=(*rest, one, other)), axis=-1, begin=0, end=0)
    return empty._reshape_view((*empty.shape[:-2], 0))


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, out: Any = None, dtype: Any = None
) -> ndarray:
    """Return the sum along the diagonals of two axes."""
    part = diagonal(a, offset, axis1, axis2)
    return store(_sum(part, axis=-1, dtype=dtype), out, "trace")


def diag(array: Any, k: int = 0) -> ndarray:
    """Return a matrix with a given vector as diagonal ``k``, or diagonal ``k`` of a matrix."""
    array = as_array(array, "diag")
    if array.ndim == 1:
        return _diag(array, k=operator.index(k))
    if array.ndim != 2:
        raise ValueError_(f"diag: input must be 1- or 2-d, got {array.ndim} dimensions")
    return diagonal(array, operator.index(k))


def diagflat(array: Any, k: int = 0) -> ndarray:
    """Return the matrix with the flattened array as diagonal ``k``."""
    array = as_array(array, "diagflat")
    return diag(array._reshape_view((array.size,)), k)


def _reshape_method(self: ndarray, *args: Any, **kwargs: Any) -> ndarray:
    """Return a copy in another shape, given as one tuple or as numbers."""
    order = kwargs.pop("order", "C")
    args = args or ((kwargs.pop("newshape"),) if "newshape" in kwargs else ())
    if kwargs:
        raise TypeError_(f"'{next(iter(kwargs))}' is an invalid keyword argument for this function")
    if not args:
        raise TypeError_("reshape() takes exactly 1 argument (0 given)")
    single = len(args) == 1 and isinstance(args[0], (tuple, list))
    return _reshape_in_order(self, args[0] if single else args, order)


def _transpose_method(self: ndarray, *axes: Any) -> ndarray:
    """Return a copy with permuted axes, given as one tuple or as numbers."""
    single = len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list)))
    return transpose(self, (axes[0] if single else axes) or None)


def _flatten_method(self: ndarray, order: str = "C") -> ndarray:
    """Return a copy with one dimension."""
    return ravel(self, order)


def _squeeze_method(self: ndarray, axis: Any = None) -> ndarray:
    """Return a copy without axes of length 1."""
    return squeeze(self, axis)


def _broadcast_to_method(self: ndarray, shape: Any) -> ndarray:
    """Return a copy with the values repeated to a shape."""
    return broadcast_to(self, shape)


attach(
    {
        "T": property(transpose),
        "mT": property(matrix_transpose),
        "broadcast_to": _broadcast_to_method,
        "diagonal": diagonal,
        "flatten": _flatten_method,
        "ravel": _flatten_method,
        "repeat": repeat,
        "reshape": _reshape_method,
        "squeeze": _squeeze_method,
        "swapaxes": swapaxes,
        "trace": trace,
        "transpose": _transpose_method,
    }
)
