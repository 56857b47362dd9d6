"""Functions of ``mx.nd.sparse`` that are not operators of the core."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _core
from ..._core import NDArray
from ...base import ShapeError, TypeError_
from . import storage
from .arrays import CSRNDArray, RowSparseNDArray, as_rows, cast_storage
from .dispatch import rule
from .products import recorded
from .rules import csr_keys
from .storage import dense, parts, stype_of

__all__ = ["add", "divide", "edge_id", "getnnz", "multiply", "retain", "square_sum", "subtract"]


def _binary(lhs: Any, rhs: Any, elemwise: str, broadcast: str, scalar: str, swapped: str) -> Any:
    if isinstance(lhs, NDArray) and isinstance(rhs, NDArray):
        name = elemwise if lhs.shape == rhs.shape else broadcast
        return _core.op(name)(lhs, rhs)
    if isinstance(lhs, NDArray):
        return _core.op(scalar)(lhs, scalar=rhs)
    return _core.op(swapped)(rhs, scalar=lhs)


def add(lhs: Any, rhs: Any) -> NDArray:
    """Return lhs + rhs; sparse where both have one sparse storage type and equal shapes."""
    return _binary(lhs, rhs, "elemwise_add", "broadcast_add", "_plus_scalar", "_plus_scalar")


def subtract(lhs: Any, rhs: Any) -> NDArray:
    """Return lhs - rhs; sparse where both have one sparse storage type and equal shapes."""
    return _binary(lhs, rhs, "elemwise_sub", "broadcast_sub", "_minus_scalar", "_rminus_scalar")


def multiply(lhs: Any, rhs: Any) -> NDArray:
    """Return lhs * rhs; sparse if a sparse operand has the result's shape."""
    return _binary(lhs, rhs, "elemwise_mul", "broadcast_mul", "_mul_scalar", "_mul_scalar")


def divide(lhs: Any, rhs: Any) -> NDArray:
    """Return lhs / rhs; sparse for a csr array divided by a number, row or column."""
    return _binary(lhs, rhs, "elemwise_div", "broadcast_div", "_div_scalar", "_rdiv_scalar")


def retain(
    data: NDArray, indices: Any = None, out: NDArray | None = None, **kwargs: Any
) -> NDArray:
    """Return the rows of a row-sparse array that ``indices`` names.

    Parameters
    ----------
    data : RowSparseNDArray
    indices : NDArray
        Row numbers; rows without stored values are 0 in the result.
    out : RowSparseNDArray, optional

    Raises
    ------
    TypeError
        If ``data`` is not row-sparse or other arguments are given.
    """
    kwargs.pop("name", None)
    if kwargs or indices is None:
        wrong = f"argument {next(iter(kwargs))!r}" if kwargs else "no indices"
        raise TypeError_(f"retain: {wrong} given, data and indices expected")
    if not isinstance(data, RowSparseNDArray):
        raise TypeError_(f"retain: {type(data).__name__} given, a RowSparseNDArray expected")
    with storage.unrecorded():
        result = storage.retained(data, as_rows(indices, data.context))
    if recorded(data):
        rows = result.indices

        def backward(grads: list[NDArray | None]) -> list[NDArray | None]:
            (grad,) = grads
            if grad is None or type(grad) is not NDArray:
                return [grad]
            return [storage.row_sparse(_core.op("take")(grad, rows, axis=0), rows, grad.shape)]

        _core.record_function(backward, "retain", [data], [result], True)
    if out is None:
        return result
    storage.assign(out, result)
    return out


def square_sum(data: NDArray, axis: Any = None, keepdims: bool = False) -> NDArray:
    """Return sums of squares; row-sparse for ``axis=1, keepdims=True`` of a row-sparse matrix.

    Parameters
    ----------
    data : NDArray
    axis : int, optional
    keepdims : bool
    """
    if not isinstance(data, RowSparseNDArray) or len(data.shape) != 2:
        return _square_sum(data, axis, keepdims)
    with storage.unrecorded():
        result = _square_sum(data, axis, keepdims)
    if not recorded(data):
        return result
    values, indices, _ = parts(data)
    values = values.copy()  # the data may change before backward
    reduced = (0, 1) if axis is None else (axis % 2,)
    joint = tuple(1 if i in reduced else extent for i, extent in enumerate(data.shape))

    def backward(grads: list[NDArray | None]) -> list[NDArray | None]:
        (grad,) = grads
        if grad is None:
            return [None]
        factors = dense(grad).reshape(joint)
        if 0 not in reduced:
            factors = _core.op("take")(factors, indices, axis=0)
        product = _core.op("broadcast_mul")(2 * values, factors)
        return [storage.row_sparse(product, indices, data.shape)]

    _core.record_function(backward, "_square_sum", [data], [result], True)
    return result


def _square_sum(data: NDArray, axis: Any, keepdims: bool) -> NDArray:
    op_sum, square = _core.op("sum"), _core.op("square")
    if stype_of(data) != "row_sparse" or axis not in (1, -1) or len(data.shape) != 2:
        squares = square(data)
        return op_sum(dense(squares), axis=() if axis is None else axis, keepdims=keepdims)
    values, indices, _ = parts(data)
    sums = op_sum(square(values), axis=1, keepdims=True)
    result = storage.row_sparse(sums, indices, (data.shape[0], 1))
    return result if keepdims else dense(result).reshape((-1,))


# ---- operators whose results have a storage type of their own ------------------------------------


@rule("cast_storage", taped=True)
def _cast_storage(data: NDArray, stype: str) -> Any:
    return cast_storage(data, stype)


@rule("_sparse_retain", taped=True)
def _retain(data: NDArray, indices: NDArray) -> Any:
    return retain(data, indices)


@rule("_square_sum", taped=True)
def _square_sum_of(data: NDArray, axis: Any, keepdims: bool, exclude: bool) -> Any:
    axes = {a % data.ndim for a in axis} if axis else set(range(data.ndim))
    if exclude and axis:
        axes = set(range(data.ndim)) - axes
    one = next(iter(axes)) if len(axes) == 1 and data.ndim > 1 else None
    chosen = one if one is not None or len(axes) == data.ndim else tuple(sorted(axes))
    return square_sum(data, chosen, keepdims)


# ---- what csr arrays store -----------------------------------------------------------------------


def getnnz(data: CSRNDArray, axis: int | None = None) -> NDArray:
    """Return how many values a csr array stores: in all, or by column (0) or row (1).

    Parameters
    ----------
    data : CSRNDArray
    axis : int, optional
    """
    if not isinstance(data, CSRNDArray):
        raise TypeError_(f"getnnz: {type(data).__name__} given, a CSRNDArray expected")
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
    return _core.array_from_numpy(counts, data.context, np.int64)


def edge_id(data: CSRNDArray, u: NDArray, v: NDArray) -> NDArray:
    """Return the values at (u[i], v[i]) of a csr array, -1 where none is stored.

    Parameters
    ----------
    data : CSRNDArray
    u, v : NDArray
        Rows and columns, vectors of one length.
    """
    if not isinstance(data, CSRNDArray):
        raise TypeError_(f"edge_id: {type(data).__name__} given, a CSRNDArray expected")
    if u.shape != v.shape:
        raise ShapeError(f"edge_id: u of shape {u.shape} and v of shape {v.shape} given")
    with storage.unrecorded():
        values, keys = storage.merged(parts(data)[0], csr_keys(data))
        wanted = u.astype(np.int64) * data.shape[1] + v.astype(np.int64)
        places = _core.op("_find_rows")(keys, wanted)
        found = _core.op("_row_sparse_take")(values, keys, wanted)
        return _core.op("where")(places >= 0, found, _core.op("ones_like")(found) * -1)
