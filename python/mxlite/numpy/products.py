"""Products of vectors, matrices and tensors, all of which run as (batched) matrix products."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from ..base import ShapeError, TypeError_, ValueError_
from ..ndarray import NDArray
from .arguments import as_array, axes_in, promote, store
from .einsum import finished, operands_of, product
from .joining import stack
from .manipulation import moveaxis
from .ndarray import attach, ndarray

__all__ = [
    "cross",
    "dot",
    "inner",
    "kron",
    "matmul",
    "outer",
    "tensordot",
    "vdot",
    "vecdot",
]

_dot = _core.op("_np_dot")
_plain_dot = _core.op("dot")
_batch_dot = _core.op("batch_dot")
_multiply = _core.op("broadcast_mul")
_copy = _core.op("_copy")


def _fits(m: int, n: int) -> bool:
    """Return whether lengths are equal, or one is -1: unknown, as in a deferred parameter."""
    return m == n or -1 in (m, n)


def _check_summed(a: ndarray, at: int, b: ndarray, other: int, who: str) -> None:
    if not _fits(a.shape[at], b.shape[other]):
        raise ShapeError(
            f"{who}: shapes {a.shape} and {b.shape} not aligned: {a.shape[at]} (dim "
            f"{at % a.ndim}) != {b.shape[other]} (dim {other % b.ndim})"
        )


def dot(a: Any, b: Any, out: Any = None) -> ndarray:
    """Return the sum of products over the last axis of a and the second to last axis of b.

    Parameters
    ----------
    a, b : ndarray
        Vectors give their inner product, matrices their product. An array of shape () scales the
        other one.
    out : ndarray, optional

    Raises
    ------
    ValueError
        If the summed axes differ in length.
    """
    if not isinstance(a, NDArray) and not isinstance(b, NDArray):
        raise TypeError_(f"dot: a and b must be arrays, got {type(a).__name__}")
    (a, b), is_bool = operands_of((a, b), "dot")
    if not a.ndim or not b.ndim:
        return finished(_multiply(a, b), is_bool, out, "dot")
    _check_summed(a, -1, b, -2 if b.ndim > 1 else -1, "dot")
    return finished(_dot(a, b), is_bool, out, "dot")


def _along(a: ndarray, b: ndarray, a_axes: Sequence[int], b_axes: Sequence[int]) -> ndarray:
    """Sum products over pairs of axes of equal length; the other axes stay in their order."""
    a_labels = list(range(a.ndim))
    b_labels = list(range(a.ndim, a.ndim + b.ndim))
    for at, other in zip(a_axes, b_axes):
        b_labels[other] = a_labels[at]
    summed = {a_labels[at] for at in a_axes}
    wanted = tuple(label for label in (*a_labels, *b_labels) if label not in summed)
    return product(a, tuple(a_labels), b, tuple(b_labels), wanted)


def matmul(a: Any, b: Any, out: Any = None) -> ndarray:
    """Return the matrix product, ``a @ b``.

    Parameters
    ----------
    a, b : ndarray
        Matrices in the last two axes; the others broadcast. A vector on the left is a row, on the
        right a column, and its axis is not in the result.
    out : ndarray, optional

    Raises
    ------
    ValueError
        If an array has no dimensions, or the shapes do not fit.
    """
    (a, b), is_bool = operands_of((a, b), "matmul")
    if not a.ndim or not b.ndim:
        raise ValueError_(
            "matmul: Scalar operands are not allowed, use '*' instead, got shapes "
            f"{a.shape} and {b.shape}"
        )
    at = -2 if b.ndim > 1 else -1
    _check_summed(a, -1, b, at, "matmul")
    if b.ndim <= 2:
        return finished(_dot(a, b), is_bool, out, "matmul")
    if a.ndim == b.ndim and a.ndim > 2 and a.shape[:-2] == b.shape[:-2]:
        return finished(_batch_dot(a, b), is_bool, out, "matmul")
    lead = max(a.ndim, b.ndim, 2) - 2
    rows = ("row",) if a.ndim > 1 else ()
    cols = ("col",) if b.ndim > 1 else ()
    a_labels = (*range(lead - a.ndim + 2, lead), *rows, "sum")
    b_labels = (*range(lead - b.ndim + 2, lead), "sum", *cols)
    batch = [*zip(a_labels, a.shape), *zip(b_labels, b.shape)]
    sizes: dict[Any, int] = {}
    for label, n in batch:
        known = sizes.setdefault(label, n)
        if known != n and 1 not in (known, n):
            raise ShapeError(
                f"matmul: leading axes of shapes {a.shape} and {b.shape} could not be broadcast"
            )
        sizes[label] = n if known == 1 else known
    wanted = (*range(lead), *rows, *cols)
    return finished(product(a, a_labels, b, b_labels, wanted), is_bool, out, "matmul")


def vdot(a: Any, b: Any) -> ndarray:
    """Return the inner product of the flattened arrays."""
    a, b = as_array(a, "vdot"), as_array(b, "vdot")
    return dot(a._reshape_view((a.size,)), b._reshape_view((b.size,)))


def inner(a: Any, b: Any) -> ndarray:
    """Return sums of products over the last axes: shape ``a.shape[:-1] + b.shape[:-1]``."""
    (a, b), is_bool = operands_of((a, b), "inner")
    if not a.ndim or not b.ndim:
        return finished(_multiply(a, b), is_bool, None, "inner")
    _check_summed(a, -1, b, -1, "inner")
    if a.ndim == b.ndim == 2:
        return finished(_plain_dot(a, b, transpose_b=True), is_bool, None, "inner")
    return finished(_along(a, b, (a.ndim - 1,), (b.ndim - 1,)), is_bool, None, "inner")


def outer(a: Any, b: Any, out: Any = None) -> ndarray:
    """Return the products of all pairs of elements, of shape (a.size, b.size)."""
    a, b = promote([as_array(a, "outer"), as_array(b, "outer")])
    result = _multiply(a._reshape_view((a.size, 1)), b._reshape_view((1, b.size)))
    return store(result, out, "outer")


def vecdot(x1: Any, x2: Any, *, axis: int = -1) -> ndarray:
    """Return the inner products of vectors along an axis; the other axes broadcast."""
    (a, b), is_bool = operands_of((x1, x2), "vecdot")
    a = moveaxis(a, axis, -1)
    b = moveaxis(b, axis, -1)
    _check_summed(a, -1, b, -1, "vecdot")
    lead = max(a.ndim, b.ndim) - 1
    a_labels = (*range(lead - a.ndim + 1, lead), "sum")
    b_labels = (*range(lead - b.ndim + 1, lead), "sum")
    result = product(a, a_labels, b, b_labels, tuple(range(lead)))
    return finished(result, is_bool, None, "vecdot")


def tensordot(a: Any, b: Any, axes: Any = 2) -> ndarray:
    """Return the sum of products over several pairs of axes.

    Parameters
    ----------
    a, b : ndarray
    axes : int or pair
        A number n pairs the last n axes of a with the first n axes of b. A pair lists axes of a and
        axes of b.

    Raises
    ------
    ValueError
        If the axes differ in number or length.
    """
    (a, b), is_bool = operands_of((a, b), "tensordot")
    if isinstance(axes, (int, np.integer)):
        count = int(axes)
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise ValueError_(
                f"tensordot: axes must be from 0 to {min(a.ndim, b.ndim)}, got {count}"
            )
        a_axes, b_axes = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    else:
        if len(axes) != 2:
            raise ValueError_(
                f"tensordot: axes must be an int or two lists of axes, got {len(axes)} entries"
            )
        a_axes = axes_in(_list(axes[0]), a.ndim, "tensordot")
        b_axes = axes_in(_list(axes[1]), b.ndim, "tensordot")
    if len(a_axes) != len(b_axes):
        raise ValueError_(
            f"tensordot: axes must have the same number of axes for a and b, got {len(a_axes)} and "
            f"{len(b_axes)}"
        )
    for at, other in zip(a_axes, b_axes):
        _check_summed(a, at, b, other, "tensordot")
    if a_axes == (a.ndim - 1,) and b_axes == (0,) and b.ndim <= 2:
        return finished(_dot(a, b), is_bool, None, "tensordot")
    return finished(_along(a, b, a_axes, b_axes), is_bool, None, "tensordot")


def _list(axes: Any) -> tuple[int, ...]:
    return tuple(axes) if isinstance(axes, (tuple, list)) else (operator.index(axes),)


def kron(a: Any, b: Any) -> ndarray:
    """Return the Kronecker product: blocks ``a[i, j] * b``, arranged like the elements of a."""
    a, b = promote([as_array(a, "kron"), as_array(b, "kron")])
    ndim = max(a.ndim, b.ndim)
    one = (1,) * (ndim - a.ndim) + a.shape
    other = (1,) * (ndim - b.ndim) + b.shape
    left = a._reshape_view(tuple(n for size in one for n in (size, 1)))
    right = b._reshape_view(tuple(n for size in other for n in (1, size)))
    return _multiply(left, right)._reshape_view(tuple(m * n for m, n in zip(one, other)))


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> ndarray:
    """Return the cross product of vectors of 2 or 3 elements.

    Parameters
    ----------
    a, b : ndarray
    axisa, axisb : int
        The axis of the vectors; the other axes broadcast.
    axisc : int
        The axis of the result's vectors. Two vectors of 2 elements give a number, without axis.
    axis : int or None
        Replaces the other three parameters if given.

    Raises
    ------
    ValueError
        If vectors do not have 2 or 3 elements.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = promote([as_array(a, "cross"), as_array(b, "cross")])
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ShapeError(
            "cross: incompatible dimensions for cross product (dimension must be 2 or 3), got "
            f"{a.shape[-1]} and {b.shape[-1]}"
        )
    x, y = ([v[..., i] for i in range(v.shape[-1])] for v in (a, b))
    if len(x) == 2 and len(y) == 2:
        return x[0] * y[1] - x[1] * y[0]
    if len(x) == 3 and len(y) == 3:
        parts = [x[i] * y[j] - x[j] * y[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    elif len(x) == 2:
        parts = [x[1] * y[2], -(x[0] * y[2]), x[0] * y[1] - x[1] * y[0]]
    else:
        parts = [-(x[2] * y[1]), x[2] * y[0], x[0] * y[1] - x[1] * y[0]]
    return moveaxis(stack(parts, -1), -1, axisc)


def _matmul_method(self: ndarray, other: Any) -> Any:
    return matmul(self, other) if isinstance(other, NDArray) else NotImplemented


def _in_place_matmul(self: ndarray, other: Any) -> ndarray:
    self[...] = matmul(self, other)
    return self


attach({"__imatmul__": _in_place_matmul, "__matmul__": _matmul_method, "dot": dot})
