"""Rows of the matrix products and of linear algebra."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.linalg import cholesky, inv
from op_table import fails, ints, no_grad, op, rand, randint

_D: dict[str, Any] = {"dtypes": ("float32", "float64")}
GEMM, GEMM2, TRMM = "linalg_gemm", "linalg_gemm2", "linalg_trmm"
BOTH = {"transpose_a": True, "transpose_b": True}


def t(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)


def definite(*shape: int) -> np.ndarray:
    a = rand(*shape, shape[-1])
    return a @ t(a) + 2 * np.eye(shape[-1])


def triangle(*shape: int, upper: bool = False) -> np.ndarray:
    a = rand(*shape, shape[-1]) + 2 * np.eye(shape[-1])
    return np.triu(a) if upper else np.tril(a)


def symmetric(x: np.ndarray) -> np.ndarray:
    return np.tril(x) + t(np.tril(x, -1))


def rows_to_columns(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Product of matrices whose rows are axis 0: (i, b, k) and (k, b, j)."""
    return np.einsum("ibk,kbj->ibj", x, y)


def kron_columns(*factors: np.ndarray) -> np.ndarray:
    result = factors[0]
    for f in factors[1:]:
        result = (result[:, None] * f[None]).reshape(-1, f.shape[1])
    return result


def triangle_places(n: int, lower: bool, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns: a lower triangle row by row, an upper one column by column."""
    lines, places = np.nonzero(np.tril(np.ones((n, n)), -abs(offset)))
    return (lines, places) if lower else (places, lines)


def packed(x: np.ndarray, lower: bool, offset: int) -> np.ndarray:
    rows, cols = triangle_places(x.shape[-1], lower, offset)
    return x[..., rows, cols]


def unpacked(x: np.ndarray, n: int, lower: bool, offset: int) -> np.ndarray:
    rows, cols = triangle_places(n, lower, offset)
    result = np.zeros((*x.shape[:-1], n, n))
    result[..., rows, cols] = x
    return result


def lq(a: np.ndarray) -> list[np.ndarray]:
    q, r = np.linalg.qr(t(a))  # LAPACK's signs
    return [t(q), t(r)]


# Elimination has to exchange rows: once in the first matrix, twice in the second.
SWAPPED = np.array([[[0.0, 2, 1], [4, 1, -1], [1, 3, 2]], [[0.25, 1, 2], [0.5, 2, -1], [2, -1, 1]]])

_I = range(3)
CASES = [
    op("dot", (3, 4), (4, 5), ref=lambda a, b: a @ b),
    op("dot", (4, 3), (4, 5), transpose_a=True, ref=lambda a, b: a.T @ b),
    op("dot", (3, 4), (5, 4), transpose_b=True, ref=lambda a, b: a @ b.T),
    op("dot", (4, 3), (5, 4), transpose_a=True, transpose_b=True, ref=lambda a, b: a.T @ b.T),
    op("dot", (4,), (4,), ref=lambda a, b: (a @ b).reshape(1)),
    op("dot", (2, 3, 4), (4, 5), ref=lambda a, b: a @ b),
    op("dot", (2, 3, 4), (4, 2, 3), ref=lambda a, b: np.tensordot(a, b, 1)),
    op("dot", (4, 2, 3), (5, 2, 4), **BOTH, ref=lambda a, b: np.tensordot(a, b, ((0,), (2,)))),
    op("dot", (2, 3), (3,), ref=lambda a, b: a @ b),
    op("dot", (3,), (3, 2), ref=lambda a, b: a @ b),
    no_grad("dot", (3, 0), (0, 2), ref=np.zeros((3, 2))),
    op("dot", (40, 50), (50, 33), terms=50, ref=lambda a, b: a @ b),
    op("dot", (50, 40), (33, 50), transpose_a=True, transpose_b=True, ref=lambda a, b: a.T @ b.T),
    op("dot", randint(-9, 9, 3, 4), randint(-9, 9, 4, 2), ref=lambda a, b: a @ b),
    fails("dot", (3, 4), (3, 4), match="the summed axes have 4 and 3 elements"),
    fails("dot", (2, 3), ints([[1], [2], [3]]), error=TypeError, match="int32"),
    fails("dot", np.ones((2, 2), bool), np.ones((2, 2), bool), error=TypeError, match="bool"),
    op("batch_dot", (2, 3, 4), (2, 4, 5), ref=lambda a, b: a @ b),
    op("batch_dot", (2, 4, 3), (2, 5, 4), **BOTH, ref=lambda a, b: t(a) @ t(b)),
    op("batch_dot", (3, 4, 3), (3, 4, 5), transpose_a=True, ref=lambda a, b: t(a) @ b),
    op("batch_dot", (2, 3, 2, 4), (2, 3, 5, 4), transpose_b=True, ref=lambda a, b: a @ t(b)),
    op("batch_dot", (3, 20, 30), (3, 30, 25), terms=30, ref=lambda a, b: a @ b),
    fails("batch_dot", (2, 3, 4), (3, 4, 5), match="batch dimensions"),
    fails("batch_dot", (3, 4), (4, 5), match="at least 3 dimensions"),
    op("_np_dot", (2, 3, 4), (4, 2), ref=lambda a, b: a @ b),
    op("_np_dot", (4,), (4,), ref=lambda a, b: a @ b),
    op("_np_dot", (2, 4), (3, 2, 4, 5), ref=np.dot),
    op("_np_dot", (4,), (3, 4, 5), ref=np.dot),
    fails("_np_dot", (2, 3), (3, 2, 2), match="3 and 2 elements"),
    op("_matmul", (2, 1, 3, 4), (5, 4, 2), ref=lambda a, b: a @ b),
    op("_matmul", (2, 3, 4), (4, 2), ref=lambda a, b: a @ b),
    op("_matmul", (4,), (2, 4, 3), ref=lambda a, b: a @ b),
    op("_matmul", (2, 3, 4), (4,), ref=lambda a, b: a @ b),
    fails("_matmul", (2, 3), (2, 3), match="3 and 2 elements"),
    op("khatri_rao", (2, 3), (4, 3), ref=kron_columns),
    op("khatri_rao", (2, 3), (4, 3), (3, 3), ref=kron_columns),
    fails("khatri_rao", (2, 3), (4, 2), match="matrix 1"),
    op(GEMM, (2, 3), (3, 4), (2, 4), alpha=2, beta=0.5, ref=lambda a, b, c: 2 * a @ b + 0.5 * c),
    op("linalg_gemm", (5, 3, 2), (5, 4, 3), (5, 2, 4), **BOTH, ref=lambda a, b, c: t(a) @ t(b) + c),
    fails("linalg_gemm", (2, 3), (3, 4), (2, 3), match="C must have"),
    op(GEMM2, (2, 2, 3), (2, 4, 3), transpose_b=True, alpha=3, ref=lambda a, b: 3 * a @ t(b)),
    op(GEMM2, (2, 5, 3), (3, 5, 4), axis=0, ref=rows_to_columns),
    op(
        GEMM2,
        (2, 2, 5, 3),
        (2, 3, 5, 4),
        axis=-3,
        ref=lambda a, b: np.einsum("zibk,zkbj->zibj", a, b),
    ),
    fails(GEMM2, (2, 3), (4, 3), match="3 and 4 elements"),
    fails(GEMM2, (3,), (3,), match="at least 2 dimensions"),
    op("linalg_syrk", (2, 3, 4), alpha=2, ref=lambda a: 2 * a @ t(a)),
    op("linalg_syrk", (3, 4), transpose=True, ref=lambda a: a.T @ a),
    op(TRMM, triangle(2, 3), (2, 3, 4), alpha=2, **_D, ref=lambda a, b: 2 * np.tril(a) @ b),
    fails("linalg_trmm", (3, 3), (2, 4), match="as many rows as B"),
]
for lower, transpose, rightside in itertools.product((True, False), repeat=3):

    def product(
        a: np.ndarray, b: np.ndarray, tr: bool = transpose, r: bool = rightside
    ) -> np.ndarray:
        a = t(a) if tr else a
        return b @ a if r else a @ b

    inputs = [triangle(2, 3, upper=not lower), rand(2, 4, 3) if rightside else rand(2, 3, 4)]
    o = {"lower": lower, "transpose": transpose, "rightside": rightside, **_D}
    CASES += [
        op("linalg_trmm", *inputs, ref=product, **o),
        op("linalg_trsm", *inputs, alpha=2, ref=lambda a, b, f=product: 2 * f(inv(a), b), **o),
    ]
CASES += [
    fails("linalg_trsm", (3, 2), (3, 2), match="square"),
    op("_linalg_triangle", (2, 3, 3), lower=False, **_D, ref=np.triu),
    op("linalg_extractdiag", (2, 4, 4), offset=-1, **_D, ref=lambda a: np.diagonal(a, -1, -2, -1)),
    fails("linalg_extractdiag", (3, 3), offset=3, match="offset .* 3"),
    op("linalg_makediag", (2, 3), offset=1, ref=lambda a: np.stack([np.diag(r, 1) for r in a])),
    op("linalg_makediag", (3,), ref=np.diag),
    op("linalg_extracttrian", (2, 3, 3), **_D, ref=lambda a: packed(a, True, 0)),
    op("linalg_extracttrian", (3, 3), lower=False, **_D, ref=lambda a: a.T[np.tril_indices(3)]),
    op("linalg_extracttrian", (4, 4), offset=1, **_D, ref=lambda a: packed(a, False, 1)),
    op("linalg_extracttrian", (4, 4), lower=False, offset=-2, **_D, ref=lambda a: packed(a, 1, -2)),
    op("linalg_maketrian", (2, 6), ref=lambda a: unpacked(a, 3, True, 0)),
    op("linalg_maketrian", (6,), lower=False, ref=lambda a: unpacked(a, 3, False, 0)),
    op("linalg_maketrian", (3,), offset=-1, ref=lambda a: unpacked(a, 3, True, -1)),
    fails("linalg_maketrian", (5,), match="elements, got 5"),
    op("linalg_sumlogdiag", definite(2, 3), **_D, ref=lambda a: np.log(a[:, _I, _I]).sum(-1)),
    op("linalg_sumlogdiag", definite(3), **_D, ref=lambda a: np.log(np.diag(a)).sum(keepdims=True)),
    no_grad("linalg_potrf", definite(2, 4), **_D, ref=cholesky),
    no_grad("linalg_potrf", definite(2, 4), lower=False, **_D, ref=lambda a: t(cholesky(a))),
    fails("linalg_potrf", -np.eye(3), match="must be positive definite, but leading minor 1"),
    fails("linalg_potrf", (2, 3), match="square"),
    op("linalg_potri", triangle(2, 3), **_D, ref=lambda a: inv(a @ t(a))),
    op("linalg_inverse", definite(2, 4), **_D, ref=inv),
    fails("linalg_inverse", np.ones((2, 2)), match="singular"),
    op("linalg_det", definite(2, 3), **_D, ref=np.linalg.det),
    op("linalg_det", -definite(3), **_D, ref=lambda a: np.linalg.det(a)[None]),
    no_grad("linalg_det", np.ones((2, 2)), **_D, ref=np.zeros(1)),
    fails("dot", (2, 2), (2, 2), forward_stype="NHWC", match="dot: parameter forward_stype"),
    op("linalg_slogdet", -definite(2, 3), **_D, ref=np.linalg.slogdet),
    op("linalg_inverse", SWAPPED, **_D, ref=inv),
    op("linalg_det", SWAPPED, **_D, ref=np.linalg.det),
    op("linalg_slogdet", SWAPPED, **_D, ref=np.linalg.slogdet),
    op("linalg_gelqf", (2, 2, 4), **_D, ref=lq),
    op("linalg_gelqf", (3, 3), **_D, ref=lq),
    no_grad("linalg_gelqf", np.array([[0.0, 0, 0], [0, -2, 0], [3, 4, 5]]), **_D, ref=lq),
    fails("linalg_gelqf", (4, 2), match="at most as many rows"),
    no_grad(
        "linalg_syevd",
        np.diag([3.0, 1.0, 2.0]),
        **_D,
        # tested for symmetric input only: test_linalg.py
        ref=[np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]]), np.array([1, 2, 3])],
    ),
    fails("linalg_syevd", (2, 3), match="square"),
    # So many rows that bfloat16 operands are packed before the product.
    op("dot", (300, 75), (75, 67), terms=300, ref=lambda a, b: a @ b),
    op("dot", (75, 300), (67, 75), **BOTH, terms=300, ref=lambda a, b: a.T @ b.T),
]


# Vectors of other matrices may have either sign.
WITHOUT_SIGNS = np.stack([np.diag([3.0, 2.0, 1.0])[:, :2], np.diag([5.0, 4.0, 1.0])[:, :2]])


def reduced_svd(a: np.ndarray) -> list[np.ndarray]:
    return list(np.linalg.svd(a, full_matrices=False))


# Gradients of decompositions: numpy_mode/test_np_linalg.py, on functions that ignore signs.
CASES += [
    no_grad("_npi_svd", WITHOUT_SIGNS, **_D, ref=reduced_svd),
    no_grad("_npi_svd", t(WITHOUT_SIGNS), **_D, ref=reduced_svd),
    fails("_npi_svd", np.full((2, 2), np.nan), match="finite"),
    fails("_npi_svd", (3,), match="at least 2 dimensions"),
    no_grad("_npi_qr", (2, 4, 3), **_D, ref=lambda a: list(np.linalg.qr(a))),
    no_grad("_npi_qr", (2, 5), **_D, ref=lambda a: list(np.linalg.qr(a))),
    no_grad("_npi_pinv", (2, 4, 3), np.full(2, 1e-6), **_D, ref=np.linalg.pinv, terms=100),
    fails("_npi_pinv", (2, 4, 3), (3,), match="rcond must have shape"),
    no_grad("_npi_eig", np.diag([3.0, 1.0, 2.0]), **_D, ref=lambda a: list(np.linalg.eig(a))),
    fails("_npi_eig", np.array([[0.0, 1], [-1, 0]]), match="complex"),
    op("_npi_solve", definite(2, 3), (2, 3, 4), **_D, ref=np.linalg.solve),
    op("_npi_solve", SWAPPED, (2, 3, 1), **_D, ref=np.linalg.solve),
    fails("_npi_solve", np.ones((2, 2)), (2, 1), match="singular"),
    fails("_npi_solve", (2, 2), (3, 1), match="rows"),
]
