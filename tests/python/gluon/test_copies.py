"""Copies and pickles of blocks and parameters: same values, own arrays, trainable."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from blocks import hybridized, ready, recorded, sequential
from mxlite import gluon, nd
from mxlite.gluon import nn


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


WAYS = pytest.mark.parametrize("copied", [copy.deepcopy, pickled])


def trained_net(x: nd.NDArray) -> nn.HybridSequential:
    """Return a hybridized network that has run and has been trained for one step."""
    net = sequential(nn.Dense(4), nn.HybridLambda("tanh"), nn.BatchNorm(), nn.Dense(2))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    step(net, trainer, x)
    return net


def step(net: gluon.Block, trainer: gluon.Trainer, x: nd.NDArray) -> None:
    recorded(lambda: (net(x) ** 2).sum())
    trainer.step(1)


@WAYS
def test_a_hybridized_network_is_copied_and_trains_alone(copied: Callable[[Any], Any]) -> None:
    x = nd.random.normal(shape=(3, 5))
    net = trained_net(x)
    before = net(x).asnumpy()
    other = copied(net)
    np.testing.assert_array_equal(other(x).asnumpy(), before)
    trainer = gluon.Trainer(other.collect_params(), "sgd", {"learning_rate": 0.5})
    step(other, trainer, x)
    np.testing.assert_array_equal(net(x).asnumpy(), before)
    assert (other(x).asnumpy() != before).any()


@WAYS
@pytest.mark.parametrize("grad_req", ["write", "add", "null"])
def test_a_copied_parameter_keeps_its_gradient_request(
    copied: Callable[[Any], Any], grad_req: str
) -> None:
    param = gluon.Parameter("weight", shape=(2,), grad_req=grad_req)
    param.initialize(mx.init.One(), ctx=[mx.cpu(0), mx.cpu(1)])
    other = copied(param)
    for ctx in param.list_ctx():
        other.data(ctx)[:] = 3
        np.testing.assert_array_equal(param.data(ctx).asnumpy(), [1, 1])
        if grad_req == "null":
            continue
        for _ in range(2):
            recorded(lambda array: (array * 5).sum(), other.data(ctx))
        times = 2 if grad_req == "add" else 1
        np.testing.assert_array_equal(other.grad(ctx).asnumpy(), [5 * times, 5 * times])
        np.testing.assert_array_equal(param.grad(ctx).asnumpy(), [0, 0])


@WAYS
def test_shared_parameters_stay_shared(copied: Callable[[Any], Any]) -> None:
    first = nn.Dense(3, in_units=3)
    net = ready(sequential(first, nn.Dense(3, in_units=3, params=first.params)))
    other = copied(net)
    assert other[0].weight is other[1].weight
    assert other[0].weight is not first.weight


@WAYS
def test_an_imported_block_is_copied(copied: Callable[[Any], Any], tmp_path: Path) -> None:
    x = nd.random.normal(shape=(3, 5))
    net = trained_net(x)
    symbol, params = net.export(str(tmp_path / "model"))
    block = hybridized(gluon.SymbolBlock.imports(symbol, ["data"], params))
    before = block(x).asnumpy()
    np.testing.assert_array_equal(copied(block)(x).asnumpy(), before)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_parameters_are_pickled_by_every_protocol(protocol: int) -> None:
    param = ready(gluon.Parameter("p", shape=(2,)), mx.init.One(), ctx=[mx.cpu(0), mx.cpu(1)])
    other = pickle.loads(pickle.dumps(param, protocol))
    assert [array.ctx for array in other.list_data()] == [mx.cpu(0), mx.cpu(1)]


def test_a_shallow_copy_leaves_the_original_s_gradient_alone() -> None:
    net = ready(nn.Dense(1, in_units=2, use_bias=False), hybridize=True)
    recorded(lambda: net(nd.array([[1, 2]])).sum())
    other = copy.copy(net)
    other(nd.ones((1, 2)))
    assert copy.copy(net.weight).data() is net.weight.data()
    np.testing.assert_array_equal(net.weight.grad().asnumpy(), [[1, 2]])
