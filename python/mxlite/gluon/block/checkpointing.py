"""Activation checkpointing of blocks: backward runs forward again to compute activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ... import _core
from ...context import Context, current_context
from ...ndarray import NDArray
from ...ndarray.structure import flatten, unflatten
from ...symbol import Symbol

__all__ = ["run_checkpointed"]


def run_checkpointed(block: Any, args: tuple[Any, ...]) -> Any:
    """Run a block while recording, and save only its inputs for backward."""
    if any(isinstance(entry, Symbol) for entry in args):
        return block._run(args)
    return _traced(block, args) if _core.is_tracing() else _checkpointed(block, args)


def _traced(block: Any, args: tuple[Any, ...]) -> Any:
    """Add a checkpoint to the graph of the outer block that is being traced."""
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
    """Return arrays of the trained parameters and of the states; None before the first call.

    The first call infers the shapes, and runs without a checkpoint.
    """
    known = block._checkpoint_arrays
    if known is not None and known[0].valid and known[1] == ctx:
        return known[2], known[3]
    watched: list[NDArray] = []
    states: list[NDArray] = []
    binding, params = block._new_binding()
    for param in params:
        if param._deferred_init:
            return None
        array = next((entry for entry in param._data or () if entry.ctx == ctx), None)
        if array is not None and param.stype == "default":
            (watched if param._differentiable else states).append(array)
    # Setting an attribute of a block expires the bindings to it, and so this one.
    vars(block)["_checkpoint_arrays"] = (binding, ctx, watched, states)
    return watched, states


class _Leaf:
    """Placeholder for an array in nested containers."""


_LEAF = _Leaf()


def _take(nested: Any, arrays: list[NDArray]) -> Any:
    """Append the arrays in nested containers to a list; return the containers with placeholders."""
    if isinstance(nested, NDArray):
        arrays.append(nested)
        return _LEAF
    if type(nested) in (list, tuple):
        return type(nested)([_take(entry, arrays) for entry in nested])
    if type(nested) is dict:
        return {key: _take(entry, arrays) for key, entry in nested.items()}
    return nested


def _put(structure: Any, arrays: Iterator[NDArray]) -> Any:
    """Return the containers from `_take` with their placeholders replaced by the next arrays."""
    if structure is _LEAF:
        return next(arrays)
    if type(structure) in (list, tuple):
        return type(structure)([_put(entry, arrays) for entry in structure])
    if type(structure) is dict:
        return {key: _put(entry, arrays) for key, entry in structure.items()}
    return structure
