"""Arrays that a hybridized block keeps from the trace that made them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from blocks import ready, recorded, sequential
from mxlite import autograd, gluon, init, nd
from mxlite.base import MXNetError
from mxlite.gluon import nn
from numpy.testing import assert_allclose, assert_array_equal


class Basis(gluon.HybridBlock):
    """Multiplies by powers that its first forward makes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.basis: Any = None
        self.calls = 0
        with self.name_scope():
            self.theta = nn.Dense(3, use_bias=False)
            self.project = nn.HybridLambda(lambda F, x: F.dot(x, self.basis))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        self.calls += 1
        if self.basis is None:
            t = F.arange(0, 4) / 2
            self.basis = F.stack(*[t**i for i in range(3)])
        return self.project(self.theta(x))


POWERS = np.array([[1, 1, 1, 1], [0, 0.5, 1, 1.5], [0, 0.25, 1, 2.25]], np.float32)


@pytest.mark.parametrize("size", [0, 2])
def test_what_was_made_of_nothing_is_made_again(size: int) -> None:
    """``size`` 0: the shapes of the weight are found by a trace of their own, the first."""
    net = Basis()
    if size:
        net.theta = nn.Dense(3, use_bias=False, in_units=size)
    net.initialize(init.One())
    net.hybridize()
    for rows in (2, 5):
        x = nd.array(np.arange(rows * 2).reshape(rows, 2))
        expected = x.asnumpy().sum(axis=1, keepdims=True) * POWERS.sum(axis=0)
        assert_allclose(net(x).asnumpy(), expected, rtol=1e-6)
        recorded(net, x)
        assert_allclose(net.theta.weight.grad(), np.outer(POWERS.sum(1), x.asnumpy().sum(0)))
    assert net.calls > 1


def test_a_block_inside_of_another_keeps_arrays() -> None:
    net = ready(sequential(Basis(), Basis()), init.One(), hybridize=True)
    x = np.ones((2, 3), np.float32)
    expected = np.full((2, 3), 3) @ POWERS
    expected = expected.sum(1, keepdims=True) * POWERS.sum(0)
    assert_allclose(net(nd.array(x)).asnumpy(), expected)
    with autograd.record():
        assert_allclose(net(nd.array(x)).asnumpy(), expected)


class Kept(gluon.HybridBlock):
    """Keeps what it makes of its input, its weight and an array from elsewhere."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kept: Any = None
        self.elsewhere = nd.array([10, 20])
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(2,), init=init.Constant(3))

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        if self.kept is None:
            pair = F.split(F.concat(x * weight, x + self.elsewhere, dim=0), 2, axis=0)
            self.kept = pair[1] - pair[0]
        return self.kept * 2, x


def test_what_was_made_of_inputs_and_weights_follows_them() -> None:
    net = ready(Kept(), hybridize=True)
    for values in ([[1, 2]], [[4, 5], [6, 7]]):
        x = nd.array(values)
        with autograd.record():
            out, _ = net(x)
        out.backward()
        expected = 2 * (x.asnumpy() + [10, 20] - x.asnumpy() * 3)
        assert_array_equal(out.asnumpy(), expected)
        assert_array_equal(net(x)[0].asnumpy(), expected)
        assert_array_equal(net.weight.grad().asnumpy(), -2 * x.asnumpy().sum(0))
    net.weight.set_data(nd.zeros((2,)))
    assert_array_equal(net(nd.array([[1, 2]]))[0].asnumpy(), [[22, 44]])


def test_another_block_gets_no_inputs_of_this_one() -> None:
    first = ready(Kept(), hybridize=True)
    first(nd.array([[1, 2]]))
    second = ready(Kept(), hybridize=True)
    second.kept = first.kept
    with pytest.raises(MXNetError, match="while another hybridized forward was traced"):
        second(nd.array([[1, 2]]))
    first.hybridize(False)
    with pytest.raises(MXNetError, match="return it from forward instead of keeping it"):
        first(nd.array([[1, 2]]))


def test_a_state_kept_from_a_trace_is_renewed_once() -> None:
    class Norm(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.kept: Any = None
            with self.name_scope():
                self.norm = nn.BatchNorm(momentum=0.5)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            if self.kept is None:
                self.kept = self.norm(x)
            return self.kept + self.kept

    net = ready(Norm(), hybridize=True)
    x = nd.array([[2, 4], [6, 8]])
    net(x)
    with autograd.record():
        net(x)
    assert_array_equal(net.norm.running_mean.data().asnumpy(), [2, 3])
