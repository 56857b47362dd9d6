"""Linear algebra: ``mx.np.linalg``.

Matrices are the last two axes; the other axes form a batch. Integers and bools become float32.
Functions of matrices have gradients unless their documentation says otherwise. Errors of matrices
(singular, not positive definite, not finite) are `LinAlgError`; they are raised when the result is
read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..base import LinAlgError, NotSupportedError, TypeError_, ValueError_
from .arguments import (
    as_array,
    axes_in,
    broadcast_shape,
    common_dtype,
    from_host,
    reduced,
    refuse_traced,
    reshape_to,
    returned,
)
from .manipulation import broadcast_to, diagonal, matrix_transpose, moveaxis, trace, transpose
from .ndarray import ndarray
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

_svd, _qr, _eig, _pinv, _solve = map(
    _core.op, ("_npi_svd", "_npi_qr", "_npi_eig", "_npi_pinv", "_npi_solve")
)
_potrf, _inverse, _det, _slogdet, _syevd = map(
    _core.op,
    ("linalg_potrf", "linalg_inverse", "linalg_det", "linalg_slogdet", "linalg_syevd"),
)
_sum, _max, _min = map(_core.op, ("sum", "max", "min"))
_abs, _sqrt, _square, _sign = map(_core.op, ("abs", "sqrt", "square", "sign"))
_is_zero, _is_not_zero = map(_core.op, ("_equal_scalar", "_not_equal_scalar"))
_above = _core.op("broadcast_greater")
_cast = _core.op("Cast")
_expand = _core.op("expand_dims")
_squeeze = _core.op("squeeze")
_full = _core.op("_full")


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: ndarray
    eigenvectors: ndarray


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: ndarray
    eigenvectors: ndarray


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangular matrix."""

    Q: ndarray
    R: ndarray


class SVDResult(NamedTuple):
    """Left vectors as columns, singular values in descending order, right vectors as rows."""

    U: ndarray
    S: ndarray
    Vh: ndarray


def _floats(a: Any, who: str) -> ndarray:
    """Return an array of floats; integers and bools become float32."""
    array = as_array(a, who)
    name = array.dtype if isinstance(array.dtype, str) else np.dtype(array.dtype).name
    return array if "float" in name else _cast(array, dtype="float32")  # type: ignore[return-value]


def _matrices(a: Any, who: str) -> ndarray:
    array = _floats(a, who)
    if array.ndim < 2:
        raise LinAlgError(f"{who}: the array must have at least 2 dimensions, got {array.ndim}")
    return array


def _squares(a: Any, who: str) -> ndarray:
    array = _matrices(a, who)
    if array.shape[-1] != array.shape[-2]:
        raise LinAlgError(f"{who}: matrices must be square, got shape {array.shape}")
    return array


def cholesky(a: Any, upper: bool = False) -> ndarray:
    """Return the lower triangular L with ``a = L @ L.T``, or the upper triangular ``L.T``.

    Only the lower triangle of a is read.
    """
    return _potrf(_squares(a, "linalg.cholesky"), lower=not upper)  # type: ignore[return-value]


def inv(a: Any) -> ndarray:
    """Return the inverses of square matrices."""
    return _inverse(_squares(a, "linalg.inv"))  # type: ignore[return-value]


def det(a: Any) -> ndarray:
    """Return the determinants of square matrices."""
    array = _squares(a, "linalg.det")
    return reshape_to(_det(array), shape=array.shape[:-2])  # type: ignore[return-value]


def slogdet(a: Any) -> list[ndarray]:
    """Return [signs, logarithms of the absolute values] of the determinants."""
    array = _squares(a, "linalg.slogdet")
    return [reshape_to(part, shape=array.shape[:-2]) for part in _slogdet(array)]  # type: ignore[misc]


def _aligned(a: ndarray, b: ndarray, who: str) -> tuple[ndarray, ndarray]:
    """Return two stacks of matrices of one dtype and one batch shape."""
    dtype = common_dtype([a.dtype, b.dtype])
    batch = broadcast_shape([a.shape[:-2], b.shape[:-2]], who)
    both = [_cast(x, dtype=dtype) if x.dtype != dtype else x for x in (a, b)]
    return tuple(  # type: ignore[return-value]
        x if x.shape[:-2] == batch else broadcast_to(x, batch + x.shape[-2:]) for x in both
    )


def solve(a: Any, b: Any) -> ndarray:
    """Return the solution x of ``a @ x = b``.

    Parameters
    ----------
    a : ndarray of shape (..., n, n)
    b : ndarray of shape (n,) or (..., n, k)
        The other dimensions of a and b broadcast together.
    """
    who = "linalg.solve"
    left, right = _squares(a, who), _floats(b, who)
    is_vector = right.ndim == 1
    if is_vector:
        right = _expand(right, axis=-1)
    if right.ndim < 2 or right.shape[-2] != left.shape[-1]:
        raise LinAlgError(
            f"{who}: b must have {left.shape[-1]} rows as a has, got shapes {left.shape} and "
            f"{as_array(b, who).shape}"
        )
    result = _solve(*_aligned(left, right, who))
    return _squeeze(result, axis=-1) if is_vector else result  # type: ignore[return-value]


def tensorinv(a: Any, ind: int = 2) -> ndarray:
    """Return the inverse of a with respect to ``tensordot(a, b, ind)``."""
    array = _floats(a, "linalg.tensorinv")
    if ind <= 0:
        raise ValueError_(f"linalg.tensorinv: ind must be above 0, got {ind}")
    first, last = array.shape[:ind], array.shape[ind:]
    count = math.prod(last)
    if math.prod(first) != count:
        raise LinAlgError(
            f"linalg.tensorinv: the first {ind} dimensions must have as many elements as the "
            f"others, got shape {array.shape}"
        )
    return reshape_to(inv(reshape_to(array, shape=(count, count))), shape=last + first)  # type: ignore[return-value]


def tensorsolve(a: Any, b: Any, axes: Any = None) -> ndarray:
    """Return x with ``tensordot(a, x, x.ndim) = b``; ``axes`` of a are moved to the end first."""
    who = "linalg.tensorsolve"
    left, right = _floats(a, who), _floats(b, who)
    if axes is not None:
        moved = axes_in(axes, left.ndim, who)
        kept = [i for i in range(left.ndim) if i not in moved]
        left = transpose(left, (*kept, *moved))
    shape = left.shape[right.ndim :]
    count = math.prod(shape)
    if right.size != count:
        raise LinAlgError(
            f"{who}: the last {len(shape)} dimensions of a must have as many elements as b, got "
            f"shapes {left.shape} and {right.shape}"
        )
    matrix = reshape_to(left, shape=(count, count))
    return reshape_to(solve(matrix, reshape_to(right, shape=(count,))), shape=shape)  # type: ignore[return-value]


def svd(a: Any, full_matrices: bool = False, compute_uv: bool = True) -> Any:
    """Return the singular value decomposition ``a = U @ diag(S) @ V``.

    Parameters
    ----------
    a : ndarray of shape (..., m, n)
    full_matrices : bool
        True is supported only for square matrices, where it makes no difference.
    compute_uv : bool
        If False, return only S.

    Returns
    -------
    SVDResult
        U of shape (..., m, k), S (..., k) in descending order, V (..., k, n), where k is the
        smaller of m and n. Gradients of U and V need singular values that differ from each other.
    """
    array = _matrices(a, "linalg.svd")
    if full_matrices and compute_uv and array.shape[-1] != array.shape[-2]:
        raise NotSupportedError(
            f"linalg.svd: full_matrices=True needs square matrices, got shape {array.shape}"
        )
    result = SVDResult(*_svd(array))
    return result if compute_uv else result.S


def svdvals(x: Any) -> ndarray:
    """Return the singular values in descending order."""
    return svd(x, compute_uv=False)  # type: ignore[no-any-return]


def qr(a: Any, mode: str = "reduced") -> Any:
    """Return ``a = Q @ R`` with orthonormal columns of Q and an upper triangular R.

    Parameters
    ----------
    a : ndarray of shape (..., m, n)
    mode : {"reduced", "r", "complete"}
        "r" returns only R; "complete" is supported for m <= n, where it equals "reduced".

    Returns
    -------
    QRResult
        Q of shape (..., m, k) and R (..., k, n), where k is the smaller of m and n.
    """
    array = _matrices(a, "linalg.qr")
    if mode not in ("reduced", "r", "complete"):
        raise ValueError_(f"linalg.qr: mode must be 'reduced', 'r' or 'complete', got {mode!r}")
    if mode == "complete" and array.shape[-2] > array.shape[-1]:
        raise NotSupportedError(
            f"linalg.qr: mode='complete' needs at most as many rows as columns, got shape "
            f"{array.shape}"
        )
    result = QRResult(*_qr(array))
    return result.R if mode == "r" else result


def eigh(a: Any, UPLO: str = "L") -> EighResult:  # noqa: N803 - NumPy's name
    """Return eigenvalues in ascending order and eigenvectors of symmetric matrices.

    UPLO says which triangle is read: "L" or "U". Gradients are symmetric matrices.
    """
    array = _squares(a, "linalg.eigh")
    if UPLO not in ("L", "U"):
        raise ValueError_(f"linalg.eigh: UPLO must be 'L' or 'U', got {UPLO!r}")
    rows, values = _syevd(matrix_transpose(array) if UPLO == "U" else array)
    return EighResult(values, matrix_transpose(rows))


def eigvalsh(a: Any, UPLO: str = "L") -> ndarray:  # noqa: N803 - NumPy's name
    """Return the eigenvalues of symmetric matrices in ascending order; see `eigh`."""
    return eigh(a, UPLO).eigenvalues


def eig(a: Any) -> EigResult:
    """Return eigenvalues and eigenvectors of length 1.

    There is no complex dtype: if an eigenvalue is not real, reading the result raises.
    """
    return EigResult(*_eig(_squares(a, "linalg.eig")))


def eigvals(a: Any) -> ndarray:
    """Return the eigenvalues, which must be real; see `eig`."""
    return eig(a).eigenvalues


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> ndarray:
    """Return the pseudo-inverses.

    Parameters
    ----------
    a : ndarray of shape (..., m, n)
    rcond, rtol : float or ndarray of shape (...), optional
        Singular values of at most this number times the largest one count as 0. By default, the
        machine precision times the larger of m and n.
    hermitian : bool
        Accepted for NumPy's signature; symmetric matrices need no other computation.
    """
    array = _matrices(a, "linalg.pinv")
    limit = rtol if rcond is None else rcond
    if limit is None:
        limit = float(np.finfo(array.dtype).eps) * max(array.shape[-2:])
    batch = array.shape[:-2]
    if isinstance(limit, ndarray):
        limit = broadcast_to(_cast(limit, dtype=array.dtype), batch)
    else:
        made = _full(shape=batch, value=float(limit), dtype=array.dtype, ctx=array.ctx)
        limit = _core.with_numpy(made, True)
    return _pinv(array, limit)  # type: ignore[return-value]


def _root(total: ndarray, power: float = 0.5) -> ndarray:
    """Return total ** power for sums that are at least 0, with gradient 0 at 0."""
    zero = _is_zero(total, scalar=0.0)
    root = _sqrt(total + zero) if power == 0.5 else (total + zero) ** power
    return root * (1 - zero)  # type: ignore[no-any-return]


def _length(x: ndarray, axes: tuple[int, ...], keepdims: bool) -> ndarray:
    """Return the root of the sum of squares."""
    return _root(reduced(_sum, _square(x), axes, keepdims))


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> ndarray:
    """Return norms of vectors along axes; None: of all elements. See `norm` for ``ord``."""
    who = "linalg.vector_norm"
    array = _floats(x, who)
    axes = tuple(range(array.ndim)) if axis is None else axes_in(axis, array.ndim, who)
    if isinstance(ord, str) or ord is None:
        raise ValueError_(f"{who}: ord must be a number, got {ord!r}")
    if ord == 2:
        return _length(array, axes, keepdims)
    size = _abs(array)
    if math.isinf(ord):
        return reduced(_max if ord > 0 else _min, size, axes, keepdims)
    if ord == 0:
        return reduced(_sum, _is_not_zero(array, scalar=0.0), axes, keepdims)
    if ord == 1:
        return reduced(_sum, size, axes, keepdims)
    return _root(reduced(_sum, size**ord, axes, keepdims), 1 / ord)


def matrix_norm(
    x: Any, /, *, keepdims: bool = False, ord: Any = "fro", axis: Any = (-2, -1)
) -> ndarray:
    """Return norms of matrices. See `norm` for ``ord``."""
    who = "linalg.matrix_norm"
    array = _floats(x, who)
    rows, columns = axes_in(axis, array.ndim, who)
    if ord in (None, "fro", "f"):
        return _length(array, (rows, columns), keepdims)
    if ord in ("nuc", 2, -2):
        values = svdvals(moveaxis(array, (rows, columns), (-2, -1)))
        op = {"nuc": _sum, 2: _max, -2: _min}[ord]
        result = reduced(op, values, (values.ndim - 1,), keepdims=False)
    elif ord in (1, -1, math.inf, -math.inf):
        first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = reduced(_sum, _abs(array), (first,), keepdims=True)
        result = reduced(_max if ord > 0 else _min, sums, (first, second), keepdims=False)
    else:
        raise ValueError_(
            f"{who}: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}"
        )
    if not keepdims:
        return result
    shape = tuple(1 if i in (rows, columns) else n for i, n in enumerate(array.shape))
    return reshape_to(result, shape=shape)  # type: ignore[return-value]


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> ndarray:
    """Return norms of vectors or matrices.

    Parameters
    ----------
    x : ndarray
    ord : number or {"fro", "nuc"}, optional
        By default, the root of the sum of squares. Of vectors: any number p for the p-th root of
        the sum of absolute values to the power p, 0 for the number of elements that are not 0,
        inf and -inf for the extreme absolute values. Of matrices: "fro" as the default, "nuc" and
        2, -2 for the sum and the extremes of the singular values, 1, -1 and inf, -inf for the
        extreme sums of absolute values of columns and of rows.
    axis : int or pair of int, optional
        Axis of vectors or axes of matrices. By default, all elements if ord is None, else all axes,
        of which there must be 1 or 2.
    keepdims : bool
        Whether reduced axes stay with size 1.

    Notes
    -----
    The gradient of roots at 0 is 0.
    """
    array = _floats(x, "linalg.norm")
    if axis is None:
        if ord is None:
            return vector_norm(array, keepdims=keepdims)
        axis = tuple(range(array.ndim))
    axes = axes_in(axis, array.ndim, "linalg.norm")
    if len(axes) == 1:
        return vector_norm(array, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) == 2:
        return matrix_norm(array, axis=axes, keepdims=keepdims, ord="fro" if ord is None else ord)
    raise ValueError_(f"linalg.norm: axis must have 1 or 2 axes, got {len(axes)}")


def cond(x: Any, p: Any = None) -> ndarray:
    """Return condition numbers; p is an ``ord`` of `norm`, where None means 2."""
    array = _matrices(x, "linalg.cond")
    if p in (None, 2, -2):
        values = svdvals(array)
        last = (values.ndim - 1,)
        extremes = [reduced(op, values, last, keepdims=False) for op in (_max, _min)]
        return extremes[1] / extremes[0] if p == -2 else extremes[0] / extremes[1]  # type: ignore[no-any-return]
    return matrix_norm(array, ord=p) * matrix_norm(inv(array), ord=p)  # type: ignore[no-any-return]


def matrix_rank(
    M: Any,
    tol: Any = None,
    hermitian: bool = False,
    *,
    rtol: Any = None,  # noqa: N803
) -> ndarray:
    """Return the number of singular values above ``tol`` (int64), without gradient.

    By default tol is ``rtol`` times the largest singular value, where rtol is by default the
    machine precision times the larger dimension. For fewer than 2 dimensions, the rank is 0 if all
    elements are 0, else 1.
    """
    array = _floats(M, "linalg.matrix_rank")
    if array.ndim < 2:
        values = reshape_to(reduced(_max, _abs(array), tuple(range(array.ndim)), False), shape=(1,))
        limit: Any = values * 0
    else:
        values = svdvals(array)
        factor = float(np.finfo(array.dtype).eps) * max(array.shape[-2:]) if rtol is None else rtol
        if tol is None:
            largest = reduced(_max, values, (values.ndim - 1,), keepdims=True)
            limit = largest * (_expand(factor, axis=-1) if isinstance(factor, ndarray) else factor)
        else:
            limit = _expand(tol, axis=-1) if isinstance(tol, ndarray) else values * 0 + tol
    above = _cast(_above(values, limit), dtype="int64")
    return reduced(_sum, above, (above.ndim - 1,), keepdims=False)


def matrix_power(a: Any, n: int) -> ndarray:
    """Return square matrices to an integer power; negative powers are of the inverse."""
    array = _squares(a, "linalg.matrix_power")
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
    """Return the product of matrices in the order that needs the fewest multiplications.

    The first and the last one may be vectors.
    """
    who = "linalg.multi_dot"
    factors = [_floats(a, who) for a in arrays]
    if len(factors) < 2:
        raise ValueError_(f"{who}: at least 2 arrays must be given, got {len(factors)}")
    first_is_vector, last_is_vector = factors[0].ndim == 1, factors[-1].ndim == 1
    if first_is_vector:
        factors[0] = _expand(factors[0], axis=0)  # type: ignore[assignment]
    if last_is_vector:
        factors[-1] = _expand(factors[-1], axis=-1)  # type: ignore[assignment]
    for factor in factors:
        if factor.ndim != 2:
            raise LinAlgError(f"{who}: arrays must be matrices, got {factor.ndim} dimensions")
    sizes = [factors[0].shape[0], *(f.shape[1] for f in factors)]
    result = _multiplied(factors, _splits(sizes), 0, len(factors) - 1)
    shape = result.shape[int(first_is_vector) : 2 - int(last_is_vector)]
    result = reshape_to(result, shape=shape)
    return returned(result, out, who)  # type: ignore[no-any-return]


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return after which factor each range of factors is divided (dynamic programming)."""
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


def _multiplied(
    factors: list[ndarray], split: dict[tuple[int, int], int], first: int, last: int
) -> ndarray:
    if first == last:
        return factors[first]
    middle = split[first, last]
    return matmul(
        _multiplied(factors, split, first, middle), _multiplied(factors, split, middle + 1, last)
    )


def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[ndarray, ndarray, int, ndarray]:
    """Return the solution of least squares and least norm of ``a @ x = b``.

    Parameters
    ----------
    a : ndarray of shape (m, n)
    b : ndarray of shape (m,) or (m, k)
    rcond : float, optional
        Singular values of at most rcond times the largest one count as 0; by default (and for -1
        and "warn"), the machine precision times the larger of m and n.

    Returns
    -------
    x : ndarray of shape (n,) or (n, k)
    residuals : ndarray of shape (1,) or (k,)
        Sums of squared differences; of shape (0,) if the rank of a is below n or m <= n.
    rank : int
    s : ndarray of shape (min(m, n),)
        Singular values of a.
    """
    who = "linalg.lstsq"
    left, right = _matrices(a, who), _floats(b, who)
    if left.ndim != 2 or right.ndim not in (1, 2) or right.shape[0] != left.shape[0]:
        raise LinAlgError(
            f"{who}: a must have shape (m, n) and b (m,) or (m, k), got {left.shape} and "
            f"{right.shape}"
        )
    refuse_traced(left, who, "the rank depends on values")
    dtype = common_dtype([left.dtype, right.dtype])
    left, right = _cast(left, dtype=dtype), _cast(right, dtype=dtype)
    m, n = left.shape
    limit = float(np.finfo(left.dtype).eps) * max(m, n)
    if rcond is not None and not isinstance(rcond, str) and rcond != -1:
        limit = float(rcond)
    values = svdvals(left)
    sizes = values.asnumpy()
    rank = int((sizes > limit * sizes.max(initial=0)).sum())
    x = matmul(pinv(left, limit), right)
    if rank == n and m > n:
        residuals = reduced(_sum, _square(matmul(left, x) - right), (0,), keepdims=right.ndim == 1)
    else:
        residuals = from_host(np.empty(0), left.ctx, left.dtype)
    return x, residuals, rank, values
