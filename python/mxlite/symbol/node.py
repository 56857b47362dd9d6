"""Nodes of symbols, which the core has."""

from __future__ import annotations

from .._core import Node, topological_order

__all__ = ["Entry", "Node", "topological_order"]

Entry = tuple[Node, int]
