"""Gradients at the borders of what is recorded: contexts, constants, states that forward writes."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from pairing import pairs
from recording import differentiated, variable


def test_gradients_cross_from_context_to_context():
    x = variable(nd.array([1.0, 2.0]))
    with autograd.record():
        there = x.as_in_context(mx.cpu(1)) * 2
        back = (there.copyto(mx.cpu(2)) * 3).as_in_context(mx.cpu(0))
        loss = (back * x).sum()
        assert back.ctx == mx.cpu(0) and there.ctx == mx.cpu(1)
    loss.backward()
    assert x.grad.ctx == mx.cpu(0)
    np.testing.assert_array_equal(x.grad.asnumpy(), [12, 24])


def test_a_constant_gradient_can_be_differentiated_again():
    x = variable(nd.array([1.0, 2.0]))
    with autograd.record():
        slope = autograd.grad(x * 3, x, create_graph=True, retain_graph=True)[0]
        total = (slope * x).sum()
    slope.backward(retain_graph=True)
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 0])
    total.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [3, 3])


@pytest.mark.parametrize("grad_req", ["write", "add"])
@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
def test_gradients_that_do_not_arrive_are_written_as_zeros(hybrid, grad_req):
    first = mx.gluon.nn.HybridLambda(lambda F, x: x * x)
    second = mx.gluon.nn.HybridLambda(lambda F, x: F.BlockGrad(x) * 2)
    if hybrid:
        first.hybridize()
        second.hybridize()
    x, w = nd.array([2.0]), variable(nd.array([3.0]))
    x.attach_grad(grad_req)
    x.grad[:] = 7
    with autograd.record():
        y = w * second(first(x * 1))
    y.backward()
    assert (x.grad.asscalar(), w.grad.asscalar()) == (0 if grad_req == "write" else 7, 8)


@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_sparse_gradients_that_do_not_arrive_are_written_as_zeros(grad_req):
    w = nd.ones((4, 2))
    w.attach_grad(grad_req, stype="row_sparse")
    for blocked in (False, True):
        with autograd.record():
            y = nd.Embedding(nd.array([1, 3]), w, sparse_grad=True, input_dim=4, output_dim=2)
            y = nd.BlockGrad(y) if blocked else y
        y.backward()
    assert w.grad.stype == "row_sparse"
    assert w.grad.asnumpy().sum() == (0 if grad_req == "write" else 4)


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
        h = differentiated(lambda h=h: net(h) * 2)
        assert net.weight.grad().asscalar() == expected


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_remainders_of_integers_have_no_gradient(dtype):
    a, b = nd.array([7.0, -5.0, 9.0]), nd.array([2.0, 3.0, 4.0])

    def loss(a, b):
        left, right = a.astype(dtype), b.astype(dtype)
        return sum(p.astype("float32").sum() for p in (left % right, left % 4, 9 % right))

    differentiated(loss, a, b)
    want = ([0, 0, 0], [0, 0, 0]) if dtype == "int32" else ([2, 2, 2], [-3 - 4, 2 - 3, -2 - 2])
    for x, gradient in pairs((a, b), want):
        np.testing.assert_array_equal(x.grad.asnumpy(), gradient)


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_head_gradient_may_be_a_row_for_a_column(hybrid):
    layer = mx.gluon.nn.Dense(1, use_bias=False, weight_initializer="ones")
    layer.initialize()
    layer.hybridize(hybrid)
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


@pytest.mark.parametrize("own, other", [(0, 1), (1, 0)])
@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_the_gradient_lies_where_its_variable_does(own, other, grad_req):
    x = nd.ones((2, 3), ctx=mx.cpu(own))
    x.attach_grad(grad_req)
    weight = nd.full((2, 3), 3.0, ctx=mx.cpu(other))
    for times in (1, 2):  # the first call makes the gradient's array
        differentiated(lambda: weight * x)
        assert x.grad.ctx == mx.cpu(own)
        want = 3.0 * times if grad_req == "add" else 3.0
        np.testing.assert_array_equal(x.grad.asnumpy(), np.full((2, 3), want))


def test_gradients_that_are_returned_lie_where_their_variables_do():
    x = variable(nd.ones((2,), ctx=mx.cpu(1)))
    with autograd.record():
        y = nd.array([2.0, 3.0], ctx=mx.cpu(0)) * x * x
        first = autograd.grad(y, [x], create_graph=True)[0]
        assert first.ctx == mx.cpu(1)
    first.backward()
    assert x.grad.ctx == mx.cpu(1)
    np.testing.assert_array_equal(x.grad.asnumpy(), [4, 6])


def test_a_constant_that_changes_before_backward_is_an_anomaly():
    x, constant = nd.array([1, 2]), nd.array([5, 5])
    x.attach_grad()
    with autograd.record():
        y = x * constant
        with autograd.pause():
            constant += 1
    with (
        autograd.detect_anomaly(),
        pytest.raises(mx.MXNetError, match="changed in place after it was recorded"),
    ):
        y.backward()


class Normalized(mx.gluon.HybridBlock):
    """A dense layer over the largest singular value of its weight, which forward estimates."""

    def __init__(self, grad_req):
        super().__init__()
        self.weight = self.params.get("weight", shape=(3, 4))
        self.u = self.params.get("u", shape=(1, 3), grad_req=grad_req)
        self.inner = mx.gluon.nn.HybridLambda(lambda F, u, w: F.dot(u, w))

    def forward(self, x):
        w, u = self.weight.data(), self.u.data()
        v = nd.L2Normalization(self.inner(u, w))
        u = nd.L2Normalization(nd.dot(v, w.T))
        sigma = nd.sum(nd.dot(u, w) * v)
        with autograd.pause():
            self.u.set_data(u)
        return nd.dot(x, (w / sigma).T)


@pytest.mark.filterwarnings("ignore:backward")
@pytest.mark.parametrize("grad_req", ["write", "null"])
@pytest.mark.parametrize("hybridize", [False, True])
def test_a_state_renewed_in_forward(hybridize, grad_req):
    net = Normalized(grad_req)
    net.initialize(mx.init.Normal(1))
    net.inner.hybridize(hybridize)
    x = nd.array(np.random.RandomState(0).randn(2, 4))
    for _ in range(30):
        y = differentiated(lambda: net(x))
    w = net.weight.data().asnumpy()
    sigma = np.linalg.svd(w)[1][0]
    np.testing.assert_allclose(y.asnumpy(), x.asnumpy() @ w.T / sigma, rtol=1e-3, atol=1e-4)
    u, _, vt = np.linalg.svd(w)
    grad_sum = np.ones((2, 3)).T @ x.asnumpy()
    outer = np.outer(u[:, 0], vt[0])
    wanted = grad_sum / sigma - (grad_sum * w).sum() / sigma**2 * outer
    np.testing.assert_allclose(net.weight.grad().asnumpy(), wanted, rtol=1e-2, atol=1e-3)


def test_a_renewed_constant_stays_a_constant():
    param = mx.gluon.Parameter("p", shape=(2,), grad_req="null")
    param.initialize(mx.init.One())
    param.set_data(nd.array([2, 3]))
    state = param.data()
    assert state.grad is None
    with pytest.raises(mx.MXNetError, match="not part of the recorded computation"):
        autograd.grad(nd.ones((1,)), [state])
    with autograd.record():
        state += 1
    assert state.asnumpy().tolist() == [3, 4]
