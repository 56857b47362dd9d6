"""The compiled graphs of a hybridized block."""

from __future__ import annotations

import itertools
import random
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np

from ... import _core, autograd
from ...base import ChangedAttributeError, MXNetError
from ...context import Context
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from ...ndarray.sparse.storage import is_sparse
from ...ndarray.structure import LEAF, Layout, flatten, mark_classes, unflatten
from ..call_types import BlockLike
from ..parameter import Parameter, ParameterDict
from ..parameter.bindings import EXPIRED, Binding
from ..parameter.tracing import standing_in
from .error_layers import described_line
from .scope import BlockScope

__all__ = [
    "MISSING",
    "Compilation",
    "Compiled",
    "DeferredTrace",
    "HybridLike",
    "forwards_itself",
    "is_same",
    "keeping_attributes",
    "traced_forward",
]

_OWNERS = itertools.count(1)
MISSING = object()


class DeferredTrace(NamedTuple):
    """Result of the trace that inferred the shapes of parameters."""

    params: list[Parameter]
    layout: Layout  # layout of the outputs
    traced: Any  # argument for CachedGraph.adopt; None if forward failed after shapes were found


class Compilation:
    """The graphs of a block, and the state that determines whether a call runs a graph.

    Copies and pickles of it have no graphs.

    Attributes
    ----------
    flags : dict
        Options of the graphs.
    graphs : dict of (Context, Layout) to Compiled
        By context and structure of the inputs.
    fast : tuple or None
        The graph that ``__call__`` may run directly while the binding is valid, the binding, and
        the number of arrays that it takes.
    dynamic : tuple or None
        Context, layout and specs of a call whose graph had shapes that depend on values.
    eager : tuple or None
        The same of a call that ran operator by operator, while later calls may be traced.
    numpy : bool
        Whether the last trace had ``mx.np`` arrays.
    failed : str
        Error of the last trace that failed, else an empty text.
    resolved : Binding
        Valid while all own parameters that forward reads have values.
    owner : int
        Identifies the block in its traces.
    changes : int
        Number of the last calls in which forward changed attributes while it was traced.
    retraces : int
        Number of changes of attributes that made the graphs of a program's own forward outdated.
    untraced : bool
        Whether forward raised an error in the trace of the last call.
    """

    __slots__ = (
        "_has_sparse", "_sparse_binding", "changes", "dynamic", "eager", "failed", "fast", "flags",
        "graphs", "numpy", "owner", "resolved", "retraces", "untraced",
    )  # fmt: skip

    def __init__(self, flags: dict[str, Any]) -> None:
        self.flags = flags
        self.owner = next(_OWNERS)
        self.failed = ""
        self.changes = self.retraces = 0
        self.numpy = self.untraced = False
        self.resolved = self._sparse_binding = EXPIRED
        self._has_sparse = False
        self.clear()

    def __reduce__(self) -> Any:
        return Compilation, (self.flags,)

    def clear(self) -> None:
        """Drop all graphs."""
        self.graphs: dict[tuple[Context, Layout], Compiled] = {}
        self.fast: tuple[Any, Binding, int] | None = None
        self.dynamic: tuple[Context, Layout, list[Any]] | None = None
        self.eager: tuple[Context, Layout, list[Any]] | None = None

    def last_eager(self) -> tuple[Context, Layout, list[Any]] | None:
        """Return context, layout and specs of a call that ran operator by operator."""
        return self.dynamic or self.eager

    def last(self) -> tuple[tuple[Context, Layout], Compiled] | None:
        """Return the key and the graph that were added last."""
        return next(reversed(self.graphs.items()), None)

    def uses_sparse(self, block: HybridLike, args: tuple[Any, ...]) -> bool:
        """Return whether a parameter, gradient or input is sparse, which graphs do not support."""
        if not self._sparse_binding.valid:
            self._sparse_binding, params = block._new_binding()
            self._has_sparse = any(
                param.stype != "default" or param.grad_stype != "default" for param in params
            )
        return self._has_sparse or any(is_sparse(array) for array in args)


class HybridLike(BlockLike, Protocol):
    """The part of a block that modules below `HybridBlock` use."""

    _active: bool
    _node_op: str
    _compilation: Compilation

    def collect_params(self) -> ParameterDict:
        """See `Block`."""

    def name_scope(self) -> BlockScope:
        """See `Block`."""

    def _new_binding(self) -> tuple[Binding, list[Parameter]]: ...

    def _resolve_deferred(self, args: tuple[Any, ...]) -> None: ...

    def _infer(
        self, params: list[Parameter], flat: list[NDArray], layout: Layout, finish: bool
    ) -> DeferredTrace: ...


class Compiled:
    """The graph of a block for one context and one structure of inputs."""

    def __init__(self, block: HybridLike, params: list[Parameter], layout: Layout) -> None:
        self._block = block
        self._params = params
        self._layout = layout
        self.output_layouts: dict[bool, Layout] = {}  # by training mode
        self.described = [_description(param) for param in params]
        self.binding = EXPIRED
        # A weak reference, because the graph refers to its trace function, which the garbage
        # collector cannot see.
        this = weakref.ref(self)

        def trace(inputs: list[NDArray], params: list[NDArray]) -> list[NDArray]:
            compiled = this()
            assert compiled is not None
            return compiled._trace(inputs, params)

        self.graph = _core.CachedGraph(trace, block.name, **block._compilation.flags)

    def _trace(self, inputs: list[NDArray], params: list[NDArray]) -> list[NDArray]:
        block = self._block
        try:
            with keeping_attributes(block):
                outputs, layout = traced_forward(block, self._layout, self._params, inputs, params)
        except MXNetError as error:
            block._compilation.failed = described_line(error)
            raise
        self._note_layout(layout)
        return outputs

    def _note_layout(self, layout: Layout) -> None:
        self.output_layouts[autograd.is_training()] = layout
        if layout != LEAF:
            self._block._compilation.fast = None

    def adopt(self, deferred: DeferredTrace) -> None:
        """Compile the graph whose trace inferred the parameters' shapes, without tracing again."""
        if deferred.traced is not None and deferred.params == self._params:
            self._note_layout(deferred.layout)
            self.graph.adopt(deferred.traced)

    def bind(self, ctx: Context, binding: Binding) -> None:
        """Give the parameters' arrays on ``ctx`` to the graph; `binding` expires if they change."""
        # Calls Parameter.data, not param.data(): if a class computes data(), the trace contains the
        # computation.
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
        """Return whether ``ctx`` is the only context of all parameters."""
        arrays = [param._data for param in self._params]
        return all(data and len(data) == 1 and data[0].ctx == ctx for data in arrays)

    def single_output(self) -> bool:
        """Return whether every trace so far has returned a single array."""
        return all(layout == LEAF for layout in self.output_layouts.values())

    def structured(self, outputs: Any) -> Any:
        """Return the graph's outputs in the nested containers that forward returned."""
        layout = self.output_layouts[autograd.is_training()]
        if layout == LEAF:
            return outputs
        return unflatten([outputs] if isinstance(outputs, NDArray) else outputs, layout)


def forwards_itself(block: HybridLike) -> bool:
    """Return whether the program, and not mxlite, defines the block's `forward`."""
    return _is_foreign(type(block).forward)


def _is_foreign(definition: Any) -> bool:
    return str(definition.__module__).partition(".")[0] != __name__.partition(".")[0]


@contextmanager
def keeping_attributes(block: HybridLike) -> Iterator[None]:
    """Undo changes that the program's `forward` makes to attributes in a trace; raise if it does.

    The same applies to the states of Python's and NumPy's random numbers. Such a forward runs at
    every call, as in 1.x. A `hybrid_forward` may keep what it has traced.
    """
    if not forwards_itself(block):
        yield
        return
    parts: list[Any] = [block]
    for part in parts:
        parts.extend(part._children.values())
    before = [(part, dict(vars(part))) for part in parts if _is_foreign(type(part))]
    drawn = random.getstate(), np.random.get_state()
    changed = []
    try:
        yield
    finally:
        if random.getstate() != drawn[0]:
            changed.append("the state of random")
            random.setstate(drawn[0])
        if not _is_same_state(np.random.get_state(), drawn[1]):
            changed.append("the state of numpy.random")
            np.random.set_state(drawn[1])
        for part, known in before:
            for name, value in list(vars(part).items()):
                if is_same(value, known.get(name, MISSING)):
                    continue
                changed.append(f"{part.name}.{name}")
                if name in known:
                    vars(part)[name] = known[name]
                else:
                    del vars(part)[name]
            for name in known.keys() - vars(part).keys():
                changed.append(f"{part.name}.{name}")
                vars(part)[name] = known[name]
    if changed:
        block._compilation.untraced = True
        raise ChangedAttributeError(f"{block.name}: forward changes {', '.join(changed)}")


def _is_same_state(new: Any, old: Any) -> bool:
    return bool(np.array_equal(new[1], old[1])) and new[2:] == old[2:]


def is_same(new: Any, old: Any) -> bool:
    """Return whether an attribute has kept its value: the same object, number or text."""
    if isinstance(new, tuple) and isinstance(old, tuple) and len(new) == len(old):
        return all(map(is_same, new, old))
    equal = type(new) is type(old) and isinstance(new, (int, float, str)) and new == old
    return new is old or equal


def _description(param: Parameter) -> tuple[Any, ...]:
    return param.shape, dtype_name(param.dtype)


def traced_forward(
    block: HybridLike,
    layout: Layout,
    params: list[Parameter],
    inputs: list[NDArray],
    arrays: list[NDArray],
    used: set[int] | None = None,
) -> tuple[list[NDArray], Layout]:
    """Run a block's forward on traced arrays; add ids of parameters that it reads to ``used``."""
    _core.set_trace_owner(block._compilation.owner)
    block._compilation.numpy = bool(inputs) and inputs[0]._numpy
    try:
        with standing_in({id(param): array for param, array in zip(params, arrays)}, used):
            outputs = block.forward(*unflatten(inputs, layout))
        flat, layout = flatten(outputs, f"{block.name}: outputs of a hybridized block")
    except Exception:
        block._compilation.untraced = True
        raise
    return flat, mark_classes(layout, iter(flat), block._compilation.numpy)
