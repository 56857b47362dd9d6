"""Small utilities of ``mx.util``: folders, environment variables, numpy-mode questions."""

from __future__ import annotations

import os
from typing import Callable, TypeVar

from .base import DeviceError, NotSupportedError, ValueError_
from .context import Context, gpu_memory_info, num_gpus
from .numpy_mode import (
    _NumpyArrayScope as _NumpyArrayScope,
)
from .numpy_mode import (
    _NumpyShapeScope as _NumpyShapeScope,
)
from .numpy_mode import (
    is_np_array,
    is_np_default_dtype,
    is_np_shape,
    np_array,
    np_shape,
    reset_np,
    set_np,
    set_np_shape,
    use_np,
    use_np_array,
    use_np_shape,
)

__all__ = [
    "get_cuda_compute_capability",
    "get_gpu_count",
    "get_gpu_memory",
    "getenv",
    "is_np_array",
    "is_np_default_dtype",
    "is_np_shape",
    "makedirs",
    "np_array",
    "np_shape",
    "reset_np",
    "set_module",
    "set_np",
    "set_np_shape",
    "setenv",
    "use_np",
    "use_np_array",
    "use_np_shape",
]

_T = TypeVar("_T")


def makedirs(path: str) -> None:
    """Create a folder (``~`` is expanded) and its parents; an existing folder is fine."""
    os.makedirs(os.path.expanduser(path), exist_ok=True)


def getenv(name: str) -> str | None:
    """Return an environment variable of this process, or None."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable of this process; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def get_gpu_count() -> int:
    """Return the number of usable GPUs."""
    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """Return free and total memory of a GPU in bytes."""
    return gpu_memory_info(gpu_dev_id)


def set_module(module: str | None) -> Callable[[_T], _T]:
    """Return a decorator that sets ``__module__``; None changes nothing."""

    def decorate(func: _T) -> _T:
        if module is not None:
            func.__module__ = module
        return func

    return decorate


def get_cuda_compute_capability(ctx: Context) -> int:
    """Return the compute capability of a GPU as a number, 80 for 8.0.

    Raises ValueError if the context is not a GPU, DeviceError if there is no such GPU.
    """
    if ctx.device_type != "gpu":
        raise ValueError_(f"get_cuda_compute_capability: ctx must be a GPU, got {ctx}")
    if ctx.device_id >= num_gpus():
        raise DeviceError(
            f"get_cuda_compute_capability: ctx must be one of {num_gpus()} usable GPUs, got {ctx}"
        )
    raise NotSupportedError("get_cuda_compute_capability: this build does not ask the driver")
