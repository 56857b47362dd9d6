"""Rows of the matrix products and of linear algebra."""

from __future__ import annotations

import numpy as np
from op_table import fails, ints, op, rand, randint

DOUBLE = ("float32", "float64")


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


def packed(x: np.ndarray, lower: bool, offset: int) -> np.ndarray:
    keep = np.tril if lower else np.triu
    rows, cols = np.nonzero(keep(np.ones(x.shape[-2:]), offset))
    return x[..., rows, cols]


def unpacked(x: np.ndarray, n: int, lower: bool, offset: int) -> np.ndarray:
    keep = np.tril if lower else np.triu
    rows, cols = np.nonzero(keep(np.ones((n, n)), offset))
    result = np.zeros((*x.shape[:-1], n, n))
    result[..., rows, cols] = x
    return result


def lq(a: np.ndarray) -> list[np.ndarray]:
    q, r = np.linalg.qr(t(a))
    signs = np.sign(np.diagonal(r, axis1=-2, axis2=-1))
    return [t(q * signs[..., None, :]), t(r * signs[..., :, None])]


# Elimination has to exchange rows: once in the first matrix, twice in the second.
SWAPPED = np.array([[[0.0, 2, 1], [4, 1, -1], [1, 3, 2]], [[0.25, 1, 2], [0.5, 2, -1], [2, -1, 1]]])

CASES = [
    op("dot", rand(3, 4), rand(4, 5), ref=lambda a, b: a @ b),
    op("dot", rand(4, 3), rand(4, 5), transpose_a=True, ref=lambda a, b: a.T @ b),
    op("dot", rand(3, 4), rand(5, 4), transpose_b=True, ref=lambda a, b: a @ b.T),
    op(
        "dot",
        rand(4, 3),
        rand(5, 4),
        transpose_a=True,
        transpose_b=True,
        ref=lambda a, b: a.T @ b.T,
    ),
    op("dot", rand(4), rand(4), ref=lambda a, b: (a @ b).reshape(1)),
    op("dot", rand(2, 3, 4), rand(4, 5), ref=lambda a, b: a @ b),
    op("dot", rand(2, 3, 4), rand(4, 2, 3), ref=lambda a, b: np.tensordot(a, b, 1)),
    op(
        "dot",
        rand(4, 2, 3),
        rand(5, 2, 4),
        transpose_a=True,
        transpose_b=True,
        ref=lambda a, b: np.tensordot(a, b, ((0,), (2,))),
    ),
    op("dot", rand(2, 3), rand(3), ref=lambda a, b: a @ b),
    op("dot", rand(3), rand(3, 2), ref=lambda a, b: a @ b),
    op("dot", rand(3, 0), rand(0, 2), grad=False, ref=np.zeros((3, 2))),
    op("dot", rand(40, 50), rand(50, 33), terms=50, ref=lambda a, b: a @ b),
    op(
        "dot",
        rand(50, 40),
        rand(33, 50),
        transpose_a=True,
        transpose_b=True,
        ref=lambda a, b: a.T @ b.T,
    ),
    op("dot", randint(-9, 9, 3, 4), randint(-9, 9, 4, 2), ref=lambda a, b: a @ b),
    fails("dot", rand(3, 4), rand(3, 4), error=ValueError, match="4 and 3 elements are summed"),
    fails("dot", rand(2, 3), ints([[1], [2], [3]]), error=TypeError, match="int32"),
    fails("dot", np.ones((2, 2), bool), np.ones((2, 2), bool), error=TypeError, match="bool"),
    op("batch_dot", rand(2, 3, 4), rand(2, 4, 5), ref=lambda a, b: a @ b),
    op(
        "batch_dot",
        rand(2, 4, 3),
        rand(2, 5, 4),
        transpose_a=True,
        transpose_b=True,
        ref=lambda a, b: t(a) @ t(b),
    ),
    op(
        "batch_dot",
        rand(3, 4, 3),
        rand(3, 4, 5),
        transpose_a=True,
        ref=lambda a, b: t(a) @ b,
    ),
    op(
        "batch_dot",
        rand(2, 3, 2, 4),
        rand(2, 3, 5, 4),
        transpose_b=True,
        ref=lambda a, b: a @ t(b),
    ),
    op("batch_dot", rand(3, 20, 30), rand(3, 30, 25), terms=30, ref=lambda a, b: a @ b),
    fails("batch_dot", rand(2, 3, 4), rand(3, 4, 5), error=ValueError, match="batch dimensions"),
    fails("batch_dot", rand(3, 4), rand(4, 5), error=ValueError, match="at least 3 dimensions"),
    op("_matmul", rand(2, 1, 3, 4), rand(5, 4, 2), ref=lambda a, b: a @ b),
    op("_matmul", rand(2, 3, 4), rand(4, 2), ref=lambda a, b: a @ b),
    op("_matmul", rand(4), rand(2, 4, 3), ref=lambda a, b: a @ b),
    op("_matmul", rand(2, 3, 4), rand(4), ref=lambda a, b: a @ b),
    fails("_matmul", rand(2, 3), rand(2, 3), error=ValueError, match="3 and 2 elements"),
    op("khatri_rao", rand(2, 3), rand(4, 3), ref=kron_columns),
    op("khatri_rao", rand(2, 3), rand(4, 3), rand(3, 3), ref=kron_columns),
    fails("khatri_rao", rand(2, 3), rand(4, 2), error=ValueError, match="matrix 1"),
    op(
        "linalg_gemm",
        rand(2, 3),
        rand(3, 4),
        rand(2, 4),
        alpha=2,
        beta=0.5,
        ref=lambda a, b, c: 2 * a @ b + 0.5 * c,
    ),
    op(
        "linalg_gemm",
        rand(5, 3, 2),
        rand(5, 4, 3),
        rand(5, 2, 4),
        transpose_a=True,
        transpose_b=True,
        ref=lambda a, b, c: t(a) @ t(b) + c,
    ),
    fails("linalg_gemm", rand(2, 3), rand(3, 4), rand(2, 3), error=ValueError, match="C of shape"),
    op(
        "linalg_gemm2",
        rand(2, 2, 3),
        rand(2, 4, 3),
        transpose_b=True,
        alpha=3,
        ref=lambda a, b: 3 * a @ t(b),
    ),
    op("linalg_gemm2", rand(2, 5, 3), rand(3, 5, 4), axis=0, ref=rows_to_columns),
    op(
        "linalg_gemm2",
        rand(2, 2, 5, 3),
        rand(2, 3, 5, 4),
        axis=-3,
        ref=lambda a, b: np.einsum("zibk,zkbj->zibj", a, b),
    ),
    fails("linalg_gemm2", rand(2, 3), rand(4, 3), error=ValueError, match="3 and 4 elements"),
    fails("linalg_gemm2", rand(3), rand(3), error=ValueError, match="at least 2 dimensions"),
    op("linalg_syrk", rand(2, 3, 4), alpha=2, ref=lambda a: 2 * a @ t(a)),
    op("linalg_syrk", rand(3, 4), transpose=True, ref=lambda a: a.T @ a),
    op(
        "linalg_trmm",
        triangle(2, 3),
        rand(2, 3, 4),
        alpha=2,
        dtypes=DOUBLE,
        ref=lambda a, b: 2 * np.tril(a) @ b,
    ),
    op(
        "linalg_trmm",
        triangle(3, upper=True),
        rand(4, 3),
        rightside=True,
        lower=False,
        transpose=True,
        dtypes=DOUBLE,
        ref=lambda a, b: b @ np.triu(a).T,
    ),
    fails("linalg_trmm", rand(3, 3), rand(2, 4), error=ValueError, match="from the left"),
]
for lower in (True, False):
    for transpose in (True, False):
        for rightside in (True, False):
            CASES.append(
                op(
                    "linalg_trsm",
                    triangle(2, 3, upper=not lower),
                    rand(2, 4, 3) if rightside else rand(2, 3, 4),
                    lower=lower,
                    transpose=transpose,
                    rightside=rightside,
                    alpha=2,
                    dtypes=DOUBLE,
                    ref=lambda a, b, tr=transpose, r=rightside: (
                        2
                        * (
                            b @ np.linalg.inv(t(a) if tr else a)
                            if r
                            else np.linalg.inv(t(a) if tr else a) @ b
                        )
                    ),
                )
            )
            CASES.append(
                op(
                    "linalg_trmm",
                    triangle(2, 3, upper=not lower),
                    rand(2, 4, 3) if rightside else rand(2, 3, 4),
                    lower=lower,
                    transpose=transpose,
                    rightside=rightside,
                    dtypes=DOUBLE,
                    ref=lambda a, b, tr=transpose, r=rightside: (
                        b @ (t(a) if tr else a) if r else (t(a) if tr else a) @ b
                    ),
                )
            )
CASES += [
    fails("linalg_trsm", rand(3, 2), rand(3, 2), error=ValueError, match="square"),
    op("_linalg_triangle", rand(2, 3, 3), lower=False, dtypes=DOUBLE, ref=np.triu),
    op(
        "linalg_extractdiag",
        rand(2, 4, 4),
        offset=-1,
        dtypes=DOUBLE,
        ref=lambda a: np.diagonal(a, -1, -2, -1),
    ),
    fails("linalg_extractdiag", rand(3, 3), offset=3, error=ValueError, match="offset 3"),
    op("linalg_makediag", rand(2, 3), offset=1, ref=lambda a: np.stack([np.diag(r, 1) for r in a])),
    op("linalg_makediag", rand(3), ref=np.diag),
    op("linalg_extracttrian", rand(2, 3, 3), dtypes=DOUBLE, ref=lambda a: packed(a, True, 0)),
    op(
        "linalg_extracttrian",
        rand(4, 4),
        offset=1,
        dtypes=DOUBLE,
        ref=lambda a: packed(a, False, 1),
    ),
    op(
        "linalg_extracttrian",
        rand(4, 4),
        offset=-2,
        lower=False,
        dtypes=DOUBLE,
        ref=lambda a: packed(a, True, -2),
    ),
    op("linalg_maketrian", rand(2, 6), ref=lambda a: unpacked(a, 3, True, 0)),
    op("linalg_maketrian", rand(6), lower=False, ref=lambda a: unpacked(a, 3, False, 0)),
    op("linalg_maketrian", rand(3), offset=-1, ref=lambda a: unpacked(a, 3, True, -1)),
    fails("linalg_maketrian", rand(5), error=ValueError, match="5 elements"),
    op(
        "linalg_sumlogdiag",
        definite(2, 3),
        dtypes=DOUBLE,
        ref=lambda a: np.log(np.diagonal(a, 0, -2, -1)).sum(-1),
    ),
    op(
        "linalg_sumlogdiag",
        definite(3),
        dtypes=DOUBLE,
        ref=lambda a: np.log(np.diagonal(a)).sum().reshape(1),
    ),
    op("linalg_potrf", definite(2, 4), grad=False, dtypes=DOUBLE, ref=np.linalg.cholesky),
    op(
        "linalg_potrf",
        definite(2, 4),
        lower=False,
        grad=False,
        dtypes=DOUBLE,
        ref=lambda a: np.linalg.cholesky(a).swapaxes(-1, -2),
    ),
    fails("linalg_potrf", -np.eye(3), error=ValueError, match="not positive definite"),
    fails("linalg_potrf", rand(2, 3), error=ValueError, match="square"),
    op("linalg_potri", triangle(2, 3), dtypes=DOUBLE, ref=lambda a: np.linalg.inv(a @ t(a))),
    op("linalg_inverse", definite(2, 4), dtypes=DOUBLE, ref=np.linalg.inv),
    fails("linalg_inverse", np.ones((2, 2)), error=ValueError, match="singular"),
    op("linalg_det", definite(2, 3), dtypes=DOUBLE, ref=np.linalg.det),
    op("linalg_det", -definite(3), dtypes=DOUBLE, ref=lambda a: np.linalg.det(a)[None]),
    op("linalg_det", np.ones((2, 2)), dtypes=DOUBLE, grad=False, ref=np.zeros(1)),
    fails(
        "dot",
        rand(2, 2),
        rand(2, 2),
        forward_stype="NHWC",
        error=ValueError,
        match="dot: parameter forward_stype",
    ),
    op("linalg_slogdet", -definite(2, 3), dtypes=DOUBLE, ref=np.linalg.slogdet),
    op("linalg_inverse", SWAPPED, dtypes=DOUBLE, ref=np.linalg.inv),
    op("linalg_det", SWAPPED, dtypes=DOUBLE, ref=np.linalg.det),
    op("linalg_slogdet", SWAPPED, dtypes=DOUBLE, ref=np.linalg.slogdet),
    op("linalg_gelqf", rand(2, 2, 4), dtypes=DOUBLE, ref=lq),
    fails("linalg_gelqf", rand(4, 2), error=ValueError, match="at most as many rows"),
    op(
        "linalg_syevd",
        np.diag([3.0, 1.0, 2.0]),
        dtypes=DOUBLE,
        grad=False,  # tested for symmetric input only: test_linalg.py
        ref=[np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]]), np.array([1, 2, 3])],
    ),
    fails("linalg_syevd", rand(2, 3), error=ValueError, match="square"),
    # So many rows that bfloat16 operands are packed before the product.
    op("dot", rand(300, 75), rand(75, 67), terms=300, ref=lambda a, b: a @ b),
    op(
        "dot",
        rand(75, 300),
        rand(67, 75),
        transpose_a=True,
        transpose_b=True,
        terms=300,
        ref=lambda a, b: a.T @ b.T,
    ),
]
