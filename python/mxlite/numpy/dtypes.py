"""Functions of dtypes: promotion, casting rules and kinds."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .. import _core
from ..base import ValueError_
from ..ndarray.dtypes import dtype_name
from .arguments import as_array
from .ndarray import ndarray

__all__ = ["astype", "can_cast", "isdtype", "promote_types", "result_type"]

_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "",
    "numeric": "iuf",
}


def _public(dtype: Any) -> Any:
    """Return a dtype as an official dtype object; bfloat16 stays a string."""
    return dtype if isinstance(dtype, str) else onp.dtype(dtype)


def astype(x: ndarray, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """Return a copy in another dtype; x itself for ``copy=False`` and an equal dtype."""
    result = as_array(x, "astype").astype(dtype, copy=copy)
    return result if device is None else result.as_in_ctx(device)


def promote_types(type1: Any, type2: Any) -> Any:
    """Return the dtype of arithmetic on arrays of two dtypes."""
    return _public(_core.promoted_dtype(type1, type2))


def result_type(*arrays_and_dtypes: Any) -> Any:
    """Return the dtype of arithmetic on arrays, dtypes and numbers.

    A number changes only the kind: an integer makes bools int64, and a float makes integers and
    bools float32. Raises ValueError without arguments.
    """
    dtypes, numbers = [], []
    for value in arrays_and_dtypes:
        if isinstance(value, (bool, int, float)):
            numbers.append(value)
        else:
            is_array = isinstance(value, (ndarray, onp.ndarray, onp.generic))
            dtypes.append(value.dtype if is_array else value)
    if not dtypes:
        if not numbers:
            raise ValueError_(
                "result_type: at least one array, dtype or number must be given, got none"
            )
        kinds = {bool: "bool", int: "int64", float: "float32"}
        return promote_types(*([kinds[type(n)] for n in numbers] * 2)[:2])
    result = _core.promoted_dtype(*dtypes)
    for number in numbers:
        kind = "b" if dtype_name(result) == "bool" else _kind_of(result)
        if isinstance(number, float) and kind in "biu":
            result = _core.promoted_dtype(result, "float32")
        elif isinstance(number, int) and not isinstance(number, bool) and kind == "b":
            result = _core.promoted_dtype(result, "int64")
    return _public(result)


def _kind_of(dtype: Any) -> str:
    return "f" if dtype_name(dtype) == "bfloat16" else onp.dtype(dtype).kind


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Return whether official NumPy's rule ``casting`` allows a cast between dtypes."""
    source = from_.dtype if isinstance(from_, ndarray) else from_
    return onp.can_cast(source, to, casting)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Return whether a dtype is of a kind.

    The kind is a name of the array API standard such as "real floating", a dtype, or a tuple of
    kinds, of which one must match. Raises ValueError for an unknown kind.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, part) for part in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return _kind_of(dtype) in _KINDS[kind]
    try:
        return dtype_name(dtype) == dtype_name(kind)
    except TypeError:
        names = ", ".join(_KINDS)
        raise ValueError_(
            f"isdtype: kind must be a dtype or one of {names}, got {kind!r}"
        ) from None
