"""Copies and pickles of hybridized blocks."""

from __future__ import annotations

import itertools
from typing import Any

from ..parameter.bindings import EXPIRED
from .sparse_use import SparseUse

__all__ = ["OWNERS", "CopiedGraphs"]

# Numbers by which traces of one block know each other.
OWNERS = itertools.count(1)


class CopiedGraphs:
    """Part of a block with graphs: a copy of it traces graphs of its own."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without what belongs to the graphs."""
        state = {**self.__dict__, "_graphs": {}, "_fast": None, "_dynamic": None}
        return {**state, "_sparse_use": SparseUse(), "_resolved": EXPIRED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _trace_owner=next(OWNERS))
