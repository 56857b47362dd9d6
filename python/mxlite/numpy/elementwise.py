"""Functions of each element: arithmetic, comparisons, mathematics."""

from __future__ import annotations

__all__: list[str] = []
