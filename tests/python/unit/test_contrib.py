"""nd.contrib: what the op table cannot say (gradients of estimators, functions made in Python)."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd


@pytest.mark.parametrize(
    "name, params, factor",
    [
        ("round_ste", {}, 1.0),
        ("sign_ste", {}, 1.0),
        ("gradientmultiplier", {"scalar": -2.5}, -2.5),
    ],
)
@pytest.mark.parametrize("hybrid", [False, True])
def test_estimators_pass_the_gradient_on(name, params, factor, hybrid):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return getattr(F.contrib, name)(x, **params)

    net = Net()
    if hybrid:
        net.hybridize()
    x = nd.array([-1.6, 0.0, 0.4, 2.5])
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    head = nd.array([1.0, 2.0, 3.0, 4.0])
    y.backward(head)
    np.testing.assert_allclose(x.grad.asnumpy(), factor * head.asnumpy())
