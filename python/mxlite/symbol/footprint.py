"""Memory of the results of a bound symbol, which an executor's ``debug_str`` reports."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from .._core import dtype_bytes
from .inference import Inference
from .node import Entry, Node, schema_of

__all__ = ["bytes_of_results"]


def bytes_of_results(
    inference: Inference, heads: list[Entry], differentiated: Collection[str]
) -> int:
    """Return the most bytes of results that are alive at once, forward and backward.

    A result lives until its last use, one that backward may need until the end, a gradient until
    it is passed on. Arguments and their gradients, which a user owns, do not count. Compiled graphs
    may need less, because they compute in place.

    Parameters
    ----------
    inference : Inference
        After types and shapes are known.
    heads : list of (Node, int)
    differentiated : collection of str
        Variables that get gradients.

    Returns
    -------
    int
    """
    nodes = [node for node in inference.nodes if node.op is not None]
    sizes = {(n, i): _size(inference, (n, i)) for n in nodes for i in range(n.num_outputs)}
    active = _on_the_way_back(inference.nodes, heads, differentiated)
    kept = {(node, i) for node, i in heads}
    last: dict[Entry, int] = {}
    for step, node in enumerate(nodes):
        sources = [(source, i) for source, i in node.inputs]
        last.update((key, step) for key in sources)
        if node in active:
            kept.update(sources)
            kept.update((node, i) for i in range(node.num_outputs))
    alive = peak = 0
    for step, node in enumerate(nodes):
        own = [(node, i) for i in range(node.num_outputs)]
        alive += sum(sizes[key] for key in own)
        peak = max(peak, alive)
        ended = {(source, i) for source, i in node.inputs if last[source, i] == step}
        ended.update(key for key in own if key not in last)
        alive -= sum(sizes.get(key, 0) for key in ended - kept)
    return max(peak, alive + _peak_of_gradients(nodes, active, sizes))


def _on_the_way_back(
    nodes: list[Node], heads: list[Entry], differentiated: Collection[str]
) -> set[Node]:
    """Return the nodes that gradients run through, from the heads to variables."""
    needs: set[Node] = set()
    for node in nodes:
        if node.op is None:
            wanted = node.name in differentiated
        else:
            wanted = _passes_gradient(node) and any(source in needs for source, _ in node.inputs)
        if wanted:
            needs.add(node)
    reached = {node for node, _ in heads if node in needs}
    for node in reversed(nodes):
        if node in reached:
            reached.update(source for source, _ in node.inputs if source in needs)
    return reached


def _passes_gradient(node: Node) -> bool:
    schema = schema_of(node)
    return schema is None or bool(schema["passes_gradient"])


def _peak_of_gradients(nodes: list[Node], active: set[Node], sizes: dict[Entry, int]) -> int:
    alive = peak = 0
    begun: set[Node] = set()
    for node in reversed(nodes):
        if node not in active:
            continue
        for started in (node, *(source for source, _ in node.inputs)):
            if started in active and started not in begun:
                begun.add(started)
                alive += _gradient_size(started, sizes)
        peak = max(peak, alive)
        alive -= _gradient_size(node, sizes)
    return peak


def _gradient_size(node: Node, sizes: dict[Entry, int]) -> int:
    return sum(sizes.get((node, i), 0) for i in range(node.num_outputs if node.op else 0))


def _size(inference: Inference, key: Entry) -> int:
    shape, dtype = inference.shape(*key), inference.type(*key) or "float32"
    return int(np.prod(shape or (), dtype=np.int64)) * dtype_bytes(dtype)
