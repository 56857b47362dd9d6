"""Blocks called with symbols: variables stand for parameters, nodes get the names of 1.x."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from .. import name as _name
from .._core import NDArray
from ..base import TypeError_
from ..symbol import Group, Symbol
from ..symbol import var as make_var
from .tracing import stand_ins, standing_in

if TYPE_CHECKING:
    from .hybrid_block import HybridBlock

__all__ = ["Variables", "call_symbolic", "flatten_symbols", "has_symbol", "input_variables"]


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


def has_symbol(nested: Any) -> bool:
    """Say whether a Symbol is among (nested lists of) arguments."""
    if isinstance(nested, NDArray):
        return False
    if isinstance(nested, Symbol):
        return True
    return isinstance(nested, (list, tuple)) and any(has_symbol(entry) for entry in nested)


def call_symbolic(block: HybridBlock, args: tuple[Any, ...]) -> Any:
    """Compose a block's outputs from symbols.

    Parameters
    ----------
    block : HybridBlock
    args : tuple of Symbol, or nested lists of them

    Returns
    -------
    Symbol or nested lists of them
    """
    with ExitStack() as stack:
        if not isinstance(stand_ins(), Variables):
            params = block.collect_params().values()
            stack.enter_context(standing_in(Variables({id(p): p.var() for p in params})))
        stack.enter_context(block.name_scope())
        if block._node_op:
            stack.enter_context(_LayerNames(block.prefix, block._node_op))
        return block.forward(*args)


def input_variables(count: int) -> list[Symbol]:
    """Return the variables for a block's inputs: ``data``, or ``data0``, ``data1``, ..."""
    names = ["data"] if count == 1 else [f"data{i}" for i in range(count)]
    return [make_var(name) for name in names]


def flatten_symbols(nested: Any, label: str) -> Symbol:
    """Return one symbol with all outputs of nested lists of symbols.

    Parameters
    ----------
    nested : Symbol or nested lists of them
    label : str
        Named in errors.

    Raises
    ------
    TypeError_
        For anything else.
    """
    if isinstance(nested, Symbol):
        return nested
    if isinstance(nested, (list, tuple)) and nested:
        return Group([flatten_symbols(entry, label) for entry in nested if entry is not None])
    raise TypeError_(
        f"{label} must be Symbols or (nested) lists of them, but got {nested!r} of type "
        f"{type(nested).__name__}"
    )
