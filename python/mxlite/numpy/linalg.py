"""Linear algebra: ``mx.np.linalg``."""

from __future__ import annotations

__all__: list[str] = []
