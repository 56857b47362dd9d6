"""``zip`` for comparisons: a missing output fails instead of being left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def pairs(*columns: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return ``zip`` of the columns, which must be equally long."""
    lists = [list(column) for column in columns]
    lengths = [len(column) for column in lists]
    assert len(set(lengths)) <= 1, f"{lengths} elements are compared"
    return list(zip(*lists))
