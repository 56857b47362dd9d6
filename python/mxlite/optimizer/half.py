"""Finds weights of half precision."""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import _core
from ..ndarray import NDArray
from ..ndarray.serialization import dtype_name

__all__ = ["is_half"]


def is_half(array: NDArray) -> bool:
    """Return whether an array has a half-precision type."""
    dtype: Any = array.dtype
    return _is_half_type(dtype)


@cache
def _is_half_type(dtype: Any) -> bool:
    return _core.is_half(dtype_name(dtype))
