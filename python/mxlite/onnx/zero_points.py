"""Changes of zero points: int8 data and uint8 data with the zero point 128 are the same numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

__all__ = ["change_zero_points", "names_read"]


def names_read(node: Any) -> Iterator[str]:
    """Yield the names of values that a node and its subgraphs read, and of subgraphs' outputs."""
    yield from node.input
    for attribute in node.attribute:
        yield from (output.name for output in attribute.g.output)
        for inner in attribute.g.node:
            yield from names_read(inner)


def _zero_of(node: Any) -> str:
    return node.input[2] if len(node.input) > 2 else ""


def change_zero_points(
    nodes: Iterable[Any], outputs: Collection[str], old: Collection[str], new: str
) -> bool:
    """Replace the zero points of data that only DequantizeLinear reads.

    Parameters
    ----------
    nodes : iterable of NodeProto
        Nodes of a graph, in their order.
    outputs : collection of str
        Outputs of the graph, which stay as they are.
    old : collection of str
        Names of the zero points to replace.
    new : str
        Name of the zero point of the other type.

    Returns
    -------
    bool
        Whether a node was changed.
    """
    changes: dict[str, list[Any]] = {}  # nodes to change, by the name of the quantized data
    for node in nodes:
        for name in names_read(node):
            if name in changes:
                fits = node.op_type == "DequantizeLinear" and _zero_of(node) in old
                if fits:
                    changes[name].append(node)
                else:
                    del changes[name]
        if node.op_type == "QuantizeLinear" and _zero_of(node) in old:
            if node.output[0] not in outputs:
                changes[node.output[0]] = [node]
    for found in changes.values():
        for node in found:
            node.input[2] = new
    return bool(changes)
