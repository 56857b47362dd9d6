"""Conversions to what the core takes of files: names, and integers that stand in them."""

from __future__ import annotations

import os
import re
from typing import Any

__all__ = ["int64_of", "native_name"]

_DIGITS = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def int64_of(text: str) -> int:
    """Return the integer that a text says."""
    number = int(text) if _DIGITS.fullmatch(text) else None
    if number is None or not -(2**63) <= number < 2**63:
        raise ValueError(f"{text!r} given, an integer of 64 bits expected")
    return number


def native_name(path: str | bytes | os.PathLike[Any]) -> Any:
    """Return a file's name as the core takes it: its bytes, which need not be UTF-8."""
    return os.fsencode(path)
