"""The symbol that `HybridBlock.export` writes.

If forward can run on symbols, the symbol that it returns is written. The symbol has the names of
1.x and accepts other shapes. If forward reads shapes, it is traced again with the shapes of the
last call, and the operators that it ran are written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _core, autograd
from ... import ndarray as nd
from ...base import MXNetError, NotSupportedError
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from ...ndarray.structure import count_leaves, flatten, unflatten
from ...symbol import Symbol
from ...symbol import var as make_var
from ...symbol.exactness import exact
from ...symbol.inference import Inference, infer
from ...symbol.node import Node, schema_of
from ..parameter import Parameter
from .compiled import HybridLike, traced_forward
from .error_layers import described_line
from .symbolic import composed_outputs, input_names

__all__ = ["CachedGraph", "export", "exported_symbol"]

Specs = list[tuple[tuple[int, ...], str]]  # shape and dtype of each array


def export(
    block: HybridLike, path: str, epoch: int, remove_amp_cast: bool
) -> tuple[str, str | None]:
    """Write a block; see `HybridBlock.export`."""
    symbol, captured = exported_symbol(block)
    symbol_file = f"{path}-symbol.json"
    symbol.save(symbol_file, remove_amp_cast=remove_amp_cast)
    arguments = set(symbol.list_arguments())
    states = set(symbol.list_auxiliary_states())
    arrays = {f"arg:{name}": array for name, array in captured.items() if name in arguments}
    for name, param in block.collect_params().items():
        if name in arguments:
            arrays[f"arg:{name}"] = param._reduce()
        elif name in states:
            arrays[f"aux:{name}"] = param._reduce()
    params_file = f"{path}-{epoch:04d}.params"
    nd.save(params_file, arrays)
    return symbol_file, params_file if arrays else None


def exported_symbol(
    block: HybridLike, inputs: tuple[Any, ...] | None = None
) -> tuple[Symbol, dict[str, NDArray]]:
    """Return the symbol of a block's forward, and the constant arrays that forward captured.

    Inputs are by default those of the last call of the hybridized block.
    """
    forward = _Forward(block, inputs)
    try:
        traced, found, captured = forward.traced(forward.specs)
    except Exception as error:
        composed = forward.composed()
        if composed is not None:  # a shape depends on values, which is possible only with symbols
            return composed, {}
        raise NotSupportedError(
            f"export: {type(block).__name__} {block.name!r} cannot be written as a symbol: "
            f"{described_line(error)}"
        ) from error
    composed = forward.composed()
    if composed is not None and forward.has_outputs(composed, found):
        return composed, {}
    forward.note_shapes(traced, any_batch=forward.takes_other_batches(traced, captured))
    return traced, captured


class _Forward:
    """A block's forward with the context and the specs of given inputs or of its last call.

    Attributes
    ----------
    specs : list of (tuple of int, str)
        Shapes and dtypes of the inputs.
    """

    def __init__(self, block: HybridLike, inputs: tuple[Any, ...] | None = None) -> None:
        specs: Specs | None = None
        compilation = block._compilation
        last = compilation.last()
        if inputs is not None:
            flat, self._layout = flatten(inputs, f"{block.name}: inputs")
            self._ctx = flat[0].ctx
            specs = [(tuple(array.shape), dtype_name(array.dtype)) for array in flat]
        elif last is not None:
            (self._ctx, self._layout), compiled = last
            specs = compiled.graph.signature
        elif (eager := compilation.last_eager()) is not None:
            self._ctx, self._layout, specs = eager
        if specs is None:
            failed = compilation.failed
            reason = f"; its last call failed: {failed}" if failed else "."
            raise MXNetError(
                "Please first call block.hybridize() and then run forward with this block at least "
                f"once before calling export{reason}"
            )
        self._block, self.specs, self._numpy = block, specs, compilation.numpy
        self._params = [p for p in block.collect_params().values() if p._data is not None]
        self._names = input_names(count_leaves(self._layout))

    def variables(self) -> list[Any]:
        """Return one variable for each input, with the nesting of the inputs."""
        return list(unflatten([make_var(name) for name in self._names], self._layout))

    def composed(self) -> Symbol | None:
        """Return the symbol that forward computes from symbols, or None if forward needs arrays."""
        with exact():
            found = composed_outputs(self._block, self._layout)
        return None if found is None else found[0]

    def traced(self, specs: Specs) -> tuple[Symbol, Specs, dict[str, NDArray]]:
        """Return the traced symbol for input specs, the outputs' specs, and captured arrays."""

        def trace(inputs: list[NDArray], arrays: list[NDArray]) -> list[NDArray]:
            return traced_forward(self._block, self._layout, self._params, inputs, arrays)[0]

        leaves = [make_var(name) for name in self._names]
        leaves += [param.var() for param in self._params]
        arrays = [Parameter.data(param, self._ctx) for param in self._params]
        entries = [leaf._outputs[0] for leaf in leaves]
        with autograd.pause():
            heads, found, captured = _core.trace_symbol(
                trace,
                self._block.name,
                self._ctx,
                specs,
                arrays,
                entries,
                self._numpy,
            )
        return Symbol(heads), found, captured

    def note_shapes(self, traced: Symbol, any_batch: bool) -> None:
        """Store the inputs' shapes in their variables, which then reject other shapes."""
        shapes = dict(zip(self._names, (shape for shape, _ in self.specs)))
        for node in traced._nodes():
            if node.op is None and node.name in shapes:
                shape = shapes[node.name]
                node.set_attr("__traced_shape__", str((0, *shape[1:]) if any_batch else shape))

    def takes_other_batches(self, traced: Symbol, captured: dict[str, NDArray]) -> bool:
        """Return whether forward runs the same operators for other batch sizes."""
        if any(not shape for shape, _ in self.specs):
            return False
        expected = traced.tojson()
        # A forward that depends on the batch size is likely to differ for one more row, a single
        # row, or many rows.
        for change in (lambda n: n + 1, lambda n: 1, lambda n: 997 * n):
            specs = [((change(shape[0]), *shape[1:]), dtype) for shape, dtype in self.specs]
            try:
                other, _, others = self.traced(specs)
            except Exception:  # for example, incompatible shapes
                return False
            if other.tojson() != expected or captured.keys() != others.keys():
                return False
            if not all(np.array_equal(captured[k].asnumpy(), others[k].asnumpy()) for k in others):
                return False
        return True

    def has_outputs(self, symbol: Symbol, expected: Specs) -> bool:
        """Return whether a symbol has outputs of the expected shapes and dtypes for the inputs.

        Also returns False for a symbol that 1.x cannot run on these inputs.
        """
        shapes = {name: shape for name, (shape, _) in zip(self._names, self.specs)}
        types = {name: dtype for name, (_, dtype) in zip(self._names, self.specs)}
        for param in self._params:
            array = Parameter.data(param, self._ctx)
            shapes[param.name], types[param.name] = tuple(array.shape), dtype_name(array.dtype)
        try:
            inference = infer(symbol._outputs, shapes, types)
        except MXNetError:
            return False
        if any(_broadcasts_unnamed(node, inference) for node in inference.nodes):
            return False
        found = [(inference.shape(*entry), inference.type(*entry)) for entry in symbol._outputs]
        return found == [(tuple(shape), dtype) for shape, dtype in expected]


def _broadcasts_unnamed(node: Node, inference: Inference) -> bool:
    """Return whether a node needs broadcasting that only mxlite's operator supports.

    In 1.x only ``broadcast_equal`` broadcasts; ``_equal`` needs equal shapes.
    """
    schema, prefix = schema_of(node), "broadcast_"
    if schema is None or not schema["name"].startswith(prefix):
        return False
    if node.op is not None and node.op.startswith(prefix):
        return False
    return len({inference.shape(*entry) for entry in node.inputs}) > 1


class CachedGraph:
    """``block._cached_graph`` of 1.x, which mxboard and other tools read.

    It is ``(inputs, symbol)``, and empty for a block without a compiled graph. An attribute that a
    script sets hides it.
    """

    def __get__(self, block: HybridLike | None, owner: type) -> Any:
        """Return the inputs' variables and the symbol of the last call."""
        if block is None:
            return self
        if block._compilation.last() is None and block._compilation.last_eager() is None:
            return ()
        forward = _Forward(block)
        return forward.variables(), exported_symbol(block)[0]
