"""Conversions to what the core takes of files: names, and integers that stand in them."""

from __future__ import annotations

import os
import re
from typing import Any

__all__ = ["int64_of", "native_name"]

_DIGITS = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def int64_of(text: str) -> int:
    """Return the integer that a text says.

    Parameters
    ----------
    text : str
        Decimal digits, with or without a sign.

    Returns
    -------
    int
        From -2^63 to 2^63 - 1: the core takes no others.

    Raises
    ------
    ValueError
        For any other text.
    """
    number = int(text) if _DIGITS.fullmatch(text) else None
    if number is None or not -(2**63) <= number < 2**63:
        raise ValueError(f"{text!r} given, an integer of 64 bits expected")
    return number


def native_name(path: str | bytes | os.PathLike[Any]) -> Any:
    """Return a file's name as the core takes it: its bytes, which need not be UTF-8.

    Parameters
    ----------
    path : str, bytes or path

    Returns
    -------
    bytes
        For parameters that the core declares as str.
    """
    return os.fsencode(path)
