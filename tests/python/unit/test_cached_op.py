"""mx.nd.CachedOp: a symbol called on arrays."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd, sym


def test_a_symbol_is_called_with_its_inputs_in_order() -> None:
    op = mx.nd.CachedOp(sym.FullyConnected(num_hidden=2, name="fc") + 2)
    data, weight, bias = nd.array([[1, 2]]), nd.array([[1, 0], [3, 4]]), nd.array([10, 20])
    weight.attach_grad()
    with autograd.record():
        out = op(data, weight, bias)
    out.backward(nd.array([[1, 10]]))
    np.testing.assert_array_equal(out.asnumpy(), [[13, 33]])
    np.testing.assert_array_equal(weight.grad.asnumpy(), [[1, 2], [10, 20]])
    bias[:] = 0
    target = nd.zeros((1, 2))
    assert op(data, weight, bias, out=target) is target
    np.testing.assert_array_equal(target.asnumpy(), [[3, 13]])


def test_states_are_written_and_several_outputs_are_a_list() -> None:
    data = sym.var("x")
    norm = sym.BatchNorm(data, momentum=0, fix_gamma=False, name="norm")
    op = mx.nd.CachedOp(sym.Group([norm, data * 2]), [("static_alloc", True)])
    x = nd.array(np.arange(6).reshape(3, 2))
    mean, var = nd.zeros((2,)), nd.ones((2,))
    with autograd.train_mode():
        normalized, doubled = op(x, nd.ones((2,)), nd.zeros((2,)), mean, var)
    np.testing.assert_array_equal(mean.asnumpy(), [2, 3])
    np.testing.assert_array_equal(doubled.asnumpy(), x.asnumpy() * 2)
    assert abs(normalized.asnumpy().mean()) < 1e-6


def test_wrong_calls_are_named() -> None:
    with pytest.raises(TypeError, match="CachedOp: a int given, a Symbol expected"):
        mx.nd.CachedOp(3)
    with pytest.raises(ValueError, match=r"1 arrays given, 3 expected \(fc_"):
        mx.nd.CachedOp(sym.FullyConnected(num_hidden=2, name="fc"))(nd.ones((1,)))


def test_an_executor_shows_its_symbol() -> None:
    net = sym.relu(sym.var("x"))
    assert net.simple_bind(mx.cpu(), x=(2,)).get_optimized_symbol() is net
