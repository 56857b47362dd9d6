"""Products of vectors, matrices and tensors."""

from __future__ import annotations

__all__: list[str] = []
