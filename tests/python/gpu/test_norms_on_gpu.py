"""Norms of values whose squares leave the range of the dtype, on a GPU."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd


def norm(values: np.ndarray, dtype: str, axis: int | tuple[int, ...] | None) -> np.ndarray:
    x = nd.array(values, ctx=mx.gpu(0), dtype="float64").astype(dtype)
    wide = "float64" if dtype == "float64" else "float32"
    return nd.norm(x, axis=axis, out_dtype=wide).astype("float64").asnumpy()


@pytest.mark.parametrize(
    ("dtype", "scales"),
    [
        ("float16", [1e-7, 6e4]),
        ("bfloat16", [1e-30, 1e30]),
        ("float32", [1e-40, 1e-25, 1, 1e25, 1e38]),
        ("float64", [1e-300, 1e300]),
    ],
)
# Rows of a warp, columns, columns in packs, rows of a block, rows in parts that are joined.
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 40), 1), ((50, 33), 0), ((50, 64), 0), ((3, 2000), 1), ((2, 9001), 1), ((60, 300), None)],
)
def test_norms_neither_overflow_nor_vanish(
    dtype: str, scales: list[float], shape: tuple[int, int], axis: int | None
) -> None:
    for scale in scales:
        values = np.random.default_rng(0).uniform(-1, 1, shape) * scale
        if dtype != "float16" and scale > 1:
            values /= np.sqrt(values.size)  # the norm has to be finite, too
        values = nd.array(values, dtype="float64").astype(dtype).astype("float64").asnumpy()
        largest = np.abs(values).max()
        want = largest * np.sqrt(np.square(values / largest).sum(axis=axis))
        got = norm(values, dtype, axis)
        rtol = 1e-12 if dtype == "float64" else 1e-5
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=rtol, atol=2e-45)


def test_norms_of_rows_do_not_disturb_each_other() -> None:
    rows = [[1e30, 1e30], [3, 4], [0, 0], [1e-30, 1e-30], [np.inf, 1], [np.nan, 1e30], [-np.inf, 0]]
    want = [2**0.5 * 1e30, 5, 0, 2**0.5 * 1e-30, np.inf, np.nan, np.inf]
    np.testing.assert_allclose(norm(np.array(rows), "float32", 1), want, rtol=1e-6)


def test_norms_of_integers_and_of_nothing() -> None:
    x = nd.array([[3, 4], [6, 8]], ctx=mx.gpu(0), dtype="int32")
    np.testing.assert_array_equal(nd.norm(x, axis=1, out_dtype="float32").asnumpy(), [5, 10])
    assert nd.norm(nd.zeros((0, 3), ctx=mx.gpu(0)), axis=0).asnumpy().tolist() == [0, 0, 0]
