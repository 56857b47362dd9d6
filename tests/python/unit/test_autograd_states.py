"""Gradients of layers whose forward writes the state that backward will read."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from recording import differentiated

WRITES = [
    lambda x: x.__setitem__(slice(None), 3),
    lambda x: x.__iadd__(1),
    lambda x: nd.add(nd.ones((2,)), 1).copyto(x),
]


@pytest.mark.parametrize("write", WRITES)
def test_a_constant_that_changes_before_backward_is_an_anomaly(write):
    x, constant = nd.array([1, 2]), nd.array([5, 5])
    x.attach_grad()
    with autograd.record():
        y = x * constant
        with autograd.pause():
            write(constant)
    assert (constant.asnumpy() != 5).any()
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
    if hybridize:
        net.inner.hybridize()
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
