"""Element-wise operators of two arrays on the stored values, as far as 1.x keeps results sparse."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _core
from ..._core import NDArray
from . import storage
from .dispatch import rule
from .storage import dense, is_sparse, parts, stype_of, with_values


@rule("zeros_like")
def _zeros_like(data: NDArray, dtype: Any) -> Any:
    return storage.empty_array(data.stype, data.shape, data.context, dtype or data.dtype)


def csr_rows(array: NDArray) -> NDArray:
    """Return the row of every stored value of a csr array."""
    _, indices, indptr = parts(array)
    return _core.op("_csr_rows")(indptr, nnz=len(indices))


def csr_keys(array: NDArray) -> NDArray:
    """Return the position of every stored value in the flattened matrix."""
    return csr_rows(array) * array.shape[1] + parts(array)[1]


def csr_of_keys(values: NDArray, keys: NDArray, shape: tuple[int, ...]) -> NDArray:
    """Return the csr array with values at ascending positions of the flattened matrix."""
    columns = max(shape[1], 1)
    numbers = keys.asnumpy()
    indptr = np.searchsorted(numbers, np.arange(shape[0] + 1, dtype=np.int64) * columns)
    found = [_core.array_from_numpy(i, values.ctx, np.int64) for i in (numbers % columns, indptr)]
    return storage.csr(values, found[0], found[1], shape)


def add_rows(arrays: list[NDArray]) -> NDArray:
    """Return the sum of row-sparse arrays."""
    concat = _core.op("Concat")
    found = [parts(array) for array in arrays]
    values = concat(*(p[0] for p in found), dim=0)
    indices = concat(*(p[1] for p in found), dim=0)
    return storage.row_sparse(*storage.merged(values, indices), arrays[0].shape)


def _add_csr(lhs: NDArray, rhs: NDArray) -> NDArray:
    concat = _core.op("Concat")
    values = concat(parts(lhs)[0], parts(rhs)[0], dim=0)
    keys = concat(csr_keys(lhs), csr_keys(rhs), dim=0)
    values, keys = storage.merged(values, keys)
    return csr_of_keys(values, keys, lhs.shape)


def _sum(name: str, lhs: NDArray, rhs: NDArray) -> Any:
    stypes = stype_of(lhs), stype_of(rhs)
    minus = name == "elemwise_sub"
    if minus and lhs.dtype == np.bool_:  # has no negative values
        return NotImplemented
    if stypes in (("csr", "csr"), ("row_sparse", "row_sparse")) and lhs.dtype == rhs.dtype:
        other = with_values(rhs, -parts(rhs)[0]) if minus else rhs
        return _add_csr(lhs, other) if stypes[0] == "csr" else add_rows([lhs, other])
    if "default" in stypes:
        return _core.op(name)(dense(lhs), dense(rhs))
    return NotImplemented


@rule("elemwise_add")
def _elemwise_add(lhs: NDArray, rhs: NDArray) -> Any:
    return _sum("elemwise_add", lhs, rhs)


@rule("elemwise_sub")
def _elemwise_sub(lhs: NDArray, rhs: NDArray) -> Any:
    return _sum("elemwise_sub", lhs, rhs)


def looked_up(array: NDArray, pattern: NDArray) -> NDArray:
    """Return the values of an array where a sparse one stores values."""
    _, indices, indptr = parts(pattern)
    if indptr is not None:
        if not is_sparse(array):
            return _core.op("_csr_gather")(array, indices, indptr)
        values, keys = storage.merged(parts(array)[0], csr_keys(array))
        return _core.op("_row_sparse_take")(values, keys, csr_keys(pattern))
    if not is_sparse(array):
        return _core.op("take")(array, indices, axis=0)
    values, rows, _ = parts(array)
    return _core.op("_row_sparse_take")(values, rows, indices)


@rule("elemwise_mul")
def _elemwise_mul(lhs: NDArray, rhs: NDArray) -> Any:
    stypes = {stype_of(lhs), stype_of(rhs)}
    if stypes == {"csr", "row_sparse"} or lhs.dtype != rhs.dtype:
        return NotImplemented
    pattern, other = (lhs, rhs) if is_sparse(lhs) else (rhs, lhs)
    return with_values(pattern, parts(pattern)[0] * looked_up(other, pattern))


@rule("_contrib_quadratic")
def _quadratic(data: NDArray, a: float, b: float, c: float) -> Any:
    if stype_of(data) != "csr" or c != 0:
        return NotImplemented
    return with_values(data, _core.op("_contrib_quadratic")(parts(data)[0], a=a, b=b))


def _broadcast(name: str, elemwise: str, lhs: NDArray, rhs: NDArray) -> Any:
    op = _core.op(elemwise)
    if stype_of(lhs) != "csr" or stype_of(rhs) != "default" or lhs.dtype != rhs.dtype:
        return NotImplemented
    fits = rhs.ndim <= 2 and all(a in (1, b) for a, b in zip(rhs.shape[::-1], lhs.shape[::-1]))
    if not fits:
        return NotImplemented
    matrix = rhs.reshape((1,) * (2 - rhs.ndim) + rhs.shape)
    return with_values(lhs, op(parts(lhs)[0], looked_up(matrix, lhs)))


@rule("broadcast_mul")
def _broadcast_mul(lhs: NDArray, rhs: NDArray) -> Any:
    return _broadcast("broadcast_mul", "elemwise_mul", lhs, rhs)


@rule("broadcast_div")
def _broadcast_div(lhs: NDArray, rhs: NDArray) -> Any:
    # Where rhs has zeros at places that lhs does not store, 0 / 0 is lost: as in 1.x.
    return _broadcast("broadcast_div", "elemwise_div", lhs, rhs)


def _dense_with(name: str) -> None:
    op = _core.op(name)

    @rule(name)
    def quiet(lhs: NDArray, rhs: NDArray) -> Any:
        if {stype_of(lhs), stype_of(rhs)} == {"csr", "default"}:
            return op(dense(lhs), dense(rhs))
        return NotImplemented


_dense_with("broadcast_add")
_dense_with("broadcast_sub")


@rule("add_n")
def _add_n(*arrays: NDArray) -> Any:
    if any(stype_of(a) != "row_sparse" or a.dtype != arrays[0].dtype for a in arrays):
        return NotImplemented
    return add_rows(list(arrays))
