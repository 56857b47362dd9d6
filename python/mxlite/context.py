"""Devices: ``mx.cpu()``, ``mx.gpu(0)``, and the current one (``with mx.cpu(1): ...``)."""

from __future__ import annotations

import copyreg

from . import _core
from ._core import Context, current_context
from .base import DeviceError

__all__ = [
    "Context",
    "Device",
    "cpu",
    "cpu_pinned",
    "current_context",
    "current_device",
    "gpu",
    "gpu_memory_info",
    "num_gpus",
]

Device = Context  # names of MXNet 2, whose module is mx.device
current_device = current_context


def _reduced(ctx: Context) -> tuple[type[Context], tuple[str, int]]:
    return Context, (ctx.device_type, ctx.device_id)


# Pickle protocols 0 and 1 cannot create objects of native classes by themselves.
copyreg.pickle(Context, _reduced)


def cpu(device_id: int = 0) -> Context:
    """Return a CPU context. All CPU contexts share memory and threads but compare different."""
    return Context("cpu", device_id)


def gpu(device_id: int = 0) -> Context:
    """Return the context of a CUDA device; only using it needs a CUDA build and a driver."""
    return Context("gpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """Return the context of page-locked host memory."""
    return Context("cpu_pinned", device_id)


def num_gpus() -> int:
    """Return the number of CUDA devices; 0 without CUDA in the build or without a driver."""
    return _core.num_gpus()


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Return free and total bytes of a CUDA device.

    Raises DeviceError if there is no such device.
    """
    if not 0 <= device_id < num_gpus():
        why = _core.why_no_gpu()
        raise DeviceError(
            f"gpu_memory_info: device {device_id} was requested, {num_gpus()} GPUs are usable"
            + (f": {why}" if why else "")
        )
    return _core.gpu_memory_info(device_id)


# Class attributes that 1.x scripts read.
for _name, _value in {
    "devtype2str": {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"},
    "devstr2type": {"cpu": 1, "gpu": 2, "cpu_pinned": 3, "cpu_shared": 5},
}.items():
    setattr(Context, _name, _value)
