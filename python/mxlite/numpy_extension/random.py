"""Random arrays of ``mx.npx.random``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ndarray as nd
from ..base import ValueError_
from ..numpy import random as _random
from ..random import seed as seed

__all__ = ["bernoulli", "normal_n", "seed", "uniform_n"]


def bernoulli(
    prob: Any = None, logit: Any = None, size: Any = None, dtype: Any = None, ctx: Any = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """Draw 1 with a probability, else 0.

    Parameters
    ----------
    prob, logit : float or ndarray
        One of them: the probability, or its logarithm of the odds.
    size : int or tuple of int, optional
        Shape of the result; default is that of the parameter.
    dtype : dtype
        float32 by default.
    ctx : Context, optional
    out : ndarray, optional
        Array for the result.

    Raises
    ------
    ValueError
        If both or none of ``prob`` and ``logit`` are given.
    """
    if (prob is None) == (logit is None):
        raise ValueError_("npx.random.bernoulli: give exactly one of prob and logit")
    if prob is None:
        prob = nd.sigmoid(logit) if isinstance(logit, nd.NDArray) else _sigmoid(logit)
    shape = size if size is not None else getattr(prob, "shape", ())
    drawn = _random.uniform(0.0, 1.0, size=shape, ctx=ctx or getattr(prob, "ctx", None))
    result = (drawn < prob).astype("float32" if dtype is None else dtype)
    if out is None:
        return result
    out[...] = result
    return out


def _sigmoid(logit: float) -> float:
    return float(nd.sigmoid(nd.array([logit], dtype="float64")).asscalar())


def _batch(loc: Any, scale: Any, batch_shape: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return the batch shape followed by the broadcast shape of the parameters."""
    leading = (batch_shape,) if isinstance(batch_shape, int) else tuple(batch_shape or ())
    shapes = [tuple(getattr(p, "shape", ())) for p in (loc, scale)]
    ndim = max(len(shape) for shape in shapes)
    padded = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    return (*leading, *(max(pair) for pair in zip(*padded)))


def uniform_n(
    low: Any = 0.0, high: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Any = None
) -> Any:
    """Draw uniform numbers; the shape is ``batch_shape`` followed by that of the parameters."""
    shape = _batch(low, high, batch_shape)
    return _random.uniform(low, high, size=shape, dtype=dtype, ctx=ctx)


def normal_n(
    loc: Any = 0.0, scale: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Any = None
) -> Any:
    """Draw normal numbers; the shape is ``batch_shape`` followed by that of the parameters."""
    shape = _batch(loc, scale, batch_shape)
    return _random.normal(loc, scale, size=shape, dtype=dtype, ctx=ctx)
