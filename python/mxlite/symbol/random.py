"""Random symbols (MXNet 1.x: ``mxnet.symbol.random``); numbers draw one array, symbols many."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import compose
from ..base import TypeError_
from .symbol import Symbol

__all__ = [
    "exponential", "exponential_like", "gamma", "gamma_like", "generalized_negative_binomial",
    "generalized_negative_binomial_like", "multinomial", "negative_binomial",
    "negative_binomial_like", "normal", "normal_like", "poisson", "poisson_like", "randint",
    "randn", "shuffle", "uniform", "uniform_like",
]  # fmt: skip


def _draw(name: str, params: dict[str, Any], shape: Any, dtype: Any, kwargs: Any) -> Symbol:
    symbols = [value for value in params.values() if isinstance(value, Symbol)]
    common = {"shape": shape, "dtype": dtype, **kwargs}
    if not symbols:
        return compose("_random_" + name, (), {**params, **common})
    if len(symbols) != len(params):
        raise TypeError_(
            f"random.{name}: {', '.join(params)} must all be numbers or all be Symbols"
        )
    return compose("_sample_" + name, tuple(symbols), common)


def uniform(
    low: Any = 0, high: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Draw from the uniform distribution between low and high, excluding both."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, kwargs)


def normal(
    loc: Any = 0, scale: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Draw from the normal distribution with mean loc and standard deviation scale."""
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, kwargs)


def randn(*shape: int, **kwargs: Any) -> Symbol:
    """Draw from the normal distribution; dimensions as arguments, loc and scale as keywords.

    With ``data``, a Symbol, the result has its shape.
    """
    loc, scale = kwargs.pop("loc", 0), kwargs.pop("scale", 1)
    if isinstance(kwargs.get("data"), Symbol):
        common = {key: value for key, value in kwargs.items() if key not in ("data", "dtype")}
        like: Symbol = normal_like(kwargs["data"], loc=loc, scale=scale, **common)
        return like if kwargs.get("dtype") is None else like.astype(kwargs["dtype"])
    return normal(loc, scale, shape or None, **kwargs)


def poisson(lam: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Draw from the Poisson distribution with rate lam."""
    return _draw("poisson", {"lam": lam}, shape, dtype, kwargs)


def exponential(scale: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Draw from the exponential distribution with mean scale."""
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, kwargs)


def gamma(
    alpha: Any = 1, beta: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Draw from the gamma distribution with shape alpha and scale beta."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kwargs)


def negative_binomial(
    k: Any = 1, p: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Draw the number of failures before k successes of probability p."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, kwargs)


def generalized_negative_binomial(
    mu: Any = 1, alpha: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Draw from the negative binomial distribution with mean mu and dispersion alpha."""
    params = {"mu": mu, "alpha": alpha}
    return _draw("generalized_negative_binomial", params, shape, dtype, kwargs)


def multinomial(
    data: Symbol, shape: Any = None, get_prob: bool = True, dtype: Any = "int32", **kwargs: Any
) -> Symbol:
    """Draw indices of the last axis with the probabilities in data; two outputs with get_prob."""
    params = {"shape": shape, "get_prob": get_prob, "dtype": dtype, **kwargs}
    return compose("_sample_multinomial", (data,), params)


def randint(low: int, high: int, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Draw integers from [low, high)."""
    return _draw("randint", {"low": low, "high": high}, shape, dtype, kwargs)


def shuffle(data: Symbol, **kwargs: Any) -> Symbol:
    """Return data with the rows of its first axis in random order."""
    return compose("_shuffle", (data,), kwargs)


def _like(name: str) -> _core.Op:
    return _core.op(f"_random_{name}_like", composes=True)


exponential_like = _like("exponential")
gamma_like = _like("gamma")
generalized_negative_binomial_like = _like("generalized_negative_binomial")
negative_binomial_like = _like("negative_binomial")
normal_like = _like("normal")
poisson_like = _like("poisson")
uniform_like = _like("uniform")
