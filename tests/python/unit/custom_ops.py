"""Operators written in Python that several test files use, and a fixture for those that fail."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from mxlite.operator import CustomOp, CustomOpProp, register


@pytest.fixture(autouse=True)
def quiet_engine():
    """Leave no error of one test to the waitall of the next."""
    yield
    try:
        nd.waitall()
    except mx.MXNetError:
        nd.waitall()


def custom(name, forward, backward=None, base=CustomOpProp, **methods):
    """Register an operator from functions."""

    class Op(CustomOp):
        pass

    Op.forward = forward
    if backward:
        Op.backward = backward
    body = {"create_operator": lambda self, ctx, shapes, dtypes: Op(), **methods}
    return register(name)(type("Prop", (base,), body))


def sigmoid_forward(self, is_train, req, in_data, out_data, aux):
    x = in_data[0].asnumpy()
    self.assign(out_data[0], req[0], nd.array(1 / (1 + np.exp(-x)), dtype=x.dtype))


def sigmoid_backward(self, req, out_grad, in_data, out_data, in_grad, aux):
    y = out_data[0]
    self.assign(in_grad[0], req[0], out_grad[0] * y * (1 - y))


custom("t_sigmoid", sigmoid_forward, sigmoid_backward)
