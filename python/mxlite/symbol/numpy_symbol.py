"""The class of symbols in numpy mode: ``mx.symbol.numpy._Symbol`` of MXNet 1.x.

If an input of a composition is a symbol of numpy mode, so is the result. Its operators broadcast,
its comparisons give bools, and ``[]`` slices the value.
"""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import compose
from ..base import TypeError_
from . import symbol as _symbol
from .symbol import Symbol

__all__ = ["NumpySymbol"]


class NumpySymbol(Symbol):
    """A symbol with NumPy's semantics; ``Symbol.as_np_ndarray`` returns one."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        """Return one of several outputs, or a part of the value if there is one output.

        Parameters
        ----------
        key : int, slice, None, Ellipsis or tuple of these
            Basic indices of NumPy.

        Raises
        ------
        TypeError
            If key is another kind of index, such as an array.
        """
        if len(self._outputs) > 1 or isinstance(key, str):
            return super().__getitem__(key)
        return _part(self, key if isinstance(key, tuple) else (key,))

    def as_np_ndarray(self) -> Symbol:
        """Return the symbol itself."""
        return self

    def as_nd_ndarray(self) -> Symbol:
        """Return a Symbol of the same outputs."""
        return Symbol(self._outputs)


def _part(symbol: Any, parts: tuple[Any, ...]) -> Any:
    """Return a part of a value: slice it, drop axes indexed by integers, insert axes for None."""
    kept = [part for part in parts if part is not None]
    for part in kept:
        if part is not Ellipsis and (isinstance(part, bool) or not isinstance(part, (int, slice))):
            raise TypeError_(
                f"Symbol: an index must be an integer, slice, None or Ellipsis, got {part!r}"
            )
    dots = kept.index(Ellipsis) if Ellipsis in kept else len(kept)
    front, back = kept[:dots], kept[dots + 1 :]
    if front:
        begin, end, step = zip(*map(_bounds, front))
        if any(part != slice(None) for part in front):
            symbol = compose("slice", (symbol,), {"begin": begin, "end": end, "step": step})
    for at, part in enumerate(back):
        begin, end, step = _bounds(part)
        if step not in (None, 1):
            raise TypeError_(f"Symbol: a slice after Ellipsis must have step 1, got {step}")
        if part != slice(None):
            options = {"axis": at - len(back), "begin": begin or 0, "end": end}
            symbol = compose("slice_axis", (symbol,), options)
    dropped = [at for at, part in enumerate(front) if isinstance(part, int)]
    dropped += [at - len(back) for at, part in enumerate(back) if isinstance(part, int)]
    if dropped:
        # The maximum over axes of length 1 drops them; unlike squeeze, it may drop all axes.
        symbol = compose("_np_max", (symbol,), {"axis": tuple(dropped)})
    after_dots = parts.index(Ellipsis) if Ellipsis in parts else len(parts)
    at = 0
    for part in parts[:after_dots]:
        if part is None:
            symbol = compose("expand_dims", (symbol,), {"axis": at})
        at += not isinstance(part, int)
    at = -1
    for part in reversed(parts[after_dots + 1 :]):
        if part is None:
            symbol = compose("expand_dims", (symbol,), {"axis": at})
        at -= not isinstance(part, int)
    return symbol


def _bounds(part: int | slice) -> tuple[Any, Any, Any]:
    if isinstance(part, slice):
        return part.start, part.stop, part.step
    return part, (part + 1) or None, None


@_symbol.as_numpy.provide
def _as_numpy(symbol: Symbol) -> NumpySymbol:
    return NumpySymbol(symbol._outputs)


_core.attach_numpy_signs(NumpySymbol, in_place=False)
_core.set_numpy_symbol_type(NumpySymbol)
