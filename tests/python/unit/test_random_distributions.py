"""Draws of every sampler follow the distribution: tests of fit, means and variances."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd
from scipy import stats

N = 40_000


def _fits(values: np.ndarray, dist: Any, discrete: bool) -> None:
    """Refuse draws that such a distribution gives once in 10,000 times."""
    values = np.asarray(values, np.float64).ravel()
    assert np.isfinite(values).all()
    mean, variance, kurtosis = (float(moment) for moment in dist.stats("mvk"))
    assert abs(values.mean() - mean) < 4 * np.sqrt(variance / values.size)
    spread = np.sqrt((kurtosis + 2) / values.size)  # relative standard error of the variance
    assert abs(values.var() / variance - 1) < 5 * spread
    if not discrete:
        # Single precision rounds the smallest values of gamma(0.05) to 0.
        assert stats.kstest(values, dist.cdf).pvalue > 1e-4
        return
    edges = np.unique(np.floor(dist.ppf(np.linspace(0.001, 0.999, 30))))
    expected = np.diff(np.concatenate([[0], dist.cdf(edges), [1]])) * values.size
    _check_counts(np.bincount(np.searchsorted(edges, values), minlength=expected.size), expected)


def _check_counts(counts: np.ndarray, expected: np.ndarray) -> None:
    kept = expected > 5
    expected, counts = expected[kept], counts[kept]
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-4


def _forms(name: str, parameters: tuple[float, ...], names: tuple[str, ...]) -> dict[str, Any]:
    """Return draws by every way to call a sampler."""
    sampler = getattr(nd.random, name)

    class Net(gluon.HybridBlock):
        def forward(self, data: nd.NDArray) -> Any:
            return sampler(*parameters, shape=(N,)) + data

    net = Net()
    net.hybridize()
    arrays = [nd.full((4,), value, dtype="float64") for value in parameters]
    like = getattr(nd.random, f"{name}_like")
    return {
        "float32": sampler(*parameters, shape=(N,)),
        "float64": sampler(*parameters, shape=(N,), dtype="float64"),
        "arrays": sampler(*arrays, shape=(N // 4,)),
        "hybridized": net(nd.zeros((1,))),
        "like": like(data=nd.zeros((N,)), **dict(zip(names, parameters))),
    }


def _gamma(alpha: float, beta: float) -> Any:
    return stats.gamma(alpha, scale=beta)


def _generalized(mu: float, alpha: float) -> Any:
    return stats.nbinom(1 / alpha, 1 / (mu * alpha + 1))


def _rows() -> list[Any]:
    rows: list[Any] = []
    for alpha in (0.1, 0.5, 0.999, 1.0, 1.5, 9.0, 100.0, 1e5):
        rows.append(("gamma", (alpha, 0.5), ("alpha", "beta"), _gamma(alpha, 0.5), False))
    for scale in (0.5, 3.0):  # nd.random.exponential takes the scale, the operator the rate
        rows.append(("exponential", (scale,), (), stats.expon(scale=scale), False))
    for rate in (0.1, 5.0, 11.9, 12.1, 100.0, 1e5):
        rows.append(("poisson", (rate,), ("lam",), stats.poisson(rate), True))
    for k, p in ((1, 0.3), (20, 0.05), (100, 0.9)):
        rows.append(("negative_binomial", (k, p), ("k", "p"), stats.nbinom(k, p), True))
    for mu, alpha in ((2.0, 0.3), (50.0, 0.01), (0.5, 5.0)):
        names = ("mu", "alpha")
        row = ("generalized_negative_binomial", (mu, alpha), names, _generalized(mu, alpha), True)
        rows.append(row)
    rows.append(("normal", (-5.0, 2.0), ("loc", "scale"), stats.norm(-5, 2), False))
    rows.append(("uniform", (-1.0, 3.0), ("low", "high"), stats.uniform(-1, 4), False))
    return [pytest.param(*row, id=f"{row[0]}{row[1]}") for row in rows]


@pytest.mark.parametrize(("name", "parameters", "names", "dist", "discrete"), _rows())
def test_draws_follow_the_distribution(
    name: str, parameters: tuple[float, ...], names: tuple[str, ...], dist: Any, discrete: bool
) -> None:
    mx.random.seed(5)
    draws = _forms(name, parameters, names)
    if name == "exponential":
        draws["like"] = nd.random.exponential_like(data=nd.zeros((N,)), lam=1 / parameters[0])
    for form, values in draws.items():
        try:
            _fits(values.asnumpy(), dist, discrete)
        except AssertionError as error:
            raise AssertionError(f"{name}{parameters}, {form}") from error


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("alpha", [0.2, 1.0, 9.0])
def test_halves_are_rounded_draws(alpha: float, dtype: str) -> None:
    mx.random.seed(6)
    values = nd.random.gamma(alpha, 0.5, shape=(N,), dtype=dtype).astype("float64").asnumpy()
    dist = _gamma(alpha, 0.5)
    # Rounding is symmetric: it moves single values, not the mean.
    assert abs(values.mean() - dist.mean()) < 4 * dist.std() / np.sqrt(N)
    assert values.var() == pytest.approx(dist.var(), rel=0.1)


@pytest.mark.parametrize("bounds", [(0, 10), (-3, 4), (0, 1000003), (-(2**62), 2**62)])
def test_integers_are_equally_likely(bounds: tuple[int, int]) -> None:
    mx.random.seed(7)
    low, high = bounds
    values = nd.random.randint(low, high, shape=(N,), dtype="int64").asnumpy()
    assert values.min() >= low
    assert values.max() < high
    share = (values.astype(np.float64) - low) / (float(high) - low)
    pieces = min(high - low, 50)
    counts = np.bincount(np.floor(share * pieces + 1e-9).astype(int), minlength=pieces)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_shuffles_are_equally_likely() -> None:
    mx.random.seed(8)
    counts: dict[tuple[float, ...], int] = {}
    for _ in range(2400):
        order = tuple(nd.random.shuffle(nd.arange(4)).asnumpy().tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


@pytest.mark.parametrize("classes", [3, 300])
def test_classes_are_drawn_by_their_probabilities(classes: int) -> None:
    mx.random.seed(9)
    weights = np.random.RandomState(0).uniform(size=classes)
    weights[classes // 2] = 0
    draws = nd.random.multinomial(nd.array(weights, dtype="float64"), shape=N).asnumpy()
    counts = np.bincount(draws, minlength=classes)
    assert counts[classes // 2] == 0
    _check_counts(counts, weights / weights.sum() * N)
