"""Reductions that ignore NaN."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from ..base import ValueError_
from .arguments import as_array, in_type, is_real, out_type, set_name, store
from .creation import full_like
from .elementwise import pick_where
from .ndarray import ndarray
from .reductions import (
    all,
    any,
    argmax,
    argmin,
    cumprod,
    cumsum,
    max,
    min,
    prod,
    sum,
)

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod",
    "nanstd", "nansum", "nanvar",
]  # fmt: skip

_isnan = _core.op("_npi_isnan")
_not = _core.op("_npi_logical_not")
_sqrt = _core.op("sqrt")
_sum = _core.op("_np_sum")


def _without_nan(a: ndarray, value: float, who: str) -> tuple[ndarray, ndarray]:
    """Return the array with NaN replaced by a number, and a bool array of where NaN was."""
    kept = a = as_array(a, who)
    missing = _isnan(a)
    if is_real(a.dtype):
        kept = pick_where(missing, full_like(a, value), a)
    return kept, missing


def _ignoring_nan(name: str, function: Any, value: float, doc: str) -> Any:
    def reduction(a: ndarray, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        return function(_without_nan(a, value, name)[0], axis, *args, **kwargs)

    return set_name(reduction, name, doc)


nancumprod = _ignoring_nan("nancumprod", cumprod, 1, "Return cumprod(a); a NaN counts as 1.")
nancumsum = _ignoring_nan("nancumsum", cumsum, 0, "Return cumsum(a); a NaN counts as 0.")


def nansum(
    a: ndarray, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
) -> Any:
    """Return the sum over axes; a NaN counts as 0."""
    return sum(_without_nan(a, 0, "nansum")[0], axis, dtype, keepdims, out=out)


def nanprod(
    a: ndarray, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
) -> Any:
    """Return the product over axes; a NaN counts as 1."""
    return prod(_without_nan(a, 1, "nanprod")[0], axis, dtype, out, keepdims)


def _nan_extreme(name: str, function: Any, other: float, doc: str) -> Any:
    def reduction(a: ndarray, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        a = as_array(a, name)
        kept, missing = _without_nan(a, other, name)
        result = function(kept, axis, keepdims)
        if is_real(a.dtype):
            none = all(missing, axis, keepdims)
            result = pick_where(none, full_like(result, math.nan), result)
        return store(result, out, name)

    return set_name(reduction, name, doc)


nanmax = _nan_extreme("nanmax", max, -math.inf, "Return the largest value that is not NaN.")
nanmin = _nan_extreme("nanmin", min, math.inf, "Return the smallest value that is not NaN.")


def _nan_arg(name: str, function: Any, other: float, doc: str) -> Any:
    def reduction(
        a: ndarray, axis: int | None = None, out: Any = None, *, keepdims: bool = False
    ) -> Any:
        kept, missing = _without_nan(a, other, name)
        if bool(any(all(missing, axis))):
            raise ValueError_(f"{name}: a must have a number in each slice, got an All-NaN slice")
        return function(kept, axis, out, keepdims=keepdims)

    return set_name(reduction, name, doc)


nanargmax = _nan_arg(
    "nanargmax", argmax, -math.inf, "Return the index of the largest value that is not NaN."
)
nanargmin = _nan_arg(
    "nanargmin", argmin, math.inf, "Return the index of the smallest value that is not NaN."
)


def nanmean(
    a: ndarray, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
) -> Any:
    """Return the mean over axes of the values that are not NaN."""
    a = in_type(as_array(a, "nanmean"), dtype)
    kept, missing = _without_nan(a, 0, "nanmean")
    counts = _sum(_not(missing), axis=axis, keepdims=keepdims)
    result = _sum(kept, axis=axis, keepdims=keepdims) / counts.astype(a.dtype)
    return store(out_type(result, dtype), out, "nanmean")


def nanvar(
    a: ndarray,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
) -> Any:
    """Return the variance over axes of the values that are not NaN."""
    a = in_type(as_array(a, "nanvar"), dtype)
    centered = a - nanmean(a, axis, keepdims=True)
    kept, missing = _without_nan(centered, 0, "nanvar")
    counts = _sum(_not(missing), axis=axis, keepdims=keepdims).astype(a.dtype) - ddof
    counts = pick_where(counts > 0, counts, full_like(counts, math.nan))
    result = _sum(kept * kept, axis=axis, keepdims=keepdims) / counts
    return store(out_type(result, dtype), out, "nanvar")


def nanstd(
    a: ndarray,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
) -> Any:
    """Return the standard deviation over axes of the values that are not NaN."""
    return store(_sqrt(nanvar(a, axis, dtype, None, ddof, keepdims)), out, "nanstd")
