"""Arithmetic of symbols, and operators as methods."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import compose
from ..base import NotImplementedForSymbol
from ..ndarray.methods import METHODS
from .symbol import Symbol

__all__: list[str] = []


def _refused(method: str) -> Any:
    def operator(self: Symbol, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedForSymbol(operator, method, *args)

    operator.__name__ = method
    operator.__doc__ = "Refused: a symbol has no value."
    return operator


def _negated(self: Symbol) -> Any:
    return compose("_MulScalar", (self,), {"scalar": -1.0})


def _reshape(self: Symbol, *args: Any, **kwargs: Any) -> Any:
    """Return the symbol in another shape: ``reshape((2, -1))``, ``reshape(2, -1)``."""
    if args:
        shape = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        kwargs["shape"] = tuple(shape)
    return compose("reshape", (self,), kwargs)


def _transpose(self: Symbol, *axes: Any, **kwargs: Any) -> Any:
    """Return the symbol with permuted axes."""
    if axes:
        given = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        kwargs["axes"] = tuple(given)
    return compose("transpose", (self,), kwargs)


def _astype(self: Symbol, dtype: Any, **kwargs: Any) -> Any:
    """Return the values in another dtype."""
    kwargs.pop("copy", None)
    return compose("cast", (self,), {"dtype": dtype, **kwargs})


def _expand_dims(self: Symbol, axis: int, inplace: bool = False, **kwargs: Any) -> Any:
    """Return the symbol with an additional axis of length 1; inplace has no effect."""
    return compose("expand_dims", (self,), {"axis": axis, **kwargs})


def _squeeze(self: Symbol, axis: Any = None, inplace: bool = False, **kwargs: Any) -> Any:
    """Return the symbol without axes of length 1; inplace has no effect."""
    return compose("squeeze", (self,), {"axis": axis, **kwargs})


def _flatten(self: Symbol, inplace: bool = False, **kwargs: Any) -> Any:
    """Return the symbol as a matrix; inplace has no effect."""
    return compose("flatten", (self,), kwargs)


_NAMED = {
    "astype": _astype,
    "expand_dims": _expand_dims,
    "flatten": _flatten,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "transpose": _transpose,
}
_OPERATORS = {name: name for name in (*METHODS, "broadcast_to")}
_OPERATORS |= {"__abs__": "abs", "slice_assign": "_slice_assign",
               "slice_assign_scalar": "_slice_assign_scalar"}  # fmt: skip


def _attach() -> None:
    _core.attach_signs(Symbol)
    for sign in ("add", "sub", "mul", "truediv"):
        setattr(Symbol, f"__i{sign}__", _refused(f"__i{sign}__"))
    for name, op in _OPERATORS.items():
        setattr(Symbol, name, _core.op(op, composes=True))
    for name, target in _NAMED.items():
        setattr(Symbol, name, target)
    setattr(Symbol, "__neg__", _negated)  # noqa: B010 - attached like the others
    setattr(Symbol, "T", property(_transpose))  # noqa: B010
    for name in ("asnumpy", "asscalar", "wait_to_read", "copy", "as_in_context", "detach",
                 "backward"):  # fmt: skip
        setattr(Symbol, name, _refused(name))


_attach()
