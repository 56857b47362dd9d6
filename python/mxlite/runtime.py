"""Features of this build (MXNet 1.x: ``mxnet.runtime``) and run-time figures."""

from __future__ import annotations

from typing import Any

from . import _core
from .base import MXNetError, suggestion

__all__ = ["Feature", "Features", "feature_list", "memory_stats"]

# Features of the build, regardless of whether the machine has a GPU.
_HAS_CUDA = bool(_core.cuda_library())
# All features of the source tree; those that this build lacks are False.
_FEATURES = {
    "CUDA": _HAS_CUDA,
    "CUDNN": _HAS_CUDA,
    "NCCL": _HAS_CUDA,
    "CUDA_RTC": _HAS_CUDA,
    "TENSORRT": False,
    "CPU_SSE": True,
    "CPU_SSE2": True,
    "CPU_SSE3": True,
    "CPU_SSE4_1": True,
    "CPU_SSE4_2": True,
    "CPU_SSE4A": False,
    "CPU_AVX": True,
    "CPU_AVX2": True,
    "OPENMP": True,
    "SSE": True,
    "F16C": True,
    "JEMALLOC": False,
    "BLAS_OPEN": False,
    "BLAS_ATLAS": False,
    "BLAS_MKL": False,
    "BLAS_APPLE": False,
    "LAPACK": False,
    "MKLDNN": True,
    "OPENCV": True,
    "CAFFE": False,
    "PROFILER": True,
    "DIST_KVSTORE": True,
    "CXX14": True,
    "INT64_TENSOR_SIZE": True,
    "SIGNAL_HANDLER": False,
    "DEBUG": False,
    "TVM_OP": False,
}


class Feature:
    """A compile-time feature: ``name`` and ``enabled``."""

    name: str
    enabled: bool

    def __init__(self, name: str, enabled: bool) -> None:
        self.name = name
        self.enabled = enabled

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


def feature_list() -> list[Feature]:
    """Return all known features."""
    return [Feature(name, enabled) for name, enabled in _FEATURES.items()]


class Features(dict[str, Feature]):
    """The features by name; a singleton."""

    instance: Features | None = None

    def __new__(cls) -> Features:
        """Return the singleton, which is made on the first call."""
        if cls.instance is None:
            cls.instance = super().__new__(cls)
        return cls.instance

    def __init__(self) -> None:
        super().__init__((feature.name, feature) for feature in feature_list())

    def __repr__(self) -> str:
        return "[" + ", ".join(repr(feature) for feature in self.values()) + "]"

    def is_enabled(self, feature_name: str) -> bool:
        """Return whether a feature, named in upper or lower case as 'CUDA', is in this build.

        Raises RuntimeError if there is no feature of that name.
        """
        name = feature_name.upper()
        if name not in self:
            raise MXNetError(f"Feature '{name}' is unknown{suggestion(name, self)}")
        return self[name].enabled


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return bytes of a device's memory: in_use, cached, peak, limit (0: the device's size).

    The default is the current context. Host memory is one pool for all CPU contexts. Raises
    DeviceError if there is no such GPU.
    """
    return dict(_core.memory_stats(device))


def thread_count() -> int:
    """Return the number of threads that operators use (``MXLITE_CPU_THREADS``)."""
    return int(_core.cpu_threads())
