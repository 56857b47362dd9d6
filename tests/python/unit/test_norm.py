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


@pytest.mark.parametrize("beyond", [1, 2, 30, 40])  # few of 40 are computed alone
@pytest.mark.parametrize("shape, axis", [((40, 70), 1), ((70, 40), 0), ((5, 300, 8), 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_norms_beyond_the_range_beside_norms_within(dtype, shape, axis, beyond):
    random = np.random.RandomState(beyond)
    values = random.uniform(-1, 1, shape)
    rows = np.moveaxis(values, axis, -1).reshape(40, -1)  # a copy
    scales = [0, 1e-30, 1e30, np.inf] if dtype == "float32" else [0, 1e-200, 1e200, np.inf]
    for number, row in enumerate(random.permutation(40)[:beyond]):
        scale = scales[number % len(scales)]
        rows[row] = np.inf if scale == np.inf else rows[row] * scale
    kept = [n for i, n in enumerate(shape) if i != axis]
    values = np.moveaxis(rows.reshape(*kept, -1), -1, axis)
    got = nd.norm(nd.array(values, dtype=dtype), axis=axis).astype("float64").asnumpy()
    largest = np.abs(rows).max(axis=1)
    scale = np.where((largest > 0) & np.isfinite(largest), largest, 1)
    want = scale * np.sqrt(np.square(rows / scale[:, None]).sum(axis=1))
    np.testing.assert_allclose(got.ravel(), want, rtol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("shape", "axis", "want"), [((0, 3), 0, (3,)), ((2, 0, 3), 1, (2, 3))])
def test_the_norm_of_no_values_is_zero(shape, axis, want, dtype):
    got = nd.norm(nd.zeros(shape, dtype=dtype), axis=axis).asnumpy()
    assert got.shape == want
    np.testing.assert_array_equal(got, 0)


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
