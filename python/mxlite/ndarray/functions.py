"""Functions of mx.nd made of several operators: split_v2, histogram, onehot_encode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._core import NDArray
from ..base import ValueError_
from .creation import array

__all__ = ["histogram", "onehot_encode", "split_v2"]


def split_v2(
    ary: NDArray, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False
) -> Any:
    """Split an array along an axis.

    Parameters
    ----------
    ary : NDArray
    indices_or_sections : int or sequence of int
        Number of equal parts, or the positions at which parts begin.
    axis : int
    squeeze_axis : bool
        Remove the axis of parts that have size 1 along it.

    Returns
    -------
    list of NDArray
        A single part is returned without a list.

    Raises
    ------
    ValueError
        If the parts would not be equal, or the number is not an integer.
    """
    split = _core.op("_split_v2")
    if isinstance(indices_or_sections, (int, np.integer)):
        sections = int(indices_or_sections)
        if sections < 1 or ary.shape[axis] % sections:
            raise ValueError_(
                f"split_v2: size {ary.shape[axis]} of axis {axis} cannot be split into {sections} "
                "equal parts"
            )
        return split(ary, indices=(), axis=axis, squeeze_axis=squeeze_axis, sections=sections)
    if not isinstance(indices_or_sections, Sequence):
        raise ValueError_(
            "split_v2: indices_or_sections must be an int or a tuple of ints, got "
            f"{indices_or_sections!r}"
        )
    # The operator takes the beginning of every part, including the first one.
    indices = (0, *indices_or_sections)
    return split(ary, indices=indices, axis=axis, squeeze_axis=squeeze_axis)


def histogram(
    a: NDArray, bins: Any = 10, range: tuple[float, float] | None = None
) -> list[NDArray]:
    """Count the values in intervals.

    Parameters
    ----------
    a : NDArray
    bins : int or NDArray
        The number of equal intervals, or their ends in ascending order.
    range : tuple of float, optional
        Lowest and highest value for a number of intervals; those of ``a`` by default.

    Returns
    -------
    list of NDArray
        Counts (int64; float32 without ``range``, as in 1.x) and the ends.
    """
    if isinstance(bins, NDArray):
        counts, ends = np.histogram(a.asnumpy(), bins=bins.asnumpy())
        return [array(counts, ctx=a.ctx, dtype="int64"), bins]
    if not isinstance(bins, (int, np.integer)):
        raise ValueError_(f"histogram: bins must be an int or an NDArray, got {bins!r}")
    counts, ends = np.histogram(a.asnumpy(), bins=int(bins), range=range)
    dtype = "float32" if range is None else "int64"
    return [array(counts, ctx=a.ctx, dtype=dtype), array(ends, ctx=a.ctx, dtype="float32")]


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Write one-hot rows for indices (rows,) into ``out`` (rows, classes), and return ``out``."""
    if out.ndim != 2 or indices.shape != out.shape[:1]:
        raise ValueError_(
            "onehot_encode: indices and out must have shapes (rows,) and (rows, classes), got "
            f"{indices.shape} and {out.shape}"
        )
    one_hot = _core.op("one_hot")
    out[:] = one_hot(indices, depth=out.shape[1], dtype=np.dtype(out.dtype).name)
    return out
