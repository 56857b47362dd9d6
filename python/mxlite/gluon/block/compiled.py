"""The compiled graph of a hybridized block."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import _core, autograd
from ...base import MXNetError
from ...context import Context
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from ...ndarray.structure import LEAF, Layout, flatten, unflatten
from ..parameter import Parameter
from ..parameter.bindings import EXPIRED, Binding
from ..parameter.tracing import standing_in
from .error_layers import described_line

if TYPE_CHECKING:
    from .hybrid_block import HybridBlock

__all__ = ["Compiled", "DeferredTrace", "traced_forward"]


class DeferredTrace(NamedTuple):
    """Result of the trace that inferred the shapes of parameters."""

    params: list[Parameter]
    layout: Layout  # layout of the outputs
    traced: Any  # for CachedGraph.adopt; None: forward has failed behind what was asked for


class Compiled:
    """The graph of a block for one context and one structure of inputs."""

    def __init__(self, block: HybridBlock, params: list[Parameter], layout: Layout) -> None:
        self._block = block
        self._params = params
        self._layout = layout
        self._output_layouts: dict[bool, Layout] = {}  # by training mode
        self.described = [_description(param) for param in params]
        self.binding = EXPIRED
        # The graph keeps its trace function alive where the garbage collector cannot see it.
        this = weakref.ref(self)

        def trace(inputs: list[NDArray], params: list[NDArray]) -> list[NDArray]:
            compiled = this()
            assert compiled is not None
            return compiled._trace(inputs, params)

        self.graph = _core.CachedGraph(trace, block.name, **block._flags)

    def _trace(self, inputs: list[NDArray], params: list[NDArray]) -> list[NDArray]:
        block = self._block
        try:
            outputs, layout = traced_forward(block, self._layout, self._params, inputs, params)
        except MXNetError as error:
            block._failed = described_line(error)
            raise
        self._note_layout(layout)
        return outputs

    def _note_layout(self, layout: Layout) -> None:
        self._output_layouts[autograd.is_training()] = layout
        if layout != LEAF:
            self._block._fast = None

    def adopt(self, deferred: DeferredTrace) -> None:
        """Compile the graph that inferred the parameters' shapes; forward is not traced again."""
        if deferred.traced is not None and deferred.params == self._params:
            self._note_layout(deferred.layout)
            self.graph.adopt(deferred.traced)

    def bind(self, ctx: Context, binding: Binding) -> None:
        """Hand the parameters' arrays on ``ctx`` to the graph, which is good until they change."""
        # A class may compute data() from the value: that is part of the trace, so not here.
        self.graph.set_params([Parameter.data(param, ctx) for param in self._params])
        self.binding = binding

    def stale(self, params: list[Parameter]) -> bool:
        """Return whether the graph was traced with other parameters, types or children."""
        return (
            self.binding.retrace
            or len(params) != len(self._params)
            or any(new is not old for new, old in zip(params, self._params))
            or [_description(param) for param in params] != self.described
        )

    def lives_on(self, ctx: Context) -> bool:
        """Return whether all parameters are on this context, so that no call needs another."""
        arrays = [param._data for param in self._params]
        return all(data and len(data) == 1 and data[0].ctx == ctx for data in arrays)

    def single_output(self) -> bool:
        """Return whether every trace so far gave one array."""
        return all(layout == LEAF for layout in self._output_layouts.values())

    def structured(self, outputs: Any) -> Any:
        """Give the graph's outputs the structure that forward returned."""
        layout = self._output_layouts[autograd.is_training()]
        if layout == LEAF:
            return outputs
        return unflatten([outputs] if isinstance(outputs, NDArray) else outputs, layout)


def _description(param: Parameter) -> tuple[Any, ...]:
    return param.shape, dtype_name(param.dtype)


def traced_forward(
    block: HybridBlock,
    layout: Layout,
    params: list[Parameter],
    inputs: list[NDArray],
    arrays: list[NDArray],
    used: set[int] | None = None,
) -> tuple[list[NDArray], Layout]:
    """Run a block's forward on traced arrays; ``used`` gets the ids of parameters that it reads."""
    _core.set_trace_owner(block._trace_owner)
    with standing_in({id(param): array for param, array in zip(params, arrays)}, used):
        outputs = block.forward(*unflatten(inputs, layout))
    return flatten(outputs, f"{block.name}: outputs of a hybridized block")
