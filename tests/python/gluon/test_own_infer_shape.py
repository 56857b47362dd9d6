"""Layers with an infer_shape of their own, which sets the shapes of parameters."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import ready, recorded, sequential
from mxlite import gluon, nd
from mxlite.base import ShapeError
from mxlite.gluon import nn


class Product(gluon.HybridBlock):
    """``dot(x, weight)``, whose operator does not infer the shape of the weight."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.weight = self.params.get(
                "weight", shape=(0, units), init="ones", allow_deferred_init=True
            )

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:  # noqa: N803
        return F.dot(x, weight)


class Inferring(Product):
    def infer_shape(self, *args: Any) -> None:
        self.weight.shape = (args[0].shape[1], self.weight.shape[1])


class CallingBase(Inferring):
    def infer_shape(self, *args: Any) -> None:
        super().infer_shape(*args)
        gluon.HybridBlock.infer_shape(self, *args)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("layer", [Inferring, CallingBase])
def test_a_layer_s_own_infer_shape_is_called(layer: type[Product], hybrid: bool) -> None:
    alone = ready(layer(4), hybridize=hybrid)
    np.testing.assert_array_equal(alone(nd.ones((2, 3))).asnumpy(), np.full((2, 4), 3))

    net = ready(sequential(nn.Dense(5), layer(4), layer(3), nn.Dense(2)), mx.init.One())
    net.hybridize(hybrid)
    y = recorded(net, nd.ones((2, 3)))
    np.testing.assert_array_equal(y.asnumpy(), np.full((2, 2), 3 * 5 * 4 * 3))
    assert net[1].weight.shape == net[1].weight.grad().shape == (5, 4)
    assert net[2].weight.shape == (4, 3)


@pytest.mark.parametrize("hybrid", [False, True])
def test_without_it_the_error_names_operator_and_layer(hybrid: bool) -> None:
    net = ready(Product(4), hybridize=hybrid)
    with pytest.raises(ShapeError, match=r"dot: the shape of rhs is not known(?s:.*)in Product"):
        net(nd.ones((2, 3)))
