"""Random numbers: ``mx.np.random``.

Parameters are numbers or arrays, which broadcast together. Distributions that are functions of
standard ones (normal, exponential, logistic, ...) have gradients with respect to their parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .. import random as _random
from ..base import ShapeError, TypeError_, ValueError_
from .arguments import broadcast_shape, default_dtype, is_real, shape_in
from .creation import zeros_like
from .ndarray import as_np_ndarray, ndarray
from .picking import choice, multinomial, permutation, randint, shuffle
from .sampling import NOT_NEGATIVE, POSITIVE, PROBABILITY, Call
from .sorting import where

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
_sample_gamma = _core.op("sample_gamma")
_sample_poisson = _core.op("sample_poisson")
_cast = _core.op("Cast")
_less = _core.op("broadcast_lesser")
_cholesky = _core.op("linalg_potrf")
_matmul = _core.op("_matmul")
_expand = _core.op("expand_dims")
_squeeze = _core.op("squeeze")
_exp = _core.op("exp")
_expm1 = _core.op("expm1")
_log = _core.op("log")
_log1p = _core.op("log1p")
_abs = _core.op("abs")
_sign = _core.op("sign")
_sqrt = _core.op("sqrt")


def seed(seed: int, ctx: Any = "all") -> None:
    """Set the state of the generators; the same as ``mx.random.seed``."""
    _random.seed(seed, ctx)


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
    """Draw from the uniform distribution between low and high.

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
    """Draw from uniform distributions, an array of ``batch_shape`` for each pair of parameters.

    The shape of the result is ``batch_shape`` followed by the broadcast shape of low and high.
    """
    return _draw_uniform("uniform_n", low, high, batch_shape, dtype, ctx, None, True)


def _draw_uniform(
    who: str, low: Any, high: Any, size: Any, dtype: Any, ctx: Any, out: Any, in_front: bool
) -> ndarray:
    call = Call(who, {"low": low, "high": high}, {}, size, dtype, ctx, out, in_front)
    low, high = call.values(detached=True)
    if isinstance(low, float) and isinstance(high, float) and low <= high:
        # mx.nd.random.uniform draws the same values.
        return call.finish(call.noise(lambda **o: _uniform(low=low, high=high, **o)))
    result = _between(low, high, call.noise(_uniform))
    bottom, top = (zeros_like(result) + bound for bound in (low, high))
    # Rounding to the nearest number gives both bounds half as often as the numbers between them.
    # The upper bound is excluded, so its draws become the lower bound.
    return call.finish(where(result == top, bottom, result))


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
    """Draw from normal distributions, an array of ``batch_shape`` for each pair of parameters.

    The shape of the result is ``batch_shape`` followed by the broadcast shape of loc and scale.
    """
    return _draw_normal("normal_n", loc, scale, batch_shape, dtype, ctx, None, True)


def _draw_normal(
    who: str, loc: Any, scale: Any, size: Any, dtype: Any, ctx: Any, out: Any, in_front: bool
) -> ndarray:
    params = {"loc": loc, "scale": scale}
    call = Call(who, params, {"scale": NOT_NEGATIVE}, size, dtype, ctx, out, in_front)
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
    """Draw numbers whose logarithm is normal with this mean and sigma; see `normal`."""
    call = Call("lognormal", {"mean": mean, "sigma": sigma}, {"sigma": NOT_NEGATIVE}, size, dtype,
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
) -> tuple[Any, Any, Call]:
    """Return the checked parameters of a family with location and scale, and the call."""
    params = {"loc": loc, "scale": scale}
    call = Call(who, params, {"scale": NOT_NEGATIVE}, size, dtype, ctx, out)
    return (*call.values(), call)


def exponential(scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> ndarray:
    """Draw from the exponential distribution with mean scale; see `normal`."""
    call = Call("exponential", {"scale": scale}, {"scale": NOT_NEGATIVE}, size, None, ctx, out)
    return call.finish(call.noise(_exponential) * call.values()[0])


def rayleigh(scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> ndarray:
    """Draw from the Rayleigh distribution with mode scale; see `normal`."""
    call = Call("rayleigh", {"scale": scale}, {"scale": NOT_NEGATIVE}, size, None, ctx, out)
    return call.finish(_sqrt(call.noise(_exponential) * 2) * call.values()[0])


def weibull(a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> ndarray:
    """Draw from the Weibull distribution with shape a > 0 and scale 1; see `normal`."""
    call = Call("weibull", {"a": a}, {"a": POSITIVE}, size, None, ctx, out)
    return call.finish(_exp(_log(call.noise(_exponential)) / call.values()[0]))


def pareto(a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> ndarray:
    """Draw from the Pareto II (Lomax) distribution with shape a; see `normal`."""
    call = Call("pareto", {"a": a}, {"a": POSITIVE}, size, None, ctx, out)
    return call.finish(_expm1(call.noise(_exponential) / call.values()[0]))


def power(a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> ndarray:
    """Draw from the density ``a * x ** (a - 1)`` on [0, 1], without gradient. See `uniform`."""
    call = Call("power", {"a": a}, {"a": POSITIVE}, size, None, ctx, out)
    return call.finish(_exp(-call.noise(_exponential) / call.values(detached=True)[0]))


def _gamma(alpha: ndarray) -> ndarray:
    """Draw from gamma distributions with scale 1."""
    return _sample_gamma(alpha, alpha * 0 + 1)


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
        If an element of shape or scale is not positive.
    """
    rules = {"shape": POSITIVE, "scale": POSITIVE}
    call = Call("gamma", {"shape": shape, "scale": scale}, rules, size, dtype, ctx, out)
    alpha, factor = call.arrays()
    return call.finish(_gamma(alpha) * factor)


def chisquare(df: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> ndarray:
    """Draw from the chi-square distribution; df gets no gradient. See `uniform`."""
    call = Call("chisquare", {"df": df}, {"df": POSITIVE}, size, dtype, ctx, None)
    return _gamma(call.arrays()[0] / 2) * 2  # type: ignore[return-value,arg-type]


def beta(a: Any, b: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> ndarray:
    """Draw from the beta distribution; a and b get no gradient. See `uniform`."""
    rules = {"a": POSITIVE, "b": POSITIVE}
    call = Call("beta", {"a": a, "b": b}, rules, size, dtype, ctx, None)
    first, second = (_gamma(alpha) for alpha in call.arrays())
    return first / (first + second)  # type: ignore[return-value]


def poisson(lam: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> ndarray:
    """Draw int64 counts from the Poisson distribution with mean lam; see `uniform`."""
    call = Call("poisson", {"lam": lam}, {"lam": NOT_NEGATIVE}, size, "float64", ctx, out)
    return call.finish(_cast(_sample_poisson(call.arrays()[0]), dtype="int64"))


def bernoulli(
    prob: Any = None,
    logit: Any = None,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> ndarray:
    """Draw 1 with probability ``prob`` or ``sigmoid(logit)``, else 0.

    Exactly one of prob and logit must be given; they get no gradient. See `uniform`.
    """
    if (prob is None) == (logit is None):
        raise ValueError_(
            "random.bernoulli: exactly one of prob and logit must be given, got "
            + ("none" if prob is None else "both")
        )
    if logit is None:
        params, rules = {"prob": prob}, {"prob": PROBABILITY}
    else:
        params, rules = {"logit": logit}, {}
    wanted = default_dtype(dtype) if out is None else out.dtype
    call = Call("bernoulli", params, rules, size, "float32", ctx, out)
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
    dtype = mean.dtype if is_real(mean.dtype) else np.float32
    exact = np.float64 if dtype == np.float64 else np.float32  # no float16 Cholesky factor
    noise = as_np_ndarray(_normal(shape=shape, dtype=exact, ctx=mean.ctx))
    factor = _cholesky(_cast(cov, dtype=exact))
    if len(shape) > 1:
        noise = _expand(noise, axis=-1)
    result = _matmul(factor, noise)
    result = _squeeze(result, axis=-1) if len(shape) > 1 else result
    return _cast(result + _cast(mean, dtype=exact), dtype=dtype)
