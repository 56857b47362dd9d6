"""Functions of ``mx.npx`` that call more than one operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as _np

from .. import _core
from .. import ndarray as nd
from .._core import NDArray
from ..base import ShapeError, TypeError_, ValueError_
from ..numpy.arguments import DYNAMIC_SIZE, from_host, values_of
from ..symbol import Symbol
from .calls import check_arrays

__all__ = [
    "constraint_check",
    "gelu",
    "index_add",
    "index_update",
    "masked_log_softmax",
    "masked_softmax",
    "nonzero",
    "reshape",
]

_where, _softmax, _log_softmax = (_core.op(n) for n in ("where", "softmax", "log_softmax"))
_reshape = _core.op("Reshape")

# Codes of `reshape` to codes of mx.nd.reshape, which has no code for -3 (drop an axis).
_RESHAPE_CODES = {-1: -1, -2: 0, -4: -2, -5: -3, -6: -4}
_INFER, _DROP, _MERGE, _SPLIT = -1, -3, -5, -6


def reshape(a: Any, newshape: int | Sequence[int], reverse: bool = False, order: str = "C") -> Any:
    """Return an array in another shape.

    Parameters
    ----------
    a : ndarray
    newshape : int or sequence of int
        Sizes, or codes: -1 is inferred, -2 keeps an axis, -3 drops an axis of size 1, -4 keeps all
        remaining axes, -5 joins two axes, and -6 splits an axis into the next two sizes.
    reverse : bool
        Whether to match codes with axes from the last to the first.
    order : {'C'}

    Returns
    -------
    ndarray

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    """
    check_arrays("npx.reshape", (a,))
    if order != "C":
        raise ValueError_(f"npx.reshape: order must be 'C', got {order!r}")
    codes = [int(newshape)] if isinstance(newshape, (int, _np.integer)) else list(newshape)
    for code in codes:
        if code < _SPLIT:
            raise ValueError_(f"npx.reshape: newshape must have codes from -6 to -1, got {code}")
    if _DROP in codes:
        if isinstance(a, Symbol):
            raise TypeError_(
                "npx.reshape: a must be an array for code -3, which needs its shape, got Symbol"
            )
        a = _core.op("squeeze")(a, axis=_dropped(a.shape, codes, reverse))
        codes = [code for code in codes if code != _DROP]
    if isinstance(a, Symbol) or 0 not in codes:
        target = [_RESHAPE_CODES.get(code, code) for code in codes]
        return _reshape(a, shape=tuple(target), reverse=bool(reverse)) if target else _scalar(a)
    kept = a.shape[::-1] if reverse else a.shape
    sizes = codes[::-1] if reverse else codes
    if any(code < 0 and code not in (_INFER, -2) for code in sizes):
        raise ShapeError(
            f"npx.reshape: codes beside a size of 0 must be -1 or -2, got newshape {codes}"
        )
    sizes = [kept[i] if code == -2 else code for i, code in enumerate(sizes)]
    return a.reshape(tuple(sizes[::-1] if reverse else sizes))


def _scalar(a: Any) -> Any:
    return a.reshape(()) if isinstance(a, NDArray) else _reshape(a, shape=())


def _dropped(shape: tuple[int, ...], codes: Sequence[int], reverse: bool) -> tuple[int, ...]:
    """Return the axes at the positions of code -3, all of size 1."""
    dims, order = (shape[::-1], list(codes)[::-1]) if reverse else (shape, list(codes))
    axes, at, sizes_of_split = [], 0, 0
    for code in order:
        if sizes_of_split:
            sizes_of_split -= 1
            continue
        if code == _DROP:
            if at >= len(dims) or dims[at] != 1:
                raise ShapeError(
                    f"npx.reshape: code -3 must stand at an axis of size 1, got shape {shape} and "
                    f"newshape {tuple(codes)}"
                )
            axes.append(len(shape) - 1 - at if reverse else at)
        sizes_of_split = 2 if code == _SPLIT else 0
        at += 2 if code == _MERGE else 1
    return tuple(axes)


def nonzero(a: Any) -> Any:
    """Return the indices of the elements that are not 0.

    Parameters
    ----------
    a : ndarray

    Returns
    -------
    ndarray
        int64, of shape (number of elements that are not 0, a.ndim). An array without dimensions
        counts as one of 1 dimension.
    """
    check_arrays("npx.nonzero", (a,))
    found = _np.argwhere(_np.atleast_1d(values_of(a, "npx.nonzero", DYNAMIC_SIZE)))
    return from_host(found, a.ctx, _np.int64)


def constraint_check(data: Any, msg: str = "Constraint violated.") -> Any:
    """Return True as an array if all elements are true.

    Parameters
    ----------
    data : ndarray of bool
    msg : str
        Text of the error.

    Raises
    ------
    ValueError
        If an element is false.
    """
    check_arrays("npx.constraint_check", (data,))
    if not values_of(data, "npx.constraint_check", "the check needs values").all():
        raise ValueError_(msg)
    return from_host(_np.ones((), _np.bool_), data.ctx)


def gelu(data: Any) -> Any:
    """Return ``x * Phi(x)``, where Phi is the standard normal distribution function."""
    check_arrays("npx.gelu", (data,))
    return _core.op("LeakyReLU")(data, act_type="gelu")


def _masked(who: str, data: Any, mask: Any) -> tuple[Any, Any]:
    """Return the data with the lowest number where the mask is False, and the broadcast mask."""
    check_arrays(who, (data, mask))
    mask = _core.op("broadcast_like")(mask, data)
    lowest = nd.zeros_like(data) + (-1e4 if _is_half(data) else -1e18)
    return _where(mask, data, lowest), mask


def _is_half(data: Any) -> bool:
    # The dtype of a symbol is unknown.
    return isinstance(data, Symbol) or _np.dtype(data.dtype) == _np.float16


def masked_softmax(
    data: Any, mask: Any, axis: int = -1, temperature: float = 1.0, normalize: bool = True
) -> Any:
    """Return the softmax of the elements where the mask is True, and 0 elsewhere.

    Parameters
    ----------
    data : ndarray
    mask : ndarray of bool
        Broadcast to the shape of ``data``.
    axis : int
    temperature : float
        Divisor of the data.
    normalize : bool
        Without effect; accepted as in 2.0. The maximum is always subtracted first.

    Returns
    -------
    ndarray
        A row whose mask has no True is 0.
    """
    shown, mask = _masked("npx.masked_softmax", data, mask)
    result = _softmax(shown, axis=axis, temperature=temperature)
    return _where(mask, result, nd.zeros_like(result))


def masked_log_softmax(
    data: Any, mask: Any, axis: int = -1, temperature: float = 1.0, normalize: bool = True
) -> Any:
    """Return the logarithm of `masked_softmax`, with -inf where the mask is False."""
    shown, mask = _masked("npx.masked_log_softmax", data, mask)
    result = _log_softmax(shown, axis=axis, temperature=temperature)
    return _where(mask, result, nd.zeros_like(result) + float("-inf"))


def index_add(a: Any, ind: Any, val: Any) -> Any:
    """Return a copy of ``a`` with ``val`` added at indices; equal indices add all their values.

    Parameters
    ----------
    a : ndarray
    ind : ndarray of int of shape (axes, n), or tuple of vectors
        Column i holds the indices of element i along the first axes of ``a``.
    val : ndarray
        Broadcast to (n, *other axes of a).

    Returns
    -------
    ndarray
    """
    ind, val = _placed("npx.index_add", a, ind, val)
    return a + _core.op("_backward_gather_nd")(val, ind, shape=a.shape)


def index_update(a: Any, ind: Any, val: Any) -> Any:
    """Return a copy of ``a`` with ``val`` written at indices; see `index_add`."""
    ind, val = _placed("npx.index_update", a, ind, val)
    return _core.op("_scatter_set_nd")(a, val, ind, shape=a.shape)


def _placed(who: str, a: Any, ind: Any, val: Any) -> tuple[Any, Any]:
    """Return indices as one array, and values in the shape of the indexed part."""
    check_arrays(who, (a, ind, val))
    if isinstance(ind, (tuple, list)):
        ind = _core.op("stack")(*ind, axis=0)
    part = (*ind.shape[1:], *a.shape[ind.shape[0] :])
    if not isinstance(val, NDArray):
        val = _core.with_numpy(nd.array(val, ctx=a.ctx, dtype=a.dtype), True)
    if val.dtype != a.dtype:
        val = val.astype(a.dtype)
    missing = len(part) - val.ndim
    if missing > 0:
        val = val.reshape((1,) * missing + val.shape)
    return ind, _core.op("broadcast_to")(val, shape=part)
