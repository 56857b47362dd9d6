"""Creation of sparse arrays (MXNet 1.x: ``mxnet.ndarray.sparse``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ... import _core
from ..._core import NDArray
from ...base import ShapeError, TypeError_, ValueError_
from ..array_like import host_array
from . import storage
from .arrays import BaseSparseNDArray, CSRNDArray, RowSparseNDArray

if TYPE_CHECKING:
    from ..call_types import ContextLike


def _array(source: Any, ctx: Any, dtype: Any) -> NDArray:
    """Return a dense array of a dtype; None means the source's dtype."""
    if isinstance(source, NDArray):
        source = storage.dense(source)
        moved = source if ctx is None or source.ctx == ctx else source.copyto(ctx)
        if dtype is not None and moved.dtype != _core.dtype_type(dtype):
            return moved.astype(dtype)
        return moved.copy() if moved is source else moved
    return _core.array_from_numpy(host_array(source, "sparse array", dtype), ctx, dtype)


def _values_dtype(source: Any, dtype: Any) -> Any:
    """Return the dtype of values: the requested one, an array's own, float32 otherwise."""
    if dtype is not None:
        return dtype
    if isinstance(source, np.ndarray):
        return host_array(source, "sparse array").dtype
    return source.dtype if isinstance(source, NDArray) else np.float32


def _checked_shape(given: Any, found: tuple[int, ...]) -> tuple[int, ...]:
    if given is None:
        return found
    given = (given,) if isinstance(given, (int, np.integer)) else tuple(given)
    if len(given) != len(found):
        raise ShapeError(f"invalid shape: shape must have {len(found)} dimensions, got {given}")
    return tuple(int(extent) for extent in given)


def _check_same_shape(given: Any, found: tuple[int, ...]) -> None:
    if _checked_shape(given, found) != tuple(found):
        raise ShapeError(f"invalid shape: {tuple(given)} was given, zeros of shape {found} too")


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(d, (int, np.integer)) for d in value)


def _of_dense(source: Any, shape: Any, ctx: Any, dtype: Any, stype: str) -> Any:
    if not isinstance(source, NDArray):
        dtype = _values_dtype(source, dtype)
    dense = _array(source, ctx, dtype)
    if shape is not None and tuple(shape) != dense.shape:
        raise ShapeError(
            f"{stype}: shape must be that of the array, {dense.shape}, got {tuple(shape)}"
        )
    return storage.cast_parts(dense, stype)


def _is_scipy(source: Any) -> bool:
    return type(source).__module__.startswith("scipy.sparse")


def csr_matrix(
    arg1: Any, shape: Any = None, ctx: ContextLike = None, dtype: Any = None
) -> CSRNDArray:
    """Return a csr matrix.

    Parameters
    ----------
    arg1 : tuple, array_like or sparse matrix
        ``(data, indices, indptr)``, ``(data, (row, column))`` whose duplicates are added up, a
        shape ``(M, N)`` for zeros, a dense matrix, a SciPy matrix, or a csr array.
    shape : tuple of int, optional
        Default is the smallest shape that contains all indices.
    ctx : Context, optional
    dtype : dtype, optional
        Default is that of the values, float32 for lists.

    Raises
    ------
    ValueError
        If the tuple has another length, the values are not a matrix, or indices are negative, too
        large or twice in a row.
    """
    if isinstance(arg1, CSRNDArray):
        same: Any = arg1.copyto(ctx) if ctx is not None else arg1.copy()
        return same if dtype is None else same.astype(dtype)
    if _is_scipy(arg1):
        matrix = arg1.tocsr()
        matrix.sum_duplicates()
        return _csr_of_parts(matrix.data, matrix.indices, matrix.indptr, matrix.shape, ctx, dtype)
    if not isinstance(arg1, tuple):
        if isinstance(arg1, BaseSparseNDArray):
            raise ValueError_(f"csr_matrix: array must be csr or dense, got {arg1.stype}")
        return _of_dense(arg1, shape, ctx, dtype, "csr")
    if len(arg1) == 2 and _is_shape(arg1):
        _check_same_shape(shape, arg1)
        return storage.empty_array("csr", arg1, ctx, dtype or np.float32)
    if len(arg1) == 2 and isinstance(arg1[1], (tuple, list)) and len(arg1[1]) == 2:
        row, column = arg1[1]
        return _csr_of_coordinates(arg1[0], row, column, shape, ctx, dtype)
    if len(arg1) == 3:
        return _csr_of_parts(*arg1, shape, ctx, dtype)
    raise ValueError_(f"csr_matrix: Unexpected length of input tuple: {len(arg1)}")


def _csr_of_parts(
    data: Any, indices: Any, indptr: Any, shape: Any, ctx: Any, dtype: Any
) -> CSRNDArray:
    values = _array(data, ctx, _values_dtype(data, dtype))
    columns, starts = _whole("csr_matrix: indices", indices), _whole("csr_matrix: indptr", indptr)
    if values.ndim != 1 or columns.shape != values.shape or starts.ndim != 1 or not len(starts):
        raise ShapeError(
            "csr_matrix: data, indices and indptr must be vectors, the first two of one length, "
            f"got shapes {values.shape}, {columns.shape} and {starts.shape}"
        )
    if shape is None:
        if not len(columns):
            raise ValueError_("csr_matrix: invalid shape: it cannot be inferred without values")
        shape = (len(starts) - 1, int(columns.max()) + 1)
    shape = _checked_shape(shape, (len(starts) - 1, 0))
    if shape[0] != len(starts) - 1:
        raise ShapeError(
            f"csr_matrix: indptr must have one element more than the {shape[0]} rows, got "
            f"{len(starts)}"
        )
    if starts[0] != 0 or starts[-1] != len(columns) or (np.diff(starts) < 0).any():
        raise ValueError_(
            f"csr_matrix: indptr must ascend from 0 to the number of values, {len(columns)}, got "
            f"{starts[0]} to {starts[-1]}"
        )
    _check_range("csr_matrix: indices", columns, shape[1])
    rows = np.repeat(np.arange(shape[0]), np.diff(starts))
    _check_distinct("csr_matrix: indices of a row", rows * max(shape[1], 1) + columns, shape[1])
    place = _core.array_from_numpy
    return storage.csr(values, place(columns, ctx, np.int64), place(starts, ctx, np.int64), shape)


def _whole(who: str, source: Any) -> np.ndarray[Any, Any]:
    """Return positions as int64; raise if they are not integers."""
    given = host_array(source, who, np.int64)
    with np.errstate(invalid="ignore"):  # NaN and infinity are rejected below
        whole = given.astype(np.int64)
    if given.dtype.kind == "f" and not np.array_equal(whole, given):
        raise ValueError_(f"{who}: values of dtype {given.dtype} must be whole numbers")
    return whole


def _check_range(who: str, places: np.ndarray[Any, Any], extent: int) -> None:
    bad = places[(places < 0) | (places >= extent)]
    if bad.size:
        raise ValueError_(f"{who}: numbers must be from 0 to {extent - 1}, got {bad.flat[0]}")


def _check_distinct(who: str, places: np.ndarray[Any, Any], extent: int) -> None:
    """Raise if a position occurs twice, because only one of its values could be stored."""
    if (np.diff(places) > 0).all():  # ascending positions, which need no sorting
        return
    ordered = np.sort(places)
    twice = ordered[1:][np.diff(ordered) == 0]
    if twice.size:
        raise ValueError_(
            f"{who}: numbers must be distinct, got {int(twice[0]) % max(extent, 1)} twice"
        )


def _csr_of_coordinates(
    data: Any, row: Any, column: Any, shape: Any, ctx: Any, dtype: Any
) -> CSRNDArray:
    values, rows, columns = (_numpy(part) for part in (data, row, column))
    if not values.shape == rows.shape == columns.shape:
        raise ShapeError(
            f"csr_matrix: data, row and column must have equal shapes, got {values.shape}, "
            f"{rows.shape} and {columns.shape}"
        )
    found = tuple(int(index.max()) + 1 if index.size else 0 for index in (rows, columns))
    shape = _checked_shape(shape, found)
    for index, extent in zip((rows, columns), shape):
        if index.size and not 0 <= index.min() <= index.max() < extent:
            raise ValueError_(f"csr_matrix: coordinates exceed the shape {shape}")
    keys, slots = np.unique(rows.astype(np.int64) * shape[1] + columns, return_inverse=True)
    sums = np.zeros(len(keys), values.dtype)
    np.add.at(sums, slots.reshape(-1), values)
    extent = max(shape[1], 1)
    indptr = np.searchsorted(keys // extent, np.arange(shape[0] + 1))
    dtype = _values_dtype(data, dtype)
    return _csr_of_parts(sums, keys % extent, indptr, shape, ctx, dtype)


def _numpy(source: Any) -> np.ndarray[Any, Any]:
    return host_array(source, "csr_matrix")


def row_sparse_array(
    arg1: Any, shape: Any = None, ctx: ContextLike = None, dtype: Any = None
) -> RowSparseNDArray:
    """Return a row-sparse array.

    Parameters
    ----------
    arg1 : tuple, array_like or NDArray
        ``(data, indices)``, a shape for zeros, a dense array, or a row-sparse one.
    shape : tuple of int, optional
        Default is the smallest shape that contains all indices.
    ctx : Context, optional
    dtype : dtype, optional
        Default is that of the values, float32 for lists.

    Raises
    ------
    ValueError
        If the tuple has another length, data and indices do not fit, or indices are negative, too
        large or not distinct.
    """
    if isinstance(arg1, RowSparseNDArray):
        same: Any = arg1.copyto(ctx) if ctx is not None else arg1.copy()
        return same if dtype is None else same.astype(dtype)
    if isinstance(arg1, BaseSparseNDArray):
        raise ValueError_("row_sparse_array: array must be row_sparse or dense, got csr")
    if _is_shape(arg1):
        _check_same_shape(shape, arg1)
        return storage.empty_array("row_sparse", arg1, ctx, dtype or np.float32)
    if not isinstance(arg1, tuple):
        return _of_dense(arg1, shape, ctx, dtype, "row_sparse")
    if len(arg1) != 2:
        raise ValueError_(f"row_sparse_array: Unexpected length of input tuple: {len(arg1)}")
    values = _array(arg1[0], ctx, _values_dtype(arg1[0], dtype))
    indices = _whole("row_sparse_array: indices", arg1[1])
    if values.ndim < 1 or indices.ndim != 1 or values.shape[0] != len(indices):
        raise ShapeError(
            "row_sparse_array: data must have one row for each index, got data of shape "
            f"{values.shape} and indices of shape {indices.shape}"
        )
    if shape is None:
        if not len(indices):
            raise ValueError_("row_sparse_array: invalid shape: it cannot be inferred without rows")
        shape = (int(indices.max()) + 1, *values.shape[1:])
    shape = _checked_shape(shape, values.shape)
    if shape[1:] != values.shape[1:]:
        raise ShapeError(
            f"row_sparse_array: data must be rows of an array of shape {shape}, got {values.shape}"
        )
    _check_range("row_sparse_array: indices", indices, shape[0])
    _check_distinct("row_sparse_array: indices", indices, shape[0])
    if (np.diff(indices) < 0).any():  # some operators of 1.x misread unsorted rows
        order = np.argsort(indices, kind="stable")
        ranks = _core.array_from_numpy(order, ctx, np.int64)
        rows = _core.array_from_numpy(indices[order], ctx, np.int64)
        result = storage.row_sparse(_core.op("take")(values, ranks, axis=0), rows, shape)
        result._was_unordered = True
        return result
    return storage.row_sparse(values, _core.array_from_numpy(indices, ctx, np.int64), shape)


def array(source_array: Any, ctx: ContextLike = None, dtype: Any = None) -> BaseSparseNDArray:
    """Return a sparse array with the values of a sparse array of mxlite or SciPy.

    Raises ValueError for dense sources; use `mx.nd.array` for them.
    """
    if isinstance(source_array, RowSparseNDArray):
        return row_sparse_array(source_array, ctx=ctx, dtype=dtype)
    if isinstance(source_array, CSRNDArray) or _is_scipy(source_array):
        return csr_matrix(source_array, ctx=ctx, dtype=dtype)
    raise ValueError_(
        "sparse.array: Please use mx.nd.array to create an NDArray with source_array of type "
        f"{type(source_array).__name__}"
    )


def zeros(
    stype: str, shape: Any, ctx: ContextLike = None, dtype: Any = None, **kwargs: Any
) -> NDArray:
    """Return an array of zeros in a storage type.

    Parameters
    ----------
    stype : {'default', 'csr', 'row_sparse'}
    shape : int or tuple of int
    ctx : Context, optional
    dtype : dtype, optional
        Default float32.
    """
    stype = storage.check_stype("zeros", stype)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if stype == "default":
        return _core.op("_zeros")(shape=shape, ctx=ctx, dtype=dtype or np.float32, **kwargs)
    result = storage.empty_array(stype, shape, ctx, dtype or np.float32)
    out = kwargs.pop("out", None)
    if kwargs:
        raise TypeError_(f"zeros() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if out is None:
        return result
    storage.assign(out, result)
    return out


def empty(stype: str, shape: Any, ctx: ContextLike = None, dtype: Any = None) -> NDArray:
    """Return an array in a storage type; sparse arrays have no stored values."""
    if storage.check_stype("empty", stype) == "default":
        return _core.empty(shape, ctx, dtype)
    return zeros(stype, shape, ctx, dtype)
