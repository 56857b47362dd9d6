"""``mx.nd.CachedOp``: a symbol that is called like an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import NDArray
from ..base import TypeError_, ValueError_
from ..symbol import Symbol


class CachedOp:
    """A symbol that can be called on arrays. New scripts should hybridize a block instead.

    Parameters
    ----------
    sym : Symbol
    flags : sequence of (str, object)
        Accepted and ignored: a graph is always compiled as a whole.
    """

    def __init__(self, sym: Symbol, flags: Sequence[tuple[str, Any]] = ()) -> None:
        if not isinstance(sym, Symbol):
            raise TypeError_(f"CachedOp: sym must be a Symbol, got {type(sym).__name__}")
        self._symbol = sym
        self._names = sym.list_inputs()
        self._graph = None
        # Arrays that operators write to cannot be inputs of a compiled graph.
        if self._names and not sym.list_auxiliary_states():
            name = sym.name or "symbol group"
            self._graph = _core.symbol_graph(sym._outputs, self._names, name)

    def _evaluate(self, inputs: Sequence[NDArray]) -> list[NDArray]:
        values = dict(zip(self._names, inputs))
        return _core.evaluate(self._symbol._outputs, values)

    def __call__(self, *args: NDArray, out: Any = None, **kwargs: Any) -> Any:
        """Compute the outputs.

        Parameters
        ----------
        *args : NDArray
            One for each of the symbol's ``list_inputs``.
        out : NDArray or list of NDArray, optional
        **kwargs
            ``default_ctx`` of 1.x is accepted.

        Returns
        -------
        NDArray or list of NDArray

        Raises
        ------
        ValueError
            If the number of arrays is wrong.
        """
        if len(args) != len(self._names):
            raise ValueError_(
                f"CachedOp: number of arrays must be {len(self._names)}, got {len(args)} "
                f"({', '.join(self._names)})"
            )
        found = self._evaluate(args) if self._graph is None else self._graph(*args)
        outputs = [found] if isinstance(found, NDArray) else list(found)
        if out is not None:
            targets = [out] if isinstance(out, NDArray) else list(out)
            for output, target in zip(outputs, targets):
                output.copyto(target)
            return out
        return outputs[0] if len(outputs) == 1 else outputs
