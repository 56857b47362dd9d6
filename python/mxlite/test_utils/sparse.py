"""Random sparse arrays."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .. import ndarray as _ndarray
from .tolerance import default_dtype

__all__ = [
    "create_sparse_array",
    "create_sparse_array_zd",
    "rand_sparse_ndarray",
    "shuffle_csr_column_indices",
]

nd: Any = _ndarray
Values = np.ndarray[Any, Any]
Modifier = Callable[[float], float]


def _modified(values: Values, modifier: Modifier | None) -> Values:
    if modifier is None or not values.size:
        return values
    return np.asarray(np.vectorize(modifier)(values), dtype=values.dtype)


def _powerlaw_mask(shape: tuple[int, int], density: float) -> Values:
    """Return which elements are stored: each row has twice the previous one's, if possible.

    The first row gets one element; when all of the density are given, later rows get none.
    """
    rows, columns = shape
    left = int(rows * columns * density)
    if left < rows:
        raise ValueError(
            f"density {density} stores {left} elements of shape {shape}; a power law needs one "
            f"for each of the {rows} rows"
        )
    counts = np.ones(rows, dtype=np.int64)
    left -= rows
    for row in range(rows):
        more = min(2**row - 1 if row < 62 else columns, columns - 1, left)
        counts[row] += more
        left -= more
    return np.arange(columns)[None, :] < counts[:, None]


def rand_sparse_ndarray(
    shape: tuple[int, ...],
    stype: str,
    density: float | None = None,
    dtype: Any = None,
    distribution: str | None = None,
    data_init: float | None = None,
    rsp_indices: Any = None,
    modifier_func: Modifier | None = None,
    shuffle_csr_indices: bool = False,
    ctx: Any = None,
) -> tuple[Any, Any]:
    """Return a random sparse array and its parts as NumPy arrays.

    Parameters
    ----------
    shape : tuple of int
    stype : str
        "row_sparse" or "csr".
    density : float, optional
        Share of the rows (row_sparse) or elements (csr) that are stored; random by default.
    dtype : dtype, optional
        float32 by default.
    distribution : str, optional
        "uniform" (default); for csr also "powerlaw".
    data_init : float, optional
        Value of all stored elements.
    rsp_indices : array, optional
        Rows that are stored.
    modifier_func : callable, optional
        Applied to each stored element.
    shuffle_csr_indices : bool
        Whether the columns of a row have a random order.
    ctx : Context, optional

    Returns
    -------
    array : RowSparseNDArray or CSRNDArray
    parts : tuple
        (values, rows) of row_sparse, (indptr, indices, data) of csr.
    """
    density = float(np.random.rand()) if density is None else density
    dtype = default_dtype() if dtype is None else dtype
    distribution = distribution or "uniform"
    if not 0 <= density <= 1:
        raise ValueError(f"rand_sparse_ndarray: density must be 0 to 1, got {density}")
    if stype == "row_sparse":
        if distribution != "uniform":
            raise ValueError(f"rand_sparse_ndarray: distribution {distribution!r} of row_sparse")
        return _row_sparse(shape, density, dtype, data_init, rsp_indices, modifier_func, ctx)
    if stype != "csr" or len(shape) != 2:
        raise ValueError(f"rand_sparse_ndarray: stype {stype!r} and shape {shape} were given")
    if distribution == "uniform":
        mask = np.random.rand(*shape) < density
    elif distribution == "powerlaw":
        mask = _powerlaw_mask((shape[0], shape[1]), density)
    else:
        raise ValueError(f"rand_sparse_ndarray: distribution {distribution!r} is unknown")
    values = np.random.uniform(0.1, 1.0, shape) if data_init is None else np.full(shape, data_init)
    data = _modified(np.asarray(values[mask], dtype=dtype), modifier_func)
    indices = np.nonzero(mask)[1].astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int64)
    array = nd.sparse.csr_matrix((data, indices, indptr), shape=shape, dtype=dtype, ctx=ctx)
    if shuffle_csr_indices:
        array = shuffle_csr_column_indices(array)
    return array, (array.indptr, array.indices, array.data)


def _row_sparse(
    shape: tuple[int, ...],
    density: float,
    dtype: Any,
    data_init: float | None,
    rsp_indices: Any,
    modifier: Modifier | None,
    ctx: Any,
) -> tuple[Any, tuple[Values, Values]]:
    if rsp_indices is None:
        rows = np.nonzero(np.random.rand(shape[0]) < density)[0]
    else:
        rows = np.unique(np.asarray(rsp_indices))
        if rows.size and (rows[0] < 0 or rows[-1] >= shape[0]):
            raise ValueError(
                f"rand_sparse_ndarray: rsp_indices must be from 0 to {shape[0] - 1}, got {rows}"
            )
    stored = (rows.size, *shape[1:])
    values = np.random.rand(*stored) if data_init is None else np.full(stored, data_init)
    values = _modified(np.asarray(values, dtype=dtype), modifier)
    rows = rows.astype(np.int64)
    array = nd.sparse.row_sparse_array((values, rows), shape=shape, dtype=dtype, ctx=ctx)
    return array, (values, rows)


def create_sparse_array(
    shape: tuple[int, ...],
    stype: str,
    data_init: float | None = None,
    rsp_indices: Any = None,
    dtype: Any = None,
    modifier_func: Modifier | None = None,
    density: float = 0.5,
    shuffle_csr_indices: bool = False,
) -> Any:
    """Return a sparse array; see :func:`rand_sparse_ndarray`."""
    array, _ = rand_sparse_ndarray(
        shape,
        stype,
        density=density,
        dtype=dtype,
        data_init=data_init,
        rsp_indices=rsp_indices,
        modifier_func=modifier_func,
        shuffle_csr_indices=shuffle_csr_indices,
    )
    return array


def create_sparse_array_zd(
    shape: tuple[int, ...],
    stype: str,
    density: float,
    data_init: float | None = None,
    rsp_indices: Any = None,
    dtype: Any = None,
    modifier_func: Modifier | None = None,
    shuffle_csr_indices: bool = False,
) -> Any:
    """Return a sparse array, perhaps without stored values; see :func:`rand_sparse_ndarray`."""
    if stype == "row_sparse" and rsp_indices is not None:
        rsp_indices = [row for row in rsp_indices if row < shape[0]]
    return create_sparse_array(
        shape, stype, data_init, rsp_indices, dtype, modifier_func, density, shuffle_csr_indices
    )


def shuffle_csr_column_indices(csr: Any) -> Any:
    """Return a csr array with the columns and values of each row in random order.

    Its dense values are the same.
    """
    indptr = csr.indptr.asnumpy()
    order = np.concatenate(
        [np.zeros(0, dtype=np.int64)]
        + [begin + np.random.permutation(end - begin) for begin, end in zip(indptr, indptr[1:])]
    )
    data, indices = csr.data.asnumpy()[order], csr.indices.asnumpy()[order]
    return nd.sparse.csr_matrix(
        (data, indices, indptr), shape=csr.shape, dtype=csr.dtype, ctx=csr.context
    )
