"""Checks of random generators by their moments and by Pearson's chi-square test."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np

__all__ = [
    "chi_square_check",
    "gen_buckets_probs_with_ppf",
    "mean_check",
    "var_check",
    "verify_generator",
]

Generator = Callable[[int], Any]


def _draw(generator: Generator, count: int) -> np.ndarray[Any, Any]:
    values = generator(count)
    values = values.asnumpy() if hasattr(values, "asnumpy") else np.asarray(values)
    return values.reshape(-1)


def mean_check(generator: Generator, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Return whether the mean lies within 3 standard errors: ``mu ± 3 sigma / sqrt(n)``.

    Parameters
    ----------
    generator : callable
        ``generator(n)`` gives n independent samples.
    mu, sigma : float
        Mean and standard deviation of the distribution.
    nsamples : int
    """
    mean = _draw(generator, nsamples).astype(np.float64).mean()
    return bool(abs(mean - mu) < 3 * sigma / np.sqrt(nsamples))


def var_check(generator: Generator, sigma: float, nsamples: int = 1000000) -> bool:
    """Return whether the variance lies within 3 standard errors of a normal distribution's.

    Parameters
    ----------
    generator : callable
        ``generator(n)`` gives n independent samples.
    sigma : float
        Standard deviation of the distribution.
    nsamples : int
    """
    variance = _draw(generator, nsamples).astype(np.float64).var(ddof=1)
    error = 3 * np.sqrt(2 * sigma**4 / (nsamples - 1))
    return bool(abs(variance - sigma**2) < error)


def gen_buckets_probs_with_ppf(
    ppf: Callable[[float], float], nbuckets: int
) -> tuple[list[tuple[float, float]], list[float]]:
    """Return ranges of equal probability.

    Parameters
    ----------
    ppf : callable
        The inverse of the distribution function.
    nbuckets : int

    Returns
    -------
    buckets : list of tuple
        Lower and upper end of each range.
    probs : list of float
        ``1 / nbuckets`` for each.
    """
    if nbuckets < 1:
        raise ValueError(f"gen_buckets_probs_with_ppf: nbuckets must be 1 or more, got {nbuckets}")
    ends = [ppf(i / nbuckets) for i in range(nbuckets + 1)]
    return list(zip(ends[:-1], ends[1:])), [1.0 / nbuckets] * nbuckets


def _chi2_sf(statistic: float, degrees: int) -> float:
    """Return the probability that a chi-square variable exceeds a value."""
    try:
        from scipy.stats import chi2  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise ImportError(
            "chi_square_check needs SciPy for the chi-square distribution: pip install scipy"
        ) from None
    return float(chi2.sf(statistic, degrees))


def _frequencies(samples: np.ndarray[Any, Any], buckets: Sequence[Any]) -> list[int]:
    """Return how many samples lie in each range, or equal each value."""
    if not isinstance(buckets[0], (list, tuple)):
        values, counts = np.unique(samples, return_counts=True)
        table = dict(zip(values.tolist(), counts.tolist()))
        return [int(table.get(value, 0)) for value in buckets]
    lows = [low for low, _ in buckets]
    highs = [high for _, high in buckets]
    ordered = np.sort(samples)
    found = []
    for low, high in zip(lows, highs):
        found.append(bisect.bisect_left(ordered, high) - bisect.bisect_left(ordered, low))
    return found


def chi_square_check(
    generator: Generator, buckets: Sequence[Any], probs: Sequence[float], nsamples: int = 1000000
) -> tuple[float, list[int], list[int]]:
    """Return the p-value of Pearson's chi-square test.

    Parameters
    ----------
    generator : callable
        ``generator(n)`` gives n independent samples.
    buckets : list of tuple, or list of number
        Ranges ``[low, high)`` for a continuous distribution, all values for a discrete one.
    probs : list of float
        Probability of each bucket.
    nsamples : int

    Returns
    -------
    p : float
        A value near 0 means that the samples do not have this distribution.
    obs_freq, expected_freq : list of int
        Counts per bucket, drawn and expected.

    Raises
    ------
    ImportError
        Without SciPy.
    """
    if len(buckets) != len(probs) or not buckets:
        raise ValueError(
            "chi_square_check: buckets and probs must have equal lengths of at least 1, got "
            f"{len(buckets)} and {len(probs)}"
        )
    observed = _frequencies(_draw(generator, nsamples), buckets)
    expected = [int(nsamples * p) for p in probs]
    pairs = np.array([observed, [nsamples * p for p in probs]], dtype=np.float64)
    statistic = float(((pairs[0] - pairs[1]) ** 2 / pairs[1]).sum())
    return _chi2_sf(statistic, len(buckets) - 1), observed, expected


def verify_generator(
    generator: Generator,
    buckets: Sequence[Any],
    probs: Sequence[float],
    nsamples: int = 1000000,
    nrepeat: int = 5,
    success_rate: float = 0.2,
    alpha: float = 0.05,
) -> list[float]:
    """Raise an error unless the chi-square test passes often enough.

    Parameters
    ----------
    generator, buckets, probs, nsamples
        As in :func:`chi_square_check`.
    nrepeat : int
        Number of tests.
    success_rate : float
        Share of them that must pass.
    alpha : float
        A p-value above it passes.

    Returns
    -------
    list of float
        The p-values.

    Raises
    ------
    AssertionError
    """
    results = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    p_values = [p for p, _, _ in results]
    passed = sum(p > alpha for p in p_values)
    if passed < nrepeat * success_rate:
        _, observed, expected = results[-1]
        raise AssertionError(
            f"the generator does not fit: {passed} of {nrepeat} chi-square tests passed, p-values "
            f"{p_values}; last counts {observed}, expected {expected}; buckets {list(buckets)}"
        )
    return p_values
