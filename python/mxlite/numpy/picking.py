"""Random integers, choices, counts and permutations."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import _core
from ..base import TypeError_, ValueError_
from .arguments import from_host, refuse_traced, reshape_to, shape_in, store
from .ndarray import as_np_ndarray, ndarray

__all__ = ["choice", "multinomial", "permutation", "randint", "shuffle"]

_exponential = _core.op("_random_exponential")
_randint = _core.op("_random_randint")
_sample_indices = _core.op("sample_multinomial")
_shuffle = _core.op("_shuffle")
_cast = _core.op("Cast")
_one_hot = _core.op("one_hot")
_sum = _core.op("sum")
_argsort = _core.op("argsort")
_take = _core.op("take")
_slice = _core.op("slice_axis")


def _whole(who: str, name: str, value: Any) -> int:
    """Return an integer argument."""
    try:
        return operator.index(value)
    except TypeError:
        if isinstance(value, (float, np.floating)) and float(value).is_integer():
            return int(value)
        raise TypeError_(f"random.{who}: {name} must be an integer, got {value!r}") from None


def randint(
    low: Any,
    high: Any = None,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> ndarray:
    """Draw integers from [low, high), or from [0, low) if high is None.

    Parameters
    ----------
    low, high : int
    size : int or tuple of int, optional
        Shape of the result; by default, ().
    dtype : dtype, optional
        int64 by default.

    Raises
    ------
    ValueError
        If low is not below high, or dtype does not hold the values.
    """
    low, high = (0, low) if high is None else (low, high)
    low, high = _whole("randint", "low", low), _whole("randint", "high", high)
    if low >= high:
        raise ValueError_(f"random.randint: low must be below high, got {low} and {high}")
    kind = np.dtype("int64" if dtype is None else dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        if low < limits.min or high - 1 > limits.max:
            raise ValueError_(
                f"random.randint: dtype must hold the values from {low} to {high - 1}, got {kind}"
            )
    shape = shape_in(() if size is None else size) if out is None else out.shape
    drawn = kind if kind.name in ("int32", "int64") else np.dtype("int64")
    draws = _randint(low=low, high=high, shape=shape, dtype=drawn.name, ctx=ctx)
    result = as_np_ndarray(draws if drawn == kind else _cast(draws, dtype=kind.name))
    return store(result, out, "random.randint")


def _probabilities(who: str, name: str, p: Any) -> np.ndarray[Any, Any]:
    """Return probabilities as a checked official vector."""
    if isinstance(p, ndarray):
        refuse_traced(p, f"random.{who}", f"{name} must be checked")
        p = p.asnumpy()
    values = np.asarray(p, np.float64)
    if values.ndim != 1:
        raise ValueError_(f"random.{who}: {name} must have 1 dimension, got {values.ndim}")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError_(f"random.{who}: {name} must be between 0 and 1, got {values}")
    return values


def _tolerance(p: Any) -> float:
    """Return how far the sum of probabilities may be from 1, as in NumPy."""
    dtype = np.dtype(p.dtype) if hasattr(p, "dtype") else np.dtype(np.float32)
    return float(np.sqrt(np.finfo(dtype).eps)) if dtype.kind == "f" else 1e-5


def _indices(p: np.ndarray[Any, Any], shape: tuple[int, ...], ctx: Any) -> ndarray:
    """Draw indices with these probabilities."""
    return _sample_indices(from_host(p, ctx), shape=shape, dtype="int64")


def choice(
    a: Any,
    size: Any = None,
    replace: bool = True,
    p: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> ndarray:
    """Draw elements of a vector, or of ``arange(a)`` if a is an integer.

    Parameters
    ----------
    a : int or ndarray of shape (n,)
    size : int or tuple of int, optional
        Shape of the result; by default, ().
    replace : bool
        Whether an element may be drawn more than once.
    p : ndarray of shape (n,), optional
        Probabilities, which must sum to 1; by default, all are equal.

    Raises
    ------
    ValueError
        If a has no elements or not 1 dimension, p does not fit, or ``replace=False`` and size is
        larger than the number of elements (with p: of elements that can be drawn).
    """
    if isinstance(a, ndarray) and a.ndim:
        if a.ndim != 1:
            raise ValueError_(f"random.choice: a must have 1 dimension, got {a.ndim}")
        count, ctx = a.shape[0], a.ctx
    else:
        count = _whole("choice", "a", a)
    shape = () if size is None else shape_in(size)
    number = int(np.prod(shape))
    if count < 1 and number:
        raise ValueError_(
            f"random.choice: a must be a number above 0 or an array with elements, got {count}"
        )
    weights = None if p is None else _probabilities("choice", "p", p)
    possible = count
    if weights is not None:
        if len(weights) != count:
            raise ValueError_(f"random.choice: p must have {count} elements, got {len(weights)}")
        if abs(weights.sum() - 1) > _tolerance(p):
            raise ValueError_(f"random.choice: p must sum to 1, got {weights.sum()}")
        possible = int(np.count_nonzero(weights))
    if not replace and number > possible:
        raise ValueError_(
            f"random.choice: size must be at most {possible}, the number of elements that can be "
            f"drawn without replacement, got {number}"
        )
    if not replace:
        drawn = reshape_to(_distinct(count, weights, number, ctx), shape=shape)
    elif weights is None:
        drawn = randint(0, count, shape, ctx=ctx)
    else:
        drawn = reshape_to(_indices(weights, (number,), ctx), shape=shape)
    result = _take(a, drawn) if isinstance(a, ndarray) and a.ndim else drawn
    return store(result, out, "random.choice")


def _distinct(count: int, weights: Any, number: int, ctx: Any) -> ndarray:
    """Draw different indices, one after another."""
    if weights is None:
        order = permutation(count, ctx=ctx)
    else:
        # Indices of the smallest of exponential numbers with these rates (Efraimidis, Spirakis).
        with np.errstate(divide="ignore"):
            scale = from_host(1 / weights, ctx)
        keys = as_np_ndarray(_exponential(shape=(count,), dtype="float64", ctx=ctx)) * scale
        order = _cast(_argsort(keys, dtype="float64"), dtype="int64")
    return _slice(order, axis=0, begin=0, end=number)


def multinomial(n: int, pvals: Any, size: Any = None, **kwargs: Any) -> ndarray:
    """Draw the number of times that each outcome occurs in n trials.

    Parameters
    ----------
    n : int
    pvals : ndarray or sequence of shape (k,)
        Probabilities of the outcomes. The last one is replaced by 1 minus the sum of the others.
    size : int or tuple of int, optional

    Returns
    -------
    ndarray of shape (*size, k)
        int64.

    Raises
    ------
    ValueError
        If n is negative, or pvals are not probabilities, or all but the last sum to more than 1.
    """
    n = _whole("multinomial", "n", n)
    if n < 0:
        raise ValueError_(f"random.multinomial: n must be at least 0, got {n}")
    p = _probabilities("multinomial", "pvals", pvals)
    rest = 1 - p[:-1].sum()
    if rest < -1e-5:
        raise ValueError_(f"random.multinomial: pvals[:-1] must sum to at most 1, got {1 - rest}")
    ctx = pvals.ctx if isinstance(pvals, ndarray) else None
    shape = () if size is None else shape_in(size)
    if not len(p) or not n or 0 in shape:
        return from_host(np.zeros((*shape, len(p)), np.int64), ctx)
    draws = _indices(np.append(p[:-1], max(rest, 0)), (*shape, n), ctx)
    return _sum(_one_hot(draws, depth=len(p), dtype="int64"), axis=-2)


def shuffle(x: ndarray) -> None:
    """Permute x randomly along axis 0, in place."""
    if not isinstance(x, ndarray):
        raise TypeError_(f"random.shuffle: x must be an mx.np array, got {type(x).__name__}")
    _shuffle(x, out=x)


def permutation(x: Any, ctx: Any = None) -> ndarray:
    """Return x, or ``arange(x)`` (int64) if x is an integer, permuted randomly along axis 0."""
    if not isinstance(x, ndarray) or not x.ndim:
        x = from_host(np.arange(_whole("permutation", "x", x)), ctx)
    return _shuffle(x)
