"""Random shapes, arrays and matrices for tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np

from .. import ndarray as nd
from .._core import NDArray
from .sparse import rand_sparse_ndarray
from .tolerance import default_dtype

__all__ = [
    "assign_each",
    "assign_each2",
    "collapse_sum_like",
    "create_2d_tensor",
    "create_vector",
    "get_identity_mat",
    "get_identity_mat_batch",
    "new_matrix_with_real_eigvals_2d",
    "new_matrix_with_real_eigvals_nd",
    "new_orthonormal_matrix_2d",
    "new_sym_matrix_with_real_eigvals_2d",
    "new_sym_matrix_with_real_eigvals_nd",
    "np_reduce",
    "rand_coord_2d",
    "rand_ndarray",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "random_arrays",
    "random_sample",
    "random_uniform_arrays",
]

Values = np.ndarray[Any, Any]


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """Return a random shape of 2 dimensions with the given largest sizes.

    The smallest size is 1, or 0 with ``allow_zero_size``.
    """
    return _rand_shape((dim0, dim1), allow_zero_size)


def rand_shape_3d(
    dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False
) -> tuple[int, ...]:
    """Return a random shape of 3 dimensions; see :func:`rand_shape_2d`."""
    return _rand_shape((dim0, dim1, dim2), allow_zero_size)


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """Return a random shape of some dimensions; see :func:`rand_shape_2d`."""
    return _rand_shape((dim,) * num_dim, allow_zero_size)


def _rand_shape(largest: Sequence[int], allow_zero_size: bool) -> tuple[int, ...]:
    low = 0 if allow_zero_size else 1
    return tuple(int(np.random.randint(low, size + 1)) for size in largest)


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[int, int]:
    """Return a random point: x in [x_low, x_high), y in [y_low, y_high)."""
    return int(np.random.randint(x_low, x_high)), int(np.random.randint(y_low, y_high))


def random_arrays(*shapes: tuple[int, ...]) -> Any:
    """Return float32 arrays of normally distributed numbers; a list unless there is only one.

    Returns
    -------
    numpy.ndarray or list of numpy.ndarray
    """
    dtype = default_dtype()
    arrays: list[Values] = [np.asarray(np.random.randn(*s), dtype=dtype) for s in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes: tuple[int, ...], **kwargs: Any) -> list[Values]:
    """Return arrays of given shapes with numbers uniformly distributed in [low, high).

    The range is 0 to 1 and the dtype float32 by default.
    """
    low, high = kwargs.pop("low", 0.0), kwargs.pop("high", 1.0)
    dtype = kwargs.pop("dtype", default_dtype())
    if kwargs:
        raise TypeError(f"random_uniform_arrays: unexpected argument {next(iter(kwargs))!r}")
    return [np.asarray(np.random.uniform(low, high, shape)).astype(dtype) for shape in shapes]


def random_sample(population: Sequence[Any], k: int) -> list[Any]:
    """Return k different elements of a sequence in random order."""
    return random.sample(list(population), k)


def rand_ndarray(
    shape: tuple[int, ...],
    stype: str = "default",
    density: float | None = None,
    dtype: Any = None,
    modifier_func: Callable[[float], float] | None = None,
    shuffle_csr_indices: bool = False,
    distribution: str | None = None,
    ctx: Any = None,
) -> Any:
    """Return an array of normally (dense) or uniformly (sparse) distributed numbers.

    Parameters
    ----------
    shape : tuple of int
    stype : str
        "default", "row_sparse" or "csr".
    density : float, optional
        Share of the elements (rows) of a sparse array that are stored; random by default.
    dtype : dtype, optional
        float32 by default.
    modifier_func : callable, optional
        Applied to each stored element of a sparse array.
    shuffle_csr_indices : bool
        Whether the columns of a row have a random order.
    distribution : str, optional
        "uniform" or "powerlaw", of stored elements over the rows of a csr array.
    ctx : Context, optional

    Returns
    -------
    NDArray
    """
    if stype == "default":
        return nd.array(random_arrays(shape), dtype=dtype or default_dtype(), ctx=ctx)
    array, _ = rand_sparse_ndarray(
        shape,
        stype,
        density=density,
        dtype=dtype,
        distribution=distribution,
        modifier_func=modifier_func,
        shuffle_csr_indices=shuffle_csr_indices,
        ctx=ctx,
    )
    return array


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """Return an array (rows, columns) whose elements are their row numbers."""
    return nd.array(np.repeat(np.arange(rows), columns).reshape(rows, columns), dtype=dtype)


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """Return the numbers 0, 1, ... in an array (size,)."""
    return nd.arange(0, size, dtype=dtype)


def get_identity_mat(size: int) -> NDArray:
    """Return an identity matrix (size, size), float32."""
    return nd.eye(size)


def get_identity_mat_batch(size: int) -> NDArray:
    """Return two identity matrices (2, size, size), float32."""
    return nd.stack(nd.eye(size), nd.eye(size))


def new_orthonormal_matrix_2d(n: int) -> Values:
    """Return a random orthonormal matrix (n, n), float64: a reflection in a random plane."""
    normal = np.random.randn(n, 1)
    return np.asarray(np.eye(n) - 2 * normal @ normal.T / (normal.T @ normal))


def new_sym_matrix_with_real_eigvals_2d(n: int) -> Values:
    """Return a random symmetric matrix (n, n), float64, with normally distributed eigenvalues."""
    q = new_orthonormal_matrix_2d(n)
    return np.asarray(q @ np.diag(np.random.randn(n)) @ q.T)


def new_matrix_with_real_eigvals_2d(n: int) -> Values:
    """Return a random matrix (n, n), float64, that is similar to a real diagonal one."""
    # A triangular change of basis with ones on the diagonal is invertible.
    basis = np.triu(np.random.uniform(-1, 1, (n, n)), 1) + np.eye(n)
    basis = new_orthonormal_matrix_2d(n) @ basis
    return np.asarray(basis @ np.diag(np.random.randn(n)) @ np.linalg.inv(basis))


def new_sym_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> Values:
    """Return a batch of random symmetric matrices, float64; the last two sizes are equal."""
    return _batch(new_sym_matrix_with_real_eigvals_2d, shape)


def new_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> Values:
    """Return a batch of random matrices with real eigenvalues."""
    return _batch(new_matrix_with_real_eigvals_2d, shape)


def _batch(make: Callable[[int], Values], shape: tuple[int, ...]) -> Values:
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"shape must be a batch of square matrices, got {shape}")
    count = int(np.prod(shape[:-2], dtype=np.int64))
    matrices = [make(shape[-1]) for _ in range(count)]
    return np.asarray(matrices, dtype=np.float64).reshape(shape)


def np_reduce(
    dat: Values, axis: Any, keepdims: bool, numpy_reduce_func: Callable[..., Any]
) -> Values:
    """Reduce axes with a NumPy function that takes one axis.

    Parameters
    ----------
    dat : numpy.ndarray
    axis : int, sequence of int, or None for all
    keepdims : bool
        Keep reduced axes with size 1.
    numpy_reduce_func : callable
        As in ``numpy.sum``.
    """
    if axis is None:
        axes: list[int] = list(range(dat.ndim))
    else:
        axes = [axis] if isinstance(axis, int) else list(axis)
    axes = sorted(a % dat.ndim for a in axes)
    result = dat
    for at in reversed(axes):
        result = np.asarray(numpy_reduce_func(result, axis=at))
    if keepdims:
        result = result.reshape([1 if i in axes else size for i, size in enumerate(dat.shape)])
    return result


def collapse_sum_like(a: Values, shape: tuple[int, ...]) -> Values:
    """Sum an array to a shape that broadcasts to its shape, which is broadcasting's gradient.

    Returns
    -------
    numpy.ndarray of that shape
    """
    leading = a.ndim - len(shape)
    aligned = (1,) * leading + tuple(shape)
    if any(small not in (1, size) for small, size in zip(aligned, a.shape)) or leading < 0:
        raise ValueError(f"collapse_sum_like: shape {a.shape} is not a broadcast of {shape}")
    axes = tuple(
        i for i, (small, size) in enumerate(zip(aligned, a.shape)) if i < leading or small != size
    )
    return np.asarray(np.sum(a, axis=axes).reshape(shape))


def assign_each(the_input: Any, function: Callable[[Any], Any] | None) -> Values:
    """Apply a function to each element; None copies the array."""
    values = np.asarray(the_input)
    if function is None:
        return values.copy()
    return np.asarray(np.vectorize(function)(values))


def assign_each2(input1: Any, input2: Any, function: Callable[[Any, Any], Any] | None) -> Values:
    """Apply a function to each pair of elements of two arrays; None copies the first array."""
    first, second = np.asarray(input1), np.asarray(input2)
    if first.shape != second.shape:
        raise ValueError(f"assign_each2: shapes {first.shape} and {second.shape} differ")
    if function is None:
        return first.copy()
    return np.asarray(np.vectorize(function)(first, second))
