"""Values of dense arrays as little-endian bytes in files; bfloat16 as uint16, which NumPy lacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import NDArray
from .creation import array as make_array
from .dtypes import dtype_name


def to_bits(array: NDArray) -> tuple[str, np.ndarray[Any, Any]]:
    """Return the name of a dense array's type and its values; those of bfloat16 as uint16."""
    name = dtype_name(array.dtype)
    if name == "bfloat16":
        bits = array.astype("float32").asnumpy().view(np.uint32)
        return name, (bits >> 16).astype(np.uint16)
    values = array.asnumpy()
    return name, values.astype(values.dtype.newbyteorder("<"), copy=False)


def from_bits(name: str, raw: Any, shape: tuple[int, ...]) -> NDArray:
    """Return a new dense array from the values of `to_bits`."""
    if name == "bfloat16":
        bits = np.frombuffer(raw, "<u2").astype(np.uint32) << 16
        values = bits.view(np.float32)
    elif name == "bool":  # bytes other than 0 and 1 would give wrong sums
        values = np.frombuffer(raw, np.uint8) != 0
    else:
        values = np.frombuffer(raw, np.dtype(name).newbyteorder("<"))
    return make_array(values.reshape(shape), dtype=name)
