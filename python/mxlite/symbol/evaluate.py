"""Runs the nodes of a symbol on arrays, traced ones too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _core
from .._core import NDArray
from ..base import MXNetError, ValueError_
from ..context import Context
from ..ndarray.sparse import dispatch
from ..ndarray.sparse.storage import is_sparse
from .node import Entry, Node, add_node, topological_order

__all__ = ["Watch", "evaluate"]

Watch = Callable[[Node, list[NDArray], list[NDArray]], None]


def evaluate(
    heads: Sequence[Entry],
    values: Mapping[str, NDArray],
    calls: Mapping[int, Any] | None = None,
    watch: Watch | None = None,
    contexts: Mapping[int, Context] | None = None,
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
        Called with each node, its inputs and its outputs.
    contexts : mapping of int to Context, optional
        Where nodes run, by ``id(node)``; inputs from elsewhere are copied there.

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
        inputs: list[NDArray] = []
        if node.op is None:
            if node.name not in values:
                raise ValueError_(f"the variable {node.name!r} has no value")
            outputs[id(node)] = [values[node.name]]
        else:
            call = node.call if calls is None else calls.get(id(node), node.call)
            inputs = [outputs[id(source)][i] for source, i in node.inputs]
            outer = _core.set_trace_scope(node.label, True)
            try:
                if contexts is None:
                    outputs[id(node)] = _run(node, call, inputs)
                else:
                    outputs[id(node)] = _run_at(contexts[id(node)], node, call, inputs)
            except MXNetError as error:
                add_node(error, node)
                raise
            finally:
                _core.set_trace_scope(*outer)
        if watch is not None:
            watch(node, inputs, outputs[id(node)])
    return [outputs[id(node)][index] for node, index in heads]


def _run(node: Node, call: Any, inputs: list[NDArray]) -> list[NDArray]:
    if getattr(call, "eager", False) or not any(map(is_sparse, inputs)):
        return list(call.run(inputs))
    if not isinstance(call, _core.OpCall):
        return list(call.run([array.tostype("default") for array in inputs]))
    # Not given and None mean the same to every operator.
    params = {key: value for key, value in call.params.items() if value is not None}
    result = dispatch.run(_core.op(call.name), tuple(inputs), params, node.op)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _run_at(context: Context, node: Node, call: Any, inputs: list[NDArray]) -> list[NDArray]:
    with context:
        return _run(node, call, [array.as_in_context(context) for array in inputs])
