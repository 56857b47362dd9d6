"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from ..base import ValueError_
from .arguments import axes_in, real_array, reshape_to
from .decompositions import svdvals
from .manipulation import moveaxis
from .ndarray import ndarray

_sum = _core.op("_np_sum")
_max = _core.op("_np_max")
_min = _core.op("_np_min")
_abs = _core.op("abs")
_norm = _core.op("norm")
_is_zero = _core.op("_equal_scalar")
_is_not_zero = _core.op("_not_equal_scalar")


def _root(total: ndarray, power: float) -> ndarray:
    """Return ``total ** power`` for total >= 0; the gradient at 0 is 0."""
    zero = _is_zero(total, scalar=0.0)
    return (total + zero) ** power * (1 - zero)


def _length(x: ndarray, axes: tuple[int, ...], keepdims: bool) -> ndarray:
    """Return the root of the sum of squares; its gradient at 0 is 0."""
    if not axes and x.ndim:  # each element is a vector, whereas the operator would reduce all axes
        return _abs(x)
    result = _norm(x, axis=axes, keepdims=keepdims)
    return result if keepdims or len(axes) < x.ndim else result._reshape_view(())


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> ndarray:
    """Return norms of vectors along axes, by default of all elements. See `norm` for ``ord``."""
    who = "linalg.vector_norm"
    array = real_array(x, who)
    axes = tuple(range(array.ndim)) if axis is None else axes_in(axis, array.ndim, who)
    if isinstance(ord, str) or ord is None:
        raise ValueError_(f"{who}: ord must be a number, got {ord!r}")
    if ord == 2:
        return _length(array, axes, keepdims)
    size = _abs(array)
    if math.isinf(ord):
        return (_max if ord > 0 else _min)(size, axis=axes, keepdims=keepdims)
    if ord == 0:
        return _sum(_is_not_zero(array, scalar=0.0), axis=axes, keepdims=keepdims)
    if ord == 1:
        return _sum(size, axis=axes, keepdims=keepdims)
    return _root(_sum(size**ord, axis=axes, keepdims=keepdims), 1 / ord)


def matrix_norm(
    x: Any, /, *, keepdims: bool = False, ord: Any = "fro", axis: Any = (-2, -1)
) -> ndarray:
    """Return norms of matrices. See `norm` for ``ord``."""
    who = "linalg.matrix_norm"
    array = real_array(x, who)
    rows, columns = axes_in(axis, array.ndim, who)
    if ord in (None, "fro", "f"):
        return _length(array, (rows, columns), keepdims)
    if ord in ("nuc", 2, -2):
        values = svdvals(moveaxis(array, (rows, columns), (-2, -1)))
        result = {"nuc": _sum, 2: _max, -2: _min}[ord](values, axis=-1)
    elif ord in (1, -1, math.inf, -math.inf):
        first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = _sum(_abs(array), axis=first, keepdims=True)
        result = (_max if ord > 0 else _min)(sums, axis=(first, second))
    else:
        raise ValueError_(
            f"{who}: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}"
        )
    if not keepdims:
        return result
    shape = tuple(1 if i in (rows, columns) else n for i, n in enumerate(array.shape))
    return reshape_to(result, shape=shape)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> ndarray:
    """Return norms of vectors or matrices.

    Parameters
    ----------
    x : ndarray
    ord : number or {"fro", "nuc"}, optional
        The norm; by default, the root of the sum of squares.

        - Vectors: a number p gives ``sum(abs(x) ** p) ** (1 / p)``, 0 the number of elements that
          are not 0, inf and -inf the largest and the smallest absolute value.
        - Matrices: "fro" is the default; "nuc" is the sum of the singular values, 2 and -2 are the
          largest and the smallest one; 1 and -1 are the largest and the smallest column sum of
          absolute values, inf and -inf those of row sums.
    axis : int or pair of int, optional
        One axis for vectors, two for matrices. None takes all elements if ord is None, else all
        axes, of which there must be 1 or 2.
    keepdims : bool
        Whether reduced axes stay with size 1.

    Notes
    -----
    Where a norm is 0, its gradient is 0.
    """
    array = real_array(x, "linalg.norm")
    if axis is None:
        if ord is None:
            return vector_norm(array, keepdims=keepdims)
        axis = tuple(range(array.ndim))
    axes = axes_in(axis, array.ndim, "linalg.norm")
    ord = {"inf": math.inf, "-inf": -math.inf}.get(ord, ord)  # 1.x accepts these texts
    if len(axes) == 1:
        return vector_norm(array, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) == 2:
        return matrix_norm(array, axis=axes, keepdims=keepdims, ord="fro" if ord is None else ord)
    raise ValueError_(f"linalg.norm: axis must have 1 or 2 axes, got {len(axes)}")
