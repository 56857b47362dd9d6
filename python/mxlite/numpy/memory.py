"""Tests of whether arrays share memory."""

from __future__ import annotations

import ctypes
from typing import Any

from .arguments import as_array, refuse_traced
from .ndarray import ndarray

__all__ = [
    "may_share_memory",
    "shares_memory",
]


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Return whether the memory ranges of two arrays overlap; ``max_work`` has no effect."""
    one, other = (_memory_range(as_array(x, "may_share_memory")) for x in (a, b))
    return one[0] == other[0] and max(one[1], other[1]) < min(one[2], other[2])


shares_memory = may_share_memory


def _memory_range(a: ndarray) -> tuple[Any, int, int]:
    """Return the device, and the addresses of the first byte and past the last byte."""
    refuse_traced(a, "may_share_memory", "memory")
    a = a.detach()
    capsule = a.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    fields = ctypes.cast(pointer(capsule, b"dltensor"), ctypes.POINTER(ctypes.c_uint64))
    first = (fields[0] or 0) + fields[5]  # DLTensor's members data and byte_offset
    extent = sum((n - 1) * s for n, s in zip(a.shape, a._strides)) + 1 if a.size else 0
    return a.ctx, first, first + extent * a.itemsize
