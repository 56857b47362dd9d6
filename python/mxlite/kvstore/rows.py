"""Rows of values, for row-sparse pulls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import IndexError_, ValueError_
from ..ndarray import NDArray


def is_sparse(array: NDArray) -> bool:
    """Return whether an array is row-sparse."""
    return str(getattr(array, "stype", "default")) == "row_sparse"


def check_sparse(key: Any, array: NDArray) -> None:
    """Raise if an array is not row-sparse."""
    if not is_sparse(array):
        raise ValueError_(
            f"row_sparse_pull: key {key}: Expected row_sparse storage type for row_sparse_pull "
            f"values, but detected storage type {getattr(array, 'stype', 'default')}"
        )


def wanted_rows(key: Any, row_ids: NDArray, shape: Sequence[int]) -> NDArray:
    """Return the sorted row ids without duplicates."""
    ids = np.unique(row_ids.asnumpy()).astype("int64")
    if len(ids) and (ids[0] < 0 or ids[-1] >= shape[0]):
        raise IndexError_(
            f"row_sparse_pull: key {key}: row ids must be in [0, {shape[0] - 1}], got "
            f"{ids[0] if ids[0] < 0 else ids[-1]}"
        )
    return nd.array(ids, dtype="int64")


def rows_of(stored: Any, wanted: NDArray) -> NDArray:
    """Return rows of a value as a row-sparse array."""
    ctx = stored.ctx
    wanted = wanted.as_in_context(ctx)
    if is_sparse(stored):
        return stored.retain(wanted)
    if not wanted.size:
        return nd.sparse.zeros("row_sparse", stored.shape, ctx=ctx, dtype=stored.dtype)
    rows = nd.take(stored, wanted)
    return nd.sparse.row_sparse_array((rows, wanted), shape=stored.shape, ctx=ctx)
