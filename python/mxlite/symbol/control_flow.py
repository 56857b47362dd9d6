"""Loops and branches in symbols: ``foreach``, ``while_loop`` and ``cond`` of ``mx.sym.contrib``.

Their functions are called once, on symbols, and become subgraphs. The nodes run as the functions
of the same names in ``mx.nd.contrib``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from .. import _core
from ..attribute import AttrScope
from ..base import TypeError_, ValueError_
from ..ndarray.structure import LEAF, NONE, Layout, unflatten
from .node import Entry
from .symbol import Symbol

__all__ = ["cond", "foreach", "while_loop"]


def flatten_symbols(nested: Any, label: str) -> tuple[list[Entry], Layout]:
    """Return the outputs of nested lists of symbols, and their layout."""
    if nested is None:
        return [], NONE
    if isinstance(nested, Symbol):
        entries = list(nested._outputs)
        return entries, LEAF if len(entries) == 1 else (LEAF,) * len(entries)
    if not isinstance(nested, (list, tuple)):
        raise TypeError_(
            f"{label} must be Symbols or (nested) lists of them, but got {nested!r} of type "
            f"{type(nested).__name__}"
        )
    parts = [flatten_symbols(part, label) for part in nested]
    return [entry for part, _ in parts for entry in part], tuple(layout for _, layout in parts)


def _subgraph(
    name: str, function: Callable[[list[Symbol]], list[Entry]], count: int
) -> _core.Subgraph:
    """Call a function once, on new variables; return the subgraph of its outputs."""
    tag, arguments = _core.new_subgraph(f"{name}", count)
    with AttrScope(__subgraph_name__=tag):
        heads = function(_symbols(arguments))
    return _core.Subgraph(tag, arguments, heads)


def _symbols(entries: Sequence[Entry]) -> list[Symbol]:
    return [Symbol([entry]) for entry in entries]


class UnusedInputError(ValueError_, AssertionError):
    """The body of a loop does not use one of its slices or states (1.x: ``AssertionError``)."""


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
        If neither the output nor the states of ``body`` depend on a slice or a state.
    """
    data_entries, data_layout = flatten_symbols(data, "foreach: data")
    state_entries, state_layout = flatten_symbols(init_states, "foreach: init_states")
    if not data_entries:
        raise ValueError_("foreach: data must have at least one symbol, got none")
    layouts: list[Layout] = []

    def function(symbols: list[Symbol]) -> list[Entry]:
        count = len(data_entries)
        slices = unflatten(symbols[:count], data_layout)
        output, states = body(slices, unflatten(symbols[count:], state_layout))
        flat, layout = flatten_symbols(output, "foreach: the output of body")
        new, new_layout = flatten_symbols(states, "foreach: the states of body")
        if len(new) != len(state_entries):
            raise ValueError_(
                f"foreach: body must return {len(state_entries)} states, as many as it gets, got "
                f"{len(new)}"
            )
        layouts.extend((layout, new_layout))
        return flat + new

    graph = _subgraph(name, function, len(data_entries) + len(state_entries))
    for i in graph.unused_arguments:
        is_data = i < len(data_entries)
        kind, number = ("data", i) if is_data else ("state", i - len(data_entries))
        raise UnusedInputError(f"foreach: body does not use {kind} {number}; leave it out")
    results = _symbols(_core.foreach_outputs(graph, data_entries, state_entries))
    count = len(results) - len(state_entries)
    return unflatten(results[:count], layouts[0]), unflatten(results[count:], layouts[1])


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., Any],
    loop_vars: Any,
    max_iterations: int | None = None,
    name: str = "while_loop",
) -> tuple[Any, Any]:
    """Call ``func`` as long as ``cond`` is true; see ``mx.nd.contrib.while_loop``.

    Parameters
    ----------
    cond, func : callable
        Called once, on symbols.
    loop_vars : Symbol or list of Symbol
        Loop variables, which must keep their shapes and types.
    max_iterations : int
    name : str
        Beginning of the subgraphs' names; the node is named as an operator.

    Returns
    -------
    outputs, loop_vars : Symbol or nested lists of Symbol
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
            raise ValueError_(f"while_loop: cond must return one symbol, got {len(flat)}")
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

    first = _subgraph(name + "_cond", condition, len(entries))
    second = _subgraph(name + "_func", body, len(entries))
    results = _symbols(_core.while_loop_outputs(first, second, entries, int(max_iterations)))
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
    """
    if not isinstance(pred, Symbol) or len(pred._outputs) != 1:
        raise TypeError_(f"cond: pred must be a Symbol of one output, got {pred!r}")
    layouts: list[Layout] = []

    def traced(function: Callable[[], Any], label: str) -> _core.Subgraph:
        def call(symbols: list[Symbol]) -> list[Entry]:
            flat, layout = flatten_symbols(function(), f"cond: the result of {label}")
            layouts.append(layout)
            return flat

        return _subgraph(f"{name}_{label[:-5]}", call, 0)

    then, otherwise = traced(then_func, "then_func"), traced(else_func, "else_func")
    if layouts[0] != layouts[1]:
        raise ValueError_("cond: then_func and else_func return differently nested symbols")
    results = _symbols(_core.cond_outputs(pred._outputs[0], then, otherwise))
    return unflatten(results, layouts[0])
