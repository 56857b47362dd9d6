"""Random arrays (MXNet 1.x: ``mxnet.nd.random``).

A number as parameter draws one array; an NDArray draws ``shape`` values for each of its elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _core
from .._core import NDArray
from ..base import TypeError_

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .call_types import ContextLike, NameOption, ShapeLike

__all__ = [
    "exponential",
    "exponential_like",
    "gamma",
    "gamma_like",
    "generalized_negative_binomial",
    "generalized_negative_binomial_like",
    "multinomial",
    "negative_binomial",
    "negative_binomial_like",
    "normal",
    "normal_like",
    "poisson",
    "poisson_like",
    "randint",
    "randn",
    "shuffle",
    "uniform",
    "uniform_like",
]


def _draw(
    name: str,
    params: dict[str, Any],
    shape: ShapeLike | None,
    dtype: Any,
    ctx: Any,
    out: NDArray | None,
) -> NDArray:
    arrays = [p for p in params.values() if isinstance(p, NDArray)]
    if not arrays:
        if shape is None:
            shape = (1,) if out is None else out.shape
        op = _core.op("_random_" + name)
        return op(**params, shape=shape, dtype=dtype, ctx=ctx, out=out)
    if len(arrays) != len(params):
        raise TypeError_(
            f"random.{name}: {', '.join(params)} must all be numbers or all be NDArrays"
        )
    op = _core.op("sample_" + name)
    return op(*arrays, shape=() if shape is None else shape, dtype=dtype, out=out)


def uniform(
    low: Any = 0,
    high: Any = 1,
    shape: ShapeLike | None = None,
    dtype: Any = None,
    ctx: ContextLike = None,
    out: NDArray | None = None,
    **kwargs: Unpack[NameOption],
) -> NDArray:
    """Draw from the uniform distribution between low and high, excluding both."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out)


def normal(
    loc: Any = 0,
    scale: Any = 1,
    shape: ShapeLike | None = None,
    dtype: Any = None,
    ctx: ContextLike = None,
    out: NDArray | None = None,
    **kwargs: Unpack[NameOption],
) -> NDArray:
    """Draw from the normal distribution with mean loc and standard deviation scale."""
    if isinstance(loc, NDArray) or isinstance(scale, NDArray):
        return _draw("normal", {"mu": loc, "sigma": scale}, shape, dtype, ctx, out)
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out)


def randn(*shape: int, **kwargs: Any) -> NDArray:
    """Draw from the normal distribution; dimensions as arguments, loc and scale as keywords."""
    loc = kwargs.pop("loc", 0)
    scale = kwargs.pop("scale", 1)
    return normal(loc, scale, shape=shape or (1,), **kwargs)


def exponential(
    scale: Any = 1,
    shape: ShapeLike | None = None,
    dtype: Any = None,
    ctx: ContextLike = None,
    out: NDArray | None = None,
    **kwargs: Unpack[NameOption],
) -> NDArray:
    """Draw from the exponential distribution with mean scale."""
    lam = 1.0 / scale
    return _draw("exponential", {"lam": lam}, shape, dtype, ctx, out)


def gamma(
    alpha: Any = 1,
    beta: Any = 1,
    shape: ShapeLike | None = None,
    dtype: Any = None,
    ctx: ContextLike = None,
    out: NDArray | None = None,
    **kwargs: Unpack[NameOption],
) -> NDArray:
    """Draw from the gamma distribution with shape alpha and scale beta."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out)


def poisson(
    lam: Any = 1,
    shape: ShapeLike | None = None,
    dtype: Any = None,
    ctx: ContextLike = None,
    out: NDArray | None = None,
    **kwargs: Unpack[NameOption],
) -> NDArray:
    """Draw from the Poisson distribution with rate lam."""
    return _draw("poisson", {"lam": lam}, shape, dtype, ctx, out)


def negative_binomial(
    k: Any = 1,
    p: Any = 1,
    shape: ShapeLike | None = None,
    dtype: Any = None,
    ctx: ContextLike = None,
    out: NDArray | None = None,
    **kwargs: Unpack[NameOption],
) -> NDArray:
    """Draw the number of failures before k successes of probability p."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out)


def generalized_negative_binomial(
    mu: Any = 1,
    alpha: Any = 1,
    shape: ShapeLike | None = None,
    dtype: Any = None,
    ctx: ContextLike = None,
    out: NDArray | None = None,
    **kwargs: Unpack[NameOption],
) -> NDArray:
    """Draw from the negative binomial distribution with mean mu and dispersion alpha."""
    params = {"mu": mu, "alpha": alpha}
    return _draw("generalized_negative_binomial", params, shape, dtype, ctx, out)


def multinomial(
    data: NDArray,
    shape: ShapeLike | None = None,
    get_prob: bool = False,
    out: NDArray | None = None,
    dtype: Any = "int32",
    **kwargs: Any,
) -> Any:
    """Draw indices of the last axis with the probabilities in data."""
    return _core.op("sample_multinomial")(
        data, shape=() if shape is None else shape, get_prob=get_prob, out=out, dtype=dtype
    )


def randint(
    low: int,
    high: int,
    shape: ShapeLike | None = None,
    dtype: Any = None,
    ctx: ContextLike = None,
    out: NDArray | None = None,
    **kwargs: Unpack[NameOption],
) -> NDArray:
    """Draw integers from [low, high)."""
    return _draw("randint", {"low": low, "high": high}, shape, dtype, ctx, out)


def shuffle(data: NDArray, **kwargs: Any) -> NDArray:
    """Return data with the rows of its first axis in random order."""
    return _core.op("_shuffle")(data, **kwargs)


exponential_like = _core.op("_random_exponential_like")
gamma_like = _core.op("_random_gamma_like")
generalized_negative_binomial_like = _core.op("_random_generalized_negative_binomial_like")
negative_binomial_like = _core.op("_random_negative_binomial_like")
normal_like = _core.op("_random_normal_like")
poisson_like = _core.op("_random_poisson_like")
uniform_like = _core.op("_random_uniform_like")
