"""Random operators: the first moments of large samples, and what cannot be drawn."""

from __future__ import annotations

from typing import Callable

import numpy as np
from mxlite.base import DTypeError, ShapeError
from op_table import Case, draws, fails, ints, no_grad, op

N = 20000


def _moments(mean: float, variance: float) -> Callable[[np.ndarray], bool]:
    """Return a check of the mean (5 standard errors) and of the variance (10 %)."""

    def check(x: np.ndarray) -> bool:
        error = 5 * np.sqrt(max(variance, 1e-12) / x.size)
        return bool(abs(x.mean() - mean) < error and abs(x.var() - variance) <= 0.1 * variance)

    return check


def _rows(means: list[float], variances: list[float]) -> Callable[[np.ndarray], bool]:
    return lambda x: (
        x.shape == (len(means), N)
        and all(_moments(m, v)(row) for m, v, row in zip(means, variances, x))
    )


# name: parameters, mean and variance; parameter names of sample_*.
DISTRIBUTIONS: dict[str, tuple[dict[str, float], float, float]] = {
    "uniform": ({"low": -1, "high": 3}, 1, 16 / 12),
    "normal": ({"loc": 2, "scale": 3}, 2, 9),
    "gamma": ({"alpha": 3, "beta": 0.5}, 1.5, 0.75),
    "exponential": ({"lam": 4}, 0.25, 1 / 16),
    "poisson": ({"lam": 5}, 5, 5),
    "negative_binomial": ({"k": 3, "p": 0.4}, 4.5, 11.25),
    "generalized_negative_binomial": ({"mu": 2, "alpha": 0.3}, 2, 3.2),
}
# Parameter values at which another method draws.
OTHERS: list[tuple[str, dict[str, float], float, float]] = [
    ("gamma", {"alpha": 0.5, "beta": 2}, 1, 2),
    ("poisson", {"lam": 0}, 0, 0),
    ("poisson", {"lam": 50}, 50, 50),
    ("negative_binomial", {"k": 3, "p": 1}, 0, 0),
    ("generalized_negative_binomial", {"mu": 2, "alpha": 0}, 2, 2),
]

_F = {"dtypes": ("float32",)}
CASES: list[Case] = []
for _name, (_params, _mean, _var) in DISTRIBUTIONS.items():
    for _as in ("float32", "float64", "float16"):
        CASES.append(
            draws("random_" + _name, check=_moments(_mean, _var), shape=(N,), dtype=_as, **_params)
        )
    _values = [np.array([v, v], "float64") for v in _params.values()]
    CASES += [
        draws(f"_random_{_name}_like", np.zeros((N, 1)), check=_moments(_mean, _var), **_params),
        draws("sample_" + _name, *_values, check=_rows([_mean] * 2, [_var] * 2), shape=N),
        draws("random_" + _name, check=lambda x: x.shape == (0, 3), shape=(0, 3), **_params),
        draws("random_" + _name, check=lambda x: x.shape == (1,), **_params),
        fails(
            "random_" + _name,
            shape=(2,),
            dtype="int32",
            error=DTypeError,
            match=f"random_{_name}: dtype must .*, got int32",
            **_params,
        ),
        fails("random_" + _name, shape=(2, -1), match=r"shape must .*\(2, -1\)", **_params),
    ]
for _name, _params, _mean, _var in OTHERS:
    CASES.append(
        draws("random_" + _name, check=_moments(_mean, _var), shape=(N,), **_params)
        if _var
        else op("random_" + _name, shape=(3,), ref=np.zeros(3), **_params)
    )

CASES += [
    draws("random_uniform", check=lambda x: x.min() >= 0 and x.max() < 1, shape=N, dtype="float16"),
    fails("random_uniform", low=2, high=1, match="low 2 and high 1"),
    fails("random_normal", scale=-1, match="scale >= 0, got .*scale -1"),
    fails("random_gamma", alpha=0, match="alpha 0"),
    fails("random_exponential", lam=0, match="lam 0"),
    fails("random_poisson", lam=-1, match="lam -1"),
    fails("random_negative_binomial", k=1, p=1.5, match="p 1.5"),
    fails("random_generalized_negative_binomial", mu=-1, match="mu -1"),
    fails("sample_normal", (2,), (3,), error=ShapeError, match="sample_normal: "),
    no_grad("sample_gamma", np.array([-1, np.nan]), np.ones(2), ref=np.full(2, np.nan), **_F),
    # Bounds that cross.
    draws(
        "sample_uniform",
        np.array([3.0, -1]),
        np.array([-1.0, 3]),
        check=_rows([1] * 2, [16 / 12] * 2),
        shape=N,
    ),
    draws(
        "random_randint",
        low=-2,
        high=3,
        shape=(N,),
        check=lambda x: set(np.unique(x)) == {*range(-2, 3)} and _moments(0, 2)(x),
    ),
    draws(
        "random_randint",
        low=-(2**62),
        high=2**62,
        shape=(99,),
        dtype="int64",
        check=lambda x: x.min() < -(2**60) and x.max() > 2**60,
    ),
    fails("random_randint", low=3, high=3, match="low 3 and high 3"),
    fails("random_randint", low=0, high=3, dtype="float16", error=DTypeError, match="int32 or"),
]


def _frequencies(x: np.ndarray) -> bool:
    counts = np.stack([np.bincount(row, minlength=4) / N for row in x])
    return bool(np.abs(counts - [[0.1, 0.2, 0.7, 0], [0, 0.5, 0.5, 0]]).max() < 0.02)


_DISTRIBUTIONS = np.array([[0.1, 0.2, 0.7, 0], [0, 2, 2, 0]])  # the second one is normalised
CASES += [
    draws("sample_multinomial", _DISTRIBUTIONS, shape=N, check=_frequencies),
    draws("sample_multinomial", np.array([0.25, 0.75]), check=lambda x: x.shape == (1,)),
    draws(
        "sample_multinomial",
        _DISTRIBUTIONS[:1, :3],
        shape=(5, 4),
        get_prob=True,
        check=lambda x, p: (
            x.shape == p.shape == (1, 5, 4)
            and np.allclose(p, np.log([0.1, 0.2, 0.7])[x], rtol=1e-5)
        ),
    ),
    fails("sample_multinomial", (2, 0), error=ShapeError, match="sample_multinomial"),
    fails(
        "sample_multinomial", ints([1, 2]), error=DTypeError, match="dtype must be .*, got int32"
    ),
    draws("sample_multinomial", np.ones(256), dtype="uint8", check=lambda x: x.shape == (1,)),
    *(
        fails(
            "sample_multinomial", np.ones(count), dtype=dtype, match=f"dtype must .*, got {dtype}"
        )
        for dtype, count in [("uint8", 257), ("int8", 129), ("float16", 2049), ("bfloat16", 257)]
    ),
    draws(
        "shuffle",
        np.arange(40.0).reshape(20, 2),
        check=lambda x: bool(
            (np.diff(x, axis=1) == 1).all()
            and (np.sort(x[:, 0]) == np.arange(0, 40, 2)).all()
            and (x[:, 0] != np.arange(0, 40, 2)).any()
        ),
    ),
    no_grad("shuffle", (0, 3), ref=lambda x: x),
    fails("shuffle", np.array(1.0), error=ShapeError, match="shuffle: "),
]
