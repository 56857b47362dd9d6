"""Norms of values whose squares leave the range of the dtype."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd

DTYPES = pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
NORM_SCALES = {"float16": [1e-7, 1, 6e4], "bfloat16": [1e-30, 1, 1e30], "float64": [1e-300, 1e300]}
NORM_SCALES["float32"] = [1e-40, 1e-25, 1, 1e25, 1e38]


@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
@pytest.mark.parametrize("layout", ["contiguous", "strided"])
@pytest.mark.parametrize("shape", [(3, 4), (200, 3), (5, 9000)])
@DTYPES
def test_norms_neither_overflow_nor_vanish(dtype, shape, layout, axis):
    for scale in NORM_SCALES[dtype]:
        values = np.random.RandomState(0).uniform(-1, 1, shape)
        if dtype != "float16" and scale > 1:
            values /= np.sqrt(values.size)  # the norm has to be finite, too
        values *= scale
        x = nd.array(values, dtype="float64").astype(dtype)
        values = x.astype("float64").asnumpy()
        if layout == "strided":
            x = x.T.copy().T
        got = nd.norm(x, axis=axis, out_dtype="float64" if dtype == "float64" else "float32")
        largest = np.abs(values).max()
        want = largest * np.sqrt(np.square(values / largest).sum(axis=axis))
        np.testing.assert_allclose(
            got.astype("float64").asnumpy().reshape(want.shape),
            want,
            rtol=1e-12 if dtype == "float64" else 1e-5,
            atol=2e-45,
        )


def test_norms_of_rows_do_not_disturb_each_other():
    rows = [[1e30, 1e30], [3, 4], [0, 0], [1e-30, 1e-30], [np.inf, 1], [np.nan, 1e30], [-np.inf, 0]]
    got = nd.norm(nd.array(rows), axis=1).asnumpy()
    want = [2**0.5 * 1e30, 5, 0, 2**0.5 * 1e-30, np.inf, np.nan, np.inf]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def _gradient(values, dtype):
    x = nd.array(values, dtype=dtype)
    x.attach_grad()
    with mx.autograd.record():
        y = nd.norm(x)
    y.backward()
    return x.grad.asnumpy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1e-36, 1, 1e30])
def test_the_gradient_of_a_norm_does_not_depend_on_the_scale(scale, dtype):
    values = np.array([3, -4, 0]) * scale
    got = _gradient(values, dtype)
    np.testing.assert_allclose(got, [0.6, -0.8, 0], rtol=1e-6)
    np.testing.assert_array_equal(_gradient([0, 0], dtype), 0)
