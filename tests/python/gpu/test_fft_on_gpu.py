"""Fourier transforms of rows beyond shared memory, against NumPy's in double.

The operator table has the short rows.
"""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest


# 500 and, in float32, 2048 numbers are transformed in shared memory; 1500 and 4096 go
# through global memory.
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [500, 1500, 2048, 4096])
def test_long_rows_equal_numpy(length: int, dtype: str) -> None:
    data = np.random.RandomState(length).randn(2, length).astype(dtype)
    expected = np.fft.fft(data.astype("float64"))
    found = mx.nd.contrib.fft(mx.nd.array(data, ctx=mx.gpu(0), dtype=dtype))
    assert found.shape == (2, 2 * length) and found.dtype == np.dtype(dtype)
    pairs = found.asnumpy().astype("float64").reshape(2, length, 2)
    # Errors grow with the logarithm of the length.
    tolerance = 16 * np.finfo(dtype).eps * np.abs(expected).max()
    np.testing.assert_allclose(pairs[..., 0], expected.real, rtol=0, atol=tolerance)
    np.testing.assert_allclose(pairs[..., 1], expected.imag, rtol=0, atol=tolerance)
    again = mx.nd.contrib.ifft(found).asnumpy() / length
    np.testing.assert_allclose(again, data, rtol=0, atol=64 * np.finfo(dtype).eps)
