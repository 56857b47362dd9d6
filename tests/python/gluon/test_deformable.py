"""gluon.contrib.cnn: convolutions with learned sampling points."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import ready, recorded
from mxlite import gluon, nd
from mxlite.gluon import nn
from mxlite.gluon.contrib import cnn
from numpy.testing import assert_allclose

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
    assert sorted(net.collect_params()) == [
        "d_deformable_conv_bias",
        "d_deformable_conv_weight",
        "d_offset_bias",
        "d_offset_weight",
    ]


@pytest.mark.parametrize(
    ("kwargs", "kind", "match"),
    [
        (dict(layout="NHWC"), NotImplementedError, "layout is 'NHWC'"),
        (dict(layout="NC"), ValueError, "layout is 'NC'"),
        (dict(groups=3), ValueError, "multiples of groups 3"),
        (dict(kernel_size=(1, 2, 3)), ValueError, "kernel_size"),
        (dict(adj=(1, 1)), NotImplementedError, "adj"),
    ],
)
def test_wrong_arguments_are_named(kwargs: Any, kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        gluon.contrib.cnn.DeformableConvolution(4, **kwargs)
