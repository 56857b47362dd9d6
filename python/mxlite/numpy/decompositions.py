"""Decompositions of matrices: svd, qr, eigenvalues."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..base import LinAlgError, ValueError_
from .arguments import real_array
from .fallback import call_official
from .manipulation import matrix_transpose
from .ndarray import ndarray

_svd = _core.op("_npi_svd")
_qr = _core.op("_npi_qr")
_eig = _core.op("_npi_eig")
_syevd = _core.op("linalg_syevd")


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


def matrices(a: Any, who: str) -> ndarray:
    """Return an array of floats that has at least two dimensions."""
    array = real_array(a, who)
    if array.ndim < 2:
        raise LinAlgError(f"{who}: the array must have at least 2 dimensions, got {array.ndim}")
    return array


def squares(a: Any, who: str) -> ndarray:
    """Return an array of square matrices of floats."""
    array = matrices(a, who)
    if array.shape[-1] != array.shape[-2]:
        raise LinAlgError(f"{who}: matrices must be square, got shape {array.shape}")
    return array


def svd(a: Any, full_matrices: bool = False, compute_uv: bool = True) -> Any:
    """Return the singular value decomposition ``a = U @ diag(S) @ V``.

    Parameters
    ----------
    a : ndarray of shape (..., m, n)
    full_matrices : bool
        Whether U and V are square. Official NumPy computes that on a copy, without gradient.
    compute_uv : bool
        If False, return only S.

    Returns
    -------
    SVDResult
        U of shape (..., m, k), S (..., k) in descending order, V (..., k, n), where k is the
        smaller of m and n; with full_matrices, U (..., m, m) and V (..., n, n). Gradients of U and
        V are defined only if all singular values differ.
    """
    array = matrices(a, "linalg.svd")
    if full_matrices and compute_uv and array.shape[-1] != array.shape[-2]:
        return SVDResult(*call_official("linalg.svd", np.linalg.svd, (array,), {}))
    result = SVDResult(*_svd(array))
    return result if compute_uv else result.S


def svdvals(x: Any) -> ndarray:
    """Return the singular values in descending order."""
    return svd(x, compute_uv=False)


def qr(a: Any, mode: str = "reduced") -> Any:
    """Return ``a = Q @ R`` with orthonormal columns of Q and an upper triangular R.

    Parameters
    ----------
    a : ndarray of shape (..., m, n)
    mode : {"reduced", "r", "complete"}
        "r" returns only R. "complete" makes Q square; for m > n, official NumPy computes that on a
        copy, without gradient.

    Returns
    -------
    QRResult
        Q of shape (..., m, k) and R (..., k, n), where k is the smaller of m and n; for
        "complete", k is m.
    """
    array = matrices(a, "linalg.qr")
    if mode not in ("reduced", "r", "complete"):
        raise ValueError_(f"linalg.qr: mode must be 'reduced', 'r' or 'complete', got {mode!r}")
    if mode == "complete" and array.shape[-2] > array.shape[-1]:
        return QRResult(*call_official("linalg.qr", np.linalg.qr, (array, mode), {}))
    result = QRResult(*_qr(array))
    return result.R if mode == "r" else result


def eigh(a: Any, UPLO: str = "L") -> EighResult:  # noqa: N803 - NumPy's name
    """Return eigenvalues in ascending order and eigenvectors of symmetric matrices.

    Only the lower (``UPLO="L"``) or the upper (``"U"``) triangle of a, of shape (..., n, n), is
    read. Eigenvectors are columns. The gradient of a is symmetric.
    """
    array = squares(a, "linalg.eigh")
    if UPLO not in ("L", "U"):
        raise ValueError_(f"linalg.eigh: UPLO must be 'L' or 'U', got {UPLO!r}")
    rows, values = _syevd(matrix_transpose(array) if UPLO == "U" else array)
    return EighResult(values, matrix_transpose(rows))


def eigvalsh(a: Any, UPLO: str = "L") -> ndarray:  # noqa: N803 - NumPy's name
    """Return the eigenvalues of symmetric matrices in ascending order; see `eigh`."""
    return eigh(a, UPLO).eigenvalues


def eig(a: Any) -> EigResult:
    """Return eigenvalues and eigenvectors of length 1.

    Eigenvectors are columns. There is no complex dtype: if an eigenvalue of a, of shape
    (..., n, n), is not real, reading the result raises LinAlgError.
    """
    return EigResult(*_eig(squares(a, "linalg.eig")))


def eigvals(a: Any) -> ndarray:
    """Return the eigenvalues, which must be real; see `eig`."""
    return eig(a).eigenvalues
