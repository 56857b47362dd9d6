"""Symbols of recorded computations (``mx.autograd.get_symbol``)."""

from __future__ import annotations

from .. import _core, autograd
from .._core import NDArray
from .symbol import Symbol


@autograd.recorded_symbol.provide
def recorded_symbol(array: NDArray) -> Symbol:
    """Return a symbol of the computation of an array that the tape recorded."""
    return Symbol([_core.recorded_entry(array)])
