"""Functions of ``mx.nd.sparse`` that are not operators of the core."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _core
from ..._core import NDArray
from ...base import ShapeError, TypeError_
from . import storage
from .arrays import CSRNDArray, RowSparseNDArray
from .storage import parts


def retain(
    data: NDArray, indices: Any = None, out: NDArray | None = None, name: str | None = None
) -> NDArray:
    """Return the rows of a row-sparse array with the given ``indices``.

    Parameters
    ----------
    data : RowSparseNDArray
    indices : NDArray
        Row numbers; rows without stored values are 0 in the result.
    out : RowSparseNDArray, optional
    name : str, optional
        Without effect.

    Raises
    ------
    TypeError
        If ``data`` is not row-sparse or there are no indices.
    """
    if indices is None:
        raise TypeError_("retain: indices must be given, got no indices")
    if not isinstance(data, RowSparseNDArray):
        raise TypeError_(f"retain: data must be a RowSparseNDArray, got {type(data).__name__}")
    return data.retain(indices, out)


def getnnz(
    data: CSRNDArray, axis: int | None = None, out: NDArray | None = None, name: str | None = None
) -> NDArray:
    """Return the number of values that a csr array stores: in total, by column (0) or by row (1).

    Parameters
    ----------
    data : CSRNDArray
    axis : int, optional
    out : NDArray, optional
    name : str, optional
        Without effect.
    """
    if not isinstance(data, CSRNDArray):
        raise TypeError_(f"getnnz: data must be a CSRNDArray, got {type(data).__name__}")
    _, indices, indptr = parts(data)
    assert indptr is not None
    if axis is None:
        counts = np.array([len(indices)])
    elif axis in (1, -1):
        counts = np.diff(indptr.asnumpy())
    elif axis in (0, -2):
        counts = np.bincount(indices.asnumpy(), minlength=data.shape[1])
    else:
        raise ShapeError(f"getnnz: axis {axis} is out of range for a matrix")
    return storage.into(out, _core.array_from_numpy(counts, data.context, np.int64))


def edge_id(
    data: CSRNDArray,
    u: NDArray,
    v: NDArray,
    out: NDArray | None = None,
    name: str | None = None,
) -> NDArray:
    """Return the values at (u[i], v[i]) of a csr array, or -1 where no value is stored.

    Parameters
    ----------
    data : CSRNDArray
    u, v : NDArray
        Rows and columns, vectors of one length.
    out : NDArray, optional
    name : str, optional
        Without effect.
    """
    if not isinstance(data, CSRNDArray):
        raise TypeError_(f"edge_id: data must be a CSRNDArray, got {type(data).__name__}")
    if u.shape != v.shape:
        raise ShapeError(f"edge_id: v must have the shape of u, {u.shape}, got {v.shape}")
    with storage.unrecorded():
        values, keys = _core.merged_rows(parts(data)[0], _core.csr_keys(data))
        wanted = u.astype(np.int64) * data.shape[1] + v.astype(np.int64)
        places = _core.op("_find_rows")(keys, wanted)
        found = _core.op("_row_sparse_take")(values, keys, wanted)
        values = _core.op("where")(places >= 0, found, _core.op("ones_like")(found) * -1)
    return storage.into(out, values)
