"""Flattens nested lists of arrays for a graph, and restores the nesting of its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Union

from .. import _core
from .._core import NDArray
from ..base import InputError

#: ``LEAF`` for one array, ``OTHER_LEAF`` for an output of another class than the graph's inputs,
#: ``NONE`` for None, a tuple of layouts for a list or tuple.
Layout = Union[int, tuple[Any, ...]]
LEAF = 0
NONE = 1
OTHER_LEAF = 2


def flatten(nested: Any, label: str) -> tuple[list[NDArray], Layout]:
    """Return the arrays in nested lists and their layout."""
    arrays: list[NDArray] = []
    return arrays, _flatten(nested, label, arrays)


def _flatten(nested: Any, label: str, arrays: list[NDArray]) -> Layout:
    if isinstance(nested, NDArray):
        arrays.append(nested)
        return LEAF
    if nested is None:
        return NONE
    if isinstance(nested, (list, tuple)):
        return tuple(_flatten(entry, label, arrays) for entry in nested)
    raise InputError(
        f"{label} must be NDArrays or (nested) lists of them, but got {nested!r} of type "
        f"{type(nested).__name__}"
    )


def unflatten(arrays: Sequence[Any], layout: Layout) -> Any:
    """Return arrays with the nesting before `flatten`; tuples become lists."""
    return _unflatten(iter(arrays), layout)


def _unflatten(arrays: Iterator[Any], layout: Layout) -> Any:
    if layout == LEAF:
        return next(arrays)
    if layout == NONE:
        return None
    if layout == OTHER_LEAF:
        array = next(arrays)
        return _core.with_numpy(array, not array._numpy)
    assert isinstance(layout, tuple)
    return [_unflatten(arrays, part) for part in layout]


def count_leaves(layout: Layout) -> int:
    """Return the number of arrays of a layout."""
    if isinstance(layout, tuple):
        return sum(count_leaves(part) for part in layout)
    return int(layout in (LEAF, OTHER_LEAF))


def mark_classes(layout: Layout, arrays: Iterator[NDArray], numpy: bool) -> Layout:
    """Return the layout with ``OTHER_LEAF`` for arrays that are not of the class of ``numpy``."""
    if isinstance(layout, tuple):
        return tuple(mark_classes(part, arrays, numpy) for part in layout)
    return OTHER_LEAF if layout == LEAF and next(arrays)._numpy != numpy else layout


def first_array(nested: Any) -> Any:
    """Return the first array of nested lists, or None."""
    if isinstance(nested, NDArray):
        return nested
    if isinstance(nested, (list, tuple)):
        for entry in nested:
            found = first_array(entry)
            if found is not None:
                return found
    return None


def in_class_of(array: NDArray, other: NDArray) -> NDArray:
    """Return a dense array as ``mx.np.ndarray`` if ``other`` is one, else as NDArray."""
    if array.__class__ is other.__class__ or _core.array_kind(array) != "dense":
        return array
    return _core.with_numpy(array, getattr(other, "_numpy", False))
