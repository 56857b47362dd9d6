"""Functions that change shapes: joining, splitting, transposing, padding."""

from __future__ import annotations

__all__: list[str] = []
