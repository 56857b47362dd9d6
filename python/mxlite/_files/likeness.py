"""Compares values from a file with those of the object that they will replace."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import NDArray
from ..base import FileFormatError

_NUMBERS = (bool, int, float, np.generic)


def is_number(value: Any) -> bool:
    """Return whether a value is a number of Python or NumPy."""
    return isinstance(value, _NUMBERS)


def check_class(source: str, what: str, saved: Any, value: Any) -> None:
    """Raise FileFormatError if an object does not have the saved class name."""
    own = type(value).__name__
    if saved != own:
        raise FileFormatError(
            f"{source}: {what} must be {str(saved)[:100]!r}, the class that was saved, got "
            f"{own!r}; create the same {what} as the program that saved the file"
        )


def check_like(saved: Any, own: Any, what: str, whole: bool = True) -> None:
    """Raise if a saved value does not have the same kind as the value of an object."""
    if isinstance(own, dict) and isinstance(saved, dict):
        if own and all(isinstance(key, str) for key in own):
            for key in {**own, **saved}:
                if key not in saved or key not in own:
                    where = "an unknown entry" if key in saved else "no entry"
                    raise FileFormatError(f"{what} has {where} {str(key)[:100]!r}")
                check_like(saved[key], own[key], f"{what}: {key!r}", whole)
        return
    for kinds, expected in (
        (_NUMBERS, "a number"), (str, "a text"), (dict, "a dict"), ((list, tuple), "a list"),
        (NDArray, "an NDArray"), (np.ndarray, "a NumPy array"),
    ):  # fmt: skip
        if isinstance(own, kinds) and not isinstance(saved, kinds):
            shown = repr(saved) if is_number(saved) or saved is None else type(saved).__name__
            raise FileFormatError(f"{what} must be {expected}, got {shown}")
    if whole and isinstance(own, bool) and not isinstance(saved, bool):
        raise FileFormatError(f"{what} must be True or False, got {saved!r}")
    if whole and type(own) is int and (type(saved) is not int or abs(saved) >= 1 << 64):
        raise FileFormatError(f"{what} must be an integer of 64 bits, got {saved!r}")
    if isinstance(own, (list, tuple)) and own and all(map(is_number, own)):
        for i, entry in enumerate(saved):
            check_like(entry, own[0], f"{what}[{i}]", whole)
    if isinstance(own, (NDArray, np.ndarray)):
        expected, given = (f"{len(a.shape)} axes and type {a.dtype}" for a in (own, saved))
        if expected != given:
            raise FileFormatError(f"{what} must be an array of {expected}, got {given}")
