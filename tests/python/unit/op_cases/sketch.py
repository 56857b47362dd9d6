"""Rows of count_sketch, fft, ifft and hawkesll."""

from __future__ import annotations

from functools import partial

import numpy as np
from op_table import fails, ints, no_grad, op, positive, rand


def np_sketch(x: np.ndarray, h: np.ndarray, s: np.ndarray, out_dim: int) -> np.ndarray:
    """Return the sums of signed values by bucket, as a product with a matrix."""
    matrix = np.zeros((x.shape[-1], out_dim))
    matrix[np.arange(x.shape[-1]), h.reshape(-1)] = s.reshape(-1)
    return x @ matrix


def np_fft(x: np.ndarray) -> np.ndarray:
    """Return real and imaginary parts of the transform, interleaved."""
    y = np.fft.fft(x)
    return np.stack([y.real, y.imag], -1).reshape(*x.shape[:-1], 2 * x.shape[-1])


def np_ifft(x: np.ndarray) -> np.ndarray:
    """Return the real part of the inverse transform, times the length."""
    return np.fft.ifft(x[..., ::2] + 1j * x[..., 1::2]).real * (x.shape[-1] // 2)


def np_hawkes(
    lda: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray,
    state: np.ndarray,
    lags: np.ndarray,
    marks: np.ndarray,
    valid: np.ndarray,
    max_time: np.ndarray,
) -> list[np.ndarray]:
    """Return log likelihoods and final states from the definition of the intensity."""
    likelihood = np.zeros(len(lda))
    final = np.zeros_like(state)
    for n, k in np.ndindex(*lda.shape):
        count = int(valid[n])
        times = np.cumsum(lags[n, :count])[marks[n, :count] == k]

        def excitation(t: float, past: np.ndarray, n: int = n, k: int = k) -> float:
            sums = np.exp(-beta[k] * (t - past)).sum() + state[n, k] * np.exp(-beta[k] * t)
            return float(sums)

        for i, t in enumerate(times):
            likelihood[n] += np.log(lda[n, k] + alpha[k] * beta[k] * excitation(t, times[:i]))
        end = max_time[n]
        total = lda[n, k] * end + alpha[k] * state[n, k] * (1 - np.exp(-beta[k] * end))
        likelihood[n] -= total + alpha[k] * (1 - np.exp(-beta[k] * (end - times))).sum()
        final[n, k] = excitation(end, times)
    return [likelihood, final]


MARKS = ints([[0, 2, 2, 0, 1], [1, 1, 0, 7, -3], [0, 0, 0, 0, 0]])
VALID = np.array([5.0, 3.0, 0.0])


def _process() -> list[np.ndarray]:
    """Return inputs of hawkesll: 3 samples, 3 kinds, up to 5 events."""
    rates = [positive(3, 3), positive(3, low=0.1, high=0.6), positive(3), positive(3, 3)]
    return [*rates, positive(3, 5), MARKS, VALID, positive(3, low=12, high=15)]


SKETCH, HAWKES = "_contrib_count_sketch", "_contrib_hawkesll"
BUCKETS = ints([[0, 3, 4, 3, 0, 1]])
SIGNS = np.array([[1.0, -1.0, 1.0, 1.0, -1.0, -1.0]])

CASES = [
    op(SKETCH, (3, 6), BUCKETS, SIGNS, out_dim=5, ref=partial(np_sketch, out_dim=5), grad=[0]),
    op(
        SKETCH,
        (2, 1, 3, 6),
        BUCKETS,
        SIGNS,
        out_dim=7,
        processing_batch_size=2,
        ref=partial(np_sketch, out_dim=7),
        grad=[0],
    ),
    no_grad("_contrib_count_sketch", (0, 6), BUCKETS, SIGNS, out_dim=5, ref=np.zeros((0, 5))),
    fails(SKETCH, (3, 6), BUCKETS, SIGNS, out_dim=4, error=IndexError, match="to 3, got 4"),
    fails(
        SKETCH, (3, 7), BUCKETS, SIGNS, out_dim=5, match=r"h must have shape .1, 7. .*, got .1, 6."
    ),
    # fft, ifft: powers of two of both parities, prime, composite, one
    *[op("_contrib_fft", (3, n), ref=np_fft) for n in (8, 16, 7, 12, 1)],
    op("_contrib_fft", (2, 3, 2, 5), compute_size=2, ref=np_fft),
    no_grad("_contrib_fft", np.zeros((0, 4)), ref=np.zeros((0, 8))),
    no_grad("_contrib_fft", np.zeros((3, 0)), ref=np.zeros((3, 0))),
    *[op("_contrib_ifft", (3, 2 * n), ref=np_ifft) for n in (8, 16, 7, 12, 1)],
    op("_contrib_ifft", (2, 3, 2, 10), ref=np_ifft),
    fails(
        "_contrib_fft", ints([1, 2]), error=TypeError, match="data must be of dtype .*, got int32"
    ),
    fails("_contrib_fft", np.float64(1), match="at least 1 dimension"),
    fails("_contrib_ifft", (3, 5), match="even last dimension"),
    # hawkesll
    op(HAWKES, *_process(), ref=np_hawkes, grad=[0, 1, 2, 3, 4, 7], dtypes=("float32", "float64")),
    no_grad(
        HAWKES,
        *[np.zeros((0, 3)), positive(3), positive(3), np.zeros((0, 3)), np.zeros((0, 5))],
        *[ints(np.zeros((0, 5))), np.zeros(0), np.zeros(0)],
        ref=[np.zeros(0), np.zeros((0, 3))],
    ),
    *(
        fails(HAWKES, *_process()[: 8 - len(inputs)], *inputs, error=error, match=match)
        for inputs, error, match in [
            (
                [MARKS, np.array([5.0, 4, 0]), positive(3)],
                IndexError,
                "marks of sample 1 must be from 0 to 2, got 7",
            ),
            ([np.array([6.0, 0, 0]), positive(3)], IndexError, "must be from 0 to 5, got 6"),
            (
                [rand(3, 5), VALID, positive(3)],
                TypeError,
                "marks must be of an integer type, got float32",
            ),
            ([positive(2)], ValueError, r"max_time must have shape \(3,\), got \(2,\)"),
        ]
    ),
]
