"""Converters of ``foreach`` to Scan, ``while_loop`` to Loop, and ``cond`` to If."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from typing import Any

from ...symbol import Symbol, load_json
from .graph import Graph
from .table import Call, Source, converter

__all__: list[str] = []


class _Parts:
    """The subgraphs of a node, and the attributes that map its inputs to those of subgraphs."""

    def __init__(self, c: Call) -> None:
        nodes = json.loads(Symbol([(c.node, 0)]).tojson())["nodes"]
        entry = next(node for node in reversed(nodes) if node["name"] == c.node.name)
        self._attrs = entry["attrs"]
        self.graphs = [load_json(json.dumps(graph)) for graph in entry["subgraphs"]]
        kinds = zip(c.x, c.shapes, c.dtypes, c.arrays)
        self.sources = [Source(*parts) for parts in kinds]

    def number(self, name: str) -> int:
        """Return an attribute that is a number."""
        return int(self._attrs[name])

    def places(self, name: str) -> list[int]:
        """Return an attribute that is a list of numbers."""
        return [int(place) for place in ast.literal_eval(self._attrs[name])]


def _proto(
    c: Call, g: Graph, name: str, inputs: Sequence[Source], outputs: Sequence[Source]
) -> Any:
    return g.subgraph(f"{c.name}/{name}", *([s[:3] for s in part] for part in (inputs, outputs)))


def _argument(c: Call, g: Graph, source: Source, sliced: bool = False) -> Source:
    """Return an input of a subgraph: a slice of a value, or a value of the same shape."""
    shape = source.shape
    if sliced:
        shape = shape[1:] or (1,)
    return Source(g.unique(f"{c.name}/in"), shape, source.dtype, None)


def _identities(g: Graph, sources: Sequence[Source]) -> list[Source]:
    """Return copies of the values, because ONNX requires outputs that the subgraph computes."""
    return [source._replace(name=g.node("Identity", source.name)) for source in sources]


@converter("_foreach")
def _foreach(c: Call) -> list[str]:
    parts = _Parts(c)
    data, states, rest = (
        parts.places(name) for name in ("in_data_locs", "in_state_locs", "remain_locs")
    )
    sources, count, g = parts.sources, len(data), c.g.child()
    slices = [_argument(c, g, source, sliced=True) for source in sources[:count]]
    own = [_argument(c, g, source) for source in sources[count : count + len(states)]]
    given = dict(zip(data + states + rest, slices + own + sources[count + len(states) :]))
    results = _identities(g, c.inline(g, parts.graphs[0], given))
    outs = parts.number("num_out_data")
    body = _proto(c, g, "body", own + slices, results[outs:] + results[:outs])
    columns = [
        c.g.unsqueeze(source.name, 1) if len(source.shape) == 1 else source.name
        for source in sources[:count]
    ]
    made = c.op(
        "Scan", *(source.name for source in sources[count : count + len(states)]), *columns,
        outputs=len(results), body=body, num_scan_inputs=count,
    )  # fmt: skip
    made = [made] if isinstance(made, str) else made
    stacked = [
        name if len(shape) == 1 + len(result.shape) else c.g.reshape(name, shape)
        for name, shape, result in zip(made[len(states) :], c.out_shapes, results)
    ]
    return [*stacked, *made[: len(states)]]


def _condition(c: Call, g: Graph, graph: Symbol, given: dict[int, Source]) -> Source:
    """Return the condition that a subgraph computes, as a bool of shape ()."""
    (found,) = c.inline(g, graph, given)
    truth = g.cast(g.node("Reshape", found.name, g.const([], "int64")), found.dtype, "bool")
    return Source(truth, (), "bool", None)


@converter("_while_loop")
def _while_loop(c: Call) -> list[str]:
    parts = _Parts(c)
    condition, function = parts.graphs
    of_condition, of_function = (
        parts.places(name) for name in ("cond_input_locs", "func_input_locs")
    )
    # Indices of the node's inputs that are loop variables, in the order of the variables.
    loop = [of_function[place] for place in parts.places("func_var_locs")]
    most, outs = (parts.number(name) for name in ("max_iterations", "num_out_data"))
    sources = parts.sources
    start = _condition(c, c.g, condition, {i: sources[at] for i, at in enumerate(of_condition)})
    g = c.g.child()
    own = {at: _argument(c, g, sources[at]) for at in loop}
    step, going = (
        Source(g.unique(f"{c.name}/{name}"), (), dtype, None)
        for name, dtype in (("step", "int64"), ("going", "bool"))
    )
    seen = [own.get(at, source) for at, source in enumerate(sources)]
    results = c.inline(g, function, {i: seen[at] for i, at in enumerate(of_function)})
    new = dict(zip(loop, results[outs:]))
    seen = [new.get(at, source) for at, source in enumerate(sources)]
    goes_on = _condition(c, g, condition, {i: seen[at] for i, at in enumerate(of_condition)})
    body = _proto(
        c, g, "body", [step, going, *own.values()],
        _identities(g, [goes_on, *results[outs:], *results[:outs]]),
    )  # fmt: skip
    variables = [sources[at].name for at in loop]
    made = c.op("Loop", c.g.const(most), start.name, *variables, outputs=len(results), body=body)
    made = [made] if isinstance(made, str) else made
    stacked = [
        _filled(c, name, len(result.shape) + 1, most, shape)
        for name, result, shape in zip(made[len(loop) :], results, c.out_shapes)
    ]
    return [*stacked, *made[: len(loop)]]


def _filled(c: Call, value: str, ndim: int, most: int, shape: Any) -> str:
    """Return stacked steps, padded with zeros to the maximum number of steps."""
    steps = c.g.slice(c.op("Shape", value), [0], [0], [1])
    missing = c.op("Sub", c.g.const([most]), steps)
    before = c.g.const([0] * ndim)
    pads = [before, missing] + ([c.g.const([0] * (ndim - 1))] if ndim > 1 else [])
    padded: str = c.op("Pad", value, c.op("Concat", *pads, axis=0), mode="constant")
    return padded if len(shape) == ndim else c.g.reshape(padded, shape)


@converter("_cond")
def _cond(c: Call) -> Any:
    parts = _Parts(c)
    places = [parts.places(f"{name}_input_locs") for name in ("cond", "then", "else")]
    given = [{i: parts.sources[at] for i, at in enumerate(part)} for part in places]
    truth = _condition(c, c.g, parts.graphs[0], given[0])
    branches = {}
    for name, graph, sources in zip(("then", "else"), parts.graphs[1:], given[1:]):
        g = c.g.child()
        results = _identities(g, c.inline(g, graph, sources))
        branches[f"{name}_branch"] = _proto(c, g, name, [], results)
    return c.op("If", truth.name, outputs=len(c.out_shapes), **branches)
