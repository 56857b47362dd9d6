"""The casts that symbols need under mixed precision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import _core
from .. import name as _name
from ..ndarray.precision import FLOAT32, LOW, NEUTRAL, WIDEST, PrecisionRules
from .node import Entry, Node

__all__ = ["cast_inputs", "engine_ops"]


def engine_ops(names: Iterable[str]) -> list[str]:
    """Return the engine's names of operators given by name or alias.

    Parameters
    ----------
    names : iterable of str

    Returns
    -------
    list of str

    Raises
    ------
    ValueError
        For a name that no operator has.
    """
    engine_name = _core.symbol_engine_name
    return [n if n == "Custom" else _core.op(engine_name(n)).__name__ for n in names]


def cast_inputs(rules: PrecisionRules, call: Any, inputs: Sequence[Entry]) -> list[Entry]:
    """Return a new node's inputs with the casts that its class asks for.

    Parameters
    ----------
    rules : PrecisionRules
    call : _core.OpCall
        The node's operator and parameters.
    inputs : list of (Node, int)

    Returns
    -------
    list of (Node, int)
        States that the operator writes are never cast.
    """
    kind = rules.class_of(call.name, call.params)
    if kind == NEUTRAL or not inputs:
        return list(inputs)
    written = set(call.mutated(len(inputs)))
    if kind == WIDEST:
        at = [i for i in range(len(inputs)) if i not in written]
        return _multicast(inputs, at) if len(at) > 1 else list(inputs)
    wanted = rules.target if kind == LOW else FLOAT32
    return [
        entry if i in written or _has_type(entry, wanted) else (_cast_node(entry, wanted), 0)
        for i, entry in enumerate(inputs)
    ]


def _has_type(entry: Entry, dtype: str) -> bool:
    """Say whether a value is the result of the same cast."""
    node = entry[0]
    return node.op == "amp_cast" and node.attr("dtype") == dtype


def _cast_node(entry: Entry, dtype: str) -> Node:
    name = _name.current().get(None, "amp_cast")
    call = _core.OpCall("amp_cast", {"dtype": dtype})
    return Node("amp_cast", name, {"dtype": dtype}, [entry], call)


def _multicast(inputs: Sequence[Entry], at: Sequence[int]) -> list[Entry]:
    name = _name.current().get(None, "amp_multicast")
    attrs = {"num_outputs": str(len(at))}
    call = _core.OpCall("amp_multicast", attrs)
    node = Node("amp_multicast", name, attrs, [inputs[i] for i in at], call)
    result = list(inputs)
    for output, i in enumerate(at):
        result[i] = (node, output)
    return result
