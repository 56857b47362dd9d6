"""Sizes at which kernels change their method: packs, rows, parts of sums, chunks; wide norms."""

from __future__ import annotations

from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from numpy.testing import assert_allclose, assert_array_equal
from test_matching_on_gpu import on_both

TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
DTYPES = ["float32", "float16", "bfloat16"]


def compare(function: Callable[..., Any], *inputs: Any, dtype: str, constants: int = 0) -> None:
    """Compare results and gradients of the GPU with the CPU's.

    The last ``constants`` inputs keep their dtype and have no gradient.
    """
    results = []
    first = inputs[: len(inputs) - constants]
    for ctx in (mx.cpu(), mx.gpu(0)):
        arrays = [nd.array(x, ctx=ctx, dtype="float32").astype(dtype) for x in first]
        fixed = [nd.array(x, ctx=ctx, dtype=x.dtype) for x in inputs[len(first) :]]
        for a in arrays:
            a.attach_grad()
        with autograd.record():
            output = function(*arrays, *fixed)
        rng = np.random.default_rng(1)
        head = nd.array(rng.normal(size=output.shape), ctx=ctx, dtype="float32")
        output.backward(head.astype(output.dtype))
        results.append([x.astype("float64").asnumpy() for x in (output, *(a.grad for a in arrays))])
    for expected, found in zip(*results):
        allowed = TOLERANCE[dtype] * max(1.0, float(np.abs(expected).max(initial=0)))
        assert_allclose(found, expected, rtol=0, atol=allowed)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape)


# 8 packs of 32 lanes are 2048 halves, 1024 floats, or 256 elements that do not fit into packs.
@pytest.mark.parametrize("length", [1, 31, 255, 257, 768, 1024, 1032, 2056])
@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm(length: int, dtype: str) -> None:
    compare(nd.LayerNorm, normal(9, length), normal(length), normal(length), dtype=dtype)


def test_layer_norm_of_many_rows_sums_its_parts() -> None:
    for width in (8, 40, 264):
        compare(nd.LayerNorm, normal(300, width), normal(width), normal(width), dtype="float32")


@pytest.mark.parametrize("length", [1, 30, 128, 256, 257, 1000, 1024, 1032, 2048, 2056])
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax(length: int, dtype: str) -> None:
    for op in (nd.softmax, nd.log_softmax):
        compare(lambda x, f=op: f(x, axis=-1, temperature=0.7), normal(5, length), dtype=dtype)


@pytest.mark.parametrize("columns", [24, 25, 1032])
def test_softmax_with_lengths(columns: int) -> None:
    lengths = np.array([0, 1, 7, 8, columns - 1, columns], "int32")

    def masked(x: Any, length: Any) -> Any:
        return nd.softmax(x, length, axis=-1, use_length=True)

    for dtype in ("float32", "float16"):
        compare(masked, normal(6, columns), lengths, dtype=dtype, constants=1)


def test_softmax_keeps_infinities_and_nan() -> None:
    x = normal(3, 16)
    x[0, :] = x[2, 4] = -np.inf
    x[1, 3] = np.nan
    np.testing.assert_allclose(*on_both(nd.softmax, x), atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3, 8, 24, 264, 300])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [False, True])
def test_batch_norm(channels: int, dtype: str, last: bool) -> None:
    size = (4, 4, 8) if channels < 100 else (2, 2, 8)
    shape = (*size, channels) if last else (size[0], channels, *size[1:])

    def norm(x: Any, gamma: Any, beta: Any) -> Any:
        mean, var = nd.zeros((channels,), ctx=x.ctx), nd.ones((channels,), ctx=x.ctx)
        parts = [x, gamma.astype("float32"), beta.astype("float32"), mean, var]
        return nd.BatchNorm(*parts, fix_gamma=False, axis=-1 if last else 1)

    compare(norm, normal(*shape) + 3, normal(channels), normal(channels), dtype=dtype)


def test_batch_norm_of_many_pixels_sums_its_parts() -> None:
    def norm(x: Any, gamma: Any, beta: Any) -> Any:
        mean, var = nd.zeros((8,), ctx=x.ctx), nd.ones((8,), ctx=x.ctx)
        return nd.BatchNorm(x, gamma, beta, mean, var, fix_gamma=False, axis=-1)

    compare(norm, normal(3, 40, 40, 8), normal(8), normal(8), dtype="float32")


@pytest.mark.parametrize("kind", ["max", "avg", "sum"])
@pytest.mark.parametrize("channels", [3, 8])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pooling(kind: str, channels: int, layout: str, dtype: str) -> None:
    shape = (2, channels, 9, 11) if layout == "NCHW" else (2, 9, 11, channels)
    # Ties: the first of equal elements gets the gradient. 144 places do not fit into 7 bits.
    x = np.round(normal(*shape) * 4) / 4
    for window in (
        {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)},
        {"kernel": (2, 2), "stride": (2, 2)},
        {"kernel": (9, 11), "stride": (1, 1), "pad": (4, 5)},
        {"kernel": (9, 16), "stride": (1, 1), "pad": (0, 8)},
    ):
        options = {"pool_type": kind, "layout": layout, **window}
        compare(lambda x, o=options: nd.Pooling(x, **o), x, dtype=dtype)


def test_max_pooling_passes_nan_on() -> None:
    x = normal(1, 6, 6, 4).astype("float32")
    x[0, 2, 3, 1] = np.nan
    gradients: list[tuple[np.ndarray, np.ndarray]] = []
    for ctx in (mx.cpu(), mx.gpu(0)):
        a = nd.array(x, ctx=ctx)
        a.attach_grad()
        with autograd.record():
            y = nd.Pooling(a, kernel=(3, 3), stride=(1, 1), pool_type="max", layout="NHWC")
        y.backward()
        gradients.append((y.asnumpy(), a.grad.asnumpy()))
    for expected, found in zip(*gradients):
        assert_array_equal(found, expected)


# Runs of equal ids, which the kernel reads in chunks of 64: a run lies within a chunk, crosses a
# border of chunks, covers several chunks, or reaches the last id.
IDS = {
    "all equal": np.zeros(300),
    "all different": np.arange(300)[::-1],
    "two": np.arange(300) % 2,
    "runs": np.repeat([4, 1, 7, 2, 9], [10, 60, 140, 64, 26]),
    "one chunk": np.repeat([3, 5], 32),
    "one": np.array([2.0]),
}


@pytest.mark.parametrize("name", list(IDS))
@pytest.mark.parametrize("width", [1, 40, 300])
def test_gradients_of_embeddings_sum_equal_rows(name: str, width: int) -> None:
    ids = IDS[name].astype("float32")
    rows = int(ids.max()) + 3

    def embed(weight: Any, ids: Any) -> Any:
        return nd.Embedding(ids, weight, input_dim=rows, output_dim=width)

    for dtype in ("float32", "bfloat16"):
        compare(embed, normal(rows, width), ids, dtype=dtype, constants=1)


def test_gradients_of_take_along_inner_axes() -> None:
    ids = (np.arange(200) * 7 % 5).astype("int32")
    compare(lambda x, i: nd.take(x, i, axis=1), normal(3, 6, 10), ids, dtype="float32", constants=1)
    compare(lambda x, i: nd.take(x, i, axis=2), normal(3, 4, 6), ids, dtype="float64", constants=1)


@pytest.mark.parametrize("shape", [(5, 8), (5, 9), (3, 1024), (3, 1032), (2, 8192), (3, 4, 16)])
@pytest.mark.parametrize("axis", [0, -1, None])
@pytest.mark.parametrize("dtype", ["float64", *DTYPES])
def test_reductions(shape: tuple[int, ...], axis: int | None, dtype: str) -> None:
    options: dict[str, Any] = {} if axis is None else {"axis": axis}
    for reduction in (nd.sum, nd.mean, nd.max, nd.norm):
        want, got = on_both(lambda x, f=reduction: f(x, **options), normal(*shape), dtype=dtype)
        allowed = TOLERANCE[dtype] * max(1.0, float(np.abs(want[0]).max()))
        np.testing.assert_allclose(got[0], want[0], rtol=0, atol=allowed)


def test_reductions_of_views_that_begin_anywhere() -> None:
    x = normal(4, 4, 32).astype("float32")
    for part in (np.s_[:, 1:3, 8:24], np.s_[1:, :, 3:19], np.s_[::2, :, ::2]):
        found = [nd.array(x, ctx=ctx)[part].sum(axis=-1).asnumpy() for ctx in (mx.cpu(), mx.gpu(0))]
        assert_allclose(found[1], x[part].sum(axis=-1), rtol=1e-5, atol=1e-5)
        assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)


def test_moments_and_logsumexp() -> None:
    for shape in ((6, 40), (3, 3000)):
        x = normal(*shape).astype("float32") + 100
        for ctx in (mx.cpu(), mx.gpu(0)):
            a = nd.array(x, ctx=ctx)
            mean, var = nd.moments(a, axes=(1,))
            assert_allclose(mean.asnumpy(), x.mean(1, dtype="float64"), rtol=1e-6)
            assert_allclose(var.asnumpy(), x.var(1, dtype="float64"), rtol=1e-4)
            shifted = x.astype("float64") - x.max(1, keepdims=True)
            expected = np.log(np.exp(shifted).sum(1)) + x.max(1)
            assert_allclose(nd.logsumexp(a, axis=1).asnumpy(), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("k", [1, 5, 32, 33])
@pytest.mark.parametrize("ascend", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "float64"])
def test_topk(k: int, ascend: bool, dtype: str) -> None:
    for shape, axis in (((3, 40), -1), ((2, 300, 3), 1), ((1, 1000), None)):
        x = np.round(normal(*shape) * 8)  # with ties: the first of equal elements comes first
        if dtype.startswith("float"):
            x[0, 0], x[0, 7] = np.nan, -0.0
        options = {"axis": axis, "k": k, "is_ascend": ascend}

        def top(a: Any, options: dict[str, Any] = options) -> list[Any]:
            both = nd.topk(a, ret_typ="both", dtype="int32", **options)
            return [*both, nd.topk(a, ret_typ="mask", **options)]

        for expected, found in zip(*on_both(top, x, dtype=dtype)):
            assert_array_equal(found, expected)


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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_whose_rows_are_not_whole_vectors(dtype: str) -> None:
    """Output and both gradients run on padded copies: 261 is no multiple of 8."""
    x, w = normal(257, 264) / 16, normal(264, 261).T / 16
    compare(lambda x, w: nd.FullyConnected(x, w, num_hidden=261, no_bias=True), x, w, dtype=dtype)


def test_batches_of_more_products_than_a_grid_has_blocks_along_z() -> None:
    compare(nd.batch_dot, normal(65537, 2, 3), normal(65537, 3, 2), dtype="float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("classes", [5, 1031, 9000])
def test_cross_entropy_of_rows_that_begin_between_packs(classes: int, dtype: str) -> None:
    labels = np.array([0, classes - 1, 3], "int32")
    compare(nd.contrib.pick_log_softmax, 4 * normal(3, classes), labels, dtype=dtype, constants=1)
