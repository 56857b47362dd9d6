"""Checks of ``-symbol.json`` files: the whole graph is valid before a shape is inferred or run."""

from __future__ import annotations

from typing import Any

from ..base import FileFormatError
from .node import Node

__all__ = ["MAX_DEPTH", "MAX_NODES", "check_arity", "check_graph", "check_output"]

MAX_NODES = 1_000_000  # in a file, with those of subgraphs
MAX_DEPTH = 16  # of subgraphs in subgraphs


def check_graph(graph: Any, source: str) -> None:
    """Check the structure of a parsed file: types, references, number of nodes, nesting.

    Parameters
    ----------
    graph : object
        What the JSON parser returned.
    source : str
        Names the file in errors.

    Raises
    ------
    FileFormatError
        For the first fault; the message names the file, the node and what was expected.
    """
    _check_graph(graph, f"mx.sym.load: {source}", 0, [0])


def _check_graph(graph: Any, label: str, depth: int, counted: list[int]) -> None:
    if depth > MAX_DEPTH:
        raise FileFormatError(f"{label}: subgraphs are nested deeper than {MAX_DEPTH} levels")
    if not isinstance(graph, dict) or not isinstance(graph.get("nodes"), list):
        raise FileFormatError(f"{label} has no list 'nodes'")
    nodes = graph["nodes"]
    counted[0] += len(nodes)
    if counted[0] > MAX_NODES:
        raise FileFormatError(f"{label} has more than {MAX_NODES} nodes")
    for position, item in enumerate(nodes):
        _check_item(item, position, nodes, label, depth, counted)
    heads = graph.get("heads")
    if not isinstance(heads, list) or not heads:
        raise FileFormatError(f"{label} is damaged: it has no list 'heads' of outputs")
    for head in heads:
        _check_reference(head, len(nodes), f"{label}: head {head!r}", "the file has")
    for position in _numbers(graph.get("arg_nodes", []), f"{label}: 'arg_nodes'"):
        if not 0 <= position < len(nodes) or nodes[position]["op"] != "null":
            raise FileFormatError(
                f"{label}: 'arg_nodes' lists node {position}, which is no variable of the file"
            )
    _check_graph_attrs(graph.get("attrs"), label)


def _check_item(
    item: Any, position: int, nodes: list[Any], label: str, depth: int, counted: list[int]
) -> None:
    if not isinstance(item, dict) or "op" not in item or "name" not in item:
        raise FileFormatError(f"{label}: a node without op and name: {item!r}")
    if not isinstance(item["op"], str) or not isinstance(item["name"], str):
        raise FileFormatError(f"{label}: node {position}: op and name must be texts: {item!r}")
    label = f"{label}: node {item['name']!r}"
    for key in ("param", "attr", "attrs"):
        attrs = item.get(key) or {}
        if not isinstance(attrs, dict) or not all(
            isinstance(value, (str, int, float)) for value in attrs.values()
        ):
            raise FileFormatError(f"{label} ({item['op']}): {key!r} must map names to texts")
    inputs = item.get("inputs") or []
    if not isinstance(inputs, list):
        raise FileFormatError(f"{label} ({item['op']}): 'inputs' must be a list")
    if item["op"] == "null" and inputs:
        raise FileFormatError(f"{label}: a variable has {len(inputs)} inputs, 0 expected")
    for reference in inputs:
        # Inputs stand before their users, so that a graph has no cycles.
        _check_reference(
            reference, position, f"{label} ({item['op']}) has input {_first(reference)!r}",
            "which is not before it;",
        )  # fmt: skip
    parts = item.get("subgraphs") or []
    if not isinstance(parts, list):
        raise FileFormatError(f"{label} ({item['op']}): 'subgraphs' must be a list")
    for part in parts:
        _check_graph(part, label, depth + 1, counted)


def _first(reference: Any) -> Any:
    return reference[0] if isinstance(reference, list) and reference else reference


def _check_reference(reference: Any, nodes: int, label: str, reason: str) -> None:
    """Check ``[node, output, version]``; older files have no version."""
    numbers = _numbers(reference, label)
    if len(numbers) not in (2, 3) or min(numbers) < 0:
        raise FileFormatError(f"{label}: [node, output, version] expected, {reference!r} given")
    if numbers[0] >= nodes:
        raise FileFormatError(f"{label}, {reason} nodes 0 to {nodes - 1} can be named")


def _numbers(value: Any, label: str) -> list[int]:
    if not isinstance(value, list) or not all(type(number) is int for number in value):
        raise FileFormatError(f"{label}: a list of integers expected, {value!r} given")
    return value


def _check_graph_attrs(attrs: Any, label: str) -> None:
    if attrs is None:
        return
    version = attrs.get("mxnet_version") if isinstance(attrs, dict) else attrs
    if version is None:
        return
    if not isinstance(version, list) or len(version) != 2 or type(version[1]) is not int:
        raise FileFormatError(f"{label}: 'mxnet_version' is {version!r}, ['int', 10901] expected")


def check_arity(node: Node, label: str) -> None:
    """Check that a node has as many inputs as its operator takes with the node's parameters.

    Parameters
    ----------
    node : Node
    label : str
        Names the file and the node in errors.

    Raises
    ------
    FileFormatError
        If the number differs.
    """
    given, wanted = len(node.inputs), int(node.call.num_inputs)
    if given == wanted or (wanted < 0 and given > 0):
        return
    names = ", ".join(node.call.input_name(i) for i in range(max(wanted, 0)))
    expected = f"{wanted} ({names})" if wanted > 0 else "none" if wanted == 0 else "at least 1"
    raise FileFormatError(f"{label}: {node.op} has {given} inputs, {expected} expected")


def check_output(node: Node, index: int, label: str) -> None:
    """Check that a node has the output that a reference names.

    Parameters
    ----------
    node : Node
    index : int
    label : str
        Names the file and the reference in errors.

    Raises
    ------
    FileFormatError
        If it does not.
    """
    if not 0 <= index < node.num_outputs:
        raise FileFormatError(
            f"{label}: output {index} of node {node.name!r} ({node.op or 'a variable'}), which "
            f"has {node.num_outputs}"
        )
