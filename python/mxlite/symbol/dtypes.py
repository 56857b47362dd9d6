"""Element types of symbols: names inside, codes in files, types for users."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..ndarray.serialization import dtype_name

__all__ = ["NAMES", "dtype_code", "dtype_from_code", "dtype_name", "dtype_type"]

NAMES = (
    "float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16", "uint16",
    "uint32", "uint64", "bfloat16",
)  # fmt: skip


def dtype_code(dtype: Any) -> int:
    """Return the code of a type in files.

    Parameters
    ----------
    dtype : dtype

    Returns
    -------
    int
    """
    return NAMES.index(dtype_name(dtype))


def dtype_from_code(text: str) -> str | None:
    """Return a type's name from its code as text (or its name); None for -1."""
    if text in NAMES:
        return text
    code = int(text)
    return NAMES[code] if 0 <= code < len(NAMES) else None


def dtype_type(name: str) -> Any:
    """Return the type that users get, such as ``numpy.float32``."""
    return _core.dtype_type(name)
