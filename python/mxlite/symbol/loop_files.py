"""Loops and branches in ``-symbol.json`` files: attributes and subgraphs as 1.9.1 writes them.

A node lists its inputs once; attributes ending in ``_locs`` say which of them, or which input of a
subgraph, plays which part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .. import _core
from ..base import FileFormatError
from .control_flow import Call, CondCall, ForeachCall, WhileCall
from .node import Entry, Node
from .subgraph import SubGraph

__all__ = ["Saved", "loaded_loop", "saved_call", "traced_loop"]


class Saved(NamedTuple):
    """A node as it is in a file: attributes, inputs, and the outputs of each subgraph."""

    attrs: dict[str, str]
    graphs: list[list[Entry]]


def saved_call(node: Node) -> Saved:
    """Return what 1.9.1 writes for a node that Python runs: a loop, a branch, another call.

    Parameters
    ----------
    node : Node
    """
    call = node.call
    if not isinstance(call, Call):
        return Saved(node.attrs, [])
    if isinstance(call, ForeachCall):
        saved = _saved_foreach(call)
    elif isinstance(call, WhileCall):
        saved = _saved_while(call)
    else:
        assert isinstance(call, CondCall)
        saved = _saved_cond(call, node.inputs[0])
    saved.attrs["num_args"] = str(len(saved.graphs) + len(node.inputs))
    saved.attrs["num_outputs"] = str(call.outputs)
    return Saved({**node.attrs, **saved.attrs}, saved.graphs)


def _saved_foreach(call: ForeachCall) -> Saved:
    order = call.body.order()
    first = call.num_data + call.num_states
    parts = {
        "in_data_locs": range(call.num_data),
        "in_state_locs": range(call.num_data, first),
        "remain_locs": range(first, call.inputs),
    }
    attrs = {key: str(_positions(order, part)) for key, part in parts.items()}
    attrs["num_out_data"] = str(call.outputs - call.num_states)
    return Saved(attrs, [call.body.heads])


def _saved_while(call: WhileCall) -> Saved:
    (condition, of_condition), (body, of_body) = call.places()
    attrs = {
        "cond_input_locs": str([of_condition[i] for i in condition.order()]),
        "func_input_locs": str([of_body[i] for i in body.order()]),
        "func_var_locs": str(_positions(body.order(), range(call.num_vars))),
        "max_iterations": str(call.limit),
        "num_out_data": str(call.outputs - call.num_vars),
    }
    return Saved(attrs, [condition.heads, body.heads])


def _saved_cond(call: CondCall, predicate: Entry) -> Saved:
    (then, of_then), (otherwise, of_else) = call.places()
    attrs = {
        "cond_input_locs": "[0]",
        "then_input_locs": str([of_then[i] for i in then.order()]),
        "else_input_locs": str([of_else[i] for i in otherwise.order()]),
    }
    source, index = predicate
    variable = Node(None, source.output_name(index), {}, [])
    copied = Node("_copy", f"{variable.name}_copy", {}, [(variable, 0)])
    return Saved(attrs, [[(copied, 0)], then.heads, otherwise.heads])


def _positions(order: list[int], wanted: Sequence[int]) -> list[int]:
    return [order.index(i) if i in order else -1 for i in wanted]


class _Graph(NamedTuple):
    """A subgraph of a file: its outputs, and its variables in the order of the file."""

    heads: list[Entry]
    variables: list[Node]


# The number of subgraphs that a node of each operator has.
_GRAPHS = {"_foreach": 1, "_while_loop": 2, "_cond": 3}


def loaded_loop(
    op: str,
    attrs: Mapping[str, str],
    inputs: list[Entry],
    graphs: Sequence[tuple[list[Entry], list[Node]]],
    label: str,
) -> tuple[Call, list[Entry], dict[str, str]]:
    """Make the call of a node of control flow that a file has.

    Parameters
    ----------
    op : str
    attrs : dict of str to str
    inputs : list of (Node, int)
        The node's inputs as the file lists them.
    graphs : list of (outputs, variables)
        The subgraphs.
    label : str
        For errors.

    Returns
    -------
    call : Call
    inputs : list of (Node, int)
        In the call's order.
    attrs : dict of str to str
        Without those that the call was made of.

    Raises
    ------
    FileFormatError
        If the attributes do not fit the subgraphs.
    """
    parts = [_Graph(*graph) for graph in graphs]
    if len(parts) != _GRAPHS[op]:
        raise FileFormatError(f"{label}: {op} has {len(parts)} subgraphs, {_GRAPHS[op]} expected")
    make = {"_foreach": _load_foreach, "_while_loop": _load_while, "_cond": _load_cond}[op]
    try:
        call, entries = make(attrs, inputs, parts)
    except (KeyError, IndexError, ValueError) as error:
        raise FileFormatError(f"{label}: the subgraphs of {op} are damaged: {error!r}") from error
    own = ("num_args", "num_outputs", "num_out_data", "max_iterations")
    rest = {k: v for k, v in attrs.items() if k not in own and not k.endswith("_locs")}
    return call, entries, rest


def traced_loop(
    op: str,
    attrs: Mapping[str, str],
    inputs: list[Entry],
    graphs: Sequence[tuple[list[Entry], list[Node], list[int]]],
    count: int,
) -> tuple[Call, list[Entry]]:
    """Make the call of a loop or branch that a hybridized forward ran.

    Parameters
    ----------
    op : {'_while_loop', '_cond'}
    attrs : dict of str to str
    inputs : list of (Node, int)
        Loop variables or the predicate, then the values that the graphs import, which may repeat.
    graphs : list of (outputs, variables, positions)
        The graphs, and the positions of their variables among the inputs.
    count : int
        Number of loop variables.

    Returns
    -------
    call : Call
    inputs : list of (Node, int)
        Every imported value once, as 1.x lists them.
    """
    first = count or 1
    entries = inputs[:first]
    known: dict[Entry, int] = {}
    for entry in inputs[first:]:
        if entry not in known:
            known[entry] = len(entries)
            entries.append(entry)
    (first_graph, of_first), (second_graph, of_second) = (
        (
            SubGraph.loaded(heads, variables, [inputs[i] for i in positions[count:]]),
            [i if i < count else known[inputs[i]] for i in positions],
        )
        for heads, variables, positions in graphs
    )
    if op == "_cond":
        return CondCall(first_graph, second_graph, of_first, of_second), entries
    limit = int(attrs["max_iterations"])
    return WhileCall(first_graph, second_graph, count, limit, of_first, of_second), entries


def _numbers(attrs: Mapping[str, str], key: str, count: int, lowest: int = 0) -> list[int]:
    """Read a list of positions below ``count``; ``lowest`` of -1 allows "not used"."""
    numbers = [int(part) for part in attrs[key].strip("[]() ").split(",") if part.strip()]
    wrong = [number for number in numbers if not lowest <= number < count]
    if wrong:
        raise ValueError(f"{key} names position {wrong[0]}, {lowest} to {count - 1} expected")
    return numbers


def _unused(i: int) -> Node:
    return Node(None, f"unused{i}", {}, [])


def _load_foreach(
    attrs: Mapping[str, str], inputs: list[Entry], parts: list[_Graph]
) -> tuple[Call, list[Entry]]:
    (body,) = parts
    count = len(body.variables)
    data = _numbers(attrs, "in_data_locs", count, -1)
    states = _numbers(attrs, "in_state_locs", count, -1)
    places = data + states + _numbers(attrs, "remain_locs", count, -1)
    if len(places) != len(inputs):
        raise ValueError(f"{len(places)} places for {len(inputs)} inputs")
    if not data:
        raise ValueError("in_data_locs is empty, at least 1 array to loop over expected")
    if len(body.heads) < len(states):
        raise ValueError(f"the subgraph has {len(body.heads)} outputs for {len(states)} states")
    variables = [_unused(i) if at < 0 else body.variables[at] for i, at in enumerate(places)]
    imports = inputs[len(data) + len(states) :]
    graph = SubGraph.loaded(body.heads, variables, imports)
    return ForeachCall(graph, len(data), len(states)), inputs


def _load_while(
    attrs: Mapping[str, str], inputs: list[Entry], parts: list[_Graph]
) -> tuple[Call, list[Entry]]:
    count = int(attrs["num_outputs"]) - int(attrs["num_out_data"])
    of_condition, of_body = (
        _numbers(attrs, f"{key}_input_locs", len(inputs)) for key in ("cond", "func")
    )
    func_vars = _numbers(attrs, "func_var_locs", len(of_body), -1)
    # A variable that the body does not use stands where this library puts it.
    places = [of_body[at] if at >= 0 else i for i, at in enumerate(func_vars)]
    if len(places) != count or not 0 < count <= len(inputs):
        raise ValueError(
            f"{len(places)} places for {count} loop variables and {len(inputs)} inputs"
        )
    for part, own in zip(parts, (of_condition, of_body)):
        if len(part.variables) < len(own):
            raise ValueError(f"a subgraph has {len(part.variables)} variables for {len(own)}")
    if len(parts[0].heads) != 1 or len(parts[1].heads) < count:
        raise ValueError(
            f"{len(parts[0].heads)} and {len(parts[1].heads)} outputs of the subgraphs, 1 and at "
            f"least {count} expected"
        )
    loop_in_condition = {at: places.index(p) for at, p in enumerate(of_condition) if p in places}
    loop_in_body = {at: i for i, at in enumerate(func_vars) if at >= 0}
    graphs, graph_places = [], []
    for part, own_places, loop in (
        (parts[0], of_condition, loop_in_condition),
        (parts[1], of_body, loop_in_body),
    ):
        variables = [_unused(i) for i in range(count)]
        for at, i in loop.items():
            variables[i] = part.variables[at]
        others = [at for at in range(len(own_places)) if at not in loop]
        imported = [own_places[at] for at in others]
        variables += [part.variables[at] for at in others]
        graphs.append(SubGraph.loaded(part.heads, variables, [inputs[at] for at in imported]))
        graph_places.append(places + imported)
    condition, body = graphs
    limit = int(attrs["max_iterations"])
    if limit < 1:
        raise ValueError(f"max_iterations is {limit}, at least 1 expected")
    return WhileCall(condition, body, count, limit, graph_places[0], graph_places[1]), inputs


def _load_cond(
    attrs: Mapping[str, str], inputs: list[Entry], parts: list[_Graph]
) -> tuple[Call, list[Entry]]:
    places = [_numbers(attrs, f"{key}_input_locs", len(inputs)) for key in ("cond", "then", "else")]
    for part, own in zip(parts, places):
        if len(part.variables) < len(own):
            raise ValueError(f"a subgraph has {len(part.variables)} variables for {len(own)}")
    if len(parts[0].heads) != 1 or len(parts[1].heads) != len(parts[2].heads):
        raise ValueError(f"the subgraphs have {[len(part.heads) for part in parts]} outputs")
    then, otherwise = (
        SubGraph.loaded(part.heads, part.variables[: len(own)], [inputs[at] for at in own])
        for part, own in zip(parts[1:], places[1:])
    )
    predicate = _inlined(parts[0], [inputs[at] for at in places[0]])
    if places[0] == [0] and predicate == inputs[0]:
        return CondCall(then, otherwise, places[1], places[2]), inputs
    moved = [[at + 1 for at in own] for own in places[1:]]
    return CondCall(then, otherwise, moved[0], moved[1]), [predicate, *inputs]


def _inlined(graph: _Graph, given: list[Entry]) -> Entry:
    """Return the output of a subgraph as part of the graph around it."""
    values = dict(zip(graph.variables, given))

    def outputs(node: Node, inputs: list[Entry]) -> list[Entry] | None:
        if node.op is None:
            return [values[node]]
        return inputs if node.op == "_copy" else None

    (head,) = _core.rewritten(graph.heads, outputs)
    return head
