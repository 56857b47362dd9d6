"""Chooses the context of each node of a symbol, by ``group2ctx`` and ``ctx_group``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base import TypeError_
from ..context import Context
from .node import Node


def checked_groups(group2ctx: Any) -> dict[str, Context]:
    """Return the contexts by group name."""
    if group2ctx is None:
        return {}
    if not isinstance(group2ctx, Mapping):
        raise TypeError_(
            f"group2ctx must be a dict of str to Context, got {type(group2ctx).__name__}"
        )
    for name, context in group2ctx.items():
        if not isinstance(context, Context):
            raise TypeError_(f"group2ctx: {name!r} must be a Context, got {context!r}")
    return {name: Context(context) for name, context in group2ctx.items()}


def place(
    nodes: Sequence[Node],
    groups: Mapping[str, Context],
    default: Context,
    given: Mapping[str, Context] | None = None,
) -> dict[Node, Context]:
    """Return the context of each node, by the rules of 1.x.

    A node gets the context of its group, else that of its first input with a context, else that of
    a node which uses it, else the default.
    """
    found: dict[Node, Context] = {}
    for node in nodes:
        own = groups.get(node.attr("__ctx_group__") or "")
        if node.op is None and given is not None:
            own = given[node.name]
        if own is None:
            own = next((found[s] for s, _ in node.inputs if s in found), None)
        if own is not None:
            found[node] = own
    for node in reversed(nodes):
        context = found.setdefault(node, default)
        for source, _ in node.inputs:
            found.setdefault(source, context)
    return found
