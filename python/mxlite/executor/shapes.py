"""Replaces the arrays of an executor when shapes change."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import ShapeError, ValueError_
from ..ndarray import NDArray
from ..ndarray.sparse.storage import is_sparse
from ..symbol.shown import renew


def check_kept(
    arrays: Iterable[tuple[str, NDArray, Sequence[int]]],
    changing: Container[str],
    given: Mapping[str, Any],
) -> None:
    """Raise if an array whose shape must not change would get another shape."""
    for name, array, shape in arrays:
        if name not in changing and tuple(shape) != tuple(array.shape):
            asked = ", ".join(f"{key}: {tuple(value)}" for key, value in given.items())
            raise ShapeError(
                f"Shape of unspecified array arg:{name} changed from {tuple(array.shape)} to "
                f"{tuple(shape)} with the shapes given ({asked}). This can cause the new executor "
                "to not share parameters with the old one. Please check for error in network. If "
                "this is intended, set partial_shaping=True to suppress this warning."
            )


def resized(name: str, array: NDArray, shape: Sequence[int], allow_up_sizing: bool) -> NDArray:
    """Return an array of a new shape, in the memory of the old one if that is large enough."""
    if tuple(array.shape) == tuple(shape):
        return array
    if is_sparse(array):
        return nd.sparse.zeros(array.stype, tuple(shape), ctx=array.context, dtype=array.dtype)
    if np.prod(shape, dtype=np.int64) > array.size:
        if not allow_up_sizing:
            raise ValueError_(
                f"New shape of arg:{name} larger than original. First making a big executor and "
                "then down sizing it is more efficient than the reverse. If you really want to "
                "up size, set allow_up_sizing=True to enable allocation of new arrays."
            )
        return nd.zeros(tuple(shape), ctx=array.ctx, dtype=array.dtype)
    return _first_elements(array, shape)


def _first_elements(array: NDArray, shape: Sequence[int]) -> NDArray:
    size = int(np.prod(shape, dtype=np.int64))
    return array.reshape((-1,))[:size].reshape(tuple(shape))


def shared(shown: list[NDArray], others: list[NDArray]) -> list[NDArray]:
    """Return arrays like ``others``, in the memory of ``shown`` if it is large enough."""
    renew(shown, [array.copy() for array in shown])
    return [
        new if is_sparse(old) or new.size > old.size else _first_elements(old, new.shape)
        for old, new in zip(shown, others)
    ]
