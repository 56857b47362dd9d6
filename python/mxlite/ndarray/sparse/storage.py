"""Parts of sparse arrays: their normal form, and the way between storage types."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, Optional

import numpy as np

from ... import _core
from ..._core import NDArray
from ...base import MXNetError, NotSupportedError, ShapeError, TypeError_, ValueError_

STYPES = {"default": 0, "row_sparse": 1, "csr": 2}
Parts = tuple[NDArray, NDArray, Optional[NDArray]]  # values, indices, indptr

_NORMAL, _ROWS, _DENSE = 0, 1, 2

_to_dense_rows = _core.op("_row_sparse_to_dense")
_to_dense_csr = _core.op("_csr_to_dense")
_unique_rows = _core.op("_unique_rows")
_merge_rows = _core.op("_merge_rows")
_nonzero_rows = _core.op("_nonzero_rows")
_csr_count = _core.op("_csr_count")
_csr_collect = _core.op("_csr_collect")
_take = _core.op("take")
_cast = _core.op("Cast")
_arange = _core.op("_arange")


@functools.cache
def traits(op: str) -> dict[str, Any]:
    """Return what the schema of an operator says of storage: ``describe_op(op)["storage"]``."""
    found: dict[str, Any] = _core.describe_op(op)["storage"]
    return found


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Switch recording off: parts are handled outside of the tape."""
    old = _core.set_recording(False)
    try:
        yield
    finally:
        _core.set_recording(old)


def is_sparse(value: Any) -> bool:
    """Return whether a value is a sparse array."""
    return isinstance(value, NDArray) and type(value) is not NDArray


def stype_of(array: NDArray) -> str:
    """Return the storage type without reading the parts."""
    return "default" if type(array) is NDArray else array.stype


def check_stype(who: str, stype: str | None) -> str:
    """Return a storage type, ``'default'`` for None.

    Raises
    ------
    ValueError
        If there is no such type.
    """
    if stype is None:
        return "default"
    if stype not in STYPES:
        raise ValueError_(
            f"{who}: unknown storage type {stype!r}, 'default', 'row_sparse' or 'csr' expected"
        )
    return stype


def _listed(numbered: NDArray) -> NDArray:
    """Cut a list with its length at the end down to that length; waits for the value."""
    count = int(numbered[-1:].asnumpy()[0])
    return numbered[:count]


def merged(values: NDArray, indices: NDArray) -> tuple[NDArray, NDArray]:
    """Bring rows into ascending order and add up those of one index."""
    unique = _listed(_unique_rows(indices))
    return _merge_rows(values, indices, unique), unique


def rows_of_dense(dense: NDArray) -> tuple[NDArray, NDArray]:
    """Return values and indices of the rows that are not 0."""
    indices = _listed(_nonzero_rows(dense))
    if len(indices) == dense.shape[0]:
        return dense.copy(), indices
    return _take(dense, indices, axis=0), indices


def csr_of_dense(dense: NDArray) -> Parts:
    """Return data, indices and indptr of the elements that are not 0."""
    if dense.ndim != 2:
        raise ShapeError(
            "To convert to a CSR, the NDArray should be 2 Dimensional. Current shape is "
            f"{dense.shape}"
        )
    indptr = _csr_count(dense)
    data, indices = _csr_collect(dense, indptr, nnz=int(indptr[-1:].asnumpy()[0]))
    return data, indices, indptr


def parts(array: NDArray) -> Parts:
    """Return (values, indices, indptr or None) in the normal form.

    Waits for values if the array is a gradient that was not read yet.
    """
    form, values, indices, indptr = _core.sparse_parts(array)
    if form == _NORMAL:
        return values, indices, indptr
    with unrecorded():
        if form == _ROWS:
            values, indices = merged(values, indices)
        elif array.stype == "row_sparse":
            values, indices = rows_of_dense(values)
        else:
            values, indices, indptr = csr_of_dense(values)
    _core.set_sparse_parts(array, values, indices, indptr)
    return values, indices, indptr


def gradient_rows(array: NDArray) -> tuple[NDArray, NDArray]:
    """Return values and indices whose rows may repeat: what row updates take, without a wait."""
    form, values, indices, _ = _core.sparse_parts(array)
    if form == _DENSE:
        values, indices, _ = parts(array)
    return values, indices


def dense(array: NDArray) -> NDArray:
    """Return the array in default storage, itself if it has that already. Not recorded."""
    if type(array) is NDArray:
        return array
    form, values, indices, indptr = _core.sparse_parts(array)
    if form == _DENSE:
        return values
    with unrecorded():
        if indptr is None:
            return _to_dense_rows(values, indices, shape=array.shape)
        return _to_dense_csr(values, indices, indptr, shape=array.shape)


def row_sparse(values: NDArray, indices: NDArray, shape: Any) -> Any:
    """Return the row-sparse array of its parts."""
    return _core.make_row_sparse(values, indices, tuple(shape))


def csr(values: NDArray, indices: NDArray, indptr: NDArray, shape: Any) -> Any:
    """Return the csr array of its parts."""
    return _core.make_csr(values, indices, indptr, tuple(shape))


def with_values(like: NDArray, values: NDArray) -> NDArray:
    """Return an array with the pattern of a sparse one and other values."""
    _, indices, indptr = parts(like)
    if indptr is None:
        return row_sparse(values, indices, like.shape)
    return csr(values, indices, indptr, like.shape)


def empty_parts(stype: str, shape: tuple[int, ...], ctx: Any, dtype: Any) -> Parts:
    """Return the parts of an array of zeros."""
    indices = _core.empty((0,), ctx, np.int64)
    if stype == "row_sparse":
        return _core.empty((0, *shape[1:]), ctx, dtype), indices, None
    if len(shape) != 2:
        raise ShapeError(f"a csr array of shape {shape} was asked for, two dimensions expected")
    indptr = _core.op("_zeros")(shape=(shape[0] + 1,), ctx=ctx, dtype=np.int64)
    return _core.empty((0,), ctx, dtype), indices, indptr


def of_parts(found: Parts, shape: tuple[int, ...]) -> Any:
    """Return the sparse array of its parts."""
    values, indices, indptr = found
    if indptr is None:
        return row_sparse(values, indices, shape)
    return csr(values, indices, indptr, shape)


def empty_array(stype: str, shape: tuple[int, ...], ctx: Any, dtype: Any) -> Any:
    """Return a sparse array without stored values."""
    return of_parts(empty_parts(stype, shape, ctx, dtype), shape)


def cast_parts(array: NDArray, stype: str) -> NDArray:
    """Return the array in a storage type; itself if it has it. Not recorded.

    Raises
    ------
    ValueError
        Between row_sparse and csr, which 1.x does not convert either.
    """
    stype = check_stype("cast_storage", stype)
    have = stype_of(array)
    if have == stype:
        return array
    if have != "default" and stype != "default":
        raise ValueError_(f"cast_storage from {have} to {stype} is not supported")
    if stype == "default":
        return dense(array)
    with unrecorded():
        if stype == "csr":
            return of_parts(csr_of_dense(array), array.shape)
        if array.ndim < 1:
            raise ShapeError("cast_storage: an array without dimensions has no rows")
        values, indices = rows_of_dense(array)
        return row_sparse(values, indices, array.shape)


def full_rows(array: NDArray) -> NDArray:
    """Give a row-sparse array all its rows, in place; return its values, which are dense."""
    values, indices, _ = parts(array)
    rows = array.shape[0]
    if values.shape[0] != rows:
        values = dense(array)
        indices = _arange(start=0, stop=rows, ctx=values.ctx, dtype=np.int64)
        _core.set_sparse_parts(array, values, indices, None)
    return values


def retained(array: NDArray, rows: NDArray) -> Any:
    """Return the rows of a row-sparse array that ``rows`` names, 0 where it has none."""
    values, indices, _ = parts(array)
    wanted = _cast(rows.reshape((-1,)), dtype=np.int64)
    return row_sparse(_core.op("_row_sparse_take")(values, indices, wanted), wanted, array.shape)


def assign(target: NDArray, source: NDArray, who: str = "copyto") -> None:
    """Write an array into another, converting storage and dtype; errors begin with ``who``.

    Raises
    ------
    ShapeError
        If the shapes differ.
    MXNetError
        If the target is part of a recorded computation and recording is on.
    """
    if target is source:
        return
    if target.shape != source.shape:
        raise ShapeError(f"{who}: an array of shape {source.shape} given, {target.shape} expected")
    if type(target) is NDArray:
        dense(source).copyto(target)
        return
    if _core.is_recording() and _core.is_recorded(target):
        raise MXNetError(
            f"{who}: the sparse array is part of a recorded computation; it cannot be written "
            "inside autograd.record()"
        )
    if stype_of(source) not in ("default", target.stype):
        raise TypeError_(f"{who} does not support destination NDArray stype {target.stype}")
    found = parts(cast_parts(source, target.stype))
    with unrecorded():
        values, indices, indptr = (None if p is None else p.copyto(target.ctx) for p in found)
        assert values is not None
        assert indices is not None
        _core.set_sparse_parts(target, _cast(values, dtype=target.dtype), indices, indptr)


def not_built(what: str) -> NotSupportedError:
    """Return the error for a function that sparse arrays do not have."""
    return NotSupportedError(f"{what} is not supported for sparse arrays; use tostype('default')")
