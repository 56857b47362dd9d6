"""Names and codes of element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import ValueError_

# The code of a type in files is its position in this table.
_DTYPES = (
    "float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16", "uint16",
    "uint32", "uint64", "bfloat16",
)  # fmt: skip

# A table of names, because loading a network needs many and NumPy computes a name at each access.
_NAMES = {
    key: name
    for name in _DTYPES
    if name != "bfloat16"
    for key in (name, np.dtype(name), np.dtype(name).type)
}


def dtype_name(dtype: Any) -> str:
    """Return the name of an element type given as name, NumPy type or scalar class."""
    known = _NAMES.get(dtype) if isinstance(dtype, (str, type, np.dtype)) else None
    if known is not None:
        return known
    if isinstance(dtype, str):
        return dtype if dtype == "bfloat16" else str(np.dtype(dtype).name)
    if getattr(dtype, "__name__", "") == "bfloat16" or getattr(dtype, "name", "") == "bfloat16":
        return "bfloat16"
    dtype = np.dtype(dtype)
    # In 1.x, the dtype of bfloat16 arrays has one field, which is named "bfloat16".
    return "bfloat16" if dtype.names == ("bfloat16",) else str(dtype.name)


def dtype_code(dtype: Any) -> int:
    """Return the code of an element type in files."""
    name = dtype_name(dtype)
    if name not in _DTYPES:
        raise ValueError_(f"dtype must be one of {', '.join(_DTYPES)}, got {name}")
    return _DTYPES.index(name)
