"""Draws that the kernels of GPUs cannot refuse: rows of probabilities that are no distribution."""

from __future__ import annotations

import os

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd

pytestmark = pytest.mark.skipif(
    "fake_gpu" in os.environ.get("MXLITE_CUDA_LIBRARY", ""),
    reason="the simulated GPU runs the CPU's kernels, which refuse such rows",
)

ROWS = [[0.5, -0.5, 1], [0, 1, 0], [0, 0, 0], [np.nan, 1, 1], [np.inf, 1, 1], [0, 0, 3]]


def test_rows_that_are_no_distribution_draw_minus_one() -> None:
    data = nd.array(ROWS, ctx=mx.gpu(0))
    data.attach_grad()
    with mx.autograd.record():
        draws, logarithms = nd.random.multinomial(data, shape=5, get_prob=True)
    logarithms.backward()
    want = np.array([[-1], [1], [-1], [-1], [-1], [2]]).repeat(5, axis=1)
    np.testing.assert_array_equal(draws.asnumpy(), want)
    given = logarithms.asnumpy()
    np.testing.assert_array_equal(np.isnan(given), want < 0)
    np.testing.assert_allclose(given[5], np.log(3), rtol=1e-6)
    grad = data.grad.asnumpy()
    np.testing.assert_allclose(grad[1], [0, 5, 0])
    np.testing.assert_allclose(grad[5], [0, 0, 5 / 3], rtol=1e-6)
    np.testing.assert_array_equal(grad[[0, 2, 3, 4]], 0)
