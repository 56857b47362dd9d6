"""Nodes of symbols, which are a class of the core."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import Node, topological_order

__all__ = ["Entry", "Node", "schema_of", "topological_order"]

Entry = tuple[Node, int]


def schema_of(node: Node) -> dict[str, Any] | None:
    """Return the schema of a node's operator, as ``_core.describe_op`` gives it."""
    if not isinstance(node.call, _core.OpCall):
        return None
    return _core.describe_op(node.call.name)
