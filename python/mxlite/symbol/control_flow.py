"""Loops and branches in symbols: ``foreach``, ``while_loop`` and ``cond`` of ``mx.sym.contrib``.

Their functions are called once on symbols and become graphs of their own; the nodes run as the
functions of the same names in ``mx.nd.contrib``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from .. import _core
from .. import name as _name
from .._core import NDArray, user_line
from ..base import ShapeError, TypeError_, ValueError_
from ..ndarray import control_flow as arrays
from ..ndarray.creation import zeros
from ..ndarray.structure import Layout, unflatten
from .node import Entry, Node
from .partial import may_equal, merged
from .subgraph import Spec, SubGraph, flatten_symbols
from .symbol import Symbol

__all__ = ["Call", "CondCall", "ForeachCall", "WhileCall", "cond", "foreach", "while_loop"]


class Call:
    """Base of control-flow calls: the methods that the core calls for a node run by Python."""

    name = ""
    graphs: tuple[SubGraph, ...] = ()
    outputs = 0
    inputs = 0

    @property
    def params(self) -> dict[str, Any]:
        """No parameters."""
        return {}

    @property
    def num_inputs(self) -> int:
        """Number of inputs."""
        return self.inputs

    def num_outputs(self, num_inputs: int) -> int:
        """Return the number of outputs."""
        return self.outputs

    def input_name(self, index: int) -> str:
        """Return the name of an input."""
        return f"data{index}"

    def places(self) -> list[tuple[SubGraph, list[int]]]:
        """Return for each graph which inputs of the node are its inputs."""
        raise NotImplementedError

    def mutated(self, num_inputs: int) -> list[int]:
        """Return the positions of inputs that operators in the graphs write."""
        return sorted({place[i] for graph, place in self.places() for i in graph.mutated()})

    def inner(self, position: int, spec: Spec) -> Spec:
        """Return the spec that the graphs see for an input of the node."""
        return spec

    def outer(self, position: int, spec: Spec, given: Spec) -> Spec:
        """Return the input's spec for that of the graphs."""
        return spec

    def complete(self, specs: Sequence[Spec]) -> list[Spec]:
        """Return the specs of the inputs as far as the graphs determine them."""
        result = list(specs)
        for graph, place in self.places():
            found, _ = graph.infer([self.inner(i, result[i]) for i in place])
            for i, spec in zip(place, found):
                if result[i][0] is None or -1 in result[i][0]:
                    result[i] = self.outer(i, spec, result[i])
        return result

    def infer_graphs(self, specs: Sequence[Spec]) -> list[list[Spec]]:
        """Return the specs of the graphs' outputs."""
        return [
            graph.infer([self.inner(i, specs[i]) for i in place])[1]
            for graph, place in self.places()
        ]

    def types(self, known: Sequence[str | None]) -> tuple[list[str | None], list[str]] | None:
        """Return types of the inputs and outputs; None while those of the inputs are not known."""
        if any(dtype is None for dtype in known):
            return None
        found = self.infer_types([dtype or "float32" for dtype in known])
        return list(known), found

    def infer_types(self, known: list[str]) -> list[str]:
        """Return the types of the outputs."""
        graph, place = self.places()[-1]
        return graph.infer_types([known[i] for i in place])


class ForeachCall(Call):
    """A node that calls a graph on each slice of its first inputs.

    Parameters
    ----------
    body : SubGraph
        Function of slices, states and imports.
    num_data, num_states : int
    """

    name = "_foreach"

    def __init__(self, body: SubGraph, num_data: int, num_states: int) -> None:
        self.graphs = (body,)
        self.body, self.num_data, self.num_states = body, num_data, num_states
        self.inputs, self.outputs = body.num_inputs, body.num_outputs

    def places(self) -> list[tuple[SubGraph, list[int]]]:
        """Return for each graph which inputs of the node are its inputs."""
        return [(self.body, list(range(self.inputs)))]

    def inner(self, position: int, spec: Spec) -> Spec:
        """Return the spec of a slice for that of data."""
        if position >= self.num_data or spec[0] is None:
            return spec
        return (tuple(spec[0][1:]) or (1,)), spec[1]

    def outer(self, position: int, spec: Spec, given: Spec) -> Spec:
        """Return the spec of data for that of a slice."""
        if position >= self.num_data or spec[0] is None:
            return spec
        return ((given[0][0] if given[0] else -1), *spec[0]), spec[1]

    def infer(self, specs: Sequence[Spec]) -> list[Spec]:
        """Return the specs of the stacked outputs and of the states."""
        length = specs[0][0][0]
        count = self.outputs - self.num_states
        (found,) = self.infer_graphs(specs)
        return [
            ((length, *shape), dtype) if i < count and shape is not None else (shape, dtype)
            for i, (shape, dtype) in enumerate(found)
        ]

    def run(self, inputs: list[NDArray]) -> list[NDArray]:
        """Call the body on each slice."""
        first = self.num_data + self.num_states
        data, states, imports = (
            inputs[: self.num_data],
            inputs[self.num_data : first],
            inputs[first:],
        )
        count = self.outputs - self.num_states

        def body(slices: list[NDArray], now: list[NDArray]) -> tuple[Any, Any]:
            results = self.body([*slices, *now, *imports])
            return results[:count], results[count:]

        outputs, last = arrays.foreach(body, data, states)
        return [*outputs, *last]


class WhileCall(Call):
    """A node that calls a graph while another one holds.

    Parameters
    ----------
    cond, body : SubGraph
        Functions of the loop variables and imports.
    num_vars, limit : int
        Number of loop variables, most steps.
    of_cond, of_body : list of int
        Which inputs of the node are those of the graphs.
    """

    name = "_while_loop"

    def __init__(
        self,
        cond: SubGraph,
        body: SubGraph,
        num_vars: int,
        limit: int,
        of_cond: list[int],
        of_body: list[int],
    ) -> None:
        self.graphs = (cond, body)
        self._cond, self._body, self.num_vars, self.limit = cond, body, num_vars, limit
        self._of_cond, self._of_body = of_cond, of_body
        self.inputs = max([*of_cond, *of_body]) + 1
        self.outputs = body.num_outputs

    def places(self) -> list[tuple[SubGraph, list[int]]]:
        """Return for each graph which inputs of the node are its inputs."""
        return [(self._cond, self._of_cond), (self._body, self._of_body)]

    def infer(self, specs: Sequence[Spec]) -> list[Spec]:
        """Return the specs of the padded outputs and of the variables."""
        found = self.infer_graphs(specs)[1]
        count = self.outputs - self.num_vars
        return [
            ((self.limit, *shape), dtype) if i < count and shape is not None else (shape, dtype)
            for i, (shape, dtype) in enumerate(found)
        ]

    def run(self, inputs: list[NDArray]) -> list[NDArray]:
        """Run the loop."""
        of_cond = [inputs[i] for i in self._of_cond[self.num_vars :]]
        of_body = [inputs[i] for i in self._of_body[self.num_vars :]]
        count = self.outputs - self.num_vars

        def body(*variables: NDArray) -> tuple[Any, Any]:
            results = self._body([*variables, *of_body])
            return results[:count], results[count:]

        outputs, last = arrays.while_loop(
            lambda *variables: self._cond([*variables, *of_cond])[0],
            body, [inputs[i] for i in self._of_body[: self.num_vars]], self.limit,
        )  # fmt: skip
        if count and not outputs:  # no step was made
            specs = [(tuple(array.shape), str(array.dtype.__name__)) for array in inputs]
            ctx = inputs[0].ctx
            outputs = [zeros(s, ctx=ctx, dtype=d) for s, d in self.infer(specs)[:count]]
        return [*outputs, *last]


class CondCall(Call):
    """A node that calls one of two graphs, which have imports only; its first input decides.

    Parameters
    ----------
    then, otherwise : SubGraph
    of_then, of_else : list of int
        Which inputs of the node are those of the graphs.
    """

    name = "_cond"

    def __init__(
        self, then: SubGraph, otherwise: SubGraph, of_then: list[int], of_else: list[int]
    ) -> None:
        self.graphs = (then, otherwise)
        self._then, self._else = then, otherwise
        self._of_then, self._of_else = of_then, of_else
        self.inputs = max([0, *of_then, *of_else]) + 1
        self.outputs = then.num_outputs

    def places(self) -> list[tuple[SubGraph, list[int]]]:
        """Return for each graph which inputs of the node are its inputs."""
        return [(self._then, self._of_then), (self._else, self._of_else)]

    def infer(self, specs: Sequence[Spec]) -> list[Spec]:
        """Return the specs of the results, which both functions must agree on."""
        then, otherwise = self.infer_graphs(specs)
        fits = len(then) == len(otherwise) and all(
            t == u and may_equal(a, b) for (a, t), (b, u) in zip(then, otherwise)
        )
        if not fits:
            raise ShapeError(
                f"cond: then_func returns {then}, else_func {otherwise}; both must be the same"
            )
        return [(merged(a, b), dtype) for (a, dtype), (b, _) in zip(then, otherwise)]

    def run(self, inputs: list[NDArray]) -> list[NDArray]:
        """Run one of the functions."""
        result = arrays.cond(
            inputs[0],
            lambda: self._then([inputs[i] for i in self._of_then]),
            lambda: self._else([inputs[i] for i in self._of_else]),
        )
        return list(result)


class _Inputs:
    """The inputs of a node in the making: 1.x lists each value once, as graphs ask for them."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._known: dict[Any, int] = {}

    def place(self, key: Any, entry: Entry) -> int:
        """Return the position of a value, new at the end."""
        if key not in self._known:
            self._known[key] = len(self.entries)
            self.entries.append(entry)
        return self._known[key]

    def of(self, graph: SubGraph, variables: list[Entry]) -> list[int]:
        """Return the positions of a graph's inputs: loop variables, then imports."""
        values: list[tuple[Any, Entry]] = [
            (("loop", i), entry) for i, entry in enumerate(variables)
        ]
        values += [((entry[0], entry[1]), entry) for entry in graph.imports]
        order = graph.order()
        order += [i for i in range(len(values)) if i not in order]
        places = {i: self.place(*values[i]) for i in order}
        return [places[i] for i in range(len(values))]


def _symbol(call: Call, inputs: list[Entry]) -> list[Symbol]:
    full = _name.current().get(None, call.name)
    node = Node(call.name, full, _core.scoped_attrs(), inputs, call, user_line())
    return [Symbol([(node, i)]) for i in range(call.outputs)]


class UnusedInputError(ValueError_, AssertionError):
    """A loop gets a symbol that its body does not use (1.x: ``AssertionError``)."""


def foreach(
    body: Callable[..., Any], data: Any, init_states: Any, name: str = "foreach"
) -> tuple[Any, Any]:
    """Call ``body`` on each slice of ``data``; see ``mx.nd.contrib.foreach``.

    Parameters
    ----------
    body : callable
        ``output, states = body(slice, states)``; called once, on symbols.
    data : Symbol or list of Symbol
    init_states : Symbol or nested lists of Symbol
    name : str
        Beginning of the subgraphs' names; the node is named as an operator.

    Returns
    -------
    outputs, states : Symbol or nested lists of Symbol

    Raises
    ------
    ValueError
        If ``body`` uses a slice or a state not at all, neither in its output nor in its states.

    Notes
    -----
    Matches ``mxnet.sym.contrib.foreach``.
    """
    data_entries, data_layout = flatten_symbols(data, "foreach: data")
    state_entries, state_layout = flatten_symbols(init_states, "foreach: init_states")
    if not data_entries:
        raise ValueError_("foreach: no data given")
    layouts: list[Layout] = []

    def function(symbols: list[Symbol]) -> list[Entry]:
        count = len(data_entries)
        slices = unflatten(symbols[:count], data_layout)
        output, states = body(slices, unflatten(symbols[count:], state_layout))
        flat, layout = flatten_symbols(output, "foreach: the output of body")
        new, new_layout = flatten_symbols(states, "foreach: the states of body")
        if len(new) != len(state_entries):
            raise ValueError_(
                f"foreach: body returned {len(new)} states, {len(state_entries)} were given"
            )
        layouts.extend((layout, new_layout))
        return flat + new

    graph = SubGraph(name, function, len(data_entries) + len(state_entries))
    unused = set(range(len(data_entries) + len(state_entries))) - set(graph.order())
    for i in sorted(unused):
        is_data = i < len(data_entries)
        kind, number = ("data", i) if is_data else ("state", i - len(data_entries))
        raise UnusedInputError(f"foreach: body does not use {kind} {number}; leave it out")
    call = ForeachCall(graph, len(data_entries), len(state_entries))
    results = _symbol(call, data_entries + state_entries + graph.imports)
    count = len(results) - len(state_entries)
    return unflatten(results[:count], layouts[0]), unflatten(results[count:], layouts[1])


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., Any],
    loop_vars: Any,
    max_iterations: int | None = None,
    name: str = "while_loop",
) -> tuple[Any, Any]:
    """Call ``func`` while ``cond`` holds; see ``mx.nd.contrib.while_loop``.

    Parameters
    ----------
    cond, func : callable
        Called once, on symbols.
    loop_vars : Symbol or list of Symbol
        They keep their shapes and types.
    max_iterations : int
    name : str
        Beginning of the subgraphs' names; the node is named as an operator.

    Returns
    -------
    outputs, loop_vars : Symbol or nested lists of Symbol

    Notes
    -----
    Matches ``mxnet.sym.contrib.while_loop``.
    """
    if max_iterations is None:
        raise ValueError_("while_loop: max_iterations should be specified")
    single = isinstance(loop_vars, Symbol)
    variables = [loop_vars] if single else list(loop_vars)
    entries, given = flatten_symbols(variables, "while_loop: loop_vars")
    if not entries:
        raise ValueError_("while_loop: loop_vars should contain at least one element")
    layouts: list[Layout] = []

    def condition(symbols: list[Symbol]) -> list[Entry]:
        flat, _ = flatten_symbols(cond(*unflatten(symbols, given)), "while_loop: cond")
        if len(flat) != 1:
            raise ValueError_(f"while_loop: cond returned {len(flat)} symbols, one expected")
        return flat

    def body(symbols: list[Symbol]) -> list[Entry]:
        output, new = func(*unflatten(symbols, given))
        flat, layout = flatten_symbols(output, "while_loop: the output of func")
        after, _ = flatten_symbols(new, "while_loop: the new loop_vars")
        if len(after) != len(entries):
            raise ValueError_(
                "The length of loop_vars should be consistent during the loop: "
                f"{len(entries)} given, func returned {len(after)}"
            )
        layouts.append(layout)
        return flat + after

    condition_graph = SubGraph(name + "_cond", condition, len(entries))
    body_graph = SubGraph(name + "_func", body, len(entries))
    inputs = _Inputs()
    places = [inputs.of(graph, entries) for graph in (condition_graph, body_graph)]
    call = WhileCall(condition_graph, body_graph, len(entries), int(max_iterations), *places)
    results = _symbol(call, inputs.entries)
    count = len(results) - len(entries)
    outputs = [] if layouts[0] == 1 else unflatten(results[:count], layouts[0])
    last = unflatten(results[count:], given)
    return outputs, last[0] if single else last


def cond(
    pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = "cond"
) -> Any:
    """Call one of two functions; see ``mx.nd.contrib.cond``.

    Parameters
    ----------
    pred : Symbol
    then_func, else_func : callable
        Without arguments; both are called once, on symbols.
    name : str
        Beginning of the subgraphs' names; the node is named as an operator.

    Returns
    -------
    Symbol or nested lists of Symbol

    Notes
    -----
    Matches ``mxnet.sym.contrib.cond``.
    """
    if not isinstance(pred, Symbol) or len(pred._outputs) != 1:
        raise TypeError_(f"cond: pred is {pred!r}, a Symbol of one output expected")
    layouts: list[Layout] = []

    def traced(function: Callable[[], Any], label: str) -> SubGraph:
        def call(symbols: list[Symbol]) -> list[Entry]:
            flat, layout = flatten_symbols(function(), f"cond: the result of {label}")
            layouts.append(layout)
            return flat

        return SubGraph(f"{name}_{label[:-5]}", call, 0)

    then, otherwise = traced(then_func, "then_func"), traced(else_func, "else_func")
    if layouts[0] != layouts[1]:
        raise ValueError_("cond: then_func and else_func return differently nested symbols")
    inputs = _Inputs()
    inputs.place("predicate", pred._outputs[0])
    call = CondCall(then, otherwise, inputs.of(then, []), inputs.of(otherwise, []))
    results = _symbol(call, inputs.entries)
    return unflatten(results, layouts[0])
