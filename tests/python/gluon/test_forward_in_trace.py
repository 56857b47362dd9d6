"""`hybrid_forward` while it is traced: what `F` is, and calls of autograd.Function."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import ready
from mxlite import autograd, gluon, nd


class SeesF(gluon.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        self.seen = F
        mixed = F.zeros((2, 3)) + F.arange(3).reshape((1, 3)) + F.maximum(x, 1) + F.eye(2, 3)
        mixed = mixed + F.contrib.arange_like(x, axis=1).reshape((1, 3)) + F.full((2, 3), 2)
        mixed = F.broadcast_add(mixed, F.linalg.gemm2(x, F.ones((3, 3)))) + F.stack(x, x).sum(0)
        steps, _ = F.contrib.foreach(lambda d, s: (d + s, s + d), x, F.zeros((3,)))
        drawn = F.random.uniform(shape=(2, 3)) + F.random.normal(shape=(2, 3))
        return mixed + steps + F.power(x, 2) + F.sparse.dot(x, F.eye(3)) + 0 * drawn


def test_f_is_the_module_of_symbols_while_tracing() -> None:
    net = SeesF()
    x = nd.array(np.arange(6).reshape(2, 3))
    eager = net(x).asnumpy()
    assert net.seen is mx.nd and net.seen is not mx.sym
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), eager)
    assert net.seen is mx.sym and net.seen is not mx.nd
    with autograd.record():
        recorded = net(x)
    np.testing.assert_allclose(recorded.asnumpy(), eager)
    assert net.seen is mx.sym
    # Outside of the trace the module composes symbols again.
    assert isinstance(mx.sym.zeros((2,)), mx.sym.Symbol)
    assert mx.sym.random is not mx.nd.random


class Sign(autograd.Function):
    """sign with the gradient of the identity, twice; frees what it kept as DGL does."""

    def forward(self, x):
        self.save_for_backward(x)
        return x.sign()

    def backward(self, grad):
        (x,) = self.saved_tensors
        self.saved_tensors = None
        return 2 * grad * (x == x)


class SignNet(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.inner = gluon.nn.Dense(2, weight_initializer="ones")

    def hybrid_forward(self, F, x):  # noqa: N803
        return Sign()(self.inner(x))


@pytest.mark.parametrize("recorded_first", [False, True])
def test_a_function_in_a_hybridized_block(recorded_first):
    net = ready(SignNet(), hybridize=True)
    x = nd.array([[3, -4, 5]])
    if not recorded_first:
        assert net(x).asnumpy().tolist() == [[1, 1]]
    for train_mode in (True, False):
        with autograd.record(train_mode):
            y = net(x)
        y.backward()
        assert y.asnumpy().tolist() == [[1, 1]]
        assert net.inner.weight.grad().asnumpy().tolist() == [[6, -8, 10]] * 2
    assert net(-x).asnumpy().tolist() == [[-1, -1]]


def test_a_function_in_an_exported_block(tmp_path):
    net = ready(SignNet(), hybridize=True)
    net(nd.array([[3, -4, 5]]))
    symbol_file, params_file = net.export(str(tmp_path / "net"))
    again = gluon.SymbolBlock.imports(symbol_file, ["data"], params_file)
    assert again(nd.array([[-1, 0, 0]])).asnumpy().tolist() == [[-1, -1]]
