"""NaN is not lost: relu and max pooling keep it, eagerly and hybridized, in every layout."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd


def _pooled(x: np.ndarray, kernel: int, stride: int) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    return windows[:, :, ::stride, ::stride].max(axis=(4, 5))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("channels", [1, 3, 16, 40])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_window_with_nan_gives_nan(dtype, channels, layout):
    x = np.random.RandomState(0).randint(-9, 9, (5, channels, 13, 12)).astype(np.float64)
    x[1, 0, 4, 5] = x[3, channels - 1, 12, 0] = x[4, channels // 2, 0, 11] = np.nan
    want = _pooled(x, 3, 2)
    if layout == "NHWC":
        x, want = np.moveaxis(x, 1, -1), np.moveaxis(want, 1, -1)
    array = nd.array(x, dtype=dtype)
    got = nd.Pooling(array, kernel=(3, 3), stride=(2, 2), pool_type="max", layout=layout)
    np.testing.assert_array_equal(got.asnumpy().astype(np.float64), want)
    assert np.isnan(want).sum() >= 3


@pytest.mark.parametrize("channels", [3, 16, 40])
def test_hybridized_pooling_and_relu_keep_nan(channels):
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            x = F.Convolution(x, w, no_bias=True, kernel=(1, 1), num_filter=channels)
            return F.Pooling(F.tanh(x), kernel=(2, 2), stride=(2, 2)), F.Activation(x * 2, "relu")

    w = nd.array(np.eye(channels).reshape(channels, channels, 1, 1))
    x = np.random.RandomState(1).uniform(-1, 1, (4, channels, 8, 8)).astype(np.float32)
    x[2, :, 3, 6] = np.nan
    net = Net()
    net.hybridize()
    pooled, rectified = net(nd.array(x))
    np.testing.assert_allclose(pooled.asnumpy(), _pooled(np.tanh(x), 2, 2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rectified.asnumpy(), np.where(x < 0, 0, 2 * x), rtol=1e-5, atol=1e-6)


ACTIVATIONS = {
    "relu": nd.relu,
    "sigmoid": nd.sigmoid,
    "tanh": nd.tanh,
    "softrelu": lambda x: nd.Activation(x, "softrelu"),
    "leaky": lambda x: nd.LeakyReLU(x, act_type="leaky", slope=0.1),
    "elu": lambda x: nd.LeakyReLU(x, act_type="elu", slope=0.5),
    "selu": lambda x: nd.LeakyReLU(x, act_type="selu"),
    "gelu": lambda x: nd.LeakyReLU(x, act_type="gelu"),
    "clip": lambda x: nd.clip(x, 0, 6),
    "hard_sigmoid": nd.hard_sigmoid,
}


@pytest.mark.parametrize("layer", ["none", "convolution", "dense"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_activations_behind_layers_are_those_of_eager_calls(activation, dtype, layer):
    channels = 20  # some padding in blocks of 8 or 16
    values = [np.nan, 0, -0.0, 100, -100, 1, -1, 89, -89, 20, -20, 6, 0.5]
    x = np.resize(values, (4, 1, 9, 8)).repeat(channels, 1)
    identity = nd.array(np.eye(channels), dtype=dtype)

    def run(x):
        if layer == "convolution":
            weight = identity.reshape((channels, channels, 1, 1))
            x = nd.Convolution(x, weight, no_bias=True, kernel=(1, 1), num_filter=channels)
        elif layer == "dense":
            rows = x.transpose((0, 2, 3, 1)).reshape((-1, channels))
            x = nd.FullyConnected(rows, identity, no_bias=True, num_hidden=channels)
        return ACTIVATIONS[activation](x)

    class Net(gluon.HybridBlock):
        def forward(self, x):
            return run(x)

    net = Net()
    net.hybridize()
    array = nd.array(x, dtype=dtype)
    want, got = run(array).asnumpy(), net(array).asnumpy()
    tolerance = 1e-6 if dtype == "float32" else 2**-8
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance / 8
    )
    assert np.isnan(got).any()


def test_training_shows_nan_behind_normalization():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.BatchNorm(in_channels=3), gluon.nn.Activation("relu"))
    net.initialize()
    net.hybridize()
    x = np.ones((2, 3, 8, 8), np.float32)
    x[0, 1, 0, 0] = np.nan
    with mx.autograd.record():
        y = net(nd.array(x))
    assert np.isnan(y.asnumpy()[:, 1]).all()
    assert not np.isnan(y.asnumpy()[:, [0, 2]]).any()


def _run(function, values, dtype, form):
    """Return the results for values, eagerly, of a strided view or hybridized."""
    x = nd.array(values, dtype="float64").astype(dtype)
    if form == "strided":
        x = nd.stack(*[x] * 3, axis=1)[:, 1]
    if form != "hybridized":
        return function(x).astype("float64").asnumpy()

    class Net(gluon.HybridBlock):
        def forward(self, x):
            return function(x) * 1

    net = Net()
    net.hybridize()
    return net(x).astype("float64").asnumpy()


FORMS = pytest.mark.parametrize("form", ["eager", "strided", "hybridized"])
DTYPES = pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])


@FORMS
@DTYPES
def test_the_sign_of_nan_is_nan(dtype, form):
    values = [np.nan, -0.0, 0.0, np.inf, -np.inf, 2.0, -0.5] * 9
    np.testing.assert_array_equal(_run(nd.sign, values, dtype, form), np.sign(values))


@FORMS
@DTYPES
@pytest.mark.parametrize("name", ["round", "tanh", "expm1", "sign", "floor", "sin", "erf", "log1p"])
def test_zeros_keep_their_sign(name, dtype, form):
    values = [-0.0, 0.0] * 20
    got = _run(getattr(nd, name), values, dtype, form)
    np.testing.assert_array_equal(got, 0)
    if name == "round":  # small values are rounded to a zero of their sign
        small = _run(nd.round, [-0.25, 0.25, -0.5, 1.5], dtype, form)
        np.testing.assert_array_equal(small, [0, 0, -1, 2])
        np.testing.assert_array_equal(np.signbit(small), [True, False, True, False])
    if name != "sign":  # -1, 0 or 1
        np.testing.assert_array_equal(np.signbit(got), np.signbit(values))


@pytest.mark.parametrize("count", [1, 60])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_remainder_of_zero_has_the_sign_of_the_divisor(dtype, count):
    pairs = np.array([(-1, 1), (1, -1), (2.5, -2.5), (-0.0, 3), (0, -3), (-6, 3), (7, -4)] * count)
    left, right = pairs.T.astype(dtype)
    want = np.mod(left, right)
    for got in (
        nd.modulo(nd.array(left, dtype=dtype), nd.array(right, dtype=dtype)),
        nd.concat(*[nd.array([a], dtype=dtype) % float(b) for a, b in pairs.astype(dtype)], dim=0),
    ):
        np.testing.assert_array_equal(got.asnumpy(), want)
        np.testing.assert_array_equal(np.signbit(got.asnumpy()), np.signbit(want))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gammaln_is_zero_at_1_and_2(dtype):
    got = nd.gammaln(nd.array([1, 2, 1, 3] * 20, dtype=dtype)).asnumpy()
    np.testing.assert_array_equal(got.reshape(20, 4)[:, :3], 0)


def _gradient(function, values, head=None, dtype="float32"):
    x = nd.array(values, dtype=dtype)
    x.attach_grad()
    with mx.autograd.record():
        y = function(x)
    y.backward(None if head is None else nd.array(head, dtype=dtype))
    return x.grad.asnumpy()


def _clip(x):
    return nd.clip(x, -1, 2)


FAR = np.array([-5, -30, -80], np.float32)
NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("function", "values", "head", "expected"),
    [
        (_clip, [NAN, -2, -1, 0.5, 2, 3, INF, -INF], [5] * 8, [5, 0, 5, 5, 5, 0, 0, 0]),
        (_clip, [-9, 9, 1], [INF, NAN, INF], [0, 0, INF]),
        (nd.hard_sigmoid, [-9, 9, 1], [INF, NAN, 2], [0, 0, 0.4]),
        (nd.relu, [-1, 0, 2, NAN], [3] * 4, [0, 0, 3, NAN]),
        (nd.abs, [NAN, -2, 0, 3], None, [NAN, -1, 0, 1]),
        # gamma is NaN at -1, -2, ..: neither side of such a pole is the value. Slopes are 1.x's.
        (nd.gamma, [0.0, -2.0, 1.0], None, [INF, NAN, -0.5772157]),
        (nd.gammaln, [0.0, -2.0, 1.0], None, [INF, INF, -0.5772157]),
        (lambda x: nd.nanprod(x, axis=1), [[1, 0, NAN], [3, NAN, 4]], None, [[0, 1, 0], [4, 0, 3]]),
    ],
)
def test_gradients_at_nan_and_at_ends(function, values, head, expected, dtype):
    got = _gradient(function, values, head, dtype)
    np.testing.assert_allclose(got, expected, rtol=1e-3 if dtype == "float16" else 1e-6)


def test_the_gradient_of_expm1_is_exp_far_below_zero():
    np.testing.assert_allclose(_gradient(nd.expm1, FAR), np.exp(FAR), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_relu_of_negative_zero_is_zero(dtype, size):
    x = nd.array(np.full(size, -0.0), dtype=dtype)
    assert np.signbit(x.astype("float64").asnumpy()).all()
    net = gluon.nn.HybridLambda(lambda F, x: F.relu(x))
    net.hybridize()
    for y in (nd.relu(x), nd.Activation(x, "relu"), net(x), net(x + 0 * x)):
        assert not np.signbit(y.astype("float64").asnumpy()).any()
