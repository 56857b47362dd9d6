"""A symbol run node by node in both directions, for monitors that look at gradients, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from .. import _core, autograd
from .._core import NDArray
from ..ndarray.serialization import dtype_name
from .node import Entry, Node, topological_order

__all__ = ["WatchedRun"]

Report = Callable[[str, NDArray], None]


class WatchedRun:
    """One forward pass in which each node is recorded by itself, so that backward can stop at it.

    Parameters
    ----------
    heads : list of (Node, int)
    values : dict of str to NDArray
        By variable name.
    calls : dict of Node to _core.OpCall
        As `evaluate` takes them.
    watch : callable
        Called with each node, its inputs and its outputs.

    Attributes
    ----------
    outputs : list of NDArray
    """

    def __init__(
        self,
        heads: Sequence[Entry],
        values: dict[str, NDArray],
        calls: dict[Node, Any],
        watch: Callable[[Node, list[NDArray], list[NDArray]], None],
    ) -> None:
        self._heads = list(heads)
        self._steps: list[tuple[Node, list[NDArray], list[NDArray]]] = []

        def prepare(node: Node, inputs: list[NDArray]) -> list[NDArray]:
            """Cut the tape in front of the node."""
            inputs = [array.detach() for array in inputs]
            written = node.mutated_inputs()
            for i, array in enumerate(inputs):
                if i not in written and _core.is_floating(dtype_name(array.dtype)):
                    _core.mark_variable(array, None, autograd.GRAD_REQ["write"])
            return inputs

        def note(node: Node, inputs: list[NDArray], outputs: list[NDArray]) -> None:
            self._steps.append((node, inputs, outputs))
            with autograd.pause():
                watch(node, inputs, outputs)

        with autograd.record(True):
            outputs = _core.evaluate(self._heads, values, calls, note, prepare=prepare)
        self.outputs = [array.detach() for array in outputs]

    def backward(self, head_grads: Sequence[NDArray | None], report: Report) -> dict[str, NDArray]:
        """Return the gradients of the variables by name.

        Parameters
        ----------
        head_grads : list of NDArray or None
            Gradients of the outputs; an empty list and None are ones, losses need none.
        report : callable
            Called as ``report("fc1_backward_output0", gradient)`` for each input of each node.
        """
        grads: dict[Entry, NDArray] = {}
        asked: set[Entry] = set()
        for i, (node, index) in enumerate(self._heads):
            asked.add((node, index))
            if i < len(head_grads) and head_grads[i] is not None:
                _add(grads, (node, index), head_grads[i])
        for node, inputs, outputs in reversed(self._steps):
            keys = [(node, i) for i in range(len(outputs))]
            used = [
                (array, grads.get(key))
                for key, array in zip(keys, outputs)
                if (key in grads or key in asked) and _core.is_recorded(array)
            ]
            variables = [i for i, array in enumerate(inputs) if _core.is_recorded(array)]
            if not used or not variables:
                continue
            arrays, given = [array for array, _ in used], [grad for _, grad in used]
            found = _core.gradients(
                arrays, given, [inputs[i] for i in variables], True, False, True
            )
            for i, gradient in zip(variables, found):
                number = i if len(inputs) > 1 else ""
                report(f"{node.name}_backward_output{number}", gradient)
                source, index = node.inputs[i]
                _add(grads, (source, index), gradient)
        leaves = {
            (node, 0): node.name for node in topological_order(self._heads) if node.op is None
        }
        return {leaves[key]: gradient for key, gradient in grads.items() if key in leaves}


def _add(grads: dict[Entry, NDArray], key: Entry, gradient: Any) -> None:
    grads[key] = grads[key] + gradient if key in grads else gradient
