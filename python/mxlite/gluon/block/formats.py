"""Nesting of a block's inputs and outputs as 1.x writes it: numbers and lists of them.

0 is an array, -1 None, n > 0 a Symbol with n outputs. GluonTS keeps the formats of a network in a
file beside its symbol and gives them to the `SymbolBlock` made from that.
"""

from __future__ import annotations

from typing import Any, Union

from ..._core import NDArray
from ...base import InputError
from ...ndarray.structure import LEAF, Layout
from ...symbol import Symbol

__all__ = ["Format", "Formats", "flatten", "regroup"]

Format = Union[int, list[Any]]


def flatten(args: Any, inout_str: str) -> tuple[list[Any], Format]:
    """Take nested lists of arrays or symbols apart.

    Parameters
    ----------
    args : NDArray, Symbol, None or nested lists of them
    inout_str : str
        Named in errors: ``'input'`` or ``'output'``.

    Returns
    -------
    list, Format

    Raises
    ------
    InputError
        For anything else.

    Notes
    -----
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
    """Restore the structure that `flatten` removed.

    Parameters
    ----------
    args : list
    fmt : Format

    Returns
    -------
    NDArray, Symbol, None or nested lists of them

    Raises
    ------
    InputError
        If the format has another number of entries.

    Notes
    -----
    Matches ``mxnet.gluon.block._regroup``.
    """
    flat = list(args)
    nested, used = _regroup(flat, 0, fmt)
    if used != len(flat):
        raise InputError(f"{len(flat)} arrays given for the format {fmt}, {used} expected")
    return nested


def _regroup(flat: list[Any], begin: int, fmt: Format) -> tuple[Any, int]:
    if not isinstance(fmt, (list, tuple)):
        count = max(int(fmt), 1)
        if begin + count > len(flat):
            raise InputError(f"{len(flat)} arrays given for the format {fmt}, more expected")
        taken = flat[begin : begin + count]
        if fmt == -1 and taken[0] is not None:
            raise InputError(f"the format has None where {taken[0]!r} is given")
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


class Formats:
    """Base of `HybridBlock`: the formats of the graph that was made last."""

    _graphs: dict[Any, Any]
    _given_formats: dict[str, Format]

    @property
    def _in_format(self) -> Format | None:
        """Nesting of the inputs; None before the first call of the hybridized block."""
        given = self.__dict__.get("_given_formats", {})
        if "in" in given or not self._graphs:
            return given.get("in")
        return _of_layout(next(reversed(self._graphs))[1])

    @_in_format.setter
    def _in_format(self, fmt: Format | None) -> None:
        self._give_format("in", fmt)

    @property
    def _out_format(self) -> Format | None:
        """Nesting of the outputs; None before the first call of the hybridized block."""
        given = self.__dict__.get("_given_formats", {})
        if "out" in given or not self._graphs:
            return given.get("out")
        layouts = self._graphs[next(reversed(self._graphs))]._output_layouts
        return _of_layout(next(iter(layouts.values()))) if layouts else None

    @_out_format.setter
    def _out_format(self, fmt: Format | None) -> None:
        self._give_format("out", fmt)

    def _give_format(self, key: str, fmt: Format | None) -> None:
        given = self.__dict__.setdefault("_given_formats", {})
        given.pop(key, None)
        if fmt is not None:
            given[key] = fmt
        self._clear_cached_op()

    def _clear_cached_op(self) -> None:
        raise NotImplementedError
