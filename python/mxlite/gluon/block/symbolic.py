"""Blocks called with symbols: variables stand for parameters, nodes get the names of 1.x."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from ... import name as _name
from ... import ndarray as nd
from ..._core import NDArray
from ...base import InputError
from ...ndarray.structure import Layout, count_leaves, first_array, flatten, unflatten
from ...symbol import Symbol, control_flow
from ...symbol import var as make_var
from ...symbol.numpy_symbol import NumpySymbol
from ..parameter import Parameter
from ..parameter.tracing import stand_ins, standing_in
from .compiled import HybridLike
from .hooks import OpHook

__all__ = [
    "Variables",
    "call_symbolic",
    "composed_outputs",
    "has_symbol",
    "input_names",
    "input_variables",
    "mixed_inputs",
    "run_hooked",
]


class Variables(dict[int, Any]):
    """The symbols that stand for parameters, by ``id(parameter)``."""


class _LayerNames(_name.Prefix):
    """Names of the nodes of a layer; its main operator is called ``fwd``."""

    def __init__(self, prefix: str, operator: str) -> None:
        super().__init__(prefix)
        self._operator = operator

    def get(self, name: str | None, hint: str) -> str:
        """Return ``<prefix>fwd`` for the layer's operator, else a counted name."""
        return super().get("fwd" if name is None and hint == self._operator else name, hint)


def first_symbol(nested: Any) -> Symbol | None:
    """Return the first Symbol of (nested lists of) arguments, or None."""
    if isinstance(nested, Symbol):
        return nested
    found = map(first_symbol, nested) if isinstance(nested, (list, tuple)) else ()
    return next((symbol for symbol in found if symbol is not None), None)


def has_symbol(nested: Any) -> bool:
    """Return whether (nested lists of) arguments contain a Symbol."""
    if isinstance(nested, NDArray):
        return False
    if isinstance(nested, Symbol):
        return True
    return isinstance(nested, (list, tuple)) and any(has_symbol(entry) for entry in nested)


def mixed_inputs(block: HybridLike) -> InputError:
    """Return the error for a mixture of arrays and symbols."""
    return InputError(
        f"{block.name}: the inputs of a HybridBlock must be all NDArrays or all Symbols, got both"
    )


def call_symbolic(block: HybridLike, args: tuple[Any, ...]) -> Any:
    """Compose a block's outputs from symbols."""
    if first_array(args) is not None:
        raise mixed_inputs(block)
    with ExitStack() as stack:
        if not isinstance(stand_ins(), Variables):
            variables = {id(p): p.var() for p in block.collect_params().values()}
            if isinstance(first_symbol(args), NumpySymbol):
                variables = {key: var.as_np_ndarray() for key, var in variables.items()}
            stack.enter_context(standing_in(Variables(variables)))
        stack.enter_context(block.name_scope())
        if block._node_op:
            stack.enter_context(_LayerNames(block.prefix, block._node_op))
        return block.forward(*args)


def traced_params(block: HybridLike) -> dict[str, Any]:
    """Return the symbols or arrays that a traced `hybrid_forward` gets as its parameters."""
    params = block._reg_params.items()
    if isinstance(stand_ins(), Variables):
        return {name: Parameter.data(param) for name, param in params}
    return {name: param.data() for name, param in params}


def run_hooked(block: HybridLike, hook: OpHook, args: tuple[Any, ...]) -> Any:
    """Run a block operator by operator."""
    block._resolve_deferred(args)
    if block._active:
        flat, layout = flatten(args, f"{block.name}: inputs of a hybridized block")
        params = list(block.collect_params().values())
        if any(param._deferred_init for param in params):
            block._infer(params, [nd.cast_storage(a, "default") for a in flat], layout, finish=True)
        found = composed_outputs(block, layout) if flat else None
        if found is not None:
            symbol, nesting = found
            with flat[0].ctx:
                values = _bound_values(symbol, block, flat)
                outputs = hook.run_symbol(symbol, values)
                return unflatten(outputs, nesting)
    return hook.run(block.name, lambda: block.forward(*args))


def composed_outputs(block: HybridLike, layout: Layout) -> tuple[Symbol, Layout] | None:
    """Return the symbol of a block's outputs and their nesting, or None if forward needs arrays."""
    variables = input_variables(count_leaves(layout))
    if block._compilation.numpy:
        variables = [variable.as_np_ndarray() for variable in variables]
    try:
        outputs = call_symbolic(block, tuple(unflatten(variables, layout)))
        entries, nesting = control_flow.flatten_symbols(outputs, f"{block.name}: outputs")
    except Exception:  # for example, forward reads shapes or values
        return None
    return (Symbol(entries), nesting) if entries else None


def _bound_values(
    symbol: Symbol, block: HybridLike, inputs: Sequence[NDArray]
) -> dict[str, NDArray]:
    ctx = inputs[0].ctx
    variables = input_variables(len(inputs))
    values = {str(var.name): array for var, array in zip(variables, inputs)}
    known = set(symbol.list_inputs())
    for param in block.collect_params().values():
        if param.name in known:
            values[param.name] = Parameter.data(param, ctx)
    return values


def input_names(count: int) -> list[str]:
    """Return the names of a block's inputs: ``data``, or ``data0``, ``data1``, ..."""
    return ["data"] if count == 1 else [f"data{i}" for i in range(count)]


def input_variables(count: int) -> list[Symbol]:
    """Return the variables for a block's inputs."""
    return [make_var(name) for name in input_names(count)]
