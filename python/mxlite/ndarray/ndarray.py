"""Methods of NDArray that are not operators: conversion, shapes, printing, pickling."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, Callable

import numpy as np

from .. import _core
from .._core import NDArray
from .._html import table
from ..base import (
    AxisError,
    IndexError_,
    MXNetError,
    ShapeError,
    TypeError_,
    ValueError_,
    missing_attribute,
    shape_tuple,
)
from .functions import split_v2
from .serialization import array_from_blob, dtype_name, load_frombuffer, save_tobuffer
from .sparse import BaseSparseNDArray, cast_storage

__all__ = ["NDArray", "waitall"]

waitall = _core.waitall
py_slice = slice  # packages import the builtin by this name of 1.x, which mx.nd.slice hides

# Tables of dtype codes that other packages import from this module, as in 1.x.
_DTYPE_MX_TO_NP = {
    -1: None,
    0: np.float32,
    1: np.float64,
    2: np.float16,
    3: np.uint8,
    4: np.int32,
    5: np.int8,
    6: np.int64,
    7: np.bool_,
}
_DTYPE_NP_TO_MX = {dtype: code for code, dtype in _DTYPE_MX_TO_NP.items()}
_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}
_STORAGE_TYPE_STR_TO_ID = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}
_STORAGE_TYPE_ID_TO_STR = {code: name for name, code in _STORAGE_TYPE_STR_TO_ID.items()}

_cast = _core.op("Cast")
_negative = _core.op("negative")


def _asscalar(self: NDArray) -> float | Any:
    """Return the value of an array with one element as a NumPy scalar."""
    if self.size != 1:
        raise ValueError_(
            f"asscalar: the array must have exactly one element, got shape {self.shape}"
        )
    return self.asnumpy().reshape(-1)[0]


def _astype(self: NDArray, dtype: Any, copy: bool = True) -> NDArray:
    """Return the values in another dtype; the array itself if not copy and dtypes are equal."""
    if isinstance(dtype, (NDArray, np.ndarray)):  # as in NumPy, an array stands for its dtype
        dtype = dtype.dtype
    if not copy and self.dtype == _core.dtype_type(dtype):
        return self
    return _cast(self, dtype=dtype)


def _as_in_context(self: NDArray, context: Any) -> NDArray:
    """Return the array on a device, or the array itself if it is on that device."""
    if self._traced or self.ctx == context:
        return self
    return _copyto(self, context)


_plain_copyto = NDArray.copyto


def _copyto(self: NDArray, other: Any) -> NDArray:
    """Copy to an array (converting its type) or to a context; gradients flow back."""
    if other is self:
        return self
    copy = _plain_copyto(self, other)
    if not _core.is_recording() or isinstance(other, BaseSparseNDArray):
        return copy
    home, dtype = self.ctx, self.dtype

    def returned(grads: list[NDArray | None]) -> list[NDArray | None]:
        return [g if g is None else _astype(_as_in_context(g, home), dtype, False) for g in grads]

    _core.record_function(returned, "_copyto", [self], [copy])
    return copy


def _copy(self: NDArray) -> NDArray:
    """Return a copy on the same device."""
    return _core.op("_copy")(self)


def _reshape_method(self: NDArray, *shape: Any, **kwargs: Any) -> NDArray:
    """Return the array in another shape, sharing memory.

    Codes of 1.x: 0 keeps a dimension, -1 is inferred, -2 copies the rest, -3 joins two, -4 splits
    one into the next two numbers; reverse=True matches from the right.
    """
    if len(shape) == 1 or not shape:
        given = shape[0] if shape else kwargs.pop("shape", ())
        plain = isinstance(given, (tuple, list))
        shape = tuple(given) if plain else shape_tuple(given, "reshape: shape")
    reverse = kwargs.pop("reverse", False)
    if kwargs:
        raise TypeError_(f"reshape() got an unexpected keyword argument '{next(iter(kwargs))}'")
    return self._reshape_view(_core.infer_reshape(self.shape, shape, bool(reverse)))


def _matmul(self: NDArray, other: Any) -> NDArray:
    """Return the matrix product, ``a @ b``; of stacks of matrices with equal leading axes."""
    if not isinstance(other, NDArray):
        return NotImplemented
    if self.ndim <= 2 and other.ndim <= 2:
        return _core.op("dot")(self, other)
    if self.ndim != other.ndim or self.shape[:-2] != other.shape[:-2]:
        raise ShapeError(
            "@: shapes must be equal except for their last two axes, got "
            f"{self.shape} and {other.shape}; use nd.broadcast_to, or nd.dot for other products"
        )
    left, right = (a.reshape((-1, *a.shape[-2:])) for a in (self, other))
    product = _core.op("batch_dot")(left, right)
    return product.reshape((*self.shape[:-1], other.shape[-1]))


def _expand_dims(self: NDArray, axis: int, inplace: bool = False) -> NDArray:
    """Return the array with a dimension of 1 inserted; inplace: sharing memory."""
    if not inplace:
        return _core.op("expand_dims")(self, axis=axis)
    ndim = self.ndim + 1
    if not -ndim <= axis < ndim:
        raise IndexError_(f"expand_dims: axis {axis} is out of range for {ndim} dimensions")
    at = axis % ndim
    return self._reshape_view(self.shape[:at] + (1,) + self.shape[at:])


def _flatten(self: NDArray, inplace: bool = False) -> NDArray:
    """Return the array with all but the first dimension joined; inplace: sharing memory."""
    if not inplace:
        return _core.op("Flatten")(self)
    rows = self.shape[0]
    return self._reshape_view((rows, self.size // rows if rows else 0))


def _squeeze(self: NDArray, axis: Any = None, inplace: bool = False) -> NDArray:
    """Return the array without dimensions of 1; inplace: sharing memory."""
    if not inplace:
        return _core.op("squeeze")(self, axis=axis)
    ndim = self.ndim
    wanted = (axis,) if isinstance(axis, int) else axis
    if wanted is None:
        wanted = [i for i, size in enumerate(self.shape) if size == 1]
    gone = set()
    for at in wanted:
        if not -ndim <= at < ndim:
            raise AxisError(f"squeeze: axis {at} is out of range for {ndim} dimensions")
        if self.shape[at] != 1:
            raise ValueError_(f"squeeze: axis {at} must have size 1, got shape {self.shape}")
        gone.add(at % ndim)
    # As in 1.x, at least one dimension remains.
    return self._reshape_view(tuple(s for i, s in enumerate(self.shape) if i not in gone) or (1,))


def _to_dlpack_for_read(self: NDArray) -> Any:
    """Return a DLPack capsule of the array once its value is computed."""
    self.wait_to_read()
    return self.__dlpack__()


def _to_dlpack_for_write(self: NDArray) -> Any:
    """Return a DLPack capsule of the array once its memory is not in use."""
    self.wait_to_write()
    return self.__dlpack__()


def _split_v2_method(
    self: NDArray, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False
) -> Any:
    """Return the parts of the array along an axis; see ``mx.nd.split_v2``."""
    return split_v2(self, indices_or_sections, axis, squeeze_axis)


def _as_nd_ndarray(self: NDArray) -> NDArray:
    """Return the array itself, because it is not an ``mx.np`` array."""
    return self


def _transposed(self: NDArray) -> NDArray:
    """The transpose (dimensions reversed)."""
    return self if self.ndim < 2 else _core.op("transpose")(self)


def _broadcast_to(self: NDArray, shape: Any) -> NDArray:
    """Return the values repeated to a shape; size-1 dimensions and missing leading ones expand."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    missing = len(shape) - self.ndim
    source = self._reshape_view((1,) * missing + self.shape) if missing > 0 else self
    return _core.op("broadcast_to")(source, shape=shape)


def _tostype(self: NDArray, stype: str) -> NDArray:
    """Return the array in a storage type: 'default', 'row_sparse' or 'csr'."""
    return cast_storage(self, stype)


def _slice_assign(self: NDArray, rhs: NDArray, begin: Any, end: Any, step: Any = None) -> NDArray:
    """Return a copy in which a slice is replaced by rhs."""
    return _core.op("_slice_assign")(self, rhs, begin=begin, end=end, step=step or ())


def _slice_assign_scalar(
    self: NDArray, value: float, begin: Any, end: Any, step: Any = None
) -> NDArray:
    """Return a copy in which a slice is filled with a number."""
    return _core.op("_slice_assign_scalar")(
        self, scalar=value, begin=begin, end=end, step=step or ()
    )


def _bool(self: NDArray) -> bool:
    if self.size == 1:
        return bool(self.asscalar())
    if self.size == 0:
        return False
    raise ValueError_(
        f"The truth value of an NDArray with shape {self.shape} is ambiguous; it needs exactly one "
        "element"
    )


def _len(self: NDArray) -> int:
    if not self.ndim:
        raise TypeError_("len() of an array with 0 dimensions")
    return int(self.shape[0])


def _iter(self: NDArray) -> Iterator[NDArray]:
    for i in range(len(self)):
        yield self[i]


def _to_numpy(self: NDArray, dtype: Any = None, copy: Any = None) -> Any:
    values = self.asnumpy()
    return values if dtype is None else values.astype(dtype)


# NumPy's ufuncs, each with the operator that implements it.
_UFUNC_OPERATORS: dict[Any, Callable[[Any, Any], Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
    np.remainder: operator.mod,
    np.power: operator.pow,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.less: operator.lt,
    np.less_equal: operator.le,
}


def _array_ufunc(self: NDArray, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Implement NumPy's ufuncs: ``np.float32(2) * array`` is an NDArray, ``np.isnan`` is not."""
    function = _UFUNC_OPERATORS.get(ufunc) if method == "__call__" and not kwargs else None
    if function is not None:
        if any(isinstance(x, np.ndarray) and x.ndim for x in inputs):
            kinds = " and ".join(type(x).__name__ for x in inputs)
            raise TypeError_(
                f"{ufunc.__name__}: operands must be arrays of one kind, got types {kinds}; "
                "convert with mx.nd.array(...) or asnumpy()"
            )
        return function(
            *(x.item() if isinstance(x, (np.generic, np.ndarray)) else x for x in inputs)
        )
    if any(isinstance(out, NDArray) for out in kwargs.get("out", ())):
        raise TypeError_(f"{ufunc.__name__}: out must be a NumPy array, got an NDArray")
    arrays = [x.asnumpy() if isinstance(x, NDArray) else x for x in inputs]
    return getattr(ufunc, method)(*arrays, **kwargs)


def _str(self: NDArray) -> str:
    about = "x".join(str(d) for d in self.shape)
    is_bfloat16 = dtype_name(self.dtype) == "bfloat16"
    if is_bfloat16:
        about += " bfloat16"
    if self._traced:
        return f"<NDArray {about} @{self.ctx}, traced>"
    values = self.asnumpy()
    # Prints bfloat16 as float32, because NumPy cannot format it. Its values have only three
    # significant digits.
    text = np.array2string(values.astype("float32"), precision=4) if is_bfloat16 else str(values)
    return f"\n{text}\n<NDArray {about} @{self.ctx}>"


def _repr(self: NDArray) -> str:
    """Return the text of `str`, or for a failed array its error, because `repr` must not raise."""
    try:
        return _str(self)
    except MXNetError as error:
        shape = "x".join(str(d) for d in self.shape)
        return f"<NDArray {shape} @{self.ctx}, failed: {error}>"


def _repr_html(self: NDArray) -> str:
    """Return shape, type and device as a table for notebooks, with the text of `repr` below."""
    dtype = dtype_name(self.dtype)
    rows = [[type(self).__name__, tuple(self.shape), dtype, self.ctx]]
    return table(["class", "shape", "dtype", "device"], rows, repr(self).strip())


def _neg(self: NDArray) -> NDArray:
    return _negative(self)


def _from_blob(blob: bytes, numpy: bool = False) -> NDArray:
    arrays = load_frombuffer(blob)
    assert isinstance(arrays, list)
    return _core.with_numpy(arrays[0], True) if numpy else arrays[0]


def _reduce(self: NDArray) -> Any:
    return _from_blob, (save_tobuffer([self]), *((True,) if self._numpy else ()))


def _deepcopy(self: NDArray, memo: dict[int, Any]) -> NDArray:
    return self.copy()


def _index(self: NDArray) -> int:
    if self.size == 1 and np.dtype(self.dtype).kind in "iu":
        return int(self.asscalar())
    raise TypeError_(
        f"only integer arrays with one element can be an index, {dtype_name(self.dtype)}"
        f"{self.shape} given"
    )


def _format(self: NDArray, spec: str) -> str:
    """Format the single number of an array of one element: ``f"{loss:.3f}"``."""
    if not spec:
        return str(self)
    if self.size != 1:
        raise TypeError_(
            f"format: with the format {spec!r}, the array must have one element, got shape "
            f"{self.shape}; format the values of asnumpy()"
        )
    return format(self.asnumpy().item(), spec)


def _float(self: NDArray) -> float:
    return float(self.asscalar())


def _int(self: NDArray) -> int:
    return int(self.asscalar())


_fresh_grad_of = NDArray._fresh_grad


def _set_fresh_grad(self: NDArray, fresh: bool) -> None:
    self._set_fresh_grad(bool(fresh))


def _setstate(self: NDArray, state: dict[str, Any]) -> None:
    """Restore an array from a pickle of MXNet 1.x; arrays of a GPU are loaded to the CPU."""
    array = array_from_blob(state["handle"] or b"")
    if array is None:
        raise ValueError_("NDArray: the pickle must hold a value, got an array without value")
    self._assign_handle(array)


def _setstate_sparse(self: BaseSparseNDArray, state: dict[str, Any]) -> None:
    """Restore an array from a pickle of MXNet 1.x: ``{'handle': bytes}``."""
    array = array_from_blob(state["handle"] or b"")
    if type(array) is not type(self):
        raise ValueError_(f"{type(self).__name__}: the pickle holds no array of this type")
    _core.assign_sparse_handle(self, array)


def attach(methods: dict[str, Any]) -> None:
    """Set attributes of the class NDArray, from which its stub is generated."""
    for name, method in methods.items():
        setattr(NDArray, name, method)


attach(
    {
        "asscalar": _asscalar,
        "astype": _astype,
        "as_in_context": _as_in_context,
        "as_in_ctx": _as_in_context,
        "copyto": _copyto,
        "copy": _copy,
        "reshape": _reshape_method,
        "expand_dims": _expand_dims,
        "flatten": _flatten,
        "split_v2": _split_v2_method,
        "to_dlpack_for_read": _to_dlpack_for_read,
        "to_dlpack_for_write": _to_dlpack_for_write,
        "as_nd_ndarray": _as_nd_ndarray,
        "T": property(_transposed),
        "_fresh_grad": property(_fresh_grad_of.__get__, _set_fresh_grad),
        "broadcast_to": _broadcast_to,
        "tostype": _tostype,
        "slice_assign": _slice_assign,
        "slice_assign_scalar": _slice_assign_scalar,
        "__bool__": _bool,
        "__len__": _len,
        "__iter__": _iter,
        "__array__": _to_numpy,
        "__array_ufunc__": _array_ufunc,
        "__repr__": _repr,
        "_repr_html_": _repr_html,
        "__str__": _str,
        "__neg__": _neg,
        "__matmul__": _matmul,
        "__getattr__": missing_attribute,
        "__abs__": _core.op("abs"),
        "__reduce__": _reduce,
        "__setstate__": _setstate,
        "__copy__": _copy,
        "__deepcopy__": _deepcopy,
        "__index__": _index,
        "__float__": _float,
        "__format__": _format,
        "__int__": _int,
        "__array_priority__": 1000.0,
        "writable": True,
    }
)
setattr(BaseSparseNDArray, "__setstate__", _setstate_sparse)  # noqa: B010 - mypy knows methods
