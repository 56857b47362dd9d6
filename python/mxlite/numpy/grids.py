"""Triangular matrices, grids of coordinates, and window functions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as onp

from .. import _core
from ..base import ValueError_
from .arguments import as_array, default_dtype, set_name
from .creation import arange, array, device_of, shape_of, zeros_like
from .manipulation import broadcast_to, expand_to
from .ndarray import ndarray

__all__ = [
    "blackman", "hamming", "hanning", "indices", "meshgrid", "tri", "tril", "triu",
]  # fmt: skip


def tri(
    N: int,  # noqa: N803
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: Any = None,
    ctx: Any = None,
    *,
    device: Any = None,
) -> ndarray:
    """Return an (N, M) matrix with ones at and below the k-th diagonal; M is N by default."""
    ctx = device_of(ctx, device)
    lower = _at_or_below(operator.index(N), operator.index(N if M is None else M), k, ctx)
    return lower.astype(default_dtype(dtype))  # type: ignore[return-value]


def _at_or_below(rows: int, columns: int, k: int, ctx: Any) -> ndarray:
    """Return a bool matrix that is true at and below the k-th diagonal."""
    row = arange(rows, dtype="int64", ctx=ctx)._reshape_view((rows, 1))
    column = arange(columns, dtype="int64", ctx=ctx)
    below: Any = row + k >= column
    return below


def _triangle(name: str, lower: bool, doc: str) -> Any:
    def triangle(m: ndarray, k: int = 0) -> ndarray:
        m = as_array(m, name)
        if m.ndim == 0:
            raise ValueError_(f"{name}: m must have at least 1 dimension, got shape ()")
        rows, columns = (m.shape * 2)[-2:] if m.ndim == 1 else m.shape[-2:]
        kept = _at_or_below(rows, columns, k if lower else k - 1, m.ctx)
        if not lower:
            kept = _core.op("_npi_logical_not")(kept)
        result: Any = m * kept if m.dtype == onp.bool_ else _selected(m, kept)
        return result

    return set_name(triangle, name, doc)


def _selected(m: ndarray, kept: ndarray) -> Any:
    """Return m where ``kept`` is true, else 0 (a product would turn infinity into NaN)."""
    shape = m.shape if m.ndim > 1 else kept.shape
    values = expand_to(m, shape)
    return _core.op("where")(expand_to(kept, shape), values, zeros_like(values))


tril = _triangle("tril", True, "Return a copy with zeros above the k-th diagonal.")
triu = _triangle("triu", False, "Return a copy with zeros below the k-th diagonal.")


def indices(
    dimensions: Any, dtype: Any = None, ctx: Any = None, *, sparse: bool = False, device: Any = None
) -> Any:
    """Return the indices of a grid, one array of ``dimensions`` for each axis (int32 by default).

    The result has shape (axes, *dimensions); with ``sparse`` it is a tuple of arrays that
    broadcast to the dimensions.
    """
    shape = shape_of(dimensions, "indices")
    official: Any = onp.indices  # its overloads know no variable `sparse`
    host = official(shape, onp.int32 if dtype is None else dtype, sparse)
    ctx = device_of(ctx, device)
    return tuple(array(part, ctx=ctx) for part in host) if sparse else array(host, ctx=ctx)


def meshgrid(
    *xi: ndarray, indexing: str = "xy", sparse: bool = False, copy: bool = True
) -> list[ndarray]:
    """Return one coordinate array for each vector; together they describe a grid.

    Parameters
    ----------
    *xi : ndarray
        Vectors or scalars.
    indexing : str
        'xy' exchanges the first two axes of the results, 'ij' does not.
    sparse : bool
        Keep axes of length 1 instead of broadcasting.
    copy : bool
        Without effect. Results share memory with the arguments only if ``sparse``.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError_(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    vectors = [as_array(x, "meshgrid") for x in xi]
    sizes = [x.size for x in vectors]
    swapped = indexing == "xy" and len(vectors) > 1
    axes = [1, 0, *range(2, len(vectors))] if swapped else list(range(len(vectors)))
    full_shape = [0] * len(vectors)
    for axis, size in zip(axes, sizes):
        full_shape[axis] = size
    results = []
    for axis, vector in zip(axes, vectors):
        shape = [1] * len(vectors)
        shape[axis] = vector.size
        part = _core.op("Reshape")(vector, shape=(-1,)) if vector.ndim > 1 else vector
        part = part._reshape_view(tuple(shape))
        results.append(part if sparse else broadcast_to(part, tuple(full_shape)))
    return results


def _window(name: str, doc: str) -> Any:
    def window(M: int, dtype: Any = None, ctx: Any = None, *, device: Any = None) -> ndarray:  # noqa: N803
        values = getattr(onp, name)(M)
        return array(values, default_dtype(dtype), ctx=device_of(ctx, device))

    return set_name(window, name, doc)


blackman = _window("blackman", "Return the Blackman window of M points (float32 by default).")
hamming = _window("hamming", "Return the Hamming window of M points (float32 by default).")
hanning = _window("hanning", "Return the Hann window of M points (float32 by default).")
