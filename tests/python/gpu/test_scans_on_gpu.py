"""Cumulative sums, shuffles and image-sampling gradients on arrays larger than a thread block."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from recording import recorded
from test_matching_on_gpu import on_both

TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.mark.parametrize("length", [1, 31, 33, 256, 257, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8"])
def test_cumsum_of_rows(length: int, dtype: str) -> None:
    x = np.random.default_rng(length).integers(0, 3, (3, length))
    for function in (nd.cumsum, mx._core.op("_cumsum_reverse")):
        found = on_both(lambda x, f=function: f(x, axis=1, dtype="int64"), x, dtype=dtype)
        np.testing.assert_array_equal(found[1], found[0])


# One class more than a block, a warp and a row of the scan.
@pytest.mark.parametrize("classes", [2, 33, 257, 1025])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_multinomial_draws_as_the_cpu(classes: int, dtype: str) -> None:
    probabilities = np.random.default_rng(classes).random((5, classes))
    probabilities[1, ::2] = 0
    probabilities[2] = 0
    probabilities[2, classes // 2] = 1
    probabilities /= probabilities.sum(1, keepdims=True)
    found = []
    for ctx in (mx.cpu(), mx.gpu(0)):
        mx.random.seed(3)
        data = nd.array(probabilities, ctx=ctx, dtype=dtype)
        draws, logarithms = nd.random.multinomial(data, shape=300, get_prob=True)
        found.append((draws.asnumpy(), logarithms.asnumpy()))
    np.testing.assert_array_equal(found[1][0], found[0][0])
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-5)
    assert (found[1][0][1] % 2 == 1).all()  # no class of probability 0
    assert (found[1][0][2] == classes // 2).all()


# The CPU sorts by halves of the keys first: of 300,000 about ten pairs are equal.
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 3), (97, 3), (5000, 2), (300000, 1)])
def test_shuffles_are_those_of_the_cpu(rows: int, columns: int) -> None:
    x = np.arange(rows * columns).reshape(rows, columns)
    found = []
    for ctx in (mx.cpu(), mx.gpu(0), mx.gpu(0)):
        mx.random.seed(rows)
        data = nd.array(x, ctx=ctx, dtype="int32")
        found.append([nd.shuffle(data).asnumpy() for _ in range(2)])
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
    np.testing.assert_array_equal(np.sort(found[1][0], axis=0), x)
    if rows > 90:
        assert (found[1][0] != found[1][1]).any()  # the second call has numbers of its own


def gradients(ctx: mx.Context, data: Any, grid: Any, head: Any, dtype: str) -> list[np.ndarray]:
    def there(x: np.ndarray) -> nd.NDArray:
        return nd.array(x, dtype="float64").astype(dtype).as_in_context(ctx)

    arrays = [there(data), there(grid)]
    for a in arrays:
        a.attach_grad()
    recorded(nd.BilinearSampler, arrays[0], arrays[1], head=there(head))
    return [a.grad.as_in_context(mx.cpu()).astype("float64").asnumpy() for a in arrays]


def grid_of(kind: str, rng: Any, batch: int, height: int, width: int) -> np.ndarray:
    if kind == "spread":
        return rng.uniform(-1.3, 1.3, (batch, 2, height, width))
    if kind == "one pixel":
        return np.full((batch, 2, height, width), 0.21)
    return np.full((batch, 2, height, width), 5.0)  # outside


# Pixels have up to 10 chunks of 64 neighbors, blocks up to 40 channels.
@pytest.mark.parametrize("kind", ["spread", "one pixel", "outside"])
@pytest.mark.parametrize("channels", [1, 3, 40])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_gradients_of_sampled_images(kind: str, channels: int, dtype: str) -> None:
    rng = np.random.default_rng(channels)
    data = rng.normal(size=(3, channels, 17, 9))
    # Multiples of 1/128, which halves hold, so that all dtypes meet the same neighbors.
    grid = np.round(grid_of(kind, rng, 3, 21, 30) * 128) / 128
    head = np.round(rng.normal(size=(3, channels, 21, 30)) * 8) / 8
    want = gradients(mx.cpu(), data, grid, head, dtype)
    got = gradients(mx.gpu(0), data, grid, head, dtype)
    for expected, found in zip(want, got):
        allowed = TOLERANCE[dtype] * max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(found, expected, rtol=0, atol=allowed)
    again = gradients(mx.gpu(0), data, grid, head, dtype)
    for first, second in zip(got, again):
        np.testing.assert_array_equal(first, second)


def test_gradients_of_images_that_take_a_pass_each() -> None:
    rng = np.random.default_rng(0)
    data, grid = rng.normal(size=(2, 1, 5, 4)), rng.uniform(-1.1, 1.1, (2, 2, 512, 513))
    head = rng.normal(size=(2, 1, 512, 513))
    want, got = (gradients(ctx, data, grid, head, "float64") for ctx in (mx.cpu(), mx.gpu(0)))
    np.testing.assert_allclose(got[0], want[0], rtol=1e-9, atol=1e-9)
