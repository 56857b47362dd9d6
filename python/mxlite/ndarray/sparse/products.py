"""Products, look-ups, sums and cuts of sparse arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _core
from ..._core import NDArray
from ...base import ShapeError
from . import storage
from .arrays import cast_storage
from .dispatch import rule
from .storage import dense, is_sparse, parts, stype_of

_csr_dot = _core.op("_csr_dot")
_transpose = _core.op("transpose")


def recorded(*arrays: NDArray) -> bool:
    """Return whether a call on the arrays would be recorded."""
    return _core.is_recording() and any(_core.is_recorded(a) for a in arrays)


def _dense_operand(array: NDArray) -> NDArray:
    """Return a dense stand-in whose gradient goes to the sparse array."""
    if type(array) is NDArray:
        return array
    if array.stype == "row_sparse" and parts(array)[0].shape == array.shape:
        result = parts(array)[0].detach()  # all rows are there: no copy
    else:
        result = dense(array)
    if recorded(array):
        _core.record_function(lambda grads: grads, "cast_storage", [array], [result], True)
    return result


@rule("dot", taped=True)
def _dot(
    lhs: NDArray,
    rhs: NDArray,
    transpose_a: bool,
    transpose_b: bool,
    forward_stype: str | None,
) -> Any:
    if forward_stype is not None:
        result = _core.op("dot")(lhs, rhs, transpose_a=transpose_a, transpose_b=transpose_b)
        if forward_stype == "csr" and result.ndim != 2:
            raise ShapeError(
                f"dot: forward_stype 'csr' given for a result of shape {result.shape}, "
                "2 dimensions expected"
            )
        return result if result.stype == forward_stype else cast_storage(
            cast_storage(result, "default"), forward_stype
        )  # fmt: skip
    stypes = stype_of(lhs), stype_of(rhs)
    if stypes == ("default", "csr") and lhs.ndim == 2 and not recorded(rhs):
        values, indices, indptr = parts(rhs)
        result = _transpose(
            _csr_dot(
                values, indices, indptr, lhs if transpose_a else _transpose(lhs),
                shape=rhs.shape, transpose=not transpose_b,
            )
        )  # fmt: skip
        return result if transpose_a else cast_storage(result, "csr")
    if stypes[0] != "csr" or rhs.ndim not in (1, 2) or recorded(lhs):
        return NotImplemented
    values, indices, indptr = parts(lhs)
    # Single rows of a gradient pay only where the variable's gradient is row-sparse.
    sparse_grad = _core.grad_stype(rhs) == 1 or stypes[1] == "row_sparse"
    right = _dense_operand(rhs)
    vector = right.ndim == 1
    if vector:
        right = right.reshape((-1, 1))
    elif transpose_b:
        right = _transpose(right)
    if transpose_a and stypes[1] != "csr" and not vector:
        if not recorded(right):
            return _rows_of_product(lhs, right)
        product = _csr_dot(values, indices, indptr, right, shape=lhs.shape, transpose=True)
        return cast_storage(product, "row_sparse")
    result = _csr_dot(
        values, indices, indptr, right, shape=lhs.shape, transpose=transpose_a,
        sparse_grad=sparse_grad,
    )  # fmt: skip
    return result.reshape((-1,)) if vector else result


def _rows_of_product(lhs: NDArray, rhs: NDArray) -> NDArray:
    """Return ``lhs.T @ rhs`` with the rows that lhs has columns for."""
    values, indices, indptr = parts(lhs)
    if rhs.shape[0] != lhs.shape[0]:  # the message of the full product
        return _csr_dot(values, indices, indptr, rhs, shape=lhs.shape, transpose=True)
    unique = storage._listed(_core.op("_unique_rows")(indices))
    places = _core.op("_find_rows")(unique, indices)
    shape = (lhs.shape[0], len(unique))
    product = _csr_dot(values, places, indptr, rhs, shape=shape, transpose=True)
    return storage.row_sparse(product, unique, (lhs.shape[1], rhs.shape[1]))


@rule("FullyConnected", taped=True, own_shapes=True)
def _fully_connected(
    data: NDArray,
    weight: NDArray,
    bias: NDArray | None = None,
    *,
    num_hidden: int,
    no_bias: bool,
    flatten: bool,
) -> Any:
    arrays = [data, _dense_operand(weight)]
    if bias is not None:
        bias = _dense_operand(bias)
        if bias.shape == (num_hidden, 1):  # what a row_sparse bias has
            bias = bias.reshape((num_hidden,))
        arrays.append(bias)
    params = {"num_hidden": num_hidden, "no_bias": no_bias, "flatten": flatten}
    _core.bind_arguments(_core.op("FullyConnected"), tuple(arrays), params)
    if stype_of(data) == "csr" and recorded(data):
        return NotImplemented
    if stype_of(data) != "csr":
        return _core.op("FullyConnected")(_dense_operand(data), *arrays[1:], **params)
    product = _core.op("dot")(data, _transpose(arrays[1]))
    return product if no_bias or bias is None else _core.op("broadcast_add")(product, bias)


@rule("Embedding", taped=True)
def _embedding(
    data: NDArray,
    weight: NDArray,
    input_dim: int,
    output_dim: int,
    dtype: str,
    sparse_grad: bool,
) -> Any:
    if stype_of(weight) != "row_sparse" or stype_of(data) != "default":
        return NotImplemented
    with storage.unrecorded():
        values, indices, _ = parts(weight)
        rows = _core.op("_embedding_rows")(data, input_dim=input_dim)
        found = _core.op("_row_sparse_take")(values, indices, rows)
        result = found.reshape((*data.shape, output_dim))
    if recorded(weight):

        def backward(grads: list[NDArray | None]) -> list[NDArray | None]:
            (grad,) = grads
            assert grad is not None
            return [
                _core.make_row_sparse(grad.reshape((-1, output_dim)), rows, weight_shape, form=1)
            ]

        weight_shape = weight.shape
        _core.record_function(backward, "Embedding", [weight], [result])
    return result


# ---- sums ----------------------------------------------------------------------------------------


def _axes(axis: Any, exclude: bool) -> tuple[int, ...] | None:
    """Return the axes of a matrix that are summed; None if they are not valid ones."""
    axes = () if axis is None else ((axis,) if isinstance(axis, int) else tuple(axis))
    if not axes:
        return (0, 1)
    if any(not -2 <= a < 2 for a in axes):
        return None
    chosen = {a % 2 for a in axes}
    return tuple(sorted({0, 1} - chosen if exclude else chosen))


def _csr_reduced(name: str, data: NDArray, axis: Any, keepdims: bool, exclude: bool) -> Any:
    axes = _axes(axis, exclude)
    if stype_of(data) != "csr" or not axes:
        return NotImplemented
    values, indices, indptr = parts(data)
    count = int(np.prod([data.shape[a] for a in axes]))
    if len(axes) == 2:
        total = _core.op("sum")(values)
        shape: tuple[int, ...] = (1, 1) if keepdims else (1,)
    else:
        total = _core.op("_csr_sum")(values, indices, indptr, shape=data.shape, axis=axes[0])
        kept = data.shape[1 - axes[0]]
        shape = ((1, kept) if axes[0] == 0 else (kept, 1)) if keepdims else (kept,)
    result = total.reshape(shape)
    return result / count if name == "mean" else result


@rule("sum")
def _sum(data: NDArray, axis: Any, keepdims: bool, exclude: bool) -> Any:
    return _csr_reduced("sum", data, axis, keepdims, exclude)


@rule("mean")
def _mean(data: NDArray, axis: Any, keepdims: bool, exclude: bool) -> Any:
    return _csr_reduced("mean", data, axis, keepdims, exclude)


@rule("norm")
def _norm(data: NDArray, ord: int, axis: Any, out_dtype: str | None, keepdims: bool) -> Any:
    if axis not in (None, ()) or out_dtype is not None or keepdims:
        return NotImplemented
    return _core.op("norm")(parts(data)[0].reshape((-1,)), ord=ord)


# ---- cuts ----------------------------------------------------------------------------------------


def _bounds(begin: Any, end: Any, axis: int, extent: int) -> tuple[int, int]:
    def at(values: Any) -> Any:
        return values[axis] if axis < len(values) else None

    first, last, _ = slice(at(begin), at(end)).indices(extent)
    return first, max(first, last)


@rule("slice")
def _slice(data: NDArray, begin: Any, end: Any, step: Any) -> Any:
    if stype_of(data) != "csr" or any(s not in (None, 1) for s in step):
        return NotImplemented
    values, indices, indptr = parts(data)
    assert indptr is not None
    first, last = _bounds(begin, end, 0, data.shape[0])
    left, right = _bounds(begin, end, 1, data.shape[1])
    starts = indptr[first : last + 1].asnumpy()
    low, high = int(starts[0]), int(starts[-1])
    values, indices, starts = values[low:high].copy(), indices[low:high].copy(), starts - low
    if (left, right) != (0, data.shape[1]):
        columns = indices.asnumpy()
        inside = (columns >= left) & (columns < right)
        kept = _core.array_from_numpy(np.flatnonzero(inside), values.ctx, np.int64)
        values = _core.op("take")(values, kept, axis=0)
        indices = _core.op("take")(indices, kept, axis=0) - left
        starts = np.concatenate([[0], np.cumsum(inside)])[starts]
    fresh = _core.array_from_numpy(starts, values.ctx, np.int64)
    return storage.csr(values, indices, fresh, (last - first, right - left))


@rule("take")
def _take(a: NDArray, indices: NDArray, axis: int, mode: str) -> Any:
    if stype_of(a) != "csr" or is_sparse(indices) or axis not in (0, -2) or not a.shape[0]:
        return NotImplemented
    if mode not in ("clip", "wrap") or indices.ndim != 1:
        return NotImplemented
    rows = a.shape[0]
    values, columns, indptr = parts(a)
    assert indptr is not None
    wanted = indices.asnumpy().astype(np.int64)
    wanted = wanted % rows if mode == "wrap" else np.clip(wanted, 0, rows - 1)
    starts = indptr.asnumpy()
    counts = np.diff(starts)[wanted]
    fresh = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    # Element i of result row r is element i of the row taken: shift the counter of each row.
    places = np.arange(fresh[-1]) + np.repeat(starts[wanted] - fresh[:-1], counts)
    kept = _core.array_from_numpy(places.astype(np.int64), values.ctx, np.int64)
    return storage.csr(
        _core.op("take")(values, kept, axis=0),
        _core.op("take")(columns, kept, axis=0),
        _core.array_from_numpy(fresh, values.ctx, np.int64),
        (len(wanted), a.shape[1]),
    )


@rule("Concat")
def _concat(*arrays: NDArray, dim: int) -> Any:
    if any(stype_of(a) != "csr" for a in arrays) or dim not in (0, -2):
        return NotImplemented
    concat = _core.op("Concat")
    found = [parts(a) for a in arrays]
    starts, offset = [np.zeros(1, np.int64)], 0
    for _, _, indptr in found:
        assert indptr is not None
        numbers = indptr.asnumpy()
        starts.append(numbers[1:] + offset)
        offset += int(numbers[-1])
    return storage.csr(
        concat(*(p[0] for p in found), dim=0),
        concat(*(p[1] for p in found), dim=0),
        _core.array_from_numpy(np.concatenate(starts), arrays[0].context, np.int64),
        (sum(a.shape[0] for a in arrays), arrays[0].shape[1]),
    )
