"""Activation checkpointing of blocks: forward is run again in backward instead of kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ... import _core
from ...context import Context, current_context
from ...ndarray import NDArray
from ...ndarray.structure import flatten, unflatten
from ...profiler.memory import WATCH
from ...symbol import Symbol
from ..parameter.bindings import Binding, Bindings, bind_block

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Checkpointing"]


class Checkpointing:
    """Part of `Block`: calls that keep their inputs only."""

    _checkpointed = False
    _checkpoint_arrays: tuple[Binding, Context, list[NDArray], list[NDArray]] | None = None
    _bindings: Bindings

    def checkpoint(self, active: bool = True) -> Self:
        """Keep only the inputs of this block for backward, which runs forward again.

        Saves the memory of the activations inside the block for one more forward. Gradients have
        the same bits: random numbers are drawn again as they were, and running statistics are
        updated once. Works for blocks that are hybridized, that are part of a hybridized block,
        or neither, and inside other blocks with checkpoints.

        Parameters
        ----------
        active : bool
            False keeps activations again.

        Returns
        -------
        Block
            This block.

        Notes
        -----
        Forward must compute the same both times: it may use random operators of mxlite, but not
        random numbers of Python or NumPy, nor change attributes that it reads. Hooks of children
        are called both times. Inputs and parameters must not change before backward, which raises
        if they did.
        """
        self._checkpointed = bool(active)
        self._bindings.expire(retrace=True)
        return self

    def _dispatch(self, args: tuple[Any, ...]) -> Any:
        watched = WATCH.on
        if watched:
            _core.memory_scope_enter(self.name)
        try:
            if self._checkpointed and _core.is_recording() and not _has_symbol(args):
                return _traced(self, args) if _core.is_tracing() else _checkpointed(self, args)
            return self._run(args)
        finally:
            if watched:
                _core.memory_scope_leave()

    def _run(self, args: tuple[Any, ...]) -> Any:
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Name of the block."""
        raise NotImplementedError


def _has_symbol(args: tuple[Any, ...]) -> bool:
    return any(isinstance(entry, Symbol) for entry in args)


def _traced(block: Any, args: tuple[Any, ...]) -> Any:
    """Add a checkpoint to the graph of a block around this one."""
    layouts: list[Any] = []

    def function(_: list[NDArray]) -> list[NDArray]:
        outputs, layout = flatten(block._run(args), f"{block.name}: outputs of a hybridized block")
        layouts.append(layout)
        return outputs

    traced = _core.TracedFunction(block.name, function, [])
    return unflatten(_core.traced_checkpoint(block.name, traced), layouts[0])


def _checkpointed(block: Any, args: tuple[Any, ...]) -> Any:
    inputs: list[NDArray] = []
    structure = _take(args, inputs)
    found = _arrays_of(block, inputs[0].ctx if inputs else current_context())
    if found is None:
        return block._run(args)
    watched, states = found
    structures: list[Any] = []

    def function(arrays: list[NDArray]) -> list[NDArray]:
        outputs: list[NDArray] = []
        structures[:] = [_take(block._run(_put(structure, iter(arrays))), outputs)]
        return outputs

    outputs = _core.checkpoint(block.name, function, inputs, watched, states)
    return _put(structures[0], iter(outputs))


def _arrays_of(block: Any, ctx: Context) -> tuple[list[NDArray], list[NDArray]] | None:
    """Return the parameters' arrays, and those that forward may write; None before the first call.

    The first call finds out shapes, and keeps its activations.
    """
    known = block._checkpoint_arrays
    if known is not None and known[0].valid and known[1] == ctx:
        return known[2], known[3]
    watched: list[NDArray] = []
    states: list[NDArray] = []
    binding, params = bind_block(block)
    for param in params:
        if param._deferred_init:
            return None
        array = next((entry for entry in param._data or () if entry.ctx == ctx), None)
        if array is not None and param.stype == "default":
            (watched if param._differentiable else states).append(array)
    block._checkpoint_arrays = (binding, ctx, watched, states)
    return watched, states


class _Leaf:
    """Stands for an array in a structure."""


_LEAF = _Leaf()


def _take(nested: Any, arrays: list[NDArray]) -> Any:
    """Return nested containers with marks in place of arrays, which are appended to a list."""
    if isinstance(nested, NDArray):
        arrays.append(nested)
        return _LEAF
    if type(nested) in (list, tuple):
        return type(nested)([_take(entry, arrays) for entry in nested])
    if type(nested) is dict:
        return {key: _take(entry, arrays) for key, entry in nested.items()}
    return nested


def _put(structure: Any, arrays: Iterator[NDArray]) -> Any:
    """Return what `_take` took apart, with other arrays."""
    if structure is _LEAF:
        return next(arrays)
    if type(structure) in (list, tuple):
        return type(structure)([_put(entry, arrays) for entry in structure])
    if type(structure) is dict:
        return {key: _put(entry, arrays) for key, entry in structure.items()}
    return structure
