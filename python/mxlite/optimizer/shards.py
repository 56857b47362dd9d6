"""Norms of whole weights whose shards are stored on several ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..ndarray import NDArray

__all__ = ["whole_squares"]


def whole_squares(
    indices: Sequence[Any], arrays: Sequence[NDArray], shards: Mapping[Any, int]
) -> NDArray:
    """Return the sum of squares of each whole weight or gradient.

    The ranks that hold shards of a weight call this with the same indices in the same order.
    """
    is_exact = [array.dtype == np.float64 for array in arrays]
    exact = [i for i, is_double in enumerate(is_exact) if is_double]
    others = [i for i, is_double in enumerate(is_exact) if not is_double]
    parts = [nd.sum(nd.square(arrays[i])).reshape((1,)) for i in exact]
    if others:
        sums = nd.multi_sum_sq(*(arrays[i] for i in others), num_arrays=len(others))
        parts.append(sums.astype("float64"))
    own = _taken(nd.concat(*parts, dim=0), np.argsort([*exact, *others]))
    # With ZeRO, ranks may have different unsharded weights in this list, so each process set sums
    # only its own shards.
    by_set: dict[int, list[int]] = {}
    for i, index in enumerate(indices):
        if index in shards:
            by_set.setdefault(shards[index], []).append(i)
    found, places = [own], np.arange(len(arrays))
    for number in sorted(by_set):
        members = by_set[number]
        places[members] = sum(len(part) for part in found) + np.arange(len(members))
        shard = _taken(own, np.array(members))
        found.append(nd.contrib.all_reduce(shard, process_set=number))
    return _taken(nd.concat(*found, dim=0), places)


def _taken(array: NDArray, positions: np.ndarray[Any, Any]) -> NDArray:
    result: NDArray = nd.take(array, nd.array(positions, dtype="int64", ctx=array.ctx))
    return result
