"""Set operations: unique elements, membership, intersection, union.

The host compares the values. If a gradient may be needed, results are taken from the arrays by
index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .arguments import (
    DYNAMIC_SIZE,
    as_array,
    flatten_for,
    from_host,
    is_real,
    promote,
    refuse_traced,
)
from .arguments import (
    official as official_dtype,
)
from .joining import concatenate
from .ndarray import ndarray
from .sorting import compress, sort

_take = _core.op("take")

__all__ = [
    "in1d",
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """Return the unique elements in ascending order; of equal elements, the first has the gradient.

    Parameters
    ----------
    ar : ndarray
    return_index, return_inverse, return_counts : bool
        Return a tuple that also has int64 arrays: the index of each element's first occurrence;
        the indices that rebuild the array from the unique elements; the number of occurrences.
    axis : int or None
        None flattens the array; else slices along the axis are compared.
    """
    a = as_array(ar, "unique")
    refuse_traced(a, "unique", DYNAMIC_SIZE)
    only_values = not (return_index or return_inverse or return_counts)
    if axis is None and only_values and not _core.is_recording():
        values = sort(a, None)._host_view().astype(official_dtype(a.dtype), copy=False)
        first = np.ones(values.shape, np.bool_)
        np.not_equal(values[1:], values[:-1], out=first[1:])
        if is_real(a.dtype) and values.size and values[-1] != values[-1]:  # NaN are last
            first[np.searchsorted(values, values[-1]) + 1 :] = False
        return from_host(values[first], a.ctx, a.dtype)
    official: Any = np.unique  # its overloads know no variable flags
    _, index, *others = official(a._host_view(), True, return_inverse, return_counts, axis)
    flat, place = flatten_for(a, axis, "unique")
    values = _take(flat, from_host(index, a.ctx, np.int64), axis=place)
    found = [index, *others] if return_index else others
    rest = (from_host(numbers.reshape(-1), a.ctx, np.int64) for numbers in found)
    return (values, *rest) if found else values


class UniqueAll(NamedTuple):
    """Result of `unique_all`."""

    values: ndarray
    indices: ndarray
    inverse_indices: ndarray
    counts: ndarray


class UniqueCounts(NamedTuple):
    """Result of `unique_counts`."""

    values: ndarray
    counts: ndarray


class UniqueInverse(NamedTuple):
    """Result of `unique_inverse`."""

    values: ndarray
    inverse_indices: ndarray


def unique_all(x: Any) -> UniqueAll:
    """Return unique elements, indices of first occurrences, inverse indices, and counts."""
    values, index, inverse, counts = unique(x, True, True, True)
    return UniqueAll(values, index, inverse._reshape_view(x.shape), counts)


def unique_counts(x: Any) -> UniqueCounts:
    """Return the unique elements and the number of times that each occurs."""
    return UniqueCounts(*unique(x, return_counts=True))


def unique_inverse(x: Any) -> UniqueInverse:
    """Return the unique elements and the indices that rebuild the array from them."""
    values, inverse = unique(x, return_inverse=True)
    return UniqueInverse(values, inverse._reshape_view(x.shape))


def unique_values(x: Any) -> ndarray:
    """Return the unique elements in ascending order."""
    return unique(x)


def _flat_pair(one: Any, other: Any, who: str) -> Sequence[ndarray]:
    arrays = [flatten_for(a, None, who)[0] for a in (one, other)]
    for a in arrays:
        refuse_traced(a, who, DYNAMIC_SIZE)
    return promote(arrays)


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False
) -> ndarray:
    """Return a bool array: whether each element is in ``test_elements`` (not in if ``invert``)."""
    element = as_array(element, "isin")
    one, other = _flat_pair(element, test_elements, "isin")
    found = np.isin(one._host_view(), other._host_view(), assume_unique, invert)
    return from_host(found.reshape(element.shape), element.ctx)


def in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> ndarray:
    """Return :func:`isin` of the flattened first array."""
    return isin(flatten_for(ar1, None, "in1d")[0], ar2, assume_unique, invert)


def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """Return the unique elements that are in both arrays, in ascending order.

    With ``return_indices``, return (elements, indices in flattened ar1, indices in flattened ar2).
    """
    one, other = _flat_pair(ar1, ar2, "intersect1d")
    _, *found = np.intersect1d(one.asnumpy(), other.asnumpy(), assume_unique, True)
    first, second = (from_host(index, one.ctx, np.int64) for index in found)
    values = _take(one, first)
    return (values, first, second) if return_indices else values


def union1d(ar1: Any, ar2: Any) -> ndarray:
    """Return the unique elements that are in either array, in ascending order."""
    return unique(concatenate(_flat_pair(ar1, ar2, "union1d")))


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> ndarray:
    """Return the unique elements of the first array that are not in the second one."""
    one, other = _flat_pair(ar1, ar2, "setdiff1d")
    one = one if assume_unique else unique(one)
    return compress(isin(one, other, invert=True), one)


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> ndarray:
    """Return the unique elements that are in exactly one of the arrays, in ascending order."""
    one, other = _flat_pair(ar1, ar2, "setxor1d")
    if not assume_unique:
        one, other = unique(one), unique(other)
    values, counts = unique(concatenate([one, other]), return_counts=True)
    return compress(counts.asnumpy() == 1, values)
