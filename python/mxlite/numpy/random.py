"""Random numbers: ``mx.np.random``.

Parameters are numbers or arrays, which broadcast together. Distributions that are functions of
standard ones (normal, exponential, logistic, ...) have gradients with respect to their parameters.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import _core
from .. import random as _random
from ..base import ShapeError, TypeError_, ValueError_
from .arguments import broadcast_shape, from_host, refuse_traced, returned, shape_in
from .ndarray import ndarray

__all__ = [
    "bernoulli",
    "beta",
    "chisquare",
    "choice",
    "exponential",
    "gamma",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "multinomial",
    "multivariate_normal",
    "normal",
    "normal_n",
    "pareto",
    "permutation",
    "poisson",
    "power",
    "rand",
    "randint",
    "randn",
    "rayleigh",
    "seed",
    "shuffle",
    "uniform",
    "uniform_n",
    "weibull",
]

_uniform = _core.op("_random_uniform")
_normal = _core.op("_random_normal")
_exponential = _core.op("_random_exponential")
_randint = _core.op("_random_randint")
_sample_gamma = _core.op("sample_gamma")
_sample_poisson = _core.op("sample_poisson")
_sample_indices = _core.op("sample_multinomial")
_shuffle = _core.op("_shuffle")
_broadcast_to = _core.op("broadcast_to")
_cast = _core.op("Cast")
_full = _core.op("_full")
_detach = _core.op("BlockGrad")
_one_hot = _core.op("one_hot")
_sum = _core.op("sum")
_argsort = _core.op("argsort")
_take = _core.op("take")
_slice = _core.op("slice_axis")
_less = _core.op("broadcast_lesser")
_cholesky = _core.op("linalg_potrf")
_matmul = _core.op("_matmul")
_expand = _core.op("expand_dims")
_squeeze = _core.op("squeeze")
_reshape_to = _core.op("_reshape_to")
_exp, _expm1, _log, _log1p, _abs, _sign, _sqrt = map(
    _core.op, ("exp", "expm1", "log", "log1p", "abs", "sign", "sqrt")
)

_NOT_NEGATIVE = ("at least 0", lambda x: x >= 0)
_POSITIVE = ("above 0", lambda x: x > 0)
_PROBABILITY = ("between 0 and 1", lambda x: (x >= 0) & (x <= 1))


def seed(seed: int, ctx: Any = "all") -> None:
    """Set the state of the generators; the same as ``mx.random.seed``."""
    _random.seed(seed, ctx)


def _check(who: str, name: str, value: Any, rule: Any) -> None:
    """Raise if a parameter, or an element of it, is invalid; NaN is invalid."""
    expected, holds = rule
    if isinstance(value, ndarray):
        if value._traced:
            return  # a traced array has no values
        values = value.asnumpy()
    else:
        values = np.asarray(value)
    wrong = values[~holds(values)]
    if wrong.size:
        raise ValueError_(f"{who}: {name} must be {expected}, got {wrong.flat[0]}")


def _parameter(who: str, name: str, value: Any) -> Any:
    """Return a number or an np array."""
    if isinstance(value, ndarray):
        return value
    if isinstance(value, (int, float, np.generic)):
        return float(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return from_host(
            np.asarray(value, np.float32 if isinstance(value, (list, tuple)) else None), None
        )
    raise TypeError_(
        f"{who}: {name} must be a number or an mx.np array, got {type(value).__name__}"
    )


class _Call:
    """The parameters of one call, and the shape, dtype and context of its result."""

    def __init__(
        self,
        who: str,
        params: dict[str, Any],
        rules: dict[str, Any],
        size: Any,
        dtype: Any,
        ctx: Any,
        out: Any,
        in_front: bool = False,
    ) -> None:
        self.who = f"random.{who}"
        self.out = out
        self.params = {name: _parameter(self.who, name, v) for name, v in params.items()}
        for name, rule in rules.items():
            _check(self.who, name, self.params[name], rule)
        arrays = [p for p in self.params.values() if isinstance(p, ndarray)]
        self.dtype = "float32" if dtype is None else dtype
        if out is not None and dtype is None:
            self.dtype = out.dtype
        self.ctx = arrays[0].ctx if arrays and ctx is None else ctx
        self.shape = self._shape([p.shape for p in arrays], size, in_front)

    def _shape(self, given: list[Any], size: Any, in_front: bool) -> tuple[int, ...]:
        own = broadcast_shape(given, self.who) if given else ()
        if size is None:
            return self.out.shape if self.out is not None and not given else own
        wanted = shape_in(size)
        if in_front:
            return wanted + own
        if given and broadcast_shape([own, wanted], self.who) != wanted:
            raise ShapeError(
                f"{self.who}: size must hold the parameters of shape {own}, got {wanted}"
            )
        return wanted

    def noise(self, op: Any) -> ndarray:
        """Return standard draws of the result's shape."""
        return _core.with_numpy(op(shape=self.shape, dtype=self.dtype, ctx=self.ctx), True)  # type: ignore[return-value]

    def values(self, detached: bool = False) -> list[Any]:
        """Return the parameters: numbers, and arrays in the result's dtype."""
        found = []
        for value in self.params.values():
            if isinstance(value, ndarray):
                value = _cast(value, dtype=self.dtype)
                found.append(_detach(value) if detached else value)
            else:
                found.append(value)
        return found

    def arrays(self) -> list[ndarray]:
        """Return the parameters as arrays of the result's shape, without gradient."""
        made = []
        for value in self.values(detached=True):
            if not isinstance(value, ndarray):
                value = _core.with_numpy(
                    _full(shape=self.shape, value=value, dtype=self.dtype, ctx=self.ctx), True
                )
            made.append(value if value.shape == self.shape else _spread(value, self.shape))
        return made

    def finish(self, result: Any) -> ndarray:
        """Return the result, in ``out`` if that is given."""
        return returned(result, self.out, self.who)  # type: ignore[no-any-return]


def _spread(value: ndarray, shape: tuple[int, ...]) -> ndarray:
    """Broadcast an array to a shape that may have more dimensions."""
    lead = len(shape) - value.ndim
    return _broadcast_to(_reshape_to(value, shape=(1,) * lead + value.shape), shape=shape)


def _between(low: Any, high: Any, u: ndarray) -> ndarray:
    return u * (high - low) + low


def uniform(
    low: Any = 0.0,
    high: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> ndarray:
    """Draw from the uniform distribution between low and high, excluding both.

    Parameters
    ----------
    low, high : float or ndarray
        Bounds; they get no gradient.
    size : int or tuple of int, optional
        Shape of the result; by default, the broadcast shape of the parameters.
    dtype : dtype, optional
        float16, float32 (default) or float64.
    ctx : Context, optional
        By default the context of the parameters or the current context.
    out : ndarray, optional
        Array into which the result is written.
    """
    return _draw_uniform("uniform", low, high, size, dtype, ctx, out, False)


def uniform_n(
    low: Any = 0.0, high: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Any = None
) -> ndarray:
    """Draw from the uniform distribution ``batch_shape`` numbers for each element of parameters.

    The shape of the result is ``batch_shape`` followed by the shape of the parameters.
    """
    return _draw_uniform("uniform_n", low, high, batch_shape, dtype, ctx, None, True)


def _draw_uniform(
    who: str, low: Any, high: Any, size: Any, dtype: Any, ctx: Any, out: Any, in_front: bool
) -> ndarray:
    call = _Call(who, {"low": low, "high": high}, {}, size, dtype, ctx, out, in_front)
    low, high = call.values(detached=True)
    if isinstance(low, float) and isinstance(high, float) and low <= high:
        # mx.nd.random.uniform draws the same values.
        return call.finish(call.noise(lambda **o: _uniform(low=low, high=high, **o)))
    return call.finish(_between(low, high, call.noise(_uniform)))


def normal(
    loc: Any = 0.0,
    scale: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> ndarray:
    """Draw from the normal distribution with mean loc and standard deviation scale.

    See `uniform` for the other parameters. loc and scale get gradients.

    Raises
    ------
    ValueError
        If an element of scale is negative.
    """
    return _draw_normal("normal", loc, scale, size, dtype, ctx, out, False)


def normal_n(
    loc: Any = 0.0, scale: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Any = None
) -> ndarray:
    """Draw from the normal distribution ``batch_shape`` numbers for each element of parameters.

    The shape of the result is ``batch_shape`` followed by the shape of the parameters.
    """
    return _draw_normal("normal_n", loc, scale, batch_shape, dtype, ctx, None, True)


def _draw_normal(
    who: str, loc: Any, scale: Any, size: Any, dtype: Any, ctx: Any, out: Any, in_front: bool
) -> ndarray:
    params = {"loc": loc, "scale": scale}
    call = _Call(who, params, {"scale": _NOT_NEGATIVE}, size, dtype, ctx, out, in_front)
    loc, scale = call.values()
    if isinstance(loc, float) and isinstance(scale, float):
        return call.finish(call.noise(lambda **o: _normal(loc=loc, scale=scale, **o)))
    return call.finish(call.noise(_normal) * scale + loc)


def lognormal(
    mean: Any = 0.0,
    sigma: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> ndarray:
    """Draw numbers whose logarithm has mean and standard deviation sigma; see `normal`."""
    call = _Call("lognormal", {"mean": mean, "sigma": sigma}, {"sigma": _NOT_NEGATIVE}, size, dtype,
                 ctx, out)  # fmt: skip
    mean, sigma = call.values()
    return call.finish(_exp(call.noise(_normal) * sigma + mean))


def logistic(
    loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None
) -> ndarray:
    """Draw from the logistic distribution with mean loc; see `normal`."""
    loc, scale, call = _located("logistic", loc, scale, size, ctx, out)
    u = call.noise(_uniform)
    return call.finish((_log(u) - _log1p(-u)) * scale + loc)


def gumbel(
    loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None
) -> ndarray:
    """Draw from the Gumbel distribution with mode loc; see `normal`."""
    loc, scale, call = _located("gumbel", loc, scale, size, ctx, out)
    return call.finish(_log(call.noise(_exponential)) * (scale * -1) + loc)


def laplace(
    loc: Any = 0.0,
    scale: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> ndarray:
    """Draw from the Laplace distribution with mean loc; see `normal`."""
    loc, scale, call = _located("laplace", loc, scale, size, ctx, out, dtype)
    centered = call.noise(_uniform) - 0.5
    return call.finish(_sign(centered) * _log1p(_abs(centered) * -2) * (scale * -1) + loc)


def _located(
    who: str, loc: Any, scale: Any, size: Any, ctx: Any, out: Any, dtype: Any = None
) -> tuple[Any, Any, _Call]:
    """Return the checked parameters of a family with location and scale, and the call."""
    params = {"loc": loc, "scale": scale}
    call = _Call(who, params, {"scale": _NOT_NEGATIVE}, size, dtype, ctx, out)
    return (*call.values(), call)


def exponential(scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> ndarray:
    """Draw from the exponential distribution with mean scale; see `normal`."""
    call = _Call("exponential", {"scale": scale}, {"scale": _NOT_NEGATIVE}, size, None, ctx, out)
    return call.finish(call.noise(_exponential) * call.values()[0])


def rayleigh(scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> ndarray:
    """Draw from the Rayleigh distribution with mode scale; see `normal`."""
    call = _Call("rayleigh", {"scale": scale}, {"scale": _NOT_NEGATIVE}, size, None, ctx, out)
    return call.finish(_sqrt(call.noise(_exponential) * 2) * call.values()[0])


def weibull(a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> ndarray:
    """Draw from the Weibull distribution with shape a and scale 1; see `normal`."""
    call = _Call("weibull", {"a": a}, {"a": _NOT_NEGATIVE}, size, None, ctx, out)
    return call.finish(_exp(_log(call.noise(_exponential)) / call.values()[0]))


def pareto(a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> ndarray:
    """Draw from the Pareto II (Lomax) distribution with shape a; see `normal`."""
    call = _Call("pareto", {"a": a}, {"a": _POSITIVE}, size, None, ctx, out)
    return call.finish(_expm1(call.noise(_exponential) / call.values()[0]))


def power(a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> ndarray:
    """Draw from [0, 1] with density ``a * x ** (a - 1)``; a gets no gradient. See `uniform`."""
    call = _Call("power", {"a": a}, {"a": _POSITIVE}, size, None, ctx, out)
    return call.finish(_exp(-call.noise(_exponential) / call.values(detached=True)[0]))


def _gamma(alpha: ndarray) -> ndarray:
    """Draw from gamma distributions with scale 1."""
    return _sample_gamma(alpha, alpha * 0 + 1)  # type: ignore[return-value]


def gamma(
    shape: Any,
    scale: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> ndarray:
    """Draw from the gamma distribution; shape and scale get no gradient. See `uniform`.

    Raises
    ------
    ValueError
        If an element of shape is not positive or one of scale is negative.
    """
    rules = {"shape": _POSITIVE, "scale": _NOT_NEGATIVE}
    call = _Call("gamma", {"shape": shape, "scale": scale}, rules, size, dtype, ctx, out)
    alpha, factor = call.arrays()
    return call.finish(_gamma(alpha) * factor)


def chisquare(df: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> ndarray:
    """Draw from the chi-square distribution; df gets no gradient. See `uniform`."""
    call = _Call("chisquare", {"df": df}, {"df": _POSITIVE}, size, dtype, ctx, None)
    return _gamma(call.arrays()[0] / 2) * 2


def beta(a: Any, b: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> ndarray:
    """Draw from the beta distribution; a and b get no gradient. See `uniform`."""
    rules = {"a": _POSITIVE, "b": _POSITIVE}
    call = _Call("beta", {"a": a, "b": b}, rules, size, dtype, ctx, None)
    first, second = (_gamma(alpha) for alpha in call.arrays())
    return first / (first + second)


def poisson(lam: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> ndarray:
    """Draw int64 counts from the Poisson distribution with mean lam; see `uniform`."""
    call = _Call("poisson", {"lam": lam}, {"lam": _NOT_NEGATIVE}, size, "float64", ctx, out)
    return call.finish(_cast(_sample_poisson(call.arrays()[0]), dtype="int64"))


def bernoulli(
    prob: Any = None,
    logit: Any = None,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> ndarray:
    """Draw 1 with probability ``prob``, or with the probability that has this logit, else 0.

    Exactly one of prob and logit must be given; they get no gradient. See `uniform`.
    """
    if (prob is None) == (logit is None):
        raise ValueError_("random.bernoulli: exactly one of prob and logit must be given")
    if logit is None:
        params, rules = {"prob": prob}, {"prob": _PROBABILITY}
    else:
        params, rules = {"logit": logit}, {}
    wanted = "float32" if dtype is None and out is None else dtype if out is None else out.dtype
    call = _Call("bernoulli", params, rules, size, "float32", ctx, out)
    limit = call.arrays()[0]
    u = call.noise(_uniform)
    if logit is not None:
        u = _log(u) - _log1p(-u)
    return call.finish(_cast(_less(u, limit), dtype=wanted))


def rand(*size: int, **kwargs: Any) -> ndarray:
    """Draw from the uniform distribution between 0 and 1; dimensions are separate arguments."""
    return uniform(0.0, 1.0, size, **kwargs)


def randn(*size: int, **kwargs: Any) -> ndarray:
    """Draw from the standard normal distribution; dimensions are separate arguments."""
    return normal(0.0, 1.0, size, **kwargs)


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
    result = _core.with_numpy(draws if drawn == kind else _cast(draws, dtype=kind.name), True)
    return returned(result, out, "random.randint")  # type: ignore[no-any-return]


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


def _indices(p: np.ndarray[Any, Any], shape: tuple[int, ...], ctx: Any) -> ndarray:
    """Draw indices with these probabilities."""
    return _sample_indices(from_host(p, ctx), shape=shape, dtype="int64")  # type: ignore[return-value]


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
        raise ValueError_(f"random.choice: a must be at least 1 or not empty, got {count}")
    weights = None if p is None else _probabilities("choice", "p", p)
    possible = count
    if weights is not None:
        if len(weights) != count:
            raise ValueError_(f"random.choice: p must have {count} elements, got {len(weights)}")
        if abs(weights.sum() - 1) > 1e-5:
            raise ValueError_(f"random.choice: p must sum to 1, got {weights.sum()}")
        possible = np.count_nonzero(weights)
    if not replace and number > possible:
        raise ValueError_(
            f"random.choice: size must be at most {possible}, the number of elements that can be "
            f"drawn without replacement, got {number}"
        )
    if not replace:
        drawn = _reshape_to(_distinct(count, weights, number, ctx), shape=shape)
    elif weights is None:
        drawn = randint(0, count, shape, ctx=ctx)
    else:
        drawn = _reshape_to(_indices(weights, (number,), ctx), shape=shape)
    result = _take(a, drawn) if isinstance(a, ndarray) and a.ndim else drawn
    return returned(result, out, "random.choice")  # type: ignore[no-any-return]


def _distinct(count: int, weights: Any, number: int, ctx: Any) -> ndarray:
    """Draw different indices, one after another."""
    if weights is None:
        order = permutation(count, ctx=ctx)
    else:
        # Indices of the smallest of exponential numbers with these rates (Efraimidis, Spirakis).
        with np.errstate(divide="ignore"):
            scale = from_host(1 / weights, ctx)
        keys = (
            _core.with_numpy(_exponential(shape=(count,), dtype="float64", ctx=ctx), True) * scale
        )
        order = _cast(_argsort(keys, dtype="float64"), dtype="int64")
    return _slice(order, axis=0, begin=0, end=number)  # type: ignore[return-value]


def multinomial(n: int, pvals: Any, size: Any = None, **kwargs: Any) -> ndarray:
    """Draw how often each outcome occurs in n trials.

    Parameters
    ----------
    n : int
    pvals : ndarray or sequence of shape (k,)
        Probabilities of the outcomes; the last one is what the others leave.
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
    return _sum(_one_hot(draws, depth=len(p), dtype="int64"), axis=-2)  # type: ignore[return-value]


def multivariate_normal(
    mean: ndarray, cov: ndarray, size: Any = None, check_valid: Any = None, tol: Any = None
) -> ndarray:
    """Draw vectors from normal distributions; mean and cov get gradients.

    Parameters
    ----------
    mean : ndarray of shape (..., d)
    cov : ndarray of shape (..., d, d)
        Positive definite covariances; otherwise reading the result raises a LinAlgError. The other
        dimensions broadcast with those of mean.
    size : int or tuple of int, optional
    check_valid, tol : None
        Accepted for NumPy's signature; other values are not supported.

    Returns
    -------
    ndarray of shape (*size, ..., d)
    """
    who = "random.multivariate_normal"
    if check_valid is not None or tol is not None:
        raise ValueError_(f"{who}: check_valid and tol must be None, got {check_valid} and {tol}")
    for name, value in (("mean", mean), ("cov", cov)):
        if not isinstance(value, ndarray):
            raise TypeError_(f"{who}: {name} must be an mx.np array, got {type(value).__name__}")
    if mean.ndim < 1 or cov.ndim < 2 or cov.shape[-2:] != (mean.shape[-1],) * 2:
        raise ShapeError(
            f"{who}: mean must have shape (..., d) and cov (..., d, d), got {mean.shape} and "
            f"{cov.shape}"
        )
    batch = broadcast_shape([mean.shape[:-1], cov.shape[:-2]], who)
    shape = (() if size is None else shape_in(size)) + batch + mean.shape[-1:]
    noise = _core.with_numpy(_normal(shape=shape, dtype=mean.dtype, ctx=mean.ctx), True)
    factor = _cholesky(_cast(cov, dtype=mean.dtype))
    if len(shape) > 1:
        noise = _expand(noise, axis=-1)
    result = _matmul(factor, noise)
    return (_squeeze(result, axis=-1) if len(shape) > 1 else result) + mean


def shuffle(x: ndarray) -> None:
    """Bring the entries of x along its first axis into random order, in place."""
    if not isinstance(x, ndarray):
        raise TypeError_(f"random.shuffle: x must be an mx.np array, got {type(x).__name__}")
    _shuffle(x, out=x)


def permutation(x: Any, ctx: Any = None) -> ndarray:
    """Return the entries of x, or of ``arange(x)`` (int64), along axis 0 in random order."""
    if not isinstance(x, ndarray) or not x.ndim:
        x = from_host(np.arange(_whole("permutation", "x", x)), ctx)
    return _shuffle(x)  # type: ignore[return-value]
