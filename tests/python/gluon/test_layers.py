"""Layers and losses: values against NumPy and MXNet 1.9.1, shapes, deferred channels, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blocks import hybridized, ready
from mxlite import autograd, gluon, nd
from mxlite.base import MXNetError
from mxlite.gluon import nn
from numpy.testing import assert_allclose, assert_array_equal
from recording import recorded

RNG = np.random.RandomState(3)


def rand(*shape: int) -> Any:
    return RNG.randn(*shape).astype(np.float32)


def outputs(layer: gluon.HybridBlock, *inputs: Any) -> Any:
    """Return the layer's output, the same eagerly and hybridized."""
    arrays = [nd.array(values) for values in inputs]
    eager = layer(*arrays).asnumpy()
    layer.hybridize()
    assert_allclose(layer(*arrays).asnumpy(), eager, rtol=1e-5, atol=1e-5)
    layer.hybridize(False)
    return eager


def test_dense_is_a_product_and_a_sum() -> None:
    layer = ready(nn.Dense(3, bias_initializer="ones"), "xavier")
    x = rand(4, 2, 5)
    y = outputs(layer, x)
    weight = layer.weight.data().asnumpy()
    assert weight.shape == (3, 10)
    assert_allclose(y, x.reshape(4, 10) @ weight.T + 1, rtol=1e-5, atol=1e-6)


def test_dense_without_flatten_keeps_the_leading_dimensions() -> None:
    layer = ready(nn.Dense(3, flatten=False, use_bias=False, activation="relu"), "xavier")
    x = rand(4, 2, 5)
    weight_shape = outputs(layer, x).shape, layer.weight.shape
    assert weight_shape == ((4, 2, 3), (3, 5))
    assert outputs(layer, x).min() == 0
    assert layer.bias is None


@pytest.mark.parametrize(
    ("layer", "shape", "expected", "weight"),
    [
        (lambda: nn.Conv1D(4, 3, padding=1), (2, 3, 7), (2, 4, 7), (4, 3, 3)),
        (lambda: nn.Conv2D(4, 3, 2), (2, 3, 7, 9), (2, 4, 3, 4), (4, 3, 3, 3)),
        (lambda: nn.Conv2D(4, (1, 3), groups=2), (2, 6, 5, 5), (2, 4, 5, 3), (4, 3, 1, 3)),
        (lambda: nn.Conv2D(4, 3, dilation=2), (1, 2, 7, 8), (1, 4, 3, 4), (4, 2, 3, 3)),
        (lambda: nn.Conv2D(4, 3, layout="NHWC"), (1, 5, 6, 2), (1, 3, 4, 4), (4, 3, 3, 2)),
        (lambda: nn.Conv3D(2, 2), (1, 3, 4, 5, 6), (1, 2, 3, 4, 5), (2, 3, 2, 2, 2)),
        (lambda: nn.Conv1DTranspose(4, 3, 2), (2, 3, 5), (2, 4, 11), (3, 4, 3)),
        (lambda: nn.Conv2DTranspose(4, 3, 2, 1, 1), (2, 3, 4, 5), (2, 4, 8, 10), (3, 4, 3, 3)),
        (lambda: nn.Conv3DTranspose(2, 2, 2), (1, 3, 2, 2, 2), (1, 2, 4, 4, 4), (3, 2, 2, 2, 2)),
    ],
)
def test_convolutions_find_their_input_channels(
    layer: Any, shape: Any, expected: Any, weight: Any
) -> None:
    block = ready(layer(), "xavier")
    assert outputs(block, rand(*shape)).shape == expected
    assert block.weight.shape == weight


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.MaxPool1D(), (1, 2, 7), (1, 2, 3)),
        (nn.MaxPool2D(3, 2, 1), (1, 2, 7, 8), (1, 2, 4, 4)),
        (nn.MaxPool2D(2, ceil_mode=True), (1, 2, 7, 8), (1, 2, 4, 4)),
        (nn.MaxPool3D(), (1, 2, 4, 4, 4), (1, 2, 2, 2, 2)),
        (nn.AvgPool1D(3, 1), (1, 2, 7), (1, 2, 5)),
        (nn.AvgPool2D((2, 3)), (1, 2, 4, 6), (1, 2, 2, 2)),
        (nn.AvgPool3D(), (1, 2, 4, 4, 4), (1, 2, 2, 2, 2)),
        (nn.GlobalMaxPool1D(), (1, 2, 7), (1, 2, 1)),
        (nn.GlobalMaxPool2D(), (1, 2, 7, 8), (1, 2, 1, 1)),
        (nn.GlobalMaxPool3D(), (1, 2, 3, 4, 5), (1, 2, 1, 1, 1)),
        (nn.GlobalAvgPool1D(), (1, 2, 7), (1, 2, 1)),
        (nn.GlobalAvgPool2D(), (1, 2, 7, 8), (1, 2, 1, 1)),
        (nn.GlobalAvgPool3D(), (1, 2, 3, 4, 5), (1, 2, 1, 1, 1)),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.HybridBlock) else None,
)
def test_pooling_gives_the_shape(layer: Any, shape: Any, expected: Any) -> None:
    assert outputs(layer, rand(*shape)).shape == expected


def test_pooling_takes_the_largest_and_the_mean() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    assert_array_equal(outputs(nn.MaxPool2D(), x)[0, 0], [[5, 7], [13, 15]])
    assert_array_equal(outputs(nn.AvgPool2D(), x)[0, 0], [[2.5, 4.5], [10.5, 12.5]])
    assert_array_equal(outputs(nn.GlobalAvgPool2D(), x).ravel(), [7.5])
    padded, bare = (nn.AvgPool2D(2, 2, 1, count_include_pad=counted) for counted in (True, False))
    assert outputs(padded, x + 8)[0, 0, 0, 0] == 2
    assert outputs(bare, x + 8)[0, 0, 0, 0] == 8


def test_batch_norm_uses_the_batch_while_training_and_running_values_else() -> None:
    layer = ready(nn.BatchNorm(momentum=0.75, epsilon=1e-3))
    x = rand(5, 3, 4)
    with autograd.record():
        y = layer(nd.array(x))
    mean, var = x.mean(axis=(0, 2)), x.var(axis=(0, 2))
    normal = (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-3)
    assert_allclose(y.asnumpy(), normal, rtol=1e-4, atol=1e-4)
    assert_allclose(layer.running_mean.data().asnumpy(), 0.25 * mean, rtol=1e-4)
    assert_allclose(layer.running_var.data().asnumpy(), 0.75 + 0.25 * var, rtol=1e-4)
    after = (x - 0.25 * mean[:, None]) / np.sqrt(0.75 + 0.25 * var[:, None] + 1e-3)
    assert_allclose(outputs(layer, x), after, rtol=1e-4, atol=1e-4)


def test_batch_norm_without_scale_ignores_gamma() -> None:
    layer = ready(nn.BatchNorm(scale=False, center=False, in_channels=2))
    layer.gamma.set_data(nd.array([5.0, 5.0]))
    assert layer.gamma.grad_req == layer.beta.grad_req == "null"
    assert_allclose(outputs(layer, np.ones((1, 2))), np.ones((1, 2)), rtol=1e-4)


def test_batch_norm_relu_has_no_negative_output() -> None:
    plain, rectified = nn.BatchNorm(in_channels=3), nn.BatchNormReLU(in_channels=3)
    plain.initialize()
    rectified.initialize()
    x = rand(4, 3, 5)
    assert_allclose(outputs(rectified, x), np.maximum(outputs(plain, x), 0), rtol=1e-5, atol=1e-6)


def test_layer_group_and_instance_norm() -> None:
    x = rand(2, 4, 3, 5)

    def normal(values: Any, axes: tuple[int, ...], eps: float) -> Any:
        mean = values.mean(axis=axes, keepdims=True)
        return (values - mean) / np.sqrt(values.var(axis=axes, keepdims=True) + eps)

    cases = [
        (nn.LayerNorm(epsilon=1e-3), normal(x, (3,), 1e-3)),
        (nn.LayerNorm(axis=1), normal(x, (1,), 1e-5)),
        (nn.InstanceNorm(), normal(x, (2, 3), 1e-5)),
        (nn.InstanceNorm(axis=3), normal(x, (1, 2), 1e-5)),
        (nn.GroupNorm(num_groups=2), normal(x.reshape(2, 2, 30), (2,), 1e-5).reshape(x.shape)),
    ]
    for layer, expected in cases:
        layer.initialize()
        assert_allclose(outputs(layer, x), expected, rtol=1e-3, atol=1e-4)


def test_embedding_takes_rows() -> None:
    layer = ready(nn.Embedding(5, 3))
    table = layer.weight.data().asnumpy()
    index = np.array([[0, 4], [2, 2]])
    assert_array_equal(outputs(layer, index), table[index])
    assert repr(layer) == "Embedding(5 -> 3, float32)"


def test_dropout_drops_only_while_training() -> None:
    layer = nn.Dropout(0.5)
    x = np.ones((100, 100), np.float32)
    assert_array_equal(outputs(layer, x), x)
    with autograd.train_mode():
        values = layer(nd.array(x)).asnumpy()
    assert set(np.unique(values)) == {0.0, 2.0}
    assert 0.45 < (values == 0).mean() < 0.55
    with autograd.train_mode():
        rows = nn.Dropout(0.5, axes=(1,))(nd.array(x)).asnumpy()
    assert (rows == rows[:, :1]).all()
    with autograd.train_mode():
        assert (nn.Dropout(0)(nd.array(x)).asnumpy() == x).all()


def test_activations_against_their_formulas() -> None:
    x = np.linspace(-3, 3, 13, dtype=np.float32).reshape(1, -1)
    from math import erf

    sigmoid = 1 / (1 + np.exp(-x))
    normal = np.array([[0.5 * (1 + erf(v / np.sqrt(2))) for v in x[0]]])
    selu = 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))
    cases = [
        (nn.Activation("relu"), np.maximum(x, 0)),
        (nn.Activation("sigmoid"), sigmoid),
        (nn.Activation("tanh"), np.tanh(x)),
        (nn.Activation("softrelu"), np.log1p(np.exp(x))),
        (nn.Activation("softsign"), x / (1 + np.abs(x))),
        (nn.LeakyReLU(0.1), np.where(x > 0, x, 0.1 * x)),
        (nn.PReLU(), np.where(x > 0, x, 0.25 * x)),
        (nn.ELU(2.0), np.where(x > 0, x, 2 * np.expm1(x))),
        (nn.SELU(), selu),
        (nn.GELU(), x * normal),
        (nn.Swish(1.5), x / (1 + np.exp(-1.5 * x))),
    ]
    for layer, expected in cases:
        layer.initialize()
        assert_allclose(outputs(layer, x), expected, rtol=1e-4, atol=1e-5)


def test_prelu_of_channels_learns_each_slope() -> None:
    layer = ready(nn.PReLU(in_channels=2))
    recorded(layer, nd.array([[-1.0, -2.0], [3.0, -4.0]]))
    assert_allclose(layer.alpha.grad().asnumpy(), [-1, -6], rtol=1e-5)


def test_functions_as_layers() -> None:
    x = rand(2, 3)
    assert_allclose(outputs(nn.HybridLambda("tanh"), x), np.tanh(x), rtol=1e-4)
    doubled = nn.HybridLambda(lambda F, a, b: F.broadcast_add(a, b))
    assert_allclose(outputs(doubled, x, x), 2 * x, rtol=1e-6)
    plain = nn.Lambda(lambda a: a * 3)
    assert_allclose(plain(nd.array(x)).asnumpy(), 3 * x, rtol=1e-6)
    assert repr(nn.Lambda("relu")) == "Lambda(relu)"
    assert repr(doubled) == "HybridLambda(<lambda>)"


def test_flatten_and_reflection() -> None:
    x = rand(2, 3, 4, 5)
    assert_array_equal(outputs(nn.Flatten(), x), x.reshape(2, 60))
    padded = np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect")
    assert_array_equal(outputs(nn.ReflectionPad2D(2), x), padded)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (
            nn.Conv2D(4, 3, groups=2, dilation=2, padding=1, use_bias=False, in_channels=4),
            "Conv2D(4 -> 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(2, 2), "
            "groups=2, bias=False)",
        ),
        (nn.Conv1D(2, 3), "Conv1D(None -> 2, kernel_size=(3,), stride=(1,))"),
        (
            nn.MaxPool2D(3, 2, 1, ceil_mode=True),
            "MaxPool2D(size=(3, 3), stride=(2, 2), padding=(1, 1), ceil_mode=True, "
            "global_pool=False, pool_type=max, layout=NCHW)",
        ),
        (nn.Dense(3), "Dense(None -> 3, linear)"),
        (nn.Dropout(0.3), "Dropout(p = 0.3, axes=())"),
        (nn.LeakyReLU(0.1), "LeakyReLU(0.1)"),
        (nn.Flatten(), "Flatten"),
        (nn.ELU(), "ELU(\n\n)"),
        (
            nn.BatchNorm(in_channels=2),
            "BatchNorm(axis=1, eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, "
            "in_channels=2)",
        ),
        (
            nn.LayerNorm(in_channels=2),
            "LayerNorm(eps=1e-05, axis=-1, center=True, scale=True, in_channels=2)",
        ),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Block) else None,
)
def test_repr_identifies_the_layer(layer: Any, text: str) -> None:
    assert repr(layer) == text


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: nn.Dense(-1), "Dense: units must be 0 or more.*, got -1"),
        (lambda: nn.Conv2D(4, (3, 3, 3)), r"kernel_size must be .* 2 numbers.*, got \(3, 3, 3\)"),
        (lambda: nn.Conv2D(4, 3, layout="CHWN"), "layout must be 'NCHW' or 'NHWC'.*, got 'CHWN'"),
        (lambda: nn.Conv2D(4, 3, groups=3), "channels 4 .* multiples of groups 3"),
        (lambda: nn.Conv2D(0, 3), "channels must be 1 or more, got 0"),
        (lambda: nn.MaxPool1D(layout="NCHW"), "layout must be 'NCW' or 'NWC'.*, got 'NCHW'"),
        (lambda: nn.LeakyReLU(-1), "alpha must be at least 0, got -1"),
        (lambda: nn.Lambda("tanhh"), "no operator 'tanhh'; did you mean 'tanh'"),
        (lambda: nn.HybridLambda(3), "3 of type int"),
        (lambda: nn.ReflectionPad2D((1, 2)), r"padding must be a number or 8.*, got \(1, 2\)"),
    ],
)
def test_impossible_layers_are_named(act: Any, words: str) -> None:
    with pytest.raises(MXNetError, match=words) as caught:
        act()
    assert isinstance(caught.value, (ValueError, TypeError))


def test_a_wrong_input_shape_is_an_error_and_the_layer_works_on() -> None:
    layer = ready(nn.Dense(2, in_units=3))
    for hybrid in (False, True):
        layer.hybridize(hybrid)
        with pytest.raises(ValueError, match=r"FullyConnected.*\(2, 3\)") as caught:
            layer(nd.ones((1, 4)))
        assert isinstance(caught.value, MXNetError)
        assert layer(nd.ones((1, 3))).shape == (1, 2)


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_hybrid_sequential_can_be_extended(hybrid):
    class Shifted(nn.HybridSequential):
        def hybrid_forward(self, F, x):
            return super().hybrid_forward(F, x) + 1

    net = Shifted()
    net.add(nn.Dense(2), nn.Activation("relu"))
    net.initialize("zeros")
    net.hybridize(hybrid)
    assert_array_equal(net(nd.ones((3, 4))).asnumpy(), np.ones((3, 2)))


GOLDEN = json.loads((Path(__file__).parents[2] / "data/mxnet_1_9_1/golden.json").read_text())
ARRAYS = {name: np.float32(values) for name, values in GOLDEN["loss_data"].items()}


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
@pytest.mark.parametrize("case", GOLDEN["losses"], ids=lambda c: f"{c['name']}-{c['options']}")
def test_a_loss_and_its_gradient_are_those_of_mxnet(case: dict[str, Any], hybrid: bool) -> None:
    loss = hybridized(getattr(gluon.loss, case["name"])(**case["options"]), hybrid)
    inputs = [nd.array(ARRAYS[name]) for name in case["inputs"]]
    inputs[0].attach_grad()
    with autograd.record():
        value = loss(*inputs)
    if np.isfinite(case["value"]).all():  # 1.9.1 gives nan for a Poisson target of 0
        np.testing.assert_allclose(value.asnumpy(), case["value"], rtol=2e-5, atol=2e-6)
    assert np.isfinite(value.asnumpy()).all()
    value.backward()
    if case["grad"] is not None:
        np.testing.assert_allclose(inputs[0].grad.asnumpy(), case["grad"], rtol=1e-4, atol=1e-5)
    assert np.isfinite(inputs[0].grad.asnumpy()).all()


def test_connectionist_temporal_classification_of_a_single_path() -> None:
    # Two steps, classes a, b and blank (last): "a" is written as aa, a-, -a.
    scores = np.log(np.float32([[[0.6, 0.3, 0.1], [0.5, 0.1, 0.4]]]))
    loss = gluon.loss.CTCLoss()
    value = loss(nd.array(scores), nd.array([[0, -1]]))
    expected = -np.log(0.6 * 0.5 + 0.6 * 0.4 + 0.1 * 0.5)
    np.testing.assert_allclose(value.asnumpy(), [expected], rtol=1e-5)


def test_connectionist_temporal_classification_takes_lengths() -> None:
    scores = np.log(np.float32([[[0.6, 0.3, 0.1], [0.5, 0.1, 0.4]]]))
    loss = gluon.loss.CTCLoss()
    one_step = loss(nd.array(scores), nd.array([[0, 1]]), nd.array([1]), nd.array([1]))
    np.testing.assert_allclose(one_step.asnumpy(), [-np.log(0.6)], rtol=1e-5)
    by_label = loss(nd.array(scores), nd.array([[0, 1]]), None, nd.array([1]))
    both = -np.log(0.6 * 0.5 + 0.6 * 0.4 + 0.1 * 0.5)
    np.testing.assert_allclose(by_label.asnumpy(), [both], rtol=1e-5)


def test_repr_shows_batch_axis_and_weight() -> None:
    assert repr(gluon.loss.L2Loss()) == "L2Loss(batch_axis=0, w=1.0)"
    assert gluon.loss.SoftmaxCELoss is gluon.loss.SoftmaxCrossEntropyLoss


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: gluon.loss.LogisticLoss(label_format="odd"), "label_format must be .*got 'odd'"),
        (lambda: gluon.loss.CTCLoss(layout="CTN"), "layout must be 'NTC' or 'TNC', got 'CTN'"),
        (
            lambda: gluon.loss.CTCLoss(label_layout="T"),
            "label_layout must be 'NT' or 'TN', got 'T'",
        ),
        (
            lambda: gluon.loss.L1Loss(weight="2")(nd.ones((1,)), nd.ones((1,))),
            "weight must be a number, got '2'",
        ),
        (lambda: gluon.loss.L1Loss()(nd.ones((2, 3)), nd.ones((4,))), "reshape_like"),
    ],
)
def test_bad_input_is_named(act: Any, words: str) -> None:
    with pytest.raises(MXNetError, match=words) as caught:
        act()
    assert isinstance(caught.value, (ValueError, TypeError))
