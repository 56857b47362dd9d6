"""MXNet's C library as Python programs use it: ``mxnet.base._LIB``, handles and ``check_call``.

The library has the functions that programs outside of MXNet call (cpp/python/c_api.cc), and those
of ``mxnet/c_predict_api.h`` (cpp/predict).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from .. import _core
from ..base import MXNetError
from .base_names import py_str

__all__ = [
    "_LIB",
    "CachedOpHandle",
    "CudaKernelHandle",
    "CudaModuleHandle",
    "DLPackHandle",
    "DataIterCreatorHandle",
    "DataIterHandle",
    "ExecutorHandle",
    "FunctionHandle",
    "KVStoreHandle",
    "NDArrayHandle",
    "OpHandle",
    "ProfileHandle",
    "RecordIOHandle",
    "RtcHandle",
    "SymbolHandle",
    "c_handle_array",
    "check_call",
    "get_last_ffi_error",
]

CachedOpHandle = CudaKernelHandle = CudaModuleHandle = DLPackHandle = ctypes.c_void_p
DataIterCreatorHandle = DataIterHandle = ExecutorHandle = FunctionHandle = ctypes.c_void_p
KVStoreHandle = NDArrayHandle = OpHandle = ProfileHandle = RecordIOHandle = ctypes.c_void_p
RtcHandle = SymbolHandle = ctypes.c_void_p

# Replacements by the beginning of a function name; the error shows the first that fits.
_INSTEAD = {
    "MXNDArrayGetContext": "NDArray.context",
    "MXNDArray": "the methods of mx.nd.NDArray",
    "MXPred": "Executor.set_monitor_callback",
    "MXGenBackendSubgraph": "Symbol.optimize_for",
    "MXSetSubgraph": "Symbol.optimize_for",
    "MXRemoveSubgraph": "Symbol.optimize_for",
    "MXBuildSubgraph": "Symbol.optimize_for",
    "MXQuantizeSymbol": "mx.contrib.quantization",
    "MXSetCalibTable": "mx.contrib.quantization",
    "MXSymbol": "the methods of mx.sym.Symbol",
    "MXExecutor": "Symbol.bind or Symbol.simple_bind",
    "MXImperativeInvoke": "the operators of mx.nd",
    "MXInvokeCachedOp": "HybridBlock.hybridize",
    "MXCreateCachedOp": "HybridBlock.hybridize",
    "MXAutograd": "mx.autograd",
    "MXEngine": "mx.operator.CustomOp",
    "MXTVMBridge": "mx.operator.CustomOp",
    "MXCustom": "mx.operator.CustomOp",
    "MXLoadLib": "mx.operator.CustomOp",
    "MXRecordIO": "mx.recordio",
    "MXDataIter": "mx.io",
    "MXKVStore": "mx.kv",
    "MXProfile": "mx.profiler",
    "MXSetProfiler": "mx.profiler",
    "MXDumpProfile": "mx.profiler",
    "MXRtc": "mx.rtc",
    "MXRandom": "mx.random.seed",
    "MX": "the Python functions of mxlite",
}


class _Library(ctypes.CDLL):
    """The C library; a name that it lacks raises AttributeError that says what to use."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            use = next((use for start, use in _INSTEAD.items() if name.startswith(start)), None)
            hint = f"; use {use}" if use else ""
            raise AttributeError(f"mx.base._LIB has no function {name!r}{hint}") from None


_LIB = _Library(_core.__file__)
_LIB.MXGetLastError.restype = ctypes.c_char_p


def get_last_ffi_error() -> MXNetError:
    """Return the error of the last call of a function of ``_LIB`` that failed in this thread."""
    return MXNetError(py_str(_LIB.MXGetLastError()))


def check_call(ret: int) -> None:
    """Raise if a function of ``_LIB`` returned an error.

    Parameters
    ----------
    ret : int
        What the function returned: 0 after success.

    Raises
    ------
    MXNetError

    Examples
    --------
    >>> size, names = mx_uint(), ctypes.POINTER(ctypes.c_char_p)()
    >>> check_call(_LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    """
    if ret != 0:
        raise get_last_ffi_error()


def c_handle_array(objs: Sequence[Any]) -> Any:
    """Return a C array of the handles of arrays.

    Parameters
    ----------
    objs : sequence of NDArray

    Returns
    -------
    ctypes array of c_void_p
    """
    return (ctypes.c_void_p * len(objs))(*(array.handle for array in objs))
