"""Gradients at the borders of what is recorded: between contexts, and of constants."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from pairing import pairs
from recording import differentiated


def test_gradients_cross_from_context_to_context():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        there = x.as_in_context(mx.cpu(1)) * 2
        back = (there.copyto(mx.cpu(2)) * 3).as_in_context(mx.cpu(0))
        loss = (back * x).sum()
        assert back.ctx == mx.cpu(0) and there.ctx == mx.cpu(1)
    loss.backward()
    assert x.grad.ctx == mx.cpu(0)
    np.testing.assert_array_equal(x.grad.asnumpy(), [12, 24])


def test_a_constant_gradient_can_be_differentiated_again():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        slope = autograd.grad(x * 3, x, create_graph=True, retain_graph=True)[0]
        total = (slope * x).sum()
    slope.backward(retain_graph=True)
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 0])
    total.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [3, 3])


def test_states_carried_on_after_backward_are_constants():
    w, h = nd.array([2.0]), nd.array([3.0])
    w.attach_grad()
    for expected in (3, 6, 12):
        with mx.autograd.record():
            h = h * w
            loss = h * 1
        loss.backward()
        assert w.grad.asscalar() == expected
    with pytest.raises(RuntimeError, match="freed by an earlier backward"):
        loss.backward()


def test_states_of_a_hybridized_block_are_carried_on():
    net = mx.gluon.nn.Dense(1, use_bias=False, in_units=1)
    net.initialize(mx.init.One())
    net.hybridize()
    h = nd.array([[3.0]])
    for expected in (6, 12, 24):
        differentiated(lambda: net(h) * 2)
        assert net.weight.grad().asscalar() == expected


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_remainders_of_integers_have_no_gradient(dtype):
    a, b = nd.array([7.0, -5.0, 9.0]), nd.array([2.0, 3.0, 4.0])
    for x in (a, b):
        x.attach_grad()
    with autograd.record():
        left, right = a.astype(dtype), b.astype(dtype)
        parts = [left % right, left % 4, 9 % right]
        loss = sum(part.astype("float32").sum() for part in parts)
    loss.backward()
    want = ([0, 0, 0], [0, 0, 0]) if dtype == "int32" else ([2, 2, 2], [-3 - 4, 2 - 3, -2 - 2])
    for x, gradient in pairs((a, b), want):
        np.testing.assert_array_equal(x.grad.asnumpy(), gradient)


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_head_gradient_may_be_a_row_for_a_column(hybrid):
    layer = mx.gluon.nn.Dense(1, use_bias=False, weight_initializer="ones")
    layer.initialize()
    if hybrid:
        layer.hybridize()
    x = nd.array([[1, 2], [3, 4], [5, 6]])
    differentiated(layer, x, head=nd.array([1, 10, 100]))
    np.testing.assert_array_equal(x.grad.asnumpy(), [[1, 1], [10, 10], [100, 100]])
    np.testing.assert_array_equal(layer.weight.grad().asnumpy(), [[531, 642]])


def test_a_head_gradient_of_another_shape_keeps_higher_orders():
    x, head = nd.array([[1.0], [2.0]]), nd.array([3.0, 5.0])
    x.attach_grad()
    head.attach_grad()
    with autograd.record():
        y = x * x
        (first,) = autograd.grad(y, [x], head_grads=[head], create_graph=True)
        loss = (first * first).sum()  # (2 x head)^2
    loss.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [[72], [400]])
    np.testing.assert_array_equal(head.grad.asnumpy(), [24, 160])


def test_a_head_gradient_of_another_size_is_refused():
    x = nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = x * x
    with pytest.raises(ValueError, match=r"\(2, 2\), the head \(2, 3\)"):
        y.backward(nd.ones((2, 2)))


@pytest.mark.parametrize("own, other", [(0, 1), (1, 0)])
@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_the_gradient_lies_where_its_variable_does(own, other, grad_req):
    x = nd.ones((2, 3), ctx=mx.cpu(own))
    x.attach_grad(grad_req)
    weight = nd.full((2, 3), 3.0, ctx=mx.cpu(other))
    for times in (1, 2):  # the first one makes the gradient's array
        differentiated(lambda: weight * x)
        assert x.grad.ctx == mx.cpu(own)
        want = 3.0 * times if grad_req == "add" else 3.0
        np.testing.assert_array_equal(x.grad.asnumpy(), np.full((2, 3), want))


def test_gradients_that_are_returned_lie_where_their_variables_do():
    x = nd.ones((2,), ctx=mx.cpu(1))
    x.attach_grad()
    with autograd.record():
        y = nd.array([2.0, 3.0], ctx=mx.cpu(0)) * x * x
        first = autograd.grad(y, [x], create_graph=True)[0]
        assert first.ctx == mx.cpu(1)
    first.backward()
    assert x.grad.ctx == mx.cpu(1)
    np.testing.assert_array_equal(x.grad.asnumpy(), [4, 6])
