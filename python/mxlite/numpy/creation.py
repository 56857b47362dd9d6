"""Functions that make arrays: ``zeros``, ``arange``, ``eye``, ..."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as onp

from .. import _core
from .. import ndarray as nd
from ..base import NotSupportedError, TypeError_, ValueError_
from ..ndarray import NDArray
from ..ndarray.array_like import host_array
from .arguments import as_array, default_dtype, is_real, set_name
from .manipulation import broadcast_to
from .ndarray import as_np_ndarray, attach, ndarray

__all__ = [
    "arange", "array", "asarray", "ascontiguousarray", "copy", "empty", "empty_like", "eye",
    "from_dlpack", "full", "full_like", "genfromtxt", "identity", "linspace", "logspace", "ones",
    "ones_like", "zeros", "zeros_like",
]  # fmt: skip

_arange = _core.op("_arange")
_cast = _core.op("Cast")
_copy = _core.op("_copy")
_eye = _core.op("_eye")
_full = _core.op("_full")
_linspace = _core.op("_linspace")
_ones = _core.op("_ones")
_zeros = _core.op("_zeros")


def _check_memory_order(order: str, who: str) -> None:
    """Raise unless order is C or K. K equals C here, because all arrays are in C order."""
    if order not in ("C", "K"):
        raise NotSupportedError(f"{who}: order must be 'C' or 'K', got {order!r}")


def shape_of(shape: Any, who: str) -> tuple[int, ...]:
    if type(shape) is tuple and (not shape or min(shape) >= 0):
        return shape  # the operator checks the types of the dimensions
    given: Any = shape.asnumpy().tolist() if isinstance(shape, ndarray) else shape
    try:
        sizes = tuple(operator.index(n) for n in given) if hasattr(given, "__iter__") else None
        sizes = (operator.index(given),) if sizes is None else sizes
    except TypeError:
        raise TypeError_(f"{who}: shape must be an int or a tuple of ints, got {shape!r}") from None
    if any(n < 0 for n in sizes):
        raise ValueError_(f"{who}: dimensions must be at least 0, got shape {sizes}")
    return sizes


def device_of(ctx: Any, device: Any) -> Any:
    return device if ctx is None else ctx


def array(
    object: Any, dtype: Any = None, order: str = "C", ctx: Any = None, *, device: Any = None
) -> ndarray:
    """Return a new array with the values of an array-like.

    Parameters
    ----------
    object : array_like
        An mx.np array, official NumPy array, number, or nested list of these.
    dtype : dtype, optional
        Default: the dtype of an array; float32 for numbers and lists, also of ints and bools.
    order : str
        Must be 'C', or 'K', which means 'C' here.
    ctx, device : Context, optional
        Default: the current context.

    Raises
    ------
    ValueError
        For an mx.nd array, which ``as_np_ndarray()`` converts.
    TypeError
        If the values are not a rectangular array of numbers.
    """
    _check_memory_order(order, "array")
    ctx = device_of(ctx, device)
    if isinstance(object, ndarray):
        return _copy_values(object, dtype, ctx)
    if isinstance(object, NDArray):
        raise ValueError_(
            "array: object must be an array-like or mx.np array, got an mx.nd.NDArray; convert it "
            "with as_np_ndarray()"
        )
    if object is None:
        raise TypeError_("array: object must be a rectangular array of numbers, got None")
    if dtype is None:
        dtype = object.dtype if isinstance(object, (onp.ndarray, onp.generic)) else default_dtype()
    return as_np_ndarray(_core.array_from_numpy(_host_values(object, dtype), ctx, dtype))


def _host_values(source: Any, dtype: Any) -> onp.ndarray[Any, Any]:
    if isinstance(source, (list, tuple)):
        source = with_host_arrays(source)
    try:
        return host_array(source, "array", dtype)
    except TypeError as error:
        if "inhomogeneous" in str(error):
            raise TypeError_(
                f"array: object must be rectangular, got an inhomogeneous shape: {error}"
            ) from error
        raise


def with_host_arrays(values: Any) -> Any:
    """Return a nested list in which official arrays replace those of mx.np."""
    if isinstance(values, ndarray):
        return values.asnumpy()
    if isinstance(values, (list, tuple)):
        kinds = set(map(type, values))  # avoids a slow loop over a list that has only numbers
        if any(issubclass(kind, (list, tuple, ndarray)) for kind in kinds):
            return [with_host_arrays(value) for value in values]
    return values


def _copy_values(a: ndarray, dtype: Any, ctx: Any) -> ndarray:
    moved = a if ctx is None else a.as_in_ctx(ctx)
    if dtype is not None and a.dtype != _core.dtype_type(dtype):
        return _cast(moved, dtype=dtype)
    return _copy(a) if moved is a else moved  # type: ignore[return-value]


def asarray(
    obj: Any,
    dtype: Any = None,
    order: str = "C",
    *,
    copy: bool | None = None,
    ctx: Any = None,
    device: Any = None,
) -> ndarray:
    """Return the object itself if it is an mx.np array of that dtype and context, else a new array.

    ``copy=True`` always copies. ``copy=False`` raises ValueError if the object has to be copied.
    The other parameters and errors are those of :func:`array`.
    """
    ctx = device_of(ctx, device)
    if isinstance(obj, ndarray) and not copy:
        same = dtype is None or obj.dtype == _core.dtype_type(dtype)
        if same and (ctx is None or obj.ctx == ctx):
            return obj
    if copy is False:
        raise ValueError_(
            "asarray: copy must be None or True because this object has to be copied, got False"
        )
    return array(obj, dtype, order, ctx)


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    """Return the object as an array of at least one dimension."""
    result = asarray(a, dtype)
    return result if result.ndim else result.reshape(1)  # type: ignore[return-value]


def from_dlpack(x: Any) -> ndarray:
    """Return an array on the memory of a DLPack capsule or of an object with ``__dlpack__``."""
    return as_np_ndarray(nd.from_dlpack(x))


def copy(a: Any, out: ndarray | None = None, *, order: str = "K") -> ndarray:
    """Return a copy of an array, or a new array of another array-like; order: 'C' or 'K'."""
    _check_memory_order(order, "copy")
    if not isinstance(a, ndarray):
        return array(a)
    return _copy(a, out=out)


def _maker(name: str, op: Any, doc: str) -> Any:
    def make(
        shape: Any,
        dtype: Any = None,
        order: str = "C",
        ctx: Any = None,
        *,
        device: Any = None,
    ) -> ndarray:
        _check_memory_order(order, name)
        sizes, dtype = shape_of(shape, name), default_dtype(dtype)
        return as_np_ndarray(op(shape=sizes, ctx=device_of(ctx, device), dtype=dtype))

    return set_name(make, name, doc)


def _uninitialized(shape: Any, ctx: Any, dtype: Any) -> NDArray:
    return _core.empty(shape, ctx, dtype)


zeros = _maker("zeros", _zeros, "Return an array of zeros (float32 by default).")
ones = _maker("ones", _ones, "Return an array of ones (float32 by default).")
empty = _maker("empty", _uninitialized, "Return an array of unset values (float32 by default).")


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "C",
    ctx: Any = None,
    out: ndarray | None = None,
    *,
    device: Any = None,
) -> ndarray:
    """Return an array filled with one value or with broadcast values.

    Parameters
    ----------
    shape : int or tuple of int
    fill_value : number or array_like
        An array or a list is broadcast to the shape.
    dtype : dtype, optional
        Default: bool for a bool, the array's dtype for an array, else float32.
    order : str
        Must be 'C'.
    ctx, device : Context, optional
        Default: the current context.
    out : ndarray, optional
        Array into which the values are written.

    Raises
    ------
    ValueError
        If a dimension is negative, or ``fill_value`` cannot be broadcast.
    """
    _check_memory_order(order, "full")
    ctx = device_of(ctx, device)
    sizes = shape_of(shape, "full")
    if isinstance(fill_value, (ndarray, onp.ndarray, list, tuple)):
        filled = broadcast_to(asarray(fill_value, dtype, ctx=ctx), sizes)
        return filled if out is None else _copy(filled, out=out)
    if dtype is None and isinstance(fill_value, (bool, onp.bool_)):
        dtype = onp.bool_
    if out is not None:
        return _full(shape=sizes, value=fill_value, ctx=ctx, dtype=out.dtype, out=out)
    return as_np_ndarray(_full(shape=sizes, value=fill_value, ctx=ctx, dtype=default_dtype(dtype)))


def _like(name: str, value: float | None, doc: str) -> Any:
    def make(
        a: ndarray,
        dtype: Any = None,
        order: str = "C",
        ctx: Any = None,
        out: ndarray | None = None,
        *,
        device: Any = None,
    ) -> ndarray:
        return full_like(a, value, dtype, order, ctx, out, device=device)

    return set_name(make, name, doc)


def full_like(
    a: ndarray,
    fill_value: Any,
    dtype: Any = None,
    order: str = "C",
    ctx: Any = None,
    out: ndarray | None = None,
    *,
    device: Any = None,
    shape: Any = None,
) -> ndarray:
    """Return an array of the shape, dtype and device of another, filled with a number."""
    a = as_array(a, "full_like")
    place = device_of(ctx, device)
    if a._traced and shape is None:  # the shape is known only when the graph runs
        result = _core.op("ones_like" if fill_value else "zeros_like")(a)
        if fill_value not in (0, 1):
            result = result * fill_value if dtype is None else result.astype(dtype) * fill_value
        return result.astype(a.dtype if dtype is None else dtype, copy=False)
    return full(
        a.shape if shape is None else shape,
        fill_value,
        a.dtype if dtype is None else dtype,
        order,
        a.ctx if place is None else place,
        out,
    )


zeros_like = _like("zeros_like", 0, "Return zeros of the shape, dtype and device of an array.")
ones_like = _like("ones_like", 1, "Return ones of the shape, dtype and device of an array.")


def empty_like(
    prototype: ndarray,
    dtype: Any = None,
    order: str = "C",
    subok: bool = False,
    shape: Any = None,
    *,
    ctx: Any = None,
    device: Any = None,
) -> ndarray:
    """Return an array of unset values with the shape, dtype and device of an array."""
    prototype = as_array(prototype, "empty_like")
    place = device_of(ctx, device)
    return empty(
        prototype.shape if shape is None else shape,
        prototype.dtype if dtype is None else dtype,
        order,
        prototype.ctx if place is None else place,
    )


def arange(
    start: Any,
    stop: Any = None,
    step: Any = 1,
    dtype: Any = None,
    ctx: Any = None,
    *,
    device: Any = None,
) -> ndarray:
    """Return the vector start, start + step, start + 2 * step, ... up to but excluding stop.

    ``arange(n)`` starts at 0. The default dtype is float32, also for integers. With an integer
    dtype, all steps are equal: the difference of the first two values, without their fractions.
    Raises ValueError if step is 0.
    """
    if stop is None:
        start, stop = 0, start
    start, stop, step = (_number(v, "arange") for v in (start, stop, 1 if step is None else step))
    if step == 0:
        raise ValueError_("arange: step must be nonzero, got 0")
    ctx = device_of(ctx, device)
    dtype = default_dtype(dtype)
    whole = not is_real(dtype) and onp.dtype(dtype).kind != "b"
    if whole and not all(float(v).is_integer() for v in (start, step)):
        count = max(0, math.ceil((stop - start) / step))
        counts = as_np_ndarray(_arange(start=0, stop=count, step=1, ctx=ctx, dtype=dtype))
        values: Any = counts * (int(start + step) - int(start)) + int(start)
        return values
    return as_np_ndarray(_arange(start=start, stop=stop, step=step, ctx=ctx, dtype=dtype))


def _number(value: Any, who: str) -> Any:
    if isinstance(value, ndarray):
        value = value.asnumpy()
    if isinstance(value, (onp.ndarray, onp.generic)):
        return value.item()
    if isinstance(value, (int, float)):
        return value
    raise TypeError_(f"{who}: start, stop and step must be numbers, got {type(value).__name__}")


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    ctx: Any = None,
    *,
    device: Any = None,
) -> Any:
    """Return evenly spaced values from start to stop.

    Parameters
    ----------
    start, stop : number or array_like
        First and last value. Arrays broadcast together.
    num : int
        Number of values.
    endpoint : bool
        Whether stop is the last value.
    retstep : bool
        Return (values, distance between neighbors).
    dtype : dtype, optional
        Default: float32.
    axis : int
        Axis of the result that holds the values, if start or stop is an array.
    ctx, device : Context, optional

    Raises
    ------
    ValueError
        If num is negative.
    TypeError
        If num is not an integer.
    """
    if not hasattr(num, "__index__"):
        raise TypeError_(f"linspace: num must be an integer, got {num!r}")
    num = operator.index(num)
    if num < 0:
        raise ValueError_(f"linspace: num must be at least 0, got {num}")
    ctx = device_of(ctx, device)
    parts = num - 1 if endpoint else num
    if isinstance(start, (ndarray, list, tuple)) or isinstance(stop, (ndarray, list, tuple)):
        first, last = (asarray(v, ctx=ctx) for v in (start, stop))
        length: Any = last - first
        step = length / parts if parts else full_like(length, math.nan)
        counts = arange(num, ctx=first.ctx)
        counts = counts._reshape_view((num,) + (1,) * step.ndim)
        values: Any = first + counts * step if parts else first + counts * 0.0
        if axis not in (0, -values.ndim):
            order = list(range(1, values.ndim))
            order.insert(axis % values.ndim, 0)
            values = _core.op("transpose")(values, axes=tuple(order))
        if dtype is not None:
            values = _core.op("floor")(values) if onp.dtype(dtype).kind in "iu" else values
            values = values.astype(dtype)
        return (values, step) if retstep else values
    first, last = (_number(v, "linspace") for v in (start, stop))
    dtype = default_dtype(dtype)
    wanted = onp.dtype(_core.dtype_type(dtype))
    if wanted.kind in "iub":  # official NumPy rounds integers down
        values = array(onp.linspace(first, last, num, endpoint, dtype=wanted), ctx=ctx)
    else:
        values = as_np_ndarray(
            _linspace(start=first, stop=last, num=num, endpoint=endpoint, ctx=ctx, dtype=dtype)
        )
    return (values, (last - first) / parts if parts else math.nan) if retstep else values


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    axis: int = 0,
    ctx: Any = None,
    *,
    device: Any = None,
) -> ndarray:
    """Return ``base ** linspace(start, stop, num, ...)``; see :func:`linspace`."""
    exact = "float64" if dtype is not None else None
    exponents = linspace(start, stop, num, endpoint, dtype=exact, axis=axis,
                         ctx=device_of(ctx, device))  # fmt: skip
    powers = base**exponents
    return powers if dtype is None else powers.astype(dtype, copy=False)


def eye(
    N: int,  # noqa: N803 - NumPy's name
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: Any = None,
    order: str = "C",
    ctx: Any = None,
    *,
    device: Any = None,
) -> ndarray:
    """Return an (N, M) matrix with ones on the k-th diagonal, else zeros; M is N by default."""
    _check_memory_order(order, "eye")
    rows = operator.index(N)
    columns = rows if M is None else operator.index(M)
    if rows < 0 or columns < 0:
        raise ValueError_(f"eye: N and M must be at least 0, got {rows} and {columns}")
    ctx, dtype = device_of(ctx, device), default_dtype(dtype)
    if not columns:  # the operator makes a square if M is 0
        return zeros((rows, 0), dtype, ctx=ctx)
    return as_np_ndarray(_eye(N=rows, M=columns, k=operator.index(k), ctx=ctx, dtype=dtype))


def identity(n: int, dtype: Any = None, ctx: Any = None, *, device: Any = None) -> ndarray:
    """Return the (n, n) identity matrix."""
    return eye(n, dtype=dtype, ctx=device_of(ctx, device))


def genfromtxt(*args: Any, **kwargs: Any) -> ndarray:
    """Return the numbers of a text file; the arguments are those of ``numpy.genfromtxt``.

    ``dtype`` is float32 by default. ``ctx`` is the context of the result.
    """
    ctx = kwargs.pop("ctx", None)
    kwargs.setdefault("dtype", default_dtype())
    return array(onp.genfromtxt(*args, **kwargs), ctx=ctx)


def _copy_method(self: ndarray, order: str = "C") -> ndarray:
    """Return a copy on the same device; order must be 'C' or 'K'."""
    _check_memory_order(order, "copy")
    return _copy(self)


attach({"copy": _copy_method})
