"""Subclasses of Parameter that compute their data, as other libraries write them for 1.x."""

from __future__ import annotations

import json

import mxlite as mx
import numpy as np
import pytest
from blocks import ready, recorded
from mxlite import autograd, gluon
from mxlite.gluon import nn


class Scaled(gluon.Parameter):
    """Takes over another parameter's arrays and gives their double."""

    def __init__(self, other):
        self._deferred_init = other._deferred_init
        super().__init__(
            other.name, other.grad_req, other._shape, other.dtype,
            allow_deferred_init=other._allow_deferred_init, differentiable=other._differentiable,
        )  # fmt: skip
        self._var = other._var
        self._data = other._data
        self._grad = other._grad
        self._ctx_list = other._ctx_list
        self._ctx_map = other._ctx_map
        self._trainer = other._trainer

    def data(self, ctx=None):
        return 2 * self._check_and_get(self._data, ctx)


class Dropped(Scaled):
    """Gives what is left of the arrays after dropout."""

    def data(self, ctx=None):
        return mx.nd.Dropout(self._check_and_get(self._data, ctx), 0.5)


def replaced(net, kind):
    """Replace a layer's weight by one of another class, and return it."""
    param = kind(net.weight)
    net._reg_params["weight"] = param
    net._params._params[param.name] = param
    object.__setattr__(net, "weight", param)
    return param


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
def test_computed_data(hybridize, when):
    net = nn.Dense(3, in_units=2, use_bias=False)
    if when == "after":
        net.initialize(mx.init.One())
        if hybridize:
            net.hybridize()
            net(mx.nd.ones((1, 2)))
    param = replaced(net, Scaled)
    if when == "before":
        net.initialize(mx.init.One())
        if hybridize:
            net.hybridize()
    x = mx.nd.array([[1, 2], [3, 4]])
    y = recorded(net, x)
    assert y.asnumpy().tolist() == [[6, 6, 6], [14, 14, 14]]
    assert param.grad().asnumpy().tolist() == [[8, 12]] * 3


@pytest.mark.parametrize("hybridize", [False, True])
def test_dropout_is_drawn_once_per_call(hybridize):
    net = nn.Dense(64, in_units=64, use_bias=False)
    replaced(net, Dropped)
    net.initialize(mx.init.One())
    if hybridize:
        net.hybridize()
    x = mx.nd.ones((1, 64))
    assert net(x).asnumpy().tolist() == [[64] * 64]
    with autograd.train_mode():
        first, second = net(x).asnumpy(), net(x).asnumpy()
    assert (first != second).any()
    # Dropped twice, the sums would be about 64 too, but multiples of 4.
    assert set(np.unique(first % 4)) == {0, 2}


def test_symbol_has_the_plain_variable():
    net = nn.Dense(3, in_units=2, use_bias=False)
    param = replaced(net, Dropped)
    net.initialize()
    out = net(mx.sym.var("data"))
    assert out.list_arguments() == ["data", param.name]
    assert all(node["op"] != "Dropout" for node in json.loads(out.tojson())["nodes"])


def test_gradients_and_contexts():
    net = nn.Dense(1, in_units=2, use_bias=False)
    assert (net.weight._grad, net.weight._ctx_list, net.weight._ctx_map) == (None, None, None)
    net.initialize(ctx=[mx.cpu(0), mx.cpu(2)])
    weight = net.weight
    assert weight._ctx_list == [mx.cpu(0), mx.cpu(2)]
    assert weight._ctx_map == [[], [0, None, 1]]
    assert weight._check_and_get(weight._data, list) is weight._data
    weight._grad[1][:] = 7
    assert weight._check_and_get(weight._grad, mx.cpu(2)).asnumpy().tolist() == [[7, 7]]
    with pytest.raises(mx.MXNetError, match=r"not initialized on context cpu\(1\)"):
        weight._check_and_get(weight._data, mx.cpu(1))


def test_own_gradient_arrays():
    net = ready(nn.Dense(1, in_units=2, use_bias=False))
    mine = mx.nd.zeros((1, 2))
    net.weight._grad = [mine]
    recorded(net, mx.nd.array([[3, 4]]))
    assert mine.asnumpy().tolist() == [[3, 4]]
    assert net.weight.grad().asnumpy().tolist() == [[3, 4]]
