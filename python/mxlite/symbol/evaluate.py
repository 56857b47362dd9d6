"""Runs the nodes of a symbol on arrays, traced ones too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._core import NDArray
from ..base import ValueError_
from .node import Entry, Node, topological_order

__all__ = ["Watch", "evaluate"]

Watch = Callable[[Node, list[NDArray]], None]


def evaluate(
    heads: Sequence[Entry],
    values: Mapping[str, NDArray],
    calls: Mapping[int, Any] | None = None,
    watch: Watch | None = None,
) -> list[NDArray]:
    """Return the values of outputs, given those of the variables.

    Parameters
    ----------
    heads : list of (Node, int)
    values : mapping of str to NDArray
        By variable name.
    calls : mapping of int to _core.OpCall, optional
        Replacements by ``id(node)``, for nodes whose parameters inference completed.
    watch : callable, optional
        Called with each node and its outputs.

    Returns
    -------
    list of NDArray

    Raises
    ------
    ValueError
        If a variable has no value.
    """
    outputs: dict[int, list[NDArray]] = {}
    for node in topological_order(heads):
        if node.op is None:
            if node.name not in values:
                raise ValueError_(f"the variable {node.name!r} has no value")
            outputs[id(node)] = [values[node.name]]
        else:
            call = node.call if calls is None else calls.get(id(node), node.call)
            outputs[id(node)] = call.run([outputs[id(source)][i] for source, i in node.inputs])
        if watch is not None:
            watch(node, outputs[id(node)])
    return [outputs[id(node)][index] for node, index in heads]
