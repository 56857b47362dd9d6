"""Checks the type that blocks and parameters are cast to."""

from __future__ import annotations

from typing import Any

from ...base import MXNetError, ValueError_
from ...ndarray.serialization import dtype_code

__all__ = ["check_cast"]


def check_cast(owner: object, dtype: Any) -> None:
    """Raise if ``dtype`` is not an element type; call this before anything is cast."""
    try:
        dtype_code(dtype)
    except (KeyError, MXNetError, TypeError, ValueError):
        name = f"{type(owner).__name__}.cast of {getattr(owner, 'name', '')!r}"
        raise ValueError_(
            f"{name}: dtype must be an element type such as 'float32', 'float16' or 'bfloat16', "
            f"got {dtype!r}"
        ) from None
