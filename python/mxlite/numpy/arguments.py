"""Arguments of this package's functions: arrays, axes, common dtypes, ``out``."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import _core
from ..base import (
    AxisError,
    DTypeError,
    DynamicShapeError,
    IndexError_,
    ShapeError,
    TypeError_,
    ValueError_,
)
from ..ndarray import NDArray
from ..ndarray import indexing as plain
from ..ndarray.array_like import host_array
from ..ndarray.dtypes import dtype_name
from ..numpy_mode import is_np_default_dtype
from .ndarray import as_np_ndarray, ndarray

reshape_to = _core.op("_reshape_to")
_cast = _core.op("Cast")
_copy = _core.op("_copy")
_full = _core.op("_full")
_slice_axis = _core.op("slice_axis")

_REAL = frozenset(map(_core.dtype_type, ("float16", "float32", "float64", "bfloat16")))
DYNAMIC_SIZE = "the result's size depends on values"


def default_dtype(dtype: Any = None) -> Any:
    """Return a dtype; for None float32, or float64 after ``set_np(dtype=True)``."""
    if dtype is not None:
        return dtype
    return np.float64 if is_np_default_dtype() else np.float32


def from_host(values: Any, ctx: Any, dtype: Any = None) -> ndarray:
    """Return a new array with the values of an official NumPy array."""
    values = np.asarray(values)
    array = _core.array_from_numpy(values, ctx, values.dtype if dtype is None else dtype)
    return as_np_ndarray(array)


def fill_array(shape: tuple[int, ...], value: Any, like: NDArray) -> ndarray:
    """Return an array of one value with the dtype and on the device of another array."""
    array = _full(shape=shape, value=value, ctx=like.ctx, dtype=like.dtype)
    return as_np_ndarray(array)


def as_array(value: Any, who: str) -> ndarray:
    """Return an argument as array; numbers and lists become float32 arrays."""
    if isinstance(value, ndarray):
        return value
    if isinstance(value, NDArray):
        raise TypeError_(
            f"{who}: arrays must be mx.np arrays, got an mx.nd array; a.as_np_ndarray() converts it"
        )
    if isinstance(value, np.ndarray):
        raise TypeError_(
            f"{who}: arrays must be mx.np arrays, got a numpy.ndarray; mx.np.array(a) converts it"
        )
    values = host_array(value, who)
    return from_host(
        values, None, values.dtype if isinstance(value, np.generic) else default_dtype()
    )


def is_real(dtype: Any) -> bool:
    """Return whether a dtype is floating."""
    return _core.dtype_type(dtype) in _REAL


def as_real(x: Any) -> Any:
    """Return the array; integers and bools as float32. Numbers stay."""
    return _cast(x, dtype="float32") if isinstance(x, ndarray) and not is_real(x.dtype) else x


def real_array(value: Any, who: str) -> ndarray:
    """Return an argument as array of floats; integers and bools become float32."""
    return as_real(as_array(value, who))


def values_of(value: Any, who: str, why: str) -> np.ndarray[Any, Any]:
    """Return an argument as official array; raise DynamicShapeError while a graph is traced.

    The array may be a view of the argument, so results must not share its memory.
    """
    if isinstance(value, NDArray):
        refuse_traced(value, who, why)
        return value._host_view()
    return np.asarray(value)


def refuse_traced(array: NDArray, who: str, why: str) -> None:
    """Raise DynamicShapeError if the array is traced into a graph and so has no values.

    A hybridized block catches the error and runs operator by operator from then on.
    """
    if array._traced:
        raise DynamicShapeError(f"{who}: {why}, which a graph does not have while it is traced")


def check_bounds(indices: np.ndarray[Any, Any], axis: int, size: int, what: str = "index") -> None:
    """Raise IndexError if an index is out of bounds of an axis."""
    if indices.size and (indices.min() < -size or indices.max() >= size):
        bad = indices[(indices < -size) | (indices >= size)]
        raise IndexError_(
            f"{what} {int(bad.flat[0])} is out of bounds for axis {axis} with size {size}"
        )


def has_negative(indices: ndarray, axis: int, size: int, what: str = "index") -> bool:
    """Return whether one of an array of integers is negative.

    Raises IndexError if one is out of bounds of an axis.
    """
    if not indices.size:
        return False
    low, high = _core.extremes(indices)
    if low < -size or high >= size:
        check_bounds(indices._host_view(), axis, size, what)
    return low < 0


def axis_in(axis: Any, ndim: int, who: str) -> int:
    """Return an axis counted from the front."""
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise AxisError(f"{who}: axis {number} is out of bounds for array of dimension {ndim}")
    return number % ndim


def axes_in(axes: Any, ndim: int, who: str) -> tuple[int, ...]:
    """Return axes counted from the front; raise if one is given twice."""
    given = axes if isinstance(axes, (tuple, list)) else (axes,)
    found = tuple(axis_in(axis, ndim, who) for axis in given)
    if len(set(found)) != len(found):
        raise ValueError_(f"{who}: axes must be different, got {tuple(given)}")
    return found


def flatten_for(a: Any, axis: Any, who: str) -> tuple[ndarray, int]:
    """Return an array and its axis; for None, the flattened array and 0."""
    a = as_array(a, who)
    if axis is None:
        return a._reshape_view((a.size,)), 0
    return a, axis_in(axis, a.ndim, who)


def drop_axis_of_0d(a: ndarray, axis: Any) -> Any:
    """Return None for axis 0 or -1 of a 0-d array, as official NumPy allows, else the axis."""
    return None if not a.ndim and axis in (0, -1) else axis


def part_along(a: ndarray, axis: int, begin: int, end: int) -> ndarray:
    """Return positions along an axis as an operand: a view unless the slice must be recorded."""
    if not plain._is_viewable(a):
        return _slice_axis(a, axis=axis, begin=begin, end=end)
    shape = (*a.shape[:axis], end - begin, *a.shape[axis + 1 :])
    return a._strided_view(shape, a._strides, begin * a._strides[axis])


def shape_in(shape: Any) -> tuple[int, ...]:
    """Return a tuple for a shape that is given as a number or a sequence."""
    if isinstance(shape, (tuple, list, np.ndarray)):
        return tuple(operator.index(n) for n in shape)
    return (operator.index(shape),)


def common_dtype(dtypes: Iterable[Any]) -> Any:
    """Return the dtype to which arithmetic converts arrays of these dtypes."""
    return _core.promoted_dtype(*dtypes)


def promote(arrays: Sequence[ndarray]) -> Sequence[ndarray]:
    """Return the arrays in their common dtype."""
    first = arrays[0].dtype
    for a in arrays:
        if a.dtype is not first:
            break
    else:
        return arrays
    dtype = common_dtype(a.dtype for a in arrays)
    return [a if a.dtype == dtype else _cast(a, dtype=dtype) for a in arrays]


def in_type(a: ndarray, dtype: Any) -> ndarray:
    """Return the array in the dtype in which a mean with ``dtype=`` is computed.

    If ``dtype`` is narrower than the array's, only the result is converted to it.
    """
    a = as_real(a)
    if dtype is None or not is_real(dtype):
        return a
    return a.astype(common_dtype((a.dtype, dtype)), copy=False)  # type: ignore[return-value]


def out_type(result: Any, dtype: Any) -> Any:
    """Return a result in the dtype that ``dtype=`` asks for."""
    return result if dtype is None else result.astype(dtype, copy=False)


def broadcast_shape(shapes: Iterable[tuple[int, ...]], who: str) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast together."""
    given = list(shapes)
    if given and all(shape == given[0] for shape in given):
        return given[0]
    try:
        return np.broadcast_shapes(*given)
    except ValueError:
        text = " ".join(str(list(shape)).replace(" ", "") for shape in given)
        raise ShapeError(
            f"{who}: operands could not be broadcast together with shapes {text}"
        ) from None


def store(result: Any, out: Any, who: str) -> Any:
    """Write a result into ``out`` and return that; return the result if ``out`` is None.

    Raises TypeError if ``out`` is no array of numpy mode or of a lower kind than the result, or
    does not hold bools if the result does; ValueError if the shapes differ.
    """
    if out is None:
        return result
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if not isinstance(out, ndarray):
        raise TypeError_(f"{who}: out must be an mx.np array, got {type(out).__name__}")
    if out.shape != result.shape:
        raise ShapeError(f"{who}: out must have shape {result.shape}, got {out.shape}")
    if out.dtype != result.dtype:
        holds = np.can_cast(official(result.dtype), official(out.dtype), "same_kind")
        if not holds or result.dtype == np.bool_:
            raise DTypeError(
                f"{who}: out must have a dtype that holds {dtype_name(result.dtype)}, got "
                f"{dtype_name(out.dtype)}"
            )
        result = _cast(result, dtype=out.dtype)
    _copy(result, out=out)
    return out


def official(dtype: Any) -> Any:
    """Return a dtype that official NumPy has; float32 for bfloat16."""
    return np.float32 if dtype_name(dtype) == "bfloat16" else dtype


def set_name(function: Any, name: str, doc: str | None) -> Any:
    """Return a made function under its name and with its documentation."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function
