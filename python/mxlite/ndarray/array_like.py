"""Converts array-likes to NumPy arrays, for all functions that take data."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._core import NDArray
from ..base import DTypeError, TypeError_, ValueError_

_EXPECTED = "must be a rectangular array of numbers"


def host_array(source: Any, who: str, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Return the values of an array-like as a NumPy array of a dtype that NDArray supports."""
    if isinstance(source, NDArray):
        return source.asnumpy()
    if isinstance(source, np.ndarray):
        return _of_real_dtype(source, who, dtype)
    values = _of_real_dtype(_as_numpy(source, who), who, dtype)
    integers = _integer_type(dtype)
    if integers is not None:
        _check_whole(values, who, integers)
    return values


def _integer_type(dtype: Any) -> np.dtype[Any] | None:
    """Return the NumPy type of an integer dtype; None for all other dtypes."""
    wanted = None if dtype is None else _core.dtype_type(dtype)
    if wanted is None or isinstance(wanted, str) or np.dtype(wanted).kind not in "iu":
        return None
    return np.dtype(wanted)


def _of_real_dtype(values: np.ndarray[Any, Any], who: str, dtype: Any) -> np.ndarray[Any, Any]:
    kind = values.dtype.kind
    if kind == "f" and values.dtype.itemsize > 8:
        return values.astype(np.float64)
    if kind in "OSUmM":
        return _numbers(values, who, dtype)
    if kind == "c":
        raise DTypeError(
            f"{who}: values must be real numbers, got dtype {values.dtype}; pass the .real or "
            ".imag part"
        )
    return values  # all other dtypes; the core rejects those that it does not support


def _check_whole(values: np.ndarray[Any, Any], who: str, dtype: np.dtype[Any]) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError_(f"{who}: values must be finite for dtype {dtype}, got NaN or infinity")
    if values.dtype == np.uint64 and dtype == np.int64 and (values > np.iinfo(dtype).max).any():
        raise ValueError_(
            f"{who}: values must be in the range of dtype {dtype}, got {values.max()}"
        )


def _as_numpy(source: Any, who: str) -> np.ndarray[Any, Any]:
    try:
        values = np.asarray(source)
    except Exception as error:  # rows of different lengths, or any error of a foreign __array__
        if not hasattr(source, "__dlpack__"):
            raise TypeError_(
                f"{who}: values {_EXPECTED}, got {type(source).__name__}: {error}"
            ) from error
    else:
        if values.dtype != object or not hasattr(source, "__dlpack__"):
            return values
    return _of_dlpack(source, who)  # for example a bfloat16 tensor, which NumPy does not support


def _of_dlpack(source: Any, who: str) -> np.ndarray[Any, Any]:
    try:
        return _core.from_dlpack(source.__dlpack__()).asnumpy()
    except Exception as error:
        raise TypeError_(
            f"{who}: values {_EXPECTED}, got {type(source).__name__}: {error}"
        ) from error


def _numbers(values: np.ndarray[Any, Any], who: str, dtype: Any) -> np.ndarray[Any, Any]:
    """Return objects, texts such as ``'2.5'``, or times converted to numbers."""
    whole = _integer_type(dtype) is not None
    last: Exception | None = None
    for candidate in (np.int64, np.uint64, np.float64) if whole else (np.float64,):
        try:
            return values.astype(candidate)
        except OverflowError as error:
            last = error
        except (TypeError, ValueError) as error:
            last = error
            if values.dtype == object:  # None and NaN have no integer value
                break
    if values.dtype == object and values.ndim == 0:
        raise TypeError_(f"{who}: values {_EXPECTED}, got {type(values.item()).__name__}") from last
    raise TypeError_(f"{who}: values {_EXPECTED}, got dtype {values.dtype}: {last}") from last
