"""Symbols of recorded computations (``mx.autograd.get_symbol``)."""

from __future__ import annotations

from .. import _core, autograd
from .._core import NDArray
from .node import Entry, Node
from .symbol import Symbol

__all__ = ["recorded_symbol"]


@autograd.recorded_symbol.provide
def recorded_symbol(array: NDArray) -> Symbol:
    """Return the computation that the tape has for an array.

    Parameters
    ----------
    array : NDArray

    Returns
    -------
    Symbol
    """
    listed, (head, output) = _core.recorded_nodes(array)
    nodes: list[Node] = []
    variables = 0
    for op, attrs, inputs in listed:
        if not op:
            nodes.append(Node(None, f"var{variables}", {}, []))
            variables += 1
            continue
        entries: list[Entry] = [(nodes[at], index) for at, index in inputs]
        name = _core.symbol_file_name(op)
        count = _core.symbol_count_attribute(name)
        if count is not None:
            attrs[count] = str(len(entries))
        nodes.append(Node(name, f"node_{len(nodes) - variables}", attrs, entries))
    return Symbol([(nodes[head], output)])
