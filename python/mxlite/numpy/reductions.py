"""Functions along axes: sums, extrema, means, cumulative sums."""

from __future__ import annotations

__all__: list[str] = []
