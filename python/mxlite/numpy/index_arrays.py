"""Arrays of indices: of triangles and diagonals, and of positions in flattened arrays."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from .. import _core
from ..base import ValueError_
from ..ndarray import NDArray
from .arguments import as_array, from_host, reshape_to, set_name, shape_in, values_of
from .ndarray import ndarray
from .sorting import nonzero

_cast = _core.op("Cast")

__all__ = [
    "diag_indices_from",
    "ix_",
    "ravel_multi_index",
    "tril_indices",
    "tril_indices_from",
    "triu_indices",
    "triu_indices_from",
    "unravel_index",
]


def ravel_multi_index(
    multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C"
) -> ndarray:
    """Return the int64 positions of elements in a flattened array of shape ``dims``.

    ``multi_index`` has an array of coordinates for each axis.
    """
    first = multi_index[0]
    values = tuple(values_of(i, "ravel_multi_index", "the result") for i in multi_index)
    values = tuple(v.astype(np.int64) for v in values)
    found = np.ravel_multi_index(values, shape_in(dims), mode=mode, order=order)  # type: ignore[call-overload]
    return from_host(found, getattr(first, "ctx", None), np.int64)


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[ndarray, ...]:
    """Return the int64 coordinates of positions in a flattened array: one array for each axis."""
    values = values_of(indices, "unravel_index", "the result").astype(np.int64)
    lengths = shape_in(shape)
    if values.size and not (values.min() >= 0 and values.max() < prod(lengths)):
        bad = values[(values < 0) | (values >= prod(lengths))]
        raise ValueError_(
            f"unravel_index: index {int(bad.flat[0])} is out of bounds for array with size "
            f"{prod(lengths)}"
        )
    ctx = getattr(indices, "ctx", None)
    found = np.unravel_index(values, lengths, order=order)  # type: ignore[call-overload]
    return tuple(from_host(index, ctx, np.int64) for index in found)


def _of_numpy(name: str, doc: str) -> Callable[..., tuple[ndarray, ...]]:
    """Return a function of numbers that gives NumPy's int64 index arrays."""

    def function(*args: Any, ctx: Any = None, **kwargs: Any) -> tuple[ndarray, ...]:
        found = getattr(np, name)(*args, **kwargs)
        return tuple(from_host(index, ctx, np.int64) for index in found)

    return set_name(function, name, doc)


tril_indices = _of_numpy(
    "tril_indices", "Return the int64 indices of the lower triangle of an (n, m) array."
)


triu_indices = _of_numpy(
    "triu_indices", "Return the int64 indices of the upper triangle of an (n, m) array."
)


def _matrix(arr: Any, who: str) -> ndarray:
    arr = as_array(arr, who)
    if arr.ndim != 2:
        raise ValueError_(f"{who}: arr must be 2-d, got {arr.ndim} dimensions")
    return arr


def tril_indices_from(arr: Any, k: int = 0) -> tuple[ndarray, ...]:
    """Return the int64 indices of the lower triangle of a matrix."""
    arr = _matrix(arr, "tril_indices_from")
    return tril_indices(arr.shape[0], k=k, m=arr.shape[1], ctx=arr.ctx)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[ndarray, ...]:
    """Return the int64 indices of the upper triangle of a matrix."""
    arr = _matrix(arr, "triu_indices_from")
    return triu_indices(arr.shape[0], k=k, m=arr.shape[1], ctx=arr.ctx)


def diag_indices_from(arr: Any) -> tuple[ndarray, ...]:
    """Return the int64 indices of the main diagonal of an array whose axes are equally long."""
    arr = as_array(arr, "diag_indices_from")
    if arr.ndim < 2 or len(set(arr.shape)) != 1:
        raise ValueError_(
            "diag_indices_from: array must have at least 2 dimensions of equal length, got shape "
            f"{arr.shape}"
        )
    return (from_host(np.arange(arr.shape[0]), arr.ctx, np.int64),) * arr.ndim


def ix_(*args: Any) -> tuple[ndarray, ...]:
    """Return index arrays that select all combinations of the given index vectors."""
    found = []
    for i, arg in enumerate(args):
        a = as_array(arg, "ix_") if isinstance(arg, NDArray) else from_host(arg, None)
        if a.ndim != 1:
            raise ValueError_(f"ix_: arguments must be 1 dimensional, got {a.ndim} dimensions")
        if a.dtype == np.bool_:
            (a,) = nonzero(a)
        elif not a.size:
            a = _cast(a, dtype="int64")
        shape = (1,) * i + (a.size,) + (1,) * (len(args) - i - 1)
        found.append(reshape_to(a, shape=shape))
    return tuple(found)
