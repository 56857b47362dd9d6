"""Symbols of recorded computations (``mx.autograd.get_symbol``)."""

from __future__ import annotations

from .. import _core, autograd
from .._core import NDArray
from .symbol import Symbol

__all__ = ["recorded_symbol"]


@autograd.recorded_symbol.provide
def recorded_symbol(array: NDArray) -> Symbol:
    """Return the computation that the tape has for an array."""
    return Symbol([_core.recorded_entry(array)])
