"""Linear algebra: ``mx.np.linalg``.

Matrices are the last two axes; the other axes form a batch. Integers and bools become float32.
Functions have gradients unless their documentation says otherwise. A matrix that is singular, not
positive definite or not finite raises `LinAlgError` when the result is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from ..base import LinAlgError, TypeError_, ValueError_
from . import manipulation
from .arguments import (
    as_array,
    axes_in,
    broadcast_shape,
    fill_array,
    from_host,
    promote,
    real_array,
    refuse_traced,
    reshape_to,
    store,
)
from .decompositions import (
    eig,
    eigh,
    eigvals,
    eigvalsh,
    matrices,
    qr,
    squares,
    svd,
    svdvals,
)
from .manipulation import broadcast_to, expand_to, matrix_transpose, transpose
from .ndarray import ndarray
from .norms import matrix_norm, norm, vector_norm
from .products import cross, matmul, outer, tensordot, vecdot

__all__ = [
    "LinAlgError",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

_pinv = _core.op("_npi_pinv")
_solve = _core.op("_npi_solve")
_potrf = _core.op("linalg_potrf")
_inverse = _core.op("linalg_inverse")
_det = _core.op("linalg_det")
_slogdet = _core.op("linalg_slogdet")
_sum = _core.op("_np_sum")
_max = _core.op("_np_max")
_min = _core.op("_np_min")
_abs = _core.op("abs")
_square = _core.op("square")
_above = _core.op("broadcast_greater")
_cast = _core.op("Cast")
_expand = _core.op("expand_dims")
_squeeze = _core.op("squeeze")


def cholesky(a: Any, upper: bool = False) -> ndarray:
    """Return the lower triangular L with ``a = L @ L.T``, or the upper triangular ``L.T``.

    Only the lower triangle of a, of shape (..., n, n), is read. Raises LinAlgError when the result
    is read if a matrix is not positive definite.
    """
    return _potrf(squares(a, "linalg.cholesky"), lower=not upper)


def diagonal(x: Any, /, *, offset: int = 0) -> ndarray:
    """Return diagonals over the last two axes (in ``np.diagonal``, over the first two)."""
    return manipulation.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> ndarray:
    """Return sums of diagonals over the last two axes (in ``np.trace``, over the first two)."""
    return manipulation.trace(x, offset, -2, -1, dtype)


def inv(a: Any) -> ndarray:
    """Return inverses of matrices (..., n, n); a singular one raises LinAlgError when read."""
    return _inverse(squares(a, "linalg.inv"))


def det(a: Any) -> ndarray:
    """Return the determinants of square matrices."""
    array = squares(a, "linalg.det")
    return reshape_to(_det(array), shape=array.shape[:-2])


def slogdet(a: Any) -> list[ndarray]:
    """Return [signs, logarithms of the absolute values] of the determinants."""
    array = squares(a, "linalg.slogdet")
    return [reshape_to(part, shape=array.shape[:-2]) for part in _slogdet(array)]


def _align(a: ndarray, b: ndarray, who: str) -> tuple[ndarray, ndarray]:
    """Cast both stacks of matrices to their common dtype and broadcast their batch dimensions."""
    batch = broadcast_shape([a.shape[:-2], b.shape[:-2]], who)
    a, b = promote([a, b])
    return expand_to(a, batch + a.shape[-2:]), expand_to(b, batch + b.shape[-2:])


def solve(a: Any, b: Any) -> ndarray:
    """Return the solution x of ``a @ x = b``.

    Parameters
    ----------
    a : ndarray of shape (..., n, n)
    b : ndarray of shape (n,), (..., n) or (..., n, k)
        Vectors if b has one dimension or the shape ``a.shape[:-1]``, else matrices. The leading
        dimensions of matrices broadcast with those of a.

    Raises
    ------
    LinAlgError
        If shapes do not fit; when the result is read, if a matrix is singular.
    """
    who = "linalg.solve"
    left, right = squares(a, who), real_array(b, who)
    is_vector = right.ndim == 1 or right.shape == left.shape[:-1]
    if is_vector:
        right = _expand(right, axis=-1)
    if right.ndim < 2 or right.shape[-2] != left.shape[-1]:
        raise LinAlgError(
            f"{who}: b must have {left.shape[-1]} rows as a has, got shapes {left.shape} and "
            f"{as_array(b, who).shape}"
        )
    result = _solve(*_align(left, right, who))
    return _squeeze(result, axis=-1) if is_vector else result


def tensorinv(a: Any, ind: int = 2) -> ndarray:
    """Return the inverse of a with respect to ``tensordot(a, b, ind)``."""
    array = real_array(a, "linalg.tensorinv")
    if ind <= 0:
        raise ValueError_(f"linalg.tensorinv: ind must be above 0, got {ind}")
    first, last = array.shape[:ind], array.shape[ind:]
    count = math.prod(last)
    if math.prod(first) != count:
        raise LinAlgError(
            f"linalg.tensorinv: the first {ind} dimensions must have as many elements as the "
            f"others, got shape {array.shape}"
        )
    return reshape_to(inv(reshape_to(array, shape=(count, count))), shape=last + first)


def tensorsolve(a: Any, b: Any, axes: Any = None) -> ndarray:
    """Return x with ``tensordot(a, x, x.ndim) == b``, after moving ``axes`` of a to the end."""
    who = "linalg.tensorsolve"
    left, right = real_array(a, who), real_array(b, who)
    if axes is not None:
        moved = axes_in(axes, left.ndim, who)
        kept = [i for i in range(left.ndim) if i not in moved]
        left = transpose(left, (*kept, *moved))
    shape = left.shape[right.ndim - left.ndim :]  # a.shape if b has as many axes, as in NumPy
    count = math.prod(shape)
    if right.size != count:
        raise LinAlgError(
            f"{who}: the last {len(shape)} dimensions of a must have as many elements as b, got "
            f"shapes {left.shape} and {right.shape}"
        )
    matrix = reshape_to(left, shape=(count, count))
    return reshape_to(solve(matrix, reshape_to(right, shape=(count,))), shape=shape)


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> ndarray:
    """Return the Moore-Penrose pseudo-inverses, of shape (..., n, m).

    Parameters
    ----------
    a : ndarray of shape (..., m, n)
    rcond, rtol : float or ndarray of shape (...), optional
        Singular values up to this number times the largest one count as 0. Default: the machine
        precision times the larger of m and n.
    hermitian : bool
        Without effect.
    """
    array = matrices(a, "linalg.pinv")
    limit = rtol if rcond is None else rcond
    if limit is None:
        limit = float(np.finfo(array.dtype).eps) * max(array.shape[-2:])  # type: ignore[type-var]
    batch = array.shape[:-2]
    if isinstance(limit, ndarray):
        limit = broadcast_to(_cast(limit, dtype=array.dtype), batch)
    else:
        limit = fill_array(batch, float(limit), array)
    return _pinv(array, limit)


def cond(x: Any, p: Any = None) -> ndarray:
    """Return condition numbers in the norm ``p``: an ``ord`` of `norm`, 2 by default."""
    array = matrices(x, "linalg.cond")
    if p in (None, 2, -2):
        values = svdvals(array)
        largest, smallest = (op(values, axis=-1) for op in (_max, _min))
        return smallest / largest if p == -2 else largest / smallest
    return matrix_norm(array, ord=p) * matrix_norm(inv(array), ord=p)  # type: ignore[return-value]


def matrix_rank(
    M: Any,
    tol: Any = None,
    hermitian: bool = False,
    *,
    rtol: Any = None,  # noqa: N803
) -> ndarray:
    """Return the number of singular values above ``tol`` (int64), without gradient.

    The default of tol is ``rtol`` times the largest singular value; the default of rtol is the
    machine precision times the larger dimension. An array with fewer than 2 dimensions has rank 0
    if all elements are 0, else 1.
    """
    array = real_array(M, "linalg.matrix_rank")
    if array.ndim < 2:
        values = reshape_to(_max(_abs(array)), shape=(1,))
        limit: Any = values * 0
    else:
        values = svdvals(array)
        factor = float(np.finfo(array.dtype).eps) * max(array.shape[-2:]) if rtol is None else rtol  # type: ignore[type-var]
        if tol is None:
            largest = _max(values, axis=-1, keepdims=True)
            limit = largest * (_expand(factor, axis=-1) if isinstance(factor, ndarray) else factor)
        else:
            limit = _expand(tol, axis=-1) if isinstance(tol, ndarray) else values * 0 + tol
    above = _cast(_above(values, limit), dtype="int64")
    return _sum(above, axis=-1)


def matrix_power(a: Any, n: int) -> ndarray:
    """Return square matrices raised to an integer power; for n < 0, powers of the inverse."""
    array = squares(a, "linalg.matrix_power")
    if not isinstance(n, (int, np.integer)):
        raise TypeError_(f"linalg.matrix_power: n must be an integer, got {n!r}")
    if n < 0:
        array, n = inv(array), -n
    if n == 0:
        identity = from_host(np.eye(array.shape[-1]), array.ctx, array.dtype)
        return broadcast_to(identity, array.shape)
    result = None
    while n:
        if n & 1:
            result = array if result is None else matmul(result, array)
        n >>= 1
        if n:
            array = matmul(array, array)
    return result  # type: ignore[return-value]


def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> ndarray:
    """Return the product of matrices, computed in the order with the fewest multiplications.

    The first and the last array may be vectors.
    """
    who = "linalg.multi_dot"
    factors = [real_array(a, who) for a in arrays]
    if len(factors) < 2:
        raise ValueError_(f"{who}: at least 2 arrays must be given, got {len(factors)}")
    first_is_vector, last_is_vector = factors[0].ndim == 1, factors[-1].ndim == 1
    if first_is_vector:
        factors[0] = _expand(factors[0], axis=0)
    if last_is_vector:
        factors[-1] = _expand(factors[-1], axis=-1)
    for factor in factors:
        if factor.ndim != 2:
            raise LinAlgError(f"{who}: arrays must be matrices, got {factor.ndim} dimensions")
    sizes = [factors[0].shape[0], *(f.shape[1] for f in factors)]
    result = _multiply_all(factors, _splits(sizes), 0, len(factors) - 1)
    shape = result.shape[int(first_is_vector) : 2 - int(last_is_vector)]
    result = reshape_to(result, shape=shape)
    return store(result, out, who)


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return the factor after which to split each range of factors, by dynamic programming."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = {
                k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            }
            split[i, j] = min(options, key=options.__getitem__)
            cost[i, j] = options[split[i, j]]
    return split


def _multiply_all(
    factors: list[ndarray], split: dict[tuple[int, int], int], first: int, last: int
) -> ndarray:
    if first == last:
        return factors[first]
    middle = split[first, last]
    return matmul(
        _multiply_all(factors, split, first, middle),
        _multiply_all(factors, split, middle + 1, last),
    )


def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[ndarray, ndarray, int, ndarray]:
    """Return the least-squares solution of ``a @ x = b`` that has the smallest norm.

    Parameters
    ----------
    a : ndarray of shape (m, n)
    b : ndarray of shape (m,) or (m, k)
    rcond : float, optional
        Singular values up to rcond times the largest one count as 0. None, -1 and "warn" stand for
        the machine precision times the larger of m and n.

    Returns
    -------
    x : ndarray of shape (n,) or (n, k)
    residuals : ndarray of shape (1,) or (k,)
        Sums of squared differences. The shape is (0,) if the rank of a is below n or m <= n.
    rank : int
    s : ndarray of shape (min(m, n),)
        Singular values of a.
    """
    who = "linalg.lstsq"
    left, right = matrices(a, who), real_array(b, who)
    if left.ndim != 2 or right.ndim not in (1, 2) or right.shape[0] != left.shape[0]:
        raise LinAlgError(
            f"{who}: a must have shape (m, n) and b (m,) or (m, k), got {left.shape} and "
            f"{right.shape}"
        )
    refuse_traced(left, who, "the rank depends on values")
    left, right = promote([left, right])
    m, n = left.shape
    limit = float(np.finfo(left.dtype).eps) * max(m, n)  # type: ignore[type-var]
    if rcond is not None and not isinstance(rcond, str) and rcond != -1:
        limit = float(rcond)
    values = svdvals(left)
    sizes = values.asnumpy()
    rank = int((sizes > limit * sizes.max(initial=0)).sum())
    x = matmul(pinv(left, limit), right)
    if rank == n and m > n:
        residuals = _sum(_square(matmul(left, x) - right), axis=0, keepdims=right.ndim == 1)
    else:
        residuals = from_host(np.empty(0), left.ctx, left.dtype)
    return x, residuals, rank, values
