"""Creation of arrays: ``mx.nd.array``, ``zeros``, ``arange``, ... (MXNet 1.x names)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._core import NDArray
from ..base import AxisError, NotSupportedError, TypeError_, ValueError_
from . import sparse
from .array_like import host_array

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .call_types import CallOptions, ContextLike, ShapeLike

__all__ = [
    "arange",
    "array",
    "concatenate",
    "empty",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "linspace",
    "moveaxis",
    "ones",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
    "zeros",
]

_zeros = _core.op("_zeros")
_ones = _core.op("_ones")
_full = _core.op("_full")
_arange = _core.op("_arange")
_linspace = _core.op("_linspace")
_eye = _core.op("_eye")


def array(source_array: Any, ctx: ContextLike = None, dtype: Any = None) -> NDArray:
    """Return a new array with the values of an array-like.

    Parameters
    ----------
    source_array : array_like
        An NDArray, NumPy array, number, nested list of numbers or arrays, or an object with
        ``__array__``, ``__dlpack__`` or the buffer protocol, as those of pandas and PyTorch. The
        result is sparse for a sparse array or a ``scipy.sparse`` matrix.
    ctx : Context, optional
        Default: the current context.
    dtype : dtype, optional
        Default: the source's dtype for an NDArray, float32 for all other sources.

    Raises
    ------
    TypeError
        If the values are not a rectangular array of numbers.
    """
    if isinstance(source_array, NDArray):
        if _core.array_kind(source_array) == "sparse":
            return sparse.array(source_array, ctx=ctx, dtype=dtype)
        result = _core.empty(source_array.shape, ctx, dtype or source_array.dtype)
        source_array.copyto(result)
        return result
    if type(source_array).__module__.startswith("scipy.sparse"):
        return sparse.array(source_array, ctx=ctx, dtype=dtype)
    if source_array is None:  # NumPy would convert it to NaN
        raise TypeError_("array: source must be a rectangular array of numbers, got None")
    values = host_array(source_array, "array", dtype)
    if dtype is None:  # as in 1.x, for any dtype of the source
        dtype = values.dtype if values.dtype.kind == "V" else np.float32
    return _core.array_from_numpy(values, ctx, dtype)


def empty(
    shape: ShapeLike, ctx: ContextLike = None, dtype: Any = None, stype: str | None = None
) -> NDArray:
    """Return an array with uninitialized values."""
    if stype not in (None, "default"):
        return sparse.empty(stype, shape, ctx, dtype)
    return _core.empty(shape, ctx, dtype)


def zeros(
    shape: ShapeLike,
    ctx: ContextLike = None,
    dtype: Any = None,
    stype: str | None = None,
    **kwargs: Unpack[CallOptions],
) -> NDArray:
    """Return an array of zeros (float32 by default)."""
    if stype not in (None, "default"):
        return sparse.zeros(stype, shape, ctx, dtype, **kwargs)
    if shape is None:  # for None, the operator would use its default
        raise _no_shape("zeros")
    return _zeros(shape=shape, ctx=ctx, dtype=dtype, **kwargs)


def _no_shape(who: str) -> TypeError:
    return TypeError_(f"{who}: shape must be an int or a tuple of ints, got None")


def ones(
    shape: ShapeLike, ctx: ContextLike = None, dtype: Any = None, **kwargs: Unpack[CallOptions]
) -> NDArray:
    """Return an array of ones (float32 by default)."""
    if shape is None:
        raise _no_shape("ones")
    return _ones(shape=shape, ctx=ctx, dtype=dtype, **kwargs)


def full(
    shape: ShapeLike,
    val: Any,
    ctx: ContextLike = None,
    dtype: Any = None,
    out: NDArray | None = None,
) -> NDArray:
    """Return an array filled with one value, or with a broadcast array (float32 by default)."""
    if shape is None:
        raise _no_shape("full")
    if not np.isscalar(val):
        filled = _core.empty(shape, ctx, dtype) if out is None else out
        filled[:] = val
        return filled
    return _full(shape=shape, value=val, ctx=ctx, dtype=dtype, out=out)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: Any = None,
    ctx: ContextLike = None,
    dtype: Any = "float32",
) -> NDArray:
    """Return evenly spaced values in [start, stop), each ``repeat`` times."""
    if stop is None:
        start, stop = 0, start
    return _arange(start=start, stop=stop, step=step, repeat=repeat, ctx=ctx, dtype=dtype)


def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    ctx: ContextLike = None,
    dtype: Any = "float32",
) -> NDArray:
    """Return num evenly spaced values from start to stop."""
    return _linspace(start=start, stop=stop, num=num, endpoint=endpoint, ctx=ctx, dtype=dtype)


def eye(
    N: int, M: int = 0, k: int = 0, ctx: ContextLike = None, dtype: Any = None, **kw: Any
) -> NDArray:
    """Return a matrix with ones on the k-th diagonal; square if M is 0."""
    return _eye(N=N, M=M, k=k, ctx=ctx, dtype=dtype, **kw)


def concatenate(arrays: list[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Join arrays along an existing axis.

    Raises ValueError if no array is given or the shapes do not fit.
    """
    if not arrays:
        raise ValueError_("concatenate: the number of arrays must be at least 1, got 0")
    if not always_copy and len(arrays) == 1:
        return arrays[0]
    return _core.op("Concat")(*arrays, dim=axis)


def moveaxis(tensor: NDArray, source: Any, destination: Any) -> NDArray:
    """Move axes to new positions, with the errors of NumPy's moveaxis."""
    sources = [source] if isinstance(source, int) else list(source)
    targets = [destination] if isinstance(destination, int) else list(destination)
    if len(sources) != len(targets):
        raise ValueError_(
            f"moveaxis: the number of destinations must be that of source axes, {len(sources)}, "
            f"got {len(targets)}"
        )
    ndim = tensor.ndim
    sources = [_axis(a, ndim) for a in sources]
    targets = [_axis(a, ndim) for a in targets]
    if len(set(sources)) < len(sources) or len(set(targets)) < len(targets):
        raise ValueError_(f"moveaxis: repeated axis in {source} or {destination}")
    order = [a for a in range(ndim) if a not in sources]
    for target, axis in sorted(zip(targets, sources)):
        order.insert(target, axis)
    return _core.op("transpose")(tensor, axes=tuple(order))


def _axis(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise AxisError(f"moveaxis: axis {axis} is out of range for {ndim} dimensions")
    return axis % ndim


def _owner_of(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array that owns the memory of a view."""
    while isinstance(values.base, np.ndarray):
        values = values.base
    return values


def from_numpy(
    ndarray: np.ndarray[Any, Any], zero_copy: bool = True, array_cls: type[NDArray] = NDArray
) -> NDArray:
    """Return an array with a NumPy array's values.

    Parameters
    ----------
    ndarray : numpy.ndarray
    zero_copy : bool
        Share the memory; the NumPy array becomes read-only, as in 1.x. Read-only memory that
        no NumPy array owns, such as ``bytes`` or a mapped file, is copied.
    array_cls : type
        Must be NDArray; in 1.x it may be the array class of ``mx.np``.

    Raises
    ------
    NotSupportedError
        For another array_cls.
    TypeError
        If the memory is to be shared and the values are not real numbers in the machine's byte
        order.
    ValueError
        If the memory is to be shared and is not in C order.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError_(
            f"from_numpy: ndarray must be a numpy.ndarray, got {type(ndarray).__name__}; array() "
            "takes others"
        )
    if array_cls is not NDArray:
        raise NotSupportedError(f"from_numpy: array_cls must be NDArray, got {array_cls.__name__}")
    if not zero_copy:
        return array(ndarray, dtype=host_array(ndarray, "from_numpy").dtype)
    if not ndarray.flags["C_CONTIGUOUS"]:
        raise ValueError_("from_numpy: zero_copy needs a C-contiguous array")
    if not (ndarray.flags.writeable or _owner_of(ndarray).flags.owndata):
        return from_numpy(ndarray, zero_copy=False)  # memory of a file or of bytes is read-only
    result = _core.from_numpy(ndarray)
    ndarray.flags["WRITEABLE"] = False
    return result


def from_dlpack(dlpack: Any) -> NDArray:
    """Return an array on the memory of a DLPack capsule or of an object with ``__dlpack__``."""
    if hasattr(dlpack, "__dlpack__"):
        dlpack = dlpack.__dlpack__()
    return _core.from_dlpack(dlpack)


def to_dlpack_for_read(data: NDArray) -> Any:
    """Return a DLPack capsule of the array once its value is computed."""
    data.wait_to_read()
    return data.__dlpack__()


def to_dlpack_for_write(data: NDArray) -> Any:
    """Return a DLPack capsule of the array once its memory is not in use."""
    data.wait_to_write()
    return data.__dlpack__()
