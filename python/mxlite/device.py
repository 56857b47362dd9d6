"""Devices under their new names; the same objects as in :mod:`mxlite.context`."""

from __future__ import annotations

from .context import Context as Device
from .context import cpu, cpu_pinned, gpu, gpu_memory_info, num_gpus
from .context import current_context as current_device

__all__ = ["Device", "cpu", "cpu_pinned", "current_device", "gpu", "gpu_memory_info", "num_gpus"]
