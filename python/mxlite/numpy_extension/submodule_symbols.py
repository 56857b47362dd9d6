"""The functions of ``mx.sym.np.linalg``, ``mx.sym.np.random`` and ``mx.sym.npx.random``."""

from __future__ import annotations

import inspect
import math
from typing import Any

from .. import numpy as np
from .. import symbol
from .._core import compose
from ..symbol import Symbol
from . import random
from .function_calls import (
    bind_arguments,
    compose_call,
    convert_symbols,
    document,
    make_function,
    make_functions,
)

__all__ = ["np_linalg", "np_random", "npx_random"]

_LINALG = {
    "cholesky": "_linalg_potrf",
    "eig": "_npi_eig",
    "inv": "_linalg_inverse",
    "qr": "_npi_qr",
    "svd": "_npi_svd",
}
_DRAWN = ("poisson", "randint")
_CALLS_LINALG = {
    name: f"_npi_{name}"
    for name in ("det", "eigh", "eigvals", "eigvalsh", "slogdet", "tensorinv", "tensorsolve")
}
_CALLS_RANDOM = {
    **{name: f"_npi_{name}" for name in (
        "choice", "exponential", "gamma", "gumbel", "logistic", "normal", "pareto", "rayleigh",
        "uniform", "weibull",
    )},
    "multivariate_normal": "Custom/mvn_fallback",
    "power": "_npi_powerd",
}  # fmt: skip


def _of_linalg(name: str, op: str) -> Any:
    def function(a: Symbol) -> Any:
        return compose(op, (convert_symbols(a),), {})

    return document(name, function, getattr(np.linalg, name))


def norm(x: Symbol, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """Return norms of vectors or matrices; see ``mx.np.linalg.norm``."""
    axes = (axis,) if isinstance(axis, int) else axis
    is_extreme = ord in (math.inf, -math.inf)
    if axes is not None and (is_extreme or (len(axes) == 2 and ord in (1, -1))):
        # Composes these norms of other operators, because 1.9.1's operator for norms lacks them.
        x = compose("abs", (convert_symbols(x),), {})
        if len(axes) == 2:
            x = compose("_np_sum", (x,), {"axis": axes[1 if is_extreme else 0], "keepdims": True})
        return compose(
            "_np_max" if ord > 0 else "_np_min", (x,), {"axis": axes, "keepdims": keepdims}
        )
    if is_extreme:
        flag, kind = (3 if ord > 0 else 4), 2
    elif ord is None and axes is None:
        flag, kind = -2, 2
    elif ord is None or ord in ("fro", "f", "nuc"):
        flag, kind = (2 if ord == "nuc" else 1), 2
    else:
        flag, kind = (0 if axes is not None and len(axes) == 2 else -1), ord
    attrs = {"ord": kind, "axis": "None" if axes is None else axes, "keepdims": keepdims}
    return compose_call("_npi_norm", [x], {**attrs, "flag": flag})


def pinv(a: Symbol, rcond: Any = 1e-15, hermitian: bool = False) -> Any:
    """Return the pseudo-inverses; see ``mx.np.linalg.pinv``."""
    if isinstance(rcond, Symbol):
        return compose_call("_npi_pinv", [a, rcond], {"hermitian": hermitian})
    return compose_call("_npi_pinv_scalar_rcond", [a], {"rcond": rcond, "hermitian": hermitian})


def solve(a: Symbol, b: Symbol) -> Any:
    """Return x of ``a @ x = b``, where b has as many axes as a."""
    return compose("_npi_solve", (convert_symbols(a), convert_symbols(b)), {})


def bernoulli(prob: Any = None, logit: Any = None, size: Any = None, dtype: Any = None) -> Any:
    """Draw 1 with a probability, else 0; see ``mx.npx.random.bernoulli``."""
    inputs = [value for value in (prob, logit) if isinstance(value, Symbol)]
    numbers = {
        key: "None" if value is None or isinstance(value, Symbol) else value
        for key, value in (("prob", prob), ("logit", logit), ("size", size))
    }
    attrs = {**numbers, "is_logit": prob is None, "dtype": dtype}
    return compose_call("_npi_bernoulli", inputs, attrs)


def lognormal(mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
    """Draw numbers whose logarithms have a normal distribution."""
    return compose("exp", (np_random["normal"](mean, sigma, size),), {})


def chisquare(df: Any, size: Any = None) -> Any:
    """Draw from a chi-square distribution."""
    return np_random["gamma"](df / 2, 1.0, size) * 2


def beta(a: Any, b: Any, size: Any = None) -> Any:
    """Draw from a beta distribution."""
    first, second = (np_random["gamma"](shape, 1.0, size) for shape in (a, b))
    return first / (first + second)


def rand(*size: int) -> Any:
    """Draw uniformly from [0, 1)."""
    return np_random["uniform"](size=size)


def shuffle(x: Symbol) -> Any:
    """Return the rows in random order, as a new symbol: a symbol cannot change its input."""
    return compose("_shuffle", (convert_symbols(x),), {})


def _drawn(name: str) -> Any:
    draw, like = getattr(symbol.random, name), getattr(np.random, name)
    signature = inspect.signature(like)

    def function(*args: Any, **kwargs: Any) -> Any:
        given = dict(bind_arguments(name, signature, args, kwargs).arguments)
        size = given.pop("size", None)
        given.pop("ctx", None)
        shape = (1,) if size is None else (size,) if isinstance(size, int) else tuple(size)
        if name == "randint":
            given.setdefault("dtype", "int64")
        drawn = draw(**given, shape=shape).as_np_ndarray()
        return drawn if size is not None else drawn[0]

    return document(name, function, like)


np_random = {
    **{name: _drawn(name) for name in _DRAWN},
    **make_functions(_CALLS_RANDOM, np.random),
    **{f.__name__: f for f in (beta, chisquare, lognormal, rand, shuffle)},
}
np_linalg = {
    **{name: _of_linalg(name, op) for name, op in _LINALG.items()},
    **make_functions(_CALLS_LINALG, np.linalg),
    **{f.__name__: f for f in (norm, pinv, solve)},
}
npx_random = {
    "bernoulli": bernoulli,
    "seed": random.seed,
    **{n: make_function(n, f"_npi_{n}", getattr(random, n)) for n in ("normal_n", "uniform_n")},
}
