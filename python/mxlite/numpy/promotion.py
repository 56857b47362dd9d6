"""Questions about dtypes: ``result_type``, ``promote_types``, ``can_cast``, ``isdtype``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from ..base import TypeError_, ValueError_
from ..ndarray import NDArray
from .arguments import common_dtype

__all__ = ["can_cast", "isdtype", "promote_types", "result_type"]

_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def _dtype(value: Any) -> Any:
    """Return the dtype of an array, or a value that names a dtype."""
    return value.dtype if isinstance(value, (NDArray, np.ndarray, np.generic)) else value


def promote_types(type1: Any, type2: Any) -> Any:
    """Return the common dtype of arrays of two dtypes; a float wins over integers."""
    return _core.dtype_type(common_dtype([_core.dtype_type(type1), _core.dtype_type(type2)]))


def result_type(*arrays_and_dtypes: Any) -> Any:
    """Return the dtype of the sum of arrays, dtypes and Python scalars.

    Python scalars have no dtype of their own; a float among integers makes the result float32.
    """
    scalars = [v for v in arrays_and_dtypes if isinstance(v, (bool, int, float))]
    others = [_core.dtype_type(_dtype(v)) for v in arrays_and_dtypes if not _is_scalar(v)]
    if not arrays_and_dtypes:
        raise ValueError_("result_type: at least one array or dtype is required")
    if not others:
        return np.float32
    common = _core.dtype_type(common_dtype(others))
    kind = "f" if isinstance(common, str) else np.dtype(common).kind
    if kind != "f" and any(isinstance(v, float) for v in scalars):
        return np.float32
    if kind == "b" and any(not isinstance(v, bool) for v in scalars):
        return np.int64
    return common


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Return whether a rule of NumPy allows to cast an array's dtype, or a dtype, to another."""
    return bool(np.can_cast(np.dtype(_dtype(from_)), np.dtype(to), casting))  # type: ignore[arg-type]


def isdtype(dtype: Any, kind: Any) -> bool:
    """Return whether a dtype is of a kind.

    Parameters
    ----------
    dtype : dtype
    kind : dtype, str or tuple of these
        One of "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex
        floating", "numeric"; or a dtype.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return np.dtype(dtype).kind in _KINDS[kind]
    if isinstance(kind, str):
        raise ValueError_(f"isdtype: kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    try:
        return bool(np.dtype(dtype) == np.dtype(kind))
    except TypeError:
        raise TypeError_(f"isdtype: kind must be a dtype or its kind, got {kind!r}") from None
