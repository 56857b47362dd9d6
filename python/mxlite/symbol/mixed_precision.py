"""Which precision operators get under mixed precision, and the casts that symbols need for it.

`ACTIVE` holds the rules that new symbols follow (``mx.contrib.amp.init``); converting a finished
symbol uses rules of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _core
from .. import name as _name
from .node import Entry, Node, schema_of

__all__ = ["ACTIVE", "PrecisionRules", "cast_inputs", "engine_ops"]

FLOAT32 = "float32"
LOW = "low_precision"
WIDEST = "widest"
NEUTRAL = "neutral"


@dataclass
class PrecisionRules:
    """Classes of operators by the engine's names.

    Attributes
    ----------
    target : str
        ``"float16"`` or ``"bfloat16"``.
    classes : dict of str to str
        ``"low_precision"``, ``"float32"``, ``"widest"`` or ``"neutral"``.
    conditions : dict of str to list of (str, tuple of str)
        Parameters with values for which the operator needs float32.
    """

    target: str
    classes: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, list[tuple[str, tuple[str, ...]]]] = field(default_factory=dict)

    def class_of(self, op: str, params: Mapping[str, Any]) -> str:
        """Return the class of one call.

        Parameters
        ----------
        op : str
            The engine's name.
        params : mapping of str to object
            All parameters, defaults too.

        Returns
        -------
        str
        """
        for param, values in self.conditions.get(op, ()):
            if str(params.get(param)) in values:
                return FLOAT32
        return self.classes.get(op, NEUTRAL)


class _Active:
    """The rules of ``amp.init``, None before it."""

    rules: PrecisionRules | None = None


ACTIVE = _Active()


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
    return [name if name == "Custom" else str(schema_of(name)["name"]) for name in names]


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
    return node.op == "amp_cast" and node.attrs["dtype"] == dtype


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
