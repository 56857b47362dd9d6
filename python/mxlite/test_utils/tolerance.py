"""Tolerances by dtype for comparisons."""

from __future__ import annotations

from typing import Any, Union

import numpy as np

__all__ = [
    "default_atols",
    "default_dtype",
    "default_numeric_eps",
    "default_rtols",
    "effective_dtype",
    "get_atol",
    "get_etol",
    "get_rtol",
    "get_tolerance",
    "get_tols",
]

Tolerance = Union[float, dict[Any, float], None]

_EXACT = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64")
_RTOLS = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-5}
_ATOLS = {"float16": 1e-1, "float32": 1e-3, "float64": 1e-20}
_EPS = {"float16": 2.0**-6, "float32": 2.0**-9, "float64": 2.0**-14}


def _table(inexact: dict[str, float]) -> dict[np.dtype[Any], float]:
    return {np.dtype(name): inexact.get(name, 0) for name in (*inexact, *_EXACT)}


def default_rtols() -> dict[np.dtype[Any], float]:
    """Return the relative tolerance of each dtype."""
    return _table(_RTOLS)


def default_atols() -> dict[np.dtype[Any], float]:
    """Return the absolute tolerance of each dtype."""
    return _table(_ATOLS)


def default_numeric_eps() -> dict[np.dtype[Any], float]:
    """Return the step of finite differences for each dtype, powers of two."""
    return {np.dtype(name): eps for name, eps in _EPS.items()}


def default_dtype() -> type:
    """Return the dtype of arrays if none is given, ``numpy.float32``."""
    return np.float32


def _of_dtype(table: dict[np.dtype[Any], float], dtype: Any) -> float:
    """Return a table's entry; bfloat16 is treated as float16, unknown integers are exact."""
    dtype = np.dtype(dtype)
    if dtype in table:
        return table[dtype]
    return 0.0 if dtype.kind in "iub" else table[np.dtype("float16")]


def get_rtol(rtol: float | None = None, dtype: Any = np.float64) -> float:
    """Return a relative tolerance; None gives the dtype's default."""
    return _of_dtype(default_rtols(), dtype) if rtol is None else rtol


def get_atol(atol: float | None = None, dtype: Any = np.float64) -> float:
    """Return an absolute tolerance; None gives the dtype's default."""
    return _of_dtype(default_atols(), dtype) if atol is None else atol


def get_etol(etol: float | None = None) -> float:
    """Return the fraction of elements that may be wrong; None gives 0."""
    return 0 if etol is None else etol


def effective_dtype(dat: Any) -> np.dtype[Any]:
    """Return the dtype of the actual precision of an array's values, of mxlite or NumPy."""
    return np.dtype(dat.dtype)


def get_tolerance(dat: Any, tol: Tolerance, default_tol: dict[Any, float]) -> float:
    """Return the tolerance for an array.

    Parameters
    ----------
    dat : NDArray or numpy.ndarray
    tol : float or dict of dtype to float, optional
        None stands for ``default_tol``.
    default_tol : dict of numpy.dtype to float
    """
    if tol is not None and not isinstance(tol, dict):
        return float(tol)
    table = default_tol if tol is None else tol
    return _of_dtype({np.dtype(key): value for key, value in table.items()}, effective_dtype(dat))


def get_tols(x: Any, y: Any, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """Return relative and absolute tolerance for two arrays: the larger one of each.

    Parameters
    ----------
    x, y : NDArray, numpy.ndarray or number
        A number is as precise as the other one.
    rtol, atol : float or dict of dtype to float, optional
    """
    arrays = [a for a in (x, y) if hasattr(a, "dtype")] or [np.asarray(x), np.asarray(y)]
    return (
        max(get_tolerance(a, rtol, default_rtols()) for a in arrays),
        max(get_tolerance(a, atol, default_atols()) for a in arrays),
    )
