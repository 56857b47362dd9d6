"""Nodes of a symbolic graph, and what an operator's name and parameters say about its inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import _core
from ..base import MXNetError
from .names import (
    NAMED_INPUT,
    OUTPUT_NAMES,
    VARIADIC_COUNT,
    engine_name,
    named_inputs,
    total_outputs,
)

__all__ = [
    "HIDDEN_KEYS",
    "Entry",
    "Node",
    "add_node",
    "known_operator",
    "operator_call",
    "schema_of",
    "topological_order",
]

# Attributes of 1.x that are written without underscores and kept with them.
HIDDEN_KEYS = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")

# Operators about storage types: sparse_calls.py.
_STORAGE_OPS = ("cast_storage", "_sparse_retain", "_square_sum")

_SCHEMAS: dict[str, dict[str, Any]] = {}


def schema_of(name: str) -> dict[str, Any]:
    """Return the description of an operator by its name or an alias.

    Parameters
    ----------
    name : str

    Returns
    -------
    dict
        An entry of ``_core.list_ops()``, with a set ``param_names`` besides.

    Raises
    ------
    ValueError
        For a name that no operator has; near ones are suggested.
    """
    if not _SCHEMAS:
        for schema in _core.list_ops():
            schema["param_types"] = {p["name"]: p for p in schema["params"]}
            for alias in (schema["name"], *schema["aliases"]):
                _SCHEMAS[alias] = schema
    name = engine_name(name)
    found = _SCHEMAS.get(name)
    if found is None:
        _core.op(name)  # raises with near names
        raise KeyError(name)
    return found


def known_operator(name: str) -> bool:
    """Say whether the engine has an operator of that name or alias."""
    if not _SCHEMAS:
        schema_of("relu")
    return engine_name(name) in _SCHEMAS


def operator_call(op: str, attrs: dict[str, str]) -> Any:
    """Parse an operator's parameters.

    Parameters
    ----------
    op : str
    attrs : dict of str to str
        The node's attributes; those that are no parameters (``__shape__``, ``num_args``) are left
        out.

    Returns
    -------
    _core.OpCall

    Raises
    ------
    TypeError
        For an attribute that is neither a parameter nor has underscores around it.
    ValueError
        For a text that is no value of its parameter.
    """
    if op == "Custom":
        from .custom import CustomCall  # here: it is made of nodes

        return CustomCall(attrs)
    if op == "_histogram":
        from .histogram import HistogramCall  # here: it is made of nodes

        return HistogramCall(attrs)
    if op in _STORAGE_OPS:
        from .sparse_calls import CALLS  # here: they are made of nodes

        return CALLS[op](attrs)
    known = schema_of(op)["param_types"]
    count = VARIADIC_COUNT.get(op, "num_args")
    params = {
        key: value
        for key, value in attrs.items()
        if key in known or not (key.startswith("__") or key == count)
    }
    return _core.OpCall(engine_name(op), params)


class Node:
    """A variable (``op`` is None) or one call of an operator.

    Attributes
    ----------
    op : str or None
        The operator's name in 1.x files.
    name : str
    attrs : dict of str to str
        Parameters as text, and attributes such as ``__lr_mult__``.
    inputs : list of (Node, int)
        Producers and which of their outputs.
    call : _core.OpCall or None
        The parsed parameters.
    origin : str or None
        The user's line that composed the node: ``"train.py:12"``.
    """

    __slots__ = ("_visible", "attrs", "call", "inputs", "name", "op", "origin")

    def __init__(
        self,
        op: str | None,
        name: str,
        attrs: dict[str, str],
        inputs: list[Entry],
        call: Any = None,
        origin: str | None = None,
    ) -> None:
        self.op = op
        self.name = name
        self.attrs = attrs
        self.inputs = inputs
        self.origin = origin
        self.call = operator_call(op, attrs) if call is None and op is not None else call
        self._visible: int | None = None

    @property
    def label(self) -> str:
        """Name and line of the node, for errors: ``fc1 (train.py:12)``."""
        return f"{self.name} ({self.origin})" if self.origin else self.name

    def moved(self, inputs: list[Entry]) -> Node:
        """Return a copy of an operator's node with other inputs."""
        return Node(self.op, self.name, dict(self.attrs), inputs, self.call, self.origin)

    @property
    def num_outputs(self) -> int:
        """Number of outputs that a user sees."""
        if self.op is None:
            return 1
        if self._visible is None:
            self._visible = int(self.call.num_visible(len(self.inputs)))
        return self._visible

    def input_name(self, index: int) -> str:
        """Return the full name of an input of an operator: ``fc1_weight``, ``relu0_input0``."""
        if self.op is not None and self.call is not None and schema_of(self.op)["variadic"]:
            names = named_inputs(self.op, self.attrs)
            return f"{self.name}_{names[index] if index < len(names) else f'arg{index}'}"
        named = len(self.inputs) > 1 or self.op in NAMED_INPUT
        label = self.call.input_name(index) if named else f"input{index}"
        return f"{self.name}_{label}"

    def output_name(self, index: int) -> str:
        """Return the full name of an output: ``fc1_output``, ``bn0_mean``, ``split0_output1``."""
        if self.op is None:
            return self.name
        names = getattr(self.call, "output_names", None) or OUTPUT_NAMES.get(self.op)
        if names is not None and index < len(names):
            return f"{self.name}_{names[index]}"
        return f"{self.name}_output{index if self.total_outputs > 1 else ''}"

    @property
    def total_outputs(self) -> int:
        """Number of outputs in 1.9.1, hidden ones too."""
        if self.op is None:
            return 1
        own = int(self.call.num_outputs(len(self.inputs)))
        return total_outputs(self.op, self.attrs, own, self.num_outputs)

    def mutated_inputs(self) -> list[int]:
        """Return the positions of the inputs that are auxiliary states, which operators write."""
        if self.op == "_contrib_quantized_batch_norm":
            return [3, 4]  # it only reads them, but they are those of BatchNorm
        return [] if self.op is None else list(self.call.mutated(len(self.inputs)))

    def __repr__(self) -> str:
        return f"<Node {self.op or 'variable'} {self.name}>"


Entry = tuple[Node, int]


def add_node(error: MXNetError, node: Node) -> None:
    """Say in an error's text which node raised it and which line of the user composed that."""
    line = f"\n    composed at {node.origin}" if node.origin else ""
    error.args = (f"Error in operator {node.name}: {error}{line}",)


def topological_order(heads: Iterable[Entry]) -> list[Node]:
    """Return all nodes that heads need, inputs before their users, in 1.x's order.

    Parameters
    ----------
    heads : iterable of (Node, int)

    Returns
    -------
    list of Node
    """
    order: list[Node] = []
    seen: set[int] = set()
    for head, _ in heads:
        if id(head) in seen:
            continue
        seen.add(id(head))
        stack: list[tuple[Node, int]] = [(head, 0)]
        while stack:
            node, position = stack.pop()
            if position == len(node.inputs):
                order.append(node)
                continue
            stack.append((node, position + 1))
            producer = node.inputs[position][0]
            if id(producer) not in seen:
                seen.add(id(producer))
                stack.append((producer, 0))
    return order
