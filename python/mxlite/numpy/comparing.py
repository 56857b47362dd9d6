"""Comparisons of whole arrays: equal or close."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..base import ShapeError
from .arguments import as_array, broadcast_shape, real_array
from .ndarray import ndarray

__all__ = ["allclose", "array_equal", "array_equiv", "isclose"]

_abs = _core.op("abs")
_isnan = _core.op("_npi_isnan")
_isfinite = _core.op("_npi_isfinite")


def isclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> ndarray:
    """Return whether ``|a - b| <= atol + rtol * |b|``; infinities of one sign are close.

    Parameters
    ----------
    a, b : ndarray or number
        Broadcast together.
    rtol, atol : float
        Relative and absolute tolerance.
    equal_nan : bool
        Whether two NaN are close.
    """
    x, y = (real_array(v, "isclose") for v in (a, b))
    near = (_abs(x - y) <= _abs(y) * rtol + atol) & _isfinite(y)
    close = (x == y) | near
    return close | (_isnan(x) & _isnan(y)) if equal_nan else close


def allclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Return whether all elements are close, as a Python bool; see :func:`isclose`."""
    return bool(isclose(a, b, rtol, atol, equal_nan).asnumpy().all())


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether shapes and all elements are equal, as a Python bool."""
    x, y = (as_array(v, "array_equal") for v in (a1, a2))
    if x.shape != y.shape:
        return False
    equal: Any = x == y
    if equal_nan:
        equal = equal | (_isnan(x) & _isnan(y))
    return bool(equal.asnumpy().all())


def array_equiv(a1: Any, a2: Any) -> bool:
    """Return whether arrays are equal after broadcasting, as a Python bool."""
    x, y = (as_array(v, "array_equiv") for v in (a1, a2))
    try:
        broadcast_shape([x.shape, y.shape], "array_equiv")
    except ShapeError:
        return False
    return bool((x == y).asnumpy().all())
