"""CUDA kernels written in Python programs (MXNet 1.x: ``mxnet.rtc``).

NVRTC compiles the source when a :class:`CudaModule` is made; a kernel then runs on arrays in the
order of the other operators.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core
from .base import DeviceError, DTypeError, TypeError_, ValueError_
from .context import Context
from .ndarray import NDArray
from .ndarray.serialization import dtype_name

__all__ = ["CudaKernel", "CudaModule"]

# C++ types of parameters. For a pointer parameter, the argument is an array of that dtype.
_DTYPES: dict[str, type[np.generic]] = {
    "float": np.float32,
    "double": np.float64,
    "__half": np.float16,
    "uint8_t": np.uint8,
    "int": np.int32,
    "int32_t": np.int32,
    "int8_t": np.int8,
    "char": np.int8,
    "int64_t": np.int64,
}
_NUMBERS = (int, float, np.integer, np.floating, np.bool_)
_PARAMETER = re.compile(r"(?:(const)\b\s*)?(?!const\b)(\w+)\s*(\*)?\s*(\w+)?")
# Limits of every GPU that CUDA 13 supports: blocks of a grid, threads of a block.
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_MOST_THREADS = (1024, 1024, 64)
_MOST_THREADS_OF_BLOCK = 1024
_MOST_SHARED_BYTES = 232448  # a larger request fails on every GPU


def _texts(value: Any, what: str) -> list[str]:
    """Return a text or a sequence of texts as a list."""
    texts = [value] if isinstance(value, str) else list(value)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError_(f"CudaModule: {what} must be str, got {type(text).__name__}")
    return texts


class CudaModule:
    """CUDA C++ source, compiled for the GPU.

    Kernels are declared ``extern "C"``, or named in `exports`, which also instantiates templates.
    Compiled code is kept on disk (``MXLITE_CACHE_DIR``).

    Parameters
    ----------
    source : str
        The whole program. Headers of CUDA such as ``cuda_fp16.h`` are found where they are
        installed beside NVRTC.
    options : str or sequence of str
        Options of NVRTC, for example ``--use_fast_math``. Without ``--gpu-architecture`` the code
        is for the GPU that runs it.
    exports : str or sequence of str
        C++ names of kernels that are not ``extern "C"``: ``"scale<float>"``.

    Raises
    ------
    DeviceError
        If there is no GPU.
    ValueError
        If the source does not compile; the text has the compiler's messages.
    NotSupportedError
        If NVRTC is not installed.

    Examples
    --------
    >>> module = mx.rtc.CudaModule(r'''
    ... extern "C" __global__ void axpy(const float *x, float *y, float alpha, int n) {
    ...   int i = threadIdx.x + blockIdx.x * blockDim.x;
    ...   if (i < n) y[i] += alpha * x[i];
    ... }
    ... ''')
    >>> axpy = module.get_kernel("axpy", "const float *x, float *y, float alpha, int n")
    >>> x, y = mx.nd.ones((10,), ctx=mx.gpu(0)), mx.nd.zeros((10,), ctx=mx.gpu(0))
    >>> axpy.launch([x, y, 3.0, 10], mx.gpu(0), (1, 1, 1), (32, 1, 1))
    """

    def __init__(
        self, source: str, options: str | Sequence[str] = (), exports: str | Sequence[str] = ()
    ) -> None:
        if not isinstance(source, str):
            raise TypeError_(f"CudaModule: source must be str, got {type(source).__name__}")
        if "\0" in source:
            raise ValueError_("CudaModule: source must not contain a NUL character")
        self.handle = _core.RtcProgram(
            source, _texts(options, "options"), _texts(exports, "exports")
        )

    def get_kernel(self, name: str, signature: str) -> CudaKernel:
        """Return a kernel of the module.

        Parameters
        ----------
        name : str
            Name of an ``extern "C"`` kernel, or one of `exports`.
        signature : str
            The kernel's parameters as in its declaration, with or without their names:
            ``"const float *x, float *y, int n"``. ``*`` stands for an array; an array that is
            ``const`` is only read. Types: float, double, __half, uint8_t, int, int32_t, int8_t,
            char and int64_t.

        Raises
        ------
        ValueError
            If a parameter is not of the form ``[const] type [*] [name]``.
        TypeError
            If a parameter has another type.
        """
        for what, text in (("name", name), ("signature", signature)):
            if not isinstance(text, str):
                raise TypeError_(f"get_kernel: {what} must be str, got {type(text).__name__}")
        is_const, is_ndarray = [], []
        dtypes: list[type[np.generic]] = []
        for position, text in enumerate(signature.split(",")):
            match = _PARAMETER.fullmatch(text.strip())
            if not match:
                raise ValueError_(
                    f"get_kernel {name}: parameter {position} must be '[const] type [*] [name]', "
                    f"got {text.strip()!r}"
                )
            const, cpp_type, star, _ = match.groups()
            if cpp_type not in _DTYPES:
                raise TypeError_(
                    f"get_kernel {name}: parameter {position} must have one of the types "
                    f"{', '.join(_DTYPES)}, got {text.strip()!r}"
                )
            is_const.append(const is not None)
            is_ndarray.append(star is not None)
            dtypes.append(_DTYPES[cpp_type])
        return CudaKernel(self.handle.kernel(name, is_const), name, is_ndarray, dtypes)


class CudaKernel:
    """A kernel of a :class:`CudaModule`; made by :meth:`CudaModule.get_kernel`.

    Parameters
    ----------
    handle : object
        The kernel in the library.
    name : str
    is_ndarray : sequence of bool
        Whether each parameter is an array.
    dtypes : sequence of type
        NumPy's type of each parameter, or of the array's elements.
    """

    def __init__(
        self,
        handle: _core.RtcKernel,
        name: str,
        is_ndarray: Sequence[bool],
        dtypes: Sequence[type[np.generic]],
    ) -> None:
        self.handle = handle
        self._name = name
        self._is_ndarray = list(is_ndarray)
        self._dtypes = list(dtypes)

    def launch(
        self,
        args: Sequence[Any],
        ctx: Context,
        grid_dims: Sequence[int],
        block_dims: Sequence[int],
        shared_mem: int = 0,
    ) -> None:
        """Run the kernel on a GPU, after the operations that it depends on.

        The call returns immediately. Errors of the kernel are raised when the program waits for an
        array that the kernel writes.

        Parameters
        ----------
        args : sequence of NDArray and numbers
            One argument for each parameter: a contiguous array on `ctx` of the parameter's dtype,
            or a number that the parameter's type can hold.
        ctx : Context
            The GPU.
        grid_dims : sequence of 3 int
            Number of blocks along x, y and z.
        block_dims : sequence of 3 int
            Threads of each block along x, y and z; at most 1024 together.
        shared_mem : int
            Bytes of dynamic shared memory of each block.

        Raises
        ------
        TypeError
            If an argument is not what its parameter takes.
        ValueError
            For another number of arguments, dimensions that no GPU has, numbers out of range, or a
            module without this kernel.
        DeviceError
            If `ctx` is no GPU, or an array is elsewhere.
        """
        who = f"CudaKernel {self._name}"
        if not isinstance(ctx, Context):
            raise TypeError_(f"{who}: ctx must be a Context, got {type(ctx).__name__}")
        if ctx.device_type != "gpu":
            raise DeviceError(f"{who}: ctx must be a GPU, got {ctx}")
        grid = _dims(who, "grid_dims", grid_dims, _MOST_BLOCKS)
        block = _dims(who, "block_dims", block_dims, _MOST_THREADS)
        if block[0] * block[1] * block[2] > _MOST_THREADS_OF_BLOCK:
            raise ValueError_(
                f"{who}: block_dims must have at most {_MOST_THREADS_OF_BLOCK} threads in all, "
                f"got {block}"
            )
        if isinstance(shared_mem, bool) or not isinstance(shared_mem, (int, np.integer)):
            raise TypeError_(f"{who}: shared_mem must be int, got {type(shared_mem).__name__}")
        if not 0 <= shared_mem <= _MOST_SHARED_BYTES:
            raise ValueError_(
                f"{who}: shared_mem must be 0 to {_MOST_SHARED_BYTES} bytes, got {shared_mem}"
            )
        if not isinstance(args, (list, tuple)):
            raise TypeError_(
                f"{who}: args must be a list of arrays and numbers, got {type(args).__name__}"
            )
        if len(args) != len(self._dtypes):
            raise ValueError_(
                f"{who}: number of arguments must be {len(self._dtypes)}, got {len(args)}"
            )
        converted = [
            self._array(who, i, arg) if self._is_ndarray[i] else self._number(who, i, arg)
            for i, arg in enumerate(args)
        ]
        self.handle.launch(ctx.device_id, converted, grid, block, int(shared_mem))

    def _array(self, who: str, i: int, arg: Any) -> NDArray:
        expected = np.dtype(self._dtypes[i]).name
        if not isinstance(arg, NDArray):
            raise TypeError_(
                f"{who}: argument {i} must be an NDArray of dtype {expected}, got "
                f"{type(arg).__name__}"
            )
        if arg.stype != "default":
            raise TypeError_(
                f"{who}: argument {i} must be dense, got a {arg.stype} array; convert it with "
                "tostype('default')"
            )
        if (given := dtype_name(arg.dtype)) != expected:
            raise DTypeError(f"{who}: argument {i} must have dtype {expected}, got {given}")
        return arg

    def _number(self, who: str, i: int, arg: Any) -> bytes:
        dtype = np.dtype(self._dtypes[i])
        if not isinstance(arg, _NUMBERS):
            raise TypeError_(
                f"{who}: argument {i} must be a number for {dtype.name}, got {type(arg).__name__}"
            )
        # Compares Python's numbers exactly, and NumPy's numbers after a conversion.
        value = arg.item() if isinstance(arg, np.generic) else arg
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            if not limits.min <= value <= limits.max or int(value) != value:
                raise ValueError_(
                    f"{who}: argument {i} must be a whole number from {limits.min} to "
                    f"{limits.max}, got {value}"
                )
            return dtype.type(int(value)).tobytes()
        try:
            with np.errstate(over="raise"):
                return dtype.type(value).tobytes()
        except (FloatingPointError, OverflowError):
            limit = np.finfo(dtype).max
            raise ValueError_(
                f"{who}: argument {i} must be a number from -{limit:.6g} to {limit:.6g}, which "
                f"{dtype.name} holds, got {str(value)[:40]}"
            ) from None


def _dims(who: str, what: str, dims: Any, most: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return three checked dimensions."""
    if not isinstance(dims, (Sequence, np.ndarray)) or isinstance(dims, str):
        raise TypeError_(f"{who}: {what} must be 3 ints, got {type(dims).__name__}")
    values = list(dims)
    if len(values) != 3:
        raise ValueError_(f"{who}: {what} must be 3 numbers, got {len(values)}")
    for value, limit in zip(values, most):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError_(f"{who}: {what} must be int, got {type(value).__name__}")
        if not 1 <= value <= limit:
            raise ValueError_(f"{who}: {what} must be 1 to {most}, got {tuple(values)}")
    return (int(values[0]), int(values[1]), int(values[2]))
