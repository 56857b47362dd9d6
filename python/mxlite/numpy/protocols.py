"""NumPy's functions on mxlite's arrays."""

from __future__ import annotations

__all__: list[str] = []
