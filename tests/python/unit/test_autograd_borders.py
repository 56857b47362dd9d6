"""Gradients at the borders of what is recorded: between contexts, and of constants."""

from __future__ import annotations

import mxlite as mx
import numpy as np
from mxlite import autograd, nd


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
