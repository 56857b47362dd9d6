"""The format of 1.x for the nesting of a block's inputs and outputs: a number or nested lists.

0 means an array, -1 None, n > 0 a Symbol with n outputs. GluonTS saves the formats of a network
next to its symbol, and sets them on the `SymbolBlock` that it makes from the symbol.
"""

from __future__ import annotations

from typing import Any, Union

from ..._core import NDArray
from ...base import InputError
from ...ndarray.structure import LEAF, Layout
from ...symbol import Symbol

__all__ = ["Format", "FormatAttribute", "flatten", "regroup"]

Format = Union[int, list[Any]]


def flatten(args: Any, inout_str: str) -> tuple[list[Any], Format]:
    """Return the leaves of nested lists of arrays or symbols, and their format.

    Matches ``mxnet.gluon.block._flatten``.
    """
    if isinstance(args, NDArray):
        return [args], 0
    if isinstance(args, Symbol):
        return [args], len(args) if len(args) > 1 else 0
    if args is None:
        return [None], -1
    if not isinstance(args, (list, tuple)):
        raise InputError(
            f"When hybridized, the {inout_str} of HybridBlock must be (nested) list of Symbol or "
            f"NDArray, but got {args!r} of type {type(args).__name__}"
        )
    flat: list[Any] = []
    formats: list[Any] = []
    for entry in args:
        parts, part_format = flatten(entry, inout_str)
        flat.extend(parts)
        formats.append(part_format)
    return flat, formats


def regroup(args: Any, fmt: Format) -> Any:
    """Nest the result of `flatten` again.

    Matches ``mxnet.gluon.block._regroup``.
    """
    flat = list(args)
    nested, used = _regroup(flat, 0, fmt)
    if used != len(flat):
        raise InputError(f"number of arrays must be {used} for the format {fmt}, got {len(flat)}")
    return nested


def _regroup(flat: list[Any], begin: int, fmt: Format) -> tuple[Any, int]:
    if not isinstance(fmt, (list, tuple)):
        count = max(int(fmt), 1)
        if begin + count > len(flat):
            raise InputError(
                f"number of arrays must be larger for the format {fmt}, got {len(flat)}"
            )
        taken = flat[begin : begin + count]
        if fmt == -1 and taken[0] is not None:
            raise InputError(f"the array must be None for this format, got {taken[0]!r}")
        return (taken if fmt > 0 else taken[0]), begin + count
    nested = []
    for part in fmt:
        entry, begin = _regroup(flat, begin, part)
        nested.append(entry)
    return nested, begin


def _of_layout(layout: Layout) -> Format:
    if isinstance(layout, tuple):
        return [_of_layout(part) for part in layout]
    return 0 if layout == LEAF else -1


class FormatAttribute:
    """``block._in_format`` or ``_out_format``: the value that was set, else the last graph's."""

    def __init__(self, of_outputs: bool) -> None:
        self._of_outputs = of_outputs

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, block: Any, owner: type) -> Any:
        """Return the format; None before the first call of the hybridized block."""
        if block is None:
            return self
        if self._name in block.__dict__:
            return block.__dict__[self._name]
        last = block._compilation.last()
        if last is None:
            return None
        (_, layout), compiled = last
        if self._of_outputs:
            layout = next(iter(compiled.output_layouts.values()), None)
        return None if layout is None else _of_layout(layout)

    def __set__(self, block: Any, fmt: Format | None) -> None:
        """Set the format, or with None, use that of the last graph."""
        block.__dict__.pop(self._name, None)
        if fmt is not None:
            block.__dict__[self._name] = fmt
        block._clear_cached_op()
