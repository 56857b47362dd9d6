"""gluon.contrib.nn and gluon.contrib.cnn: containers, embeddings, norms, shuffles, convolutions."""

from __future__ import annotations

import itertools
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import ready
from mxlite import gluon, nd
from mxlite.gluon import nn
from mxlite.gluon.contrib import cnn
from mxlite.gluon.contrib import nn as contrib
from numpy.testing import assert_allclose, assert_array_equal
from pairing import pairs
from recording import recorded, variable


def _rand(*shape: int) -> np.ndarray:
    return np.random.RandomState(3).uniform(-1, 1, shape).astype("float32")


@pytest.mark.parametrize("container", [contrib.Concurrent, contrib.HybridConcurrent])
def test_branches_are_joined_in_order_and_learn(container: Any) -> None:
    net = container(axis=1, prefix="c_")
    with net.name_scope():
        net.add(nn.Dense(2, in_units=3), contrib.Identity())
    net.add(nn.Dense(4, in_units=3, use_bias=False, prefix="last_"))
    net.initialize(mx.init.Normal(1))
    x = _rand(5, 3)
    y = recorded(net, nd.array(x))
    weight, bias = net[0].weight.data().asnumpy(), net[0].bias.data().asnumpy()
    last = net[2].weight.data().asnumpy()
    assert_allclose(y.asnumpy(), np.hstack([x @ weight.T + bias, x, x @ last.T]), rtol=1e-5)
    assert_allclose(net[2].weight.grad().asnumpy(), np.tile(x.sum(0), (4, 1)), rtol=1e-5)
    assert sorted(net.collect_params()) == ["c_dense0_bias", "c_dense0_weight", "last_weight"]


def test_branches_run_hybridized_and_as_symbols() -> None:
    net = contrib.HybridConcurrent(axis=-1)
    net.add(contrib.Identity(), nn.HybridLambda(lambda F, x: F.square(x)))
    x = _rand(2, 3)
    eager = net(nd.array(x)).asnumpy()
    net.hybridize()
    assert_array_equal(net(nd.array(x)).asnumpy(), eager)
    assert net(mx.sym.var("data")).infer_shape(data=(2, 3))[1] == [(2, 6)]


SHUFFLES = [
    (contrib.PixelShuffle1D, (3,), (2, 6, 5)),
    (contrib.PixelShuffle2D, (2, 3), (2, 12, 3, 4)),
    (contrib.PixelShuffle3D, (2, 1, 3), (1, 12, 2, 3, 4)),
]


def _shuffled(x: np.ndarray, factors: tuple[int, ...]) -> np.ndarray:
    """Return the result element by element, from the definition."""
    blocks = int(np.prod(factors))
    space = tuple(size * f for size, f in zip(x.shape[2:], factors))
    y = np.zeros((x.shape[0], x.shape[1] // blocks, *space), x.dtype)
    for index in itertools.product(*(range(n) for n in y.shape)):
        n, c, *at = index
        inner = np.ravel_multi_index([a % f for a, f in zip(at, factors)], factors)
        y[index] = x[(n, c * blocks + inner, *[a // f for a, f in zip(at, factors)])]
    return y


@pytest.mark.parametrize(("layer", "factors", "shape"), SHUFFLES, ids=["1d", "2d", "3d"])
def test_shuffle_moves_channels_into_space(layer: Any, factors: Any, shape: Any) -> None:
    net, x = layer(factors), variable(nd.array(np.arange(np.prod(shape)).reshape(shape)))
    want = _shuffled(x.asnumpy(), factors)
    assert_array_equal(net(x).asnumpy(), want)
    recorded(lambda: (net(x) ** 2).sum() / 2)  # The gradient is the input.
    assert_array_equal(x.grad.asnumpy(), x.asnumpy())
    net.hybridize()
    assert_array_equal(net(x).asnumpy(), want)
    symbol = net(mx.sym.var("data"))
    assert symbol.infer_shape(data=shape)[1] == [want.shape]
    assert_array_equal(symbol.bind(mx.cpu(), {"data": x}).forward()[0].asnumpy(), want)


def test_one_factor_serves_all_dimensions() -> None:
    assert contrib.PixelShuffle3D(2)(nd.zeros((1, 8, 1, 2, 3))).shape == (1, 1, 2, 4, 6)
    assert repr(contrib.PixelShuffle1D(2)) == "PixelShuffle1D(2)"
    assert repr(contrib.PixelShuffle2D(2)) == "PixelShuffle2D((2, 2))"


@pytest.mark.parametrize("shape", [(1, 6, 2, 2), (1, 4, 2)], ids=["channels", "dimensions"])
def test_shuffle_of_a_wrong_shape_is_named(shape: Any) -> None:
    with pytest.raises(ValueError, match=r"PixelShuffle2D: .* must "):
        contrib.PixelShuffle2D(2)(nd.zeros(shape))


@pytest.mark.parametrize("devices", [None, 1])
def test_on_one_device_it_trains_as_batch_norm(devices: int | None) -> None:
    x = _rand(4, 3, 5)
    layers = [
        contrib.SyncBatchNorm(in_channels=3, num_devices=devices, momentum=0.5, epsilon=1e-3),
        nn.BatchNorm(in_channels=3, momentum=0.5, epsilon=1e-3),
    ]
    results = []
    for layer in layers:
        layer.initialize(mx.init.One())
        y = recorded(lambda net=layer: net(nd.array(x)) ** 3)
        arrays = (y, layer.gamma.grad(), layer.running_var.data())
        results.append([array.asnumpy() for array in arrays])
    for got, want in pairs(*results):
        assert_allclose(got, want, rtol=1e-6)


def test_global_statistics_need_no_other_device() -> None:
    net = ready(contrib.SyncBatchNorm(in_channels=3, num_devices=4, use_global_stats=True))
    x = variable(nd.array(_rand(2, 3, 4)))
    recorded(net, x)
    assert_allclose(x.grad.asnumpy(), np.full(x.shape, 1 / np.sqrt(1 + 1e-5)), rtol=1e-5)


def test_names_and_description_are_those_of_1_x() -> None:
    net = contrib.SyncBatchNorm(in_channels=3, num_devices=2, prefix="bn_")
    assert repr(net) == (
        "SyncBatchNorm(eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, "
        "ndev=2, key='bn_', in_channels=3)"
    )
    names = ["bn_beta", "bn_gamma", "bn_running_mean", "bn_running_var"]
    assert sorted(net.collect_params()) == names
    assert isinstance(net, nn.BatchNorm)


def test_sparse_embedding_is_an_embedding_with_a_sparse_weight() -> None:
    plain = nn.Embedding(5, 3, sparse_grad=True, weight_initializer=mx.init.One())
    layer = contrib.SparseEmbedding(5, 3, weight_initializer=mx.init.One())
    rows = nd.array([1, 4])
    for net in (plain, layer):
        net.initialize()
    mx.gluon.Trainer(layer.collect_params(), "sgd")  # rows are given out by a trainer, as in 1.x
    assert layer.weight.grad_stype == plain.weight.grad_stype == "row_sparse"
    assert_array_equal(layer(rows).asnumpy(), plain(rows).asnumpy())


LAYERS = [cnn.DeformableConvolution, cnn.ModulatedDeformableConvolution]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybridized"])
def test_a_new_layer_is_an_ordinary_convolution(layer: Any, hybrid: bool) -> None:
    x = nd.random.uniform(shape=(2, 4, 5, 6))
    net = layer(6, (3, 2), strides=2, padding=(1, 0), groups=2, activation="relu")
    net.initialize(mx.init.Normal(1))
    net.hybridize(hybrid)
    y = net(x)
    plain = ready(nn.Conv2D(6, (3, 2), strides=2, padding=(1, 0), groups=2, activation="relu"))
    plain(x)
    plain.weight.set_data(net.deformable_conv_weight.data())
    assert_allclose(y.asnumpy(), plain(x).asnumpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", LAYERS)
def test_an_offset_of_one_pixel_shifts_the_samples(layer: Any) -> None:
    net = ready(layer(1, 1, in_channels=1, use_bias=False, weight_initializer="ones"))
    bias = np.zeros(net.offset_bias.shape, np.float32)
    bias[1] = 1  # the horizontal offset
    net.offset_bias.set_data(nd.array(bias))
    x = nd.array(np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4))
    expected = np.zeros((3, 4))
    expected[:, :3] = x.asnumpy()[0, 0, :, 1:]
    assert_allclose(net(x).asnumpy()[0, 0], expected, atol=1e-6)


@pytest.mark.parametrize("layer", LAYERS)
def test_all_parameters_learn(layer: Any) -> None:
    net = layer(2, 3, in_channels=2, num_deformable_group=2, offset_weight_initializer="normal")
    net.initialize(mx.init.Normal(1))
    recorded(lambda: (net(nd.random.uniform(shape=(1, 2, 6, 6))) ** 2).sum())
    for name, param in net.collect_params().items():
        assert np.abs(param.grad().asnumpy()).sum() > 0, name


def test_the_description_and_the_names_are_those_of_1_x() -> None:
    net = cnn.DeformableConvolution(4, 3, padding=1, activation="relu", prefix="d_")
    assert repr(net) == (
        "DeformableConvolution(None -> 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), "
        "Activation(relu))"
    )
    names = ["deformable_conv_bias", "deformable_conv_weight", "offset_bias", "offset_weight"]
    assert sorted(net.collect_params()) == [f"d_{name}" for name in names]


@pytest.mark.parametrize(
    ("kwargs", "kind", "match"),
    [
        (dict(layout="NHWC"), NotImplementedError, "layout must be 'NCHW', got 'NHWC'"),
        (dict(layout="NC"), ValueError, "layout must be 'NCHW', got 'NC'"),
        (dict(groups=3), ValueError, "multiples of groups 3"),
        (dict(kernel_size=(1, 2, 3)), ValueError, "kernel_size"),
        (dict(adj=(1, 1)), NotImplementedError, "adj"),
    ],
)
def test_wrong_arguments_are_named(kwargs: Any, kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        gluon.contrib.cnn.DeformableConvolution(4, **kwargs)
