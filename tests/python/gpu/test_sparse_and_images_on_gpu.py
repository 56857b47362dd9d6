"""Row-sparse gradients, csr arrays and image transforms on a GPU against the CPU."""

from __future__ import annotations

import os

import mxlite as mx
import numpy as np
import pytest
from blocks import ready
from mxlite import gluon, nd
from mxlite.gluon import nn
from mxlite.gluon.data.vision import transforms
from recording import recorded

DEVICES = [mx.cpu(0), mx.gpu(0)]


def train_embedding(ctx: mx.Context, optimizer: str, options: dict) -> np.ndarray:
    rng = np.random.RandomState(1)
    net = nn.Embedding(30, 4, sparse_grad=True)
    net.initialize(mx.init.Constant(nd.array(rng.normal(size=(30, 4)))), ctx=ctx)
    trainer = gluon.Trainer(net.collect_params(), optimizer, options)
    for _ in range(3):
        words = nd.array(rng.randint(0, 30, (5, 3)), ctx=ctx)
        recorded(lambda words: (net(words) ** 2).sum(), words)
        assert net.weight.grad(ctx).stype == "row_sparse"
        trainer.step(5)
    return net.weight.data(ctx).asnumpy()


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("sgd", {"learning_rate": 0.1, "wd": 0.01, "lazy_update": True}),
        ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "lazy_update": True}),
        ("adam", {"learning_rate": 0.1, "lazy_update": True}),
        ("adagrad", {"learning_rate": 0.1}),
        ("ftrl", {"learning_rate": 0.1}),
    ],
    ids=str,
)
def test_embeddings_with_sparse_gradients_train_as_on_the_cpu(
    optimizer: str, options: dict
) -> None:
    want, got = (train_embedding(ctx, optimizer, options) for ctx in DEVICES)
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


@pytest.mark.parametrize("width", [1, 5, 70])
def test_gradients_of_words_that_repeat_often_equal_those_of_the_cpu(width: int) -> None:
    rng = np.random.RandomState(5)
    words = rng.randint(0, 40, 700)
    words[rng.uniform(size=700) < 0.6] = 7  # a run longer than a chunk of 64 sources
    head = rng.normal(size=(700, width)).astype("float32")
    gradients = []
    for ctx in DEVICES:
        net = ready(nn.Embedding(50, width, sparse_grad=True), ctx=ctx)
        recorded(net, nd.array(words, ctx=ctx), head=nd.array(head, ctx=ctx))
        gradients.append(net.weight.grad(ctx))
    want, got = gradients
    np.testing.assert_array_equal(got.indices.asnumpy(), np.unique(words))
    # The sums of up to 450 values are made in another order.
    np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), rtol=1e-5, atol=1e-4)
    expected = np.zeros((50, width))
    np.add.at(expected, words, head.astype("float64"))
    np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-5, atol=1e-4)


def test_csr_arrays_multiply_convert_and_add_up() -> None:
    rng = np.random.RandomState(2)
    dense = rng.normal(size=(5, 7)).astype("float32") * (rng.uniform(size=(5, 7)) < 0.4)
    right = rng.normal(size=(7, 3)).astype("float32")
    left = rng.normal(size=(5, 2)).astype("float32")
    with mx.gpu(0):
        csr = nd.array(dense).tostype("csr")
        assert csr.stype == "csr"
        assert csr.ctx == mx.gpu(0)
        np.testing.assert_array_equal(csr.tostype("default").asnumpy(), dense)
        product = nd.sparse.dot(csr, nd.array(right)).asnumpy()
        transposed = nd.sparse.dot(csr, nd.array(left), transpose_a=True).asnumpy()
        np.testing.assert_allclose(product, dense @ right, 1e-5, 1e-6)
        np.testing.assert_allclose(transposed, dense.T @ left, 1e-5, 1e-6)


def test_row_sparse_arrays_convert_and_retain() -> None:
    dense = np.zeros((6, 2), "float32")
    dense[[1, 4]] = [[1, 2], [3, 4]]
    with mx.gpu(0):
        rows = nd.array(dense).tostype("row_sparse")
        np.testing.assert_array_equal(rows.indices.asnumpy(), [1, 4])
        np.testing.assert_array_equal(rows.tostype("default").asnumpy(), dense)
        kept = nd.sparse.retain(rows, nd.array([0, 4]))
        np.testing.assert_array_equal(kept.asnumpy()[4], [3, 4])
        assert np.abs(kept.asnumpy()).sum() == 7


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_long_lists_of_rows_are_in_order(share: float) -> None:
    """Lists of more than two tiles of 4096 rows, which several blocks write."""
    rng = np.random.RandomState(4)
    count = 9000
    arrays = []
    for _ in range(2):
        dense = rng.normal(size=(count, 2)).astype("float32")
        dense[rng.uniform(size=count) >= share] = 0
        arrays.append(dense)
    with mx.gpu(0):
        first, second = (nd.array(a).tostype("row_sparse") for a in arrays)
        np.testing.assert_array_equal(first.indices.asnumpy(), np.flatnonzero(arrays[0].any(1)))
        total = nd.sparse.add(first, second)
        assert total.stype == "row_sparse"
        union = np.flatnonzero(arrays[0].any(1) | arrays[1].any(1))
        np.testing.assert_array_equal(total.indices.asnumpy(), union)
        np.testing.assert_array_equal(total.asnumpy(), arrays[0] + arrays[1])


def test_transforms_give_what_they_give_on_the_cpu() -> None:
    image = np.random.RandomState(3).randint(0, 256, (20, 30, 3)).astype("uint8")
    cut = [transforms.Resize(12, keep_ratio=True), transforms.CenterCrop((10, 8))]
    normalize = transforms.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
    steps = transforms.Compose([*cut, transforms.ToTensor(), normalize])
    want, got = (steps(nd.array(image, dtype="uint8", ctx=ctx)) for ctx in DEVICES)
    assert got.ctx == mx.gpu(0)
    np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), 1e-5, 1e-6)


def test_long_columns_of_transposed_products_are_summed_in_chunks() -> None:
    """Sums of 64 values are joined, which shows in their rounding: 4e-5 if one thread adds all."""
    if "fake_gpu" in os.environ.get("MXLITE_CUDA_LIBRARY", ""):
        pytest.skip("the simulated GPU runs the CPU's kernels")
    rows, columns = 4096, 3
    dense = np.zeros((rows, columns), "float32")
    dense[:, 1] = 0.1  # all values are in one column, except some at the borders of chunks
    dense[60:70, 0] = dense[127:129, 2] = 0.5
    for width in (1, 40):
        right = np.ones((rows, width), "float32")
        with mx.gpu(0):
            csr = nd.array(dense).tostype("csr")
            product = nd.sparse.dot(csr, nd.array(right), transpose_a=True).asnumpy()
            sums = nd.sparse.sum(csr, axis=0).asnumpy()
        expected = dense.astype("float64").T @ right
        np.testing.assert_allclose(product, expected, 1e-5)
        np.testing.assert_allclose(sums.ravel(), expected[:, 0], 1e-5)
