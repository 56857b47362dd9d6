"""Reading and writing parts of arrays."""

from __future__ import annotations

__all__: list[str] = []
