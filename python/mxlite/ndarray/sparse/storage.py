"""Parts of sparse arrays in normal form, and conversions between storage types."""

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

_DENSE = 2  # value of a form of `_core.sparse_parts`

_cast = _core.op("Cast")
_arange = _core.op("_arange")


@functools.cache
def traits(op: str) -> dict[str, Any]:
    """Return the storage entry of an operator's schema: ``describe_op(op)["storage"]``."""
    return _core.describe_op(op)["storage"]


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Pause recording, because operations on parts must not be on the tape."""
    old = _core.set_recording(False)
    try:
        yield
    finally:
        _core.set_recording(old)


def is_sparse(value: Any) -> bool:
    """Return whether a value is a sparse array."""
    return _core.array_kind(value) == "sparse"


def stype_of(array: NDArray) -> str:
    """Return the storage type without reading the parts."""
    return array.stype if is_sparse(array) else "default"


def check_stype(who: str, stype: str | None) -> str:
    """Return a storage type (``'default'`` for None); raise if it is unknown."""
    if stype is None:
        return "default"
    if stype not in STYPES:
        raise ValueError_(
            f"{who}: storage type must be 'default', 'row_sparse' or 'csr', got {stype!r}"
        )
    return stype


def parts(array: NDArray) -> Parts:
    """Return (values, indices, indptr or None) in the normal form.

    Waits for the values if the array is a gradient that is read for the first time.
    """
    return _core.normal_parts(array)


def gradient_rows(array: NDArray) -> tuple[NDArray, NDArray]:
    """Return values and row indices, which may repeat, of a gradient; does not wait."""
    form, values, indices, _ = _core.sparse_parts(array)
    if form == _DENSE:
        values, indices, _ = parts(array)
    return values, indices


def dense(array: NDArray) -> NDArray:
    """Return the array in default storage, or itself if it is dense. Not recorded."""
    return _core.dense_of(array) if is_sparse(array) else array


def row_sparse(values: NDArray, indices: NDArray, shape: Any) -> Any:
    """Return the row-sparse array with these parts."""
    return _core.make_row_sparse(values, indices, tuple(shape))


def csr(values: NDArray, indices: NDArray, indptr: NDArray, shape: Any) -> Any:
    """Return the csr array with these parts."""
    return _core.make_csr(values, indices, indptr, tuple(shape))


def with_values(like: NDArray, values: NDArray) -> NDArray:
    """Return an array with the indices of a sparse array and new values."""
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
        raise ShapeError(f"shape of a csr array must have two dimensions, got {shape}")
    indptr = _core.op("_zeros")(shape=(shape[0] + 1,), ctx=ctx, dtype=np.int64)
    return _core.empty((0,), ctx, dtype), indices, indptr


def of_parts(found: Parts, shape: tuple[int, ...]) -> Any:
    """Return the sparse array with these parts."""
    values, indices, indptr = found
    if indptr is None:
        return row_sparse(values, indices, shape)
    return csr(values, indices, indptr, shape)


def empty_array(stype: str, shape: tuple[int, ...], ctx: Any, dtype: Any) -> Any:
    """Return a sparse array without stored values."""
    return of_parts(empty_parts(stype, shape, ctx, dtype), shape)


def cast_parts(array: NDArray, stype: str) -> NDArray:
    """Return the array in a storage type, or itself if it has that type. Not recorded."""
    code = STYPES[check_stype("cast_storage", stype)]
    with unrecorded():
        return _core.cast_storage(array, code)


def full_rows(array: NDArray) -> NDArray:
    """Make a row-sparse array store all rows, in place; return its values."""
    values, indices, _ = parts(array)
    rows = array.shape[0]
    if values.shape[0] != rows:
        values = dense(array)
        indices = _arange(start=0, stop=rows, ctx=values.ctx, dtype=np.int64)
        _core.set_sparse_parts(array, values, indices, None)
    return values


def assign(target: NDArray, source: NDArray, who: str = "copyto") -> None:
    """Write an array into another, converting storage and dtype; errors begin with ``who``."""
    if target is source:
        return
    if target.shape != source.shape:
        raise ShapeError(f"{who}: array must have shape {target.shape}, got {source.shape}")
    if not is_sparse(target):
        dense(source).copyto(target)
        return
    if _core.is_recording() and _core.is_recorded(target):
        raise MXNetError(
            f"{who}: the sparse array is part of a recorded computation; it cannot be written "
            "inside autograd.record()"
        )
    if stype_of(source) not in ("default", target.stype):
        raise TypeError_(
            f"{who} does not support copies from stype {stype_of(source)} to stype {target.stype}"
        )
    found = parts(cast_parts(source, target.stype))
    with unrecorded():
        values, indices, indptr = (None if p is None else p.copyto(target.ctx) for p in found)
        assert values is not None
        assert indices is not None
        _core.set_sparse_parts(target, _cast(values, dtype=target.dtype), indices, indptr)


def into(out: NDArray | None, result: NDArray) -> NDArray:
    """Write a result to ``out`` and return ``out``; if ``out`` is None, return the result."""
    if out is None:
        return result
    assign(out, result)
    return out


def not_built(what: str) -> NotSupportedError:
    """Return the error for a function that sparse arrays do not support."""
    return NotSupportedError(f"{what} is not supported for sparse arrays; use tostype('default')")
