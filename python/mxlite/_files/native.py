"""Conversions for the core: file names to bytes, and texts to 64-bit integers."""

from __future__ import annotations

import os
import re
from typing import Any

_DIGITS = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def int64_of(text: str) -> int:
    """Return the integer that a text represents; raise if it does not fit 64 bits."""
    number = int(text) if _DIGITS.fullmatch(text) else None
    if number is None or not -(2**63) <= number < 2**63:
        raise ValueError(f"number must be an integer of 64 bits, got {text!r}")
    return number


def native_name(path: str | bytes | os.PathLike[Any]) -> Any:
    """Return a file name as bytes for the core, because it need not be UTF-8."""
    return os.fsencode(path)
