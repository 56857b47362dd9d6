"""The first call of a hybridized block whose parameters' shapes are deferred."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
from blocks import ready, sequential
from mxlite import gluon, nd
from mxlite.gluon import nn


def values(*shape: int) -> Any:
    return nd.array(np.random.default_rng(len(shape)).normal(size=shape))


def same(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), rtol=1e-6)


def test_forward_is_called_once_where_shapes_are_deferred() -> None:
    calls = []

    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.dense = nn.Dense(3)
                self.norm = nn.BatchNorm()

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            calls.append(x.shape)
            return self.norm(self.dense(x)), [x * 2]

    net = ready(Net(), hybridize=True)
    x = values(2, 4)
    with mx.autograd.record():
        found, more = net(x)
        found.sum().backward()
    assert calls == [(2, 4)]
    assert found.shape == (2, 3) and isinstance(more, list)
    same(more[0], x * 2)
    assert net.dense.weight.shape == (3, 4)
    net(x)  # for inference the graph is another one
    assert calls == [(2, 4)] * 2
    net(x)
    assert calls == [(2, 4)] * 2


def test_the_trace_that_told_shapes_computes_what_a_fresh_one_does() -> None:
    def network() -> Any:
        net = nn.HybridSequential()
        net.add(nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.Flatten(), nn.Dense(3))
        net.initialize(mx.init.Constant(0.1))
        return net

    x = values(2, 3, 6, 6)
    first, known = network(), network()
    known(x)  # finds the shapes eagerly
    first.hybridize()
    known.hybridize()
    expected = known(x)
    assert float(expected.abs().sum().asscalar()) > 0
    same(first(x), expected)


def test_a_parameter_without_use_does_not_keep_the_others_from_being_found() -> None:
    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.used = self.params.get("used", shape=(3, 0), allow_deferred_init=True)
                self.unused = self.params.get("unused", shape=(7, 0), allow_deferred_init=True)

        def forward(self, x: Any) -> Any:
            return nd.FullyConnected(x, self.used.data(), num_hidden=3, no_bias=True)

    net = ready(Net(), mx.init.One(), hybridize=True)
    x = values(2, 4)
    same(net(x), nd.dot(x, nd.ones((4, 3))))
    assert net.used.shape == (3, 4)


def test_training_is_not_run_with_the_trace_for_inference() -> None:
    net = ready(sequential(nn.Dense(64), nn.Dropout(0.5)), mx.init.One(), hybridize=True)
    x = nd.ones((2, 4))
    assert float((net(x) == 4).min().asscalar()) == 1
    with mx.autograd.train_mode():
        assert float((net(x) == 0).max().asscalar()) == 1
