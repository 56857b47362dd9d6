"""Rows of count_sketch, fft and ifft."""

from __future__ import annotations

import numpy as np
from op_table import fails, ints, op, rand


def np_sketch(x: np.ndarray, h: np.ndarray, s: np.ndarray, out_dim: int) -> np.ndarray:
    """Return the sums of signed values by bucket, as a product with a matrix."""
    matrix = np.zeros((x.shape[-1], out_dim))
    matrix[np.arange(x.shape[-1]), h.reshape(-1)] = s.reshape(-1)
    return x @ matrix


BUCKETS = ints([[0, 3, 4, 3, 0, 1]])
SIGNS = np.array([[1.0, -1.0, 1.0, 1.0, -1.0, -1.0]])

CASES = [
    op(
        "_contrib_count_sketch",
        rand(3, 6),
        BUCKETS,
        SIGNS,
        out_dim=5,
        ref=lambda x, h, s: np_sketch(x, h, s, 5),
        grad=[0],
    ),
    op(
        "_contrib_count_sketch",
        rand(2, 1, 3, 6),
        BUCKETS,
        SIGNS,
        out_dim=7,
        processing_batch_size=2,
        ref=lambda x, h, s: np_sketch(x, h, s, 7),
        grad=[0],
    ),
    op(
        "_contrib_count_sketch",
        rand(0, 6),
        BUCKETS,
        SIGNS,
        out_dim=5,
        ref=np.zeros((0, 5)),
        grad=False,
    ),
    fails(
        "_contrib_count_sketch",
        rand(3, 6),
        BUCKETS,
        SIGNS,
        out_dim=4,
        error=IndexError,
        match=r"h\[2\] is 4, 0 to 3 expected",
    ),
    fails(
        "_contrib_count_sketch",
        rand(3, 7),
        BUCKETS,
        SIGNS,
        out_dim=5,
        error=ValueError,
        match=r"h of shape \(1, 6\) given, data of shape \(3, 7\) needs \(1, 7\)",
    ),
]
