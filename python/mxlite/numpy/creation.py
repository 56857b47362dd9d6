"""Functions that make arrays: ``zeros``, ``arange``, ``eye``, ..."""

from __future__ import annotations

from typing import Any

from .. import _core, ndarray as nd
from .ndarray import ndarray

__all__ = ["array"]


def array(object: Any, dtype: Any = None, order: str = "C", ctx: Any = None) -> ndarray:
    """Return an array of the values."""
    return _core.with_numpy(nd.array(object, ctx=ctx, dtype=dtype), True)  # type: ignore[return-value]
