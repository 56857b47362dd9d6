"""The classes of sparse arrays."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import _core
from ..._core import NDArray
from ...base import (
    IndexError_,
    MXNetError,
    NotSupportedForSparseNDArray,
    ShapeError,
    TypeError_,
    ValueError_,
)
from ..array_like import host_array
from . import storage
from .storage import parts


def _named(name: str) -> Any:
    """Return an object whose ``__name__`` replaces a function's name in an error."""
    return SimpleNamespace(__name__=name)


class BaseSparseNDArray(NDArray):
    """Base of csr and row-sparse arrays; operators on them are in ``mx.nd.sparse``."""

    __hash__ = object.__hash__

    # -- description -----------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Tuple of dimensions."""
        return _core.array_shape(self)

    @property
    def dtype(self) -> Any:
        """NumPy scalar type of the values."""
        return _core.sparse_parts(self)[1].dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Not defined, as in 1.x, because it could mean stored values or all elements."""
        raise NotSupportedForSparseNDArray(_named("size"), None)

    @property
    def context(self) -> Any:
        """The device that holds the array."""
        return _core.sparse_parts(self)[1].ctx

    ctx = device = context

    @property
    def data(self) -> NDArray:
        """The stored values, a dense array that shares memory with this array."""
        return parts(self)[0]

    @property
    def indices(self) -> NDArray:
        """int64 indices of the stored values: rows, or columns of a csr array."""
        return parts(self)[1]

    @property
    def _aux_types(self) -> list[Any]:
        return [np.int64] * self._num_aux

    @property
    def _num_aux(self) -> int:
        return 1 if self.stype == "row_sparse" else 2

    @property
    def T(self) -> NDArray:  # noqa: N802 - 1.x's name
        """The transpose, dense."""
        return _core.op("transpose")(self)

    _traced = False

    # -- autograd --------------------------------------------------------------------------------

    @property
    def grad(self) -> NDArray | None:
        """Gradient array of a variable, or None."""
        return _core.grad_of(self)

    @property
    def _grad_req(self) -> int:
        return _core.grad_request(self)

    @property
    def _recorded(self) -> bool:
        return _core.is_recorded(self) and not self._grad_req

    @property
    def _fresh_grad(self) -> bool:
        fresh = _core.exchange_fresh_grad(self, False)
        _core.exchange_fresh_grad(self, fresh)
        return fresh

    def _set_fresh_grad(self, fresh: bool) -> None:
        _core.exchange_fresh_grad(self, fresh)

    def detach(self) -> Any:
        """Return an array with the same values and no history."""
        return _core.detach_sparse(self)

    # -- conversion ------------------------------------------------------------------------------

    def asnumpy(self) -> np.ndarray[Any, Any]:
        """Return a dense NumPy array."""
        return storage.dense(self).asnumpy()

    def asscalar(self) -> Any:
        """Raise NotSupportedForSparseNDArray, as in 1.x."""
        raise NotSupportedForSparseNDArray(_named("asscalar"), None)

    def tostype(self, stype: str) -> NDArray:
        """Return the array as 'default', 'csr' or 'row_sparse', or itself if it has this type.

        Raises ValueError between csr and row_sparse.
        """
        return cast_storage(self, stype)

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """Return the values in another dtype, or itself if copy is False and dtypes are equal."""
        if not copy and self.dtype == _core.dtype_type(dtype):
            return self
        return _core.op("Cast")(self, dtype=dtype)

    def copy(self) -> NDArray:
        """Return a copy on the same device."""
        return _core.op("_copy")(self)

    def copyto(self, other: Any) -> NDArray:
        """Copy into another array, which keeps its storage type, or to a Context.

        Raises TypeError from csr to row_sparse and the reverse.
        """
        if isinstance(other, NDArray):
            storage.assign(other, self)
            return other
        with storage.unrecorded():
            moved = tuple(None if p is None else p.copyto(other) for p in parts(self))
        return storage.of_parts(moved, self.shape)  # type: ignore[arg-type]

    def as_in_context(self, context: Any) -> NDArray:
        """Return the array on a device, or itself if it is on that device."""
        return self if self.context == context else self.copyto(context)

    as_in_ctx = as_in_context

    def wait_to_read(self) -> None:
        """Block until the value is computed."""
        for part in parts(self):
            if part is not None:
                part.wait_to_read()

    def wait_to_write(self) -> None:
        """Block until no task reads or writes the parts."""
        for part in parts(self):
            if part is not None:
                part.wait_to_write()

    def broadcast_to(self, shape: Any) -> NDArray:
        """Return the dense values repeated to a shape."""
        return storage.dense(self).broadcast_to(shape)

    def reshape(self, *shape: Any, **kwargs: Any) -> NDArray:
        """Raise NotSupportedForSparseNDArray, as in 1.x, because the parts cannot be shared."""
        raise NotSupportedForSparseNDArray(_named("reshape"), None, shape)

    def slice_assign(self, *args: Any, **kwargs: Any) -> NDArray:
        """Raise, because sparse arrays only support ``x[:] = value``."""
        raise NotSupportedForSparseNDArray(_named("slice_assign"), None, args)

    def check_format(self, full_check: bool = True) -> None:
        """Raise MXNetError if the parts are inconsistent.

        Unless full_check, only the shapes and the ends of indptr are checked, not all indices.
        """
        raise NotImplementedError

    # -- Python ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        shape = "x".join(str(extent) for extent in self.shape)
        return f"\n<{type(self).__name__} {shape} @{self.context}>"

    __str__ = __repr__

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        raise ValueError_("The truth value of an NDArray with multiple elements is ambiguous.")

    def __iter__(self) -> Iterator[NDArray]:
        for row in range(len(self)):
            yield self[row]

    def __reduce__(self) -> Any:
        found = tuple(None if p is None else p.asnumpy() for p in parts(self))
        return _from_numpy, (*found, self.shape, np.dtype(self.dtype).name)

    def __copy__(self) -> NDArray:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> NDArray:
        return self.copy()

    def __neg__(self) -> NDArray:
        return _core.op("negative")(self)

    def __getitem__(self, key: Any) -> NDArray:
        raise NotImplementedError

    def __setitem__(self, key: Any, value: Any) -> None:
        name = type(self).__name__
        if not (isinstance(key, slice) and key == slice(None)):
            raise ValueError_(f"{name} only supports [:] for assignment")
        if isinstance(value, NDArray):
            storage.assign(self, value)
        elif np.isscalar(value):
            self._fill(value)
        else:
            array = _core.array_from_numpy(
                host_array(value, type(self).__name__, self.dtype), self.context, self.dtype
            )
            storage.assign(self, array)

    def _fill(self, value: Any) -> None:
        if value == 0:
            empty = storage.empty_parts(self.stype, self.shape, self.context, self.dtype)
            _core.set_sparse_parts(self, *empty)
            return
        full = _core.op("_full")(shape=self.shape, value=value, ctx=self.context, dtype=self.dtype)
        storage.assign(self, full)


class CSRNDArray(BaseSparseNDArray):
    """Matrix in compressed sparse row format: ``data``, ``indices``, ``indptr``.

    Row ``i`` stores ``data[indptr[i]:indptr[i + 1]]`` in the columns
    ``indices[indptr[i]:indptr[i + 1]]``; everything else is 0.
    """

    stype = "csr"

    @property
    def indptr(self) -> NDArray:
        """int64 positions at which rows begin, shape (rows + 1,)."""
        found = parts(self)[2]
        assert found is not None
        return found

    def asscipy(self) -> Any:
        """Return a ``scipy.sparse.csr_matrix`` with copies of the parts."""
        from scipy import sparse  # type: ignore[import-untyped]

        data, indices, indptr = (p.asnumpy() for p in parts(self) if p is not None)
        return sparse.csr_matrix((data, indices, indptr), shape=self.shape, dtype=self.dtype)

    def check_format(self, full_check: bool = True) -> None:
        """Check that the parts are consistent; see `BaseSparseNDArray.check_format`."""
        data, indices, indptr = (p.asnumpy() for p in parts(self) if p is not None)
        rows, columns = self.shape
        if indptr.shape != (rows + 1,) or data.shape != indices.shape:
            raise MXNetError(
                f"check_format: csr array of shape {self.shape} has indptr of shape {indptr.shape},"
                f" indices of shape {indices.shape} and data of shape {data.shape}"
            )
        if indptr[0] != 0 or indptr[-1] != len(indices):
            raise MXNetError(
                f"check_format: indptr must go from 0 to {len(indices)}, got {indptr[0]} to "
                f"{indptr[-1]}"
            )
        if not full_check:
            return
        if (np.diff(indptr) < 0).any():
            raise MXNetError("check_format: indptr of a csr array has to ascend")
        inner = np.ones(len(indices), bool)
        inner[indptr[:-1][indptr[:-1] < len(indices)]] = False  # first value of each row
        if ((indices < 0) | (indices >= columns)).any() or (
            np.diff(indices, prepend=0)[inner] <= 0
        ).any():
            raise MXNetError(
                "check_format: Indices of csr NDArray should be non-negative, in ascending order "
                f"per row and less than the number of columns, {columns}"
            )

    def __getitem__(self, key: Any) -> NDArray:
        if isinstance(key, tuple):
            raise ValueError_("Multi-dimension indexing is not supported")
        rows = self.shape[0]
        if isinstance(key, (int, np.integer)):
            if not -rows <= key < rows:
                raise IndexError_(f"index {key} is out of range for a csr array of {rows} rows")
            begin = int(key) % rows
            return _core.op("slice")(self, begin=(begin,), end=(begin + 1,))
        if not isinstance(key, slice):
            raise ValueError_(f"Undefined behaviour for {key!r}, an int or a slice expected")
        if key.step not in (None, 1):
            raise ValueError_("CSRNDArray only supports continuous slicing on axis 0")
        if key.start is None and key.stop is None:
            return self
        begin, end, _ = key.indices(rows)
        return _core.op("slice")(self, begin=(begin,), end=(max(begin, end),))


class RowSparseNDArray(BaseSparseNDArray):
    """Array of which only some rows are stored: ``data[i]`` is row ``indices[i]``; others are 0."""

    stype = "row_sparse"
    _was_unordered = False  # whether the given rows were unsorted

    def retain(self, indices: Any, out: NDArray | None = None, name: str | None = None) -> NDArray:
        """Return the rows at the NDArray ``indices``; rows without stored values are 0."""
        return storage.into(out, _core.op("_sparse_retain")(self, as_rows(indices, self.context)))

    def check_format(self, full_check: bool = True) -> None:
        """Check that the parts are consistent; see `BaseSparseNDArray.check_format`."""
        data, indices = (p.asnumpy() for p in parts(self) if p is not None)
        if data.shape[1:] != self.shape[1:] or indices.shape != data.shape[:1]:
            raise MXNetError(
                f"check_format: row_sparse array of shape {self.shape} has indices of shape "
                f"{indices.shape} and data of shape {data.shape}"
            )
        if full_check and len(indices):
            ascending = (np.diff(indices) > 0).all() and not self._was_unordered
            if not ascending or indices[0] < 0 or indices[-1] >= self.shape[0]:
                raise MXNetError(
                    "check_format: Indices of row_sparse NDArray should be non-negative, less than "
                    f"the size of first dimension, {self.shape[0]}, and in ascending order"
                )

    def __getitem__(self, key: Any) -> NDArray:
        if isinstance(key, slice) and key == slice(None):
            return self
        raise NotSupportedForSparseNDArray(_named("__getitem__"), "[idx]", key)


def _from_numpy(
    values: Any, indices: Any, indptr: Any, shape: tuple[int, ...], dtype: str
) -> NDArray:
    found: list[Any] = [_core.array_from_numpy(values, None, dtype)]
    for index in (indices, indptr):
        found.append(None if index is None else _core.array_from_numpy(index, None, np.int64))
    return storage.of_parts((found[0], found[1], found[2]), shape)


def cast_storage(
    data: NDArray, stype: str, out: NDArray | None = None, name: str | None = None
) -> NDArray:
    """Return an array in a storage type; recorded by autograd.

    Parameters
    ----------
    data : NDArray
    stype : {'default', 'csr', 'row_sparse'}
    out : NDArray, optional
    name : str, optional
        Without effect.

    Returns
    -------
    NDArray
        ``data`` itself if it has that type.
    """
    if not isinstance(data, NDArray):
        raise TypeError_(f"cast_storage: data must be an NDArray, got {type(data).__name__}")
    code = storage.STYPES[storage.check_stype("cast_storage", stype)]
    return storage.into(out, _core.cast_storage(data, code))


def as_rows(array: Any, ctx: Any) -> NDArray:
    """Return row numbers, given as an array or a list, as an int64 vector."""
    if not isinstance(array, NDArray):
        array = _core.array_from_numpy(
            host_array(array, "row numbers", np.int64).reshape(-1), ctx, np.int64
        )
    if isinstance(array, BaseSparseNDArray):
        raise ShapeError("row numbers: array must be dense, got a sparse array")
    return array
