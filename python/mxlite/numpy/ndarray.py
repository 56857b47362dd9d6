"""The class ``mx.np.ndarray``, with the methods that no function of mx.np has as namesake."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as onp

from .. import _core
from ..base import MXNetError, ShapeError, TypeError_, ValueError_
from ..ndarray import NDArray
from ..ndarray.dtypes import dtype_name

__all__ = ["ndarray"]

_cast = _core.op("Cast")
_copy = _core.op("_copy")


class ndarray(NDArray):  # noqa: N801 - NumPy's name
    """Array with NumPy's semantics: ``mx.np.array`` and other functions of mx.np make it.

    Operators on such arrays return such arrays. ``as_nd_ndarray()`` gives an NDArray on the same
    memory.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    if TYPE_CHECKING:  # views of an array have its class

        def _reshape_view(self, shape: Any) -> ndarray: ...
        def _slice_view(self, begin: int, end: int, drop_axis: bool) -> ndarray: ...
        def _strided_view(self, shape: Any, strides: Any, offset: int) -> ndarray: ...
        def as_in_context(self, context: Any) -> ndarray: ...  # noqa: D102
        def detach(self) -> ndarray: ...  # noqa: D102
        def __getattr__(self, name: str) -> Any: ...  # the attached methods


def attach(methods: dict[str, Any]) -> None:
    """Set attributes of the class; each module of the package attaches its own methods."""
    for name, method in methods.items():
        setattr(ndarray, name, method)


_core.set_numpy_class(ndarray)


class _Absent:
    """A method of NDArray that arrays of numpy mode do not have, as in 1.x."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, array: Any, owner: Any = None) -> NoReturn:
        raise AttributeError(f"mxlite.numpy.ndarray object has no attribute {self.name}")


# Methods of NDArray that numpy mode has only as functions of mx.np or mx.npx, as in 1.x.
ABSENT = """
abs arccos arccosh arcsin arcsinh arctan arctanh argmax_channel asscalar broadcast_axes
broadcast_like cbrt ceil cos cosh degrees depth_to_space diag exp expand_dims expm1 fix flip floor
log log10 log1p log2 log_softmax nanprod nansum norm one_hot ones_like pad pick radians rcbrt
reciprocal relu reshape_like rint rsqrt shape_array sigmoid sign sin sinh size_array slice
slice_axis slice_like softmax softmin space_to_depth split split_v2 sqrt square tan tanh tile topk
tostype trunc zeros_like
""".split()


def as_np_ndarray(self: NDArray) -> ndarray:
    """Return an ``mx.np`` array on the same memory; gradients pass through."""
    return _core.with_numpy(self, True)  # type: ignore[return-value]


def _as_nd_ndarray(self: ndarray) -> NDArray:
    """Return an ``mx.nd`` array on the same memory; gradients pass through."""
    return _core.with_numpy(self, False)


def _only_value(self: ndarray, what: str) -> Any:
    """Return the value of an array with one element as an official scalar."""
    if self.size != 1:
        raise TypeError_(f"{what}: only size-1 arrays can be converted to Python scalars")
    return self.asnumpy().reshape(())[()]


def _item(self: ndarray, *args: Any) -> Any:
    """Return one element as a Python scalar: ``a.item()``, ``a.item(3)``, ``a.item(0, 1)``.

    Raises ValueError if no position is given and the array has more than one element.
    """
    if not args and self.size != 1:
        raise ValueError_("item: can only convert an array of size 1 to a Python scalar")
    return self.asnumpy().item(*args)


def _tolist(self: ndarray) -> Any:
    """Return the values as nested lists of Python scalars; a scalar for 0 dimensions."""
    return self.asnumpy().tolist()


def _astype(
    self: ndarray,
    dtype: Any,
    order: str = "K",
    casting: Any = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> ndarray:
    """Return a copy in another dtype; the array itself for ``copy=False`` and an equal dtype."""
    if order not in ("K", "C", "A"):
        raise ValueError_(f"astype: order must be 'C', 'A' or 'K', got {order!r}")
    wanted = _core.dtype_type(onp.float32 if dtype is None else dtype)
    if casting != "unsafe" and not onp.can_cast(self.dtype, wanted, casting):
        raise TypeError_(
            f"astype: Cannot cast array from {dtype_name(self.dtype)} to {dtype_name(wanted)} "
            f"according to the rule {casting!r}"
        )
    if not copy and self.dtype == wanted:
        return self
    return _cast(self, dtype=wanted)


def _bool(self: ndarray) -> bool:
    if self.size > 1:
        raise ValueError_(
            "The truth value of an ndarray with multiple elements is ambiguous. Use a.any() or "
            "a.all()"
        )
    return bool(self.size) and bool(self.asnumpy().reshape(())[()])


def _len(self: ndarray) -> int:
    if not self.ndim:
        raise TypeError_("len() of unsized object")
    return int(self.shape[0])


def _iter(self: ndarray) -> Iterator[ndarray]:
    if not self.ndim:
        raise TypeError_("iteration over a 0-d array")
    return (self[i] for i in range(self.shape[0]))  # type: ignore[misc]


def _contains(self: ndarray, value: Any) -> bool:
    equal = self == value
    return bool(equal.asnumpy().any())


def _index(self: ndarray) -> int:
    if self.size == 1 and onp.dtype(self.dtype).kind in "iu":
        return int(_only_value(self, "__index__"))
    raise TypeError_("only integer scalar arrays can be converted to a scalar index")


def _float(self: ndarray) -> float:
    return float(_only_value(self, "float"))


def _int(self: ndarray) -> int:
    return int(_only_value(self, "int"))


def _complex(self: ndarray) -> complex:
    return complex(_only_value(self, "complex"))


def _array(self: ndarray, dtype: Any = None, copy: Any = None) -> Any:
    if copy is False:
        raise ValueError_(
            "__array__: copy must be None or True because values are copied from the device, got "
            "False; use DLPack"
        )
    values = self.asnumpy()
    return values if dtype is None else values.astype(dtype, copy=False)


def _printed(self: ndarray) -> tuple[onp.ndarray[Any, Any], bool]:
    """Return values that official NumPy can print, and whether the array is bfloat16."""
    values = self.asnumpy()
    is_bfloat16 = dtype_name(self.dtype) == "bfloat16"
    return (values.astype(onp.float32) if is_bfloat16 else values), is_bfloat16


def _str(self: ndarray) -> str:
    if self._traced:
        return f"<mx.np.ndarray of shape {self.shape} @{self.ctx}, traced>"
    text = str(_printed(self)[0])
    return text if self.ctx.device_type.startswith("cpu") else f"{text} @{self.ctx}"


def _repr(self: ndarray) -> str:
    """Return NumPy's text; for a failed array its error, because `repr` must not raise."""
    if self._traced:
        return _str(self)
    try:
        values, is_bfloat16 = _printed(self)
    except MXNetError as error:
        return f"<mx.np.ndarray of shape {self.shape} @{self.ctx}, failed: {error}>"
    text = repr(values)
    if values.dtype == onp.float32:
        # Also removes a line break before the dtype, which NumPy adds if the line is too long.
        text = re.sub(r",\s+dtype=float32\)$", ", dtype=bfloat16)" if is_bfloat16 else ")", text)
    elif "dtype=" not in text and values.dtype != onp.bool_:
        text = f"{text[:-1]}, dtype={values.dtype})"
    if self.ctx.device_type.startswith("cpu"):
        return text
    return f"{text[:-1]}, ctx={self.ctx})"


def _format(self: ndarray, spec: str) -> str:
    """Format the number of an array of 0 dimensions: ``f"{loss:.3f}"``."""
    if not spec:
        return str(self)
    if self.ndim:
        raise TypeError_(
            f"format: the array must have 0 dimensions for the format {spec!r}, got shape "
            f"{self.shape}"
        )
    return format(self.asnumpy().item(), spec)


def _positive(self: ndarray) -> ndarray:
    return _copy(self)


def _itemsize(self: ndarray) -> int:
    """Bytes of one element."""
    return 2 if dtype_name(self.dtype) == "bfloat16" else onp.dtype(self.dtype).itemsize


def _nbytes(self: ndarray) -> int:
    """Bytes of all elements."""
    return _itemsize(self) * self.size


def _viewed(self: ndarray, *shape: Any) -> ndarray:
    """Return the array in another shape, sharing memory; one dimension may be -1."""
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    sizes = [operator.index(n) for n in given]
    if sizes.count(-1) == 1:
        known = math.prod(n for n in sizes if n != -1)
        sizes[sizes.index(-1)] = self.size // known if known else 0
    if math.prod(sizes) != self.size or min(sizes, default=0) < 0:
        raise ShapeError(
            f"reshape_view: Cannot reshape array of size {self.size} into shape {list(given)}"
        )
    return self._reshape_view(tuple(sizes))


def _to_device(self: ndarray, device: Any, /, *, stream: Any = None) -> ndarray:
    """Return the array on a device, or the array itself if it is on that device."""
    if stream is not None:
        raise ValueError_(
            f"to_device: stream must be None because mxlite orders copies itself, got {stream!r}"
        )
    return self.as_in_ctx(device)  # type: ignore[return-value]


def _dlpack(
    self: ndarray,
    *,
    stream: Any = None,
    max_version: Any = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """Return a DLPack capsule of the array's memory, or of a copy's.

    The values are computed before it returns, so any stream may read them. Raises BufferError if
    ``dl_device`` is another device than the array's.
    """
    device = self.__dlpack_device__()
    if dl_device is not None and tuple(map(int, dl_device)) != device:
        raise BufferError(f"__dlpack__: dl_device must be {device}, got {dl_device}")
    return _plain_dlpack(_copy(self) if copy else self)


def _grad(self: ndarray) -> ndarray | None:
    """The gradient buffer; None before ``attach_grad`` and for ``grad_req='null'``."""
    return _plain_grad.__get__(self) if self._grad_req else None


_plain_dlpack: Any = NDArray.__dlpack__
_plain_grad = NDArray.grad
setattr(NDArray, "as_np_ndarray", as_np_ndarray)  # noqa: B010 - mypy knows methods

for _name in ABSENT:
    _method = _Absent()
    _method.__set_name__(ndarray, _name)
    setattr(ndarray, _name, _method)

attach(
    {
        "__array__": _array,
        "__bool__": _bool,
        "__complex__": _complex,
        "__contains__": _contains,
        "__dlpack__": _dlpack,
        "__float__": _float,
        "__format__": _format,
        "__index__": _index,
        "__int__": _int,
        "__iter__": _iter,
        "__len__": _len,
        "__pos__": _positive,
        "__repr__": _repr,
        "__str__": _str,
        "as_nd_ndarray": _as_nd_ndarray,
        "as_np_ndarray": as_np_ndarray,
        "astype": _astype,
        "grad": property(_grad),
        "dtype": NDArray._numpy_dtype,
        "item": _item,
        "itemsize": property(_itemsize),
        "nbytes": property(_nbytes),
        "reshape_view": _viewed,
        "to_device": _to_device,
        "tolist": _tolist,
    }
)
