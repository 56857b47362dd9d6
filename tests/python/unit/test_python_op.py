"""NumpyOp and NDArrayOp: operators that are Python objects, in symbols and modules."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd, sym
from numpy.testing import assert_allclose, assert_array_equal

DATA = np.array([[1, 2, 4], [0, 0, 3]], np.float32)
LABEL = np.array([2, 0], np.float32)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class _Loss:
    """Base of both kinds of softmax."""

    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]]


class NumpySoftmax(_Loss, mx.operator.NumpyOp):
    def forward(self, in_data, out_data):
        out_data[0][:] = softmax(in_data[0])

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = out_data[0]
        in_grad[0][np.arange(len(in_data[1])), in_data[1].astype(int)] -= 1


class ArraySoftmax(_Loss, mx.operator.NDArrayOp):
    def forward(self, in_data, out_data):
        out_data[0][:] = nd.softmax(in_data[0])

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = out_data[0] - nd.one_hot(in_data[1], in_data[0].shape[1])


@pytest.mark.parametrize("kind", [NumpySoftmax, ArraySoftmax])
def test_an_operator_object_runs_and_differentiates(kind):
    loss = kind()(data=sym.var("data"), name="loss")
    assert loss.list_arguments() == ["data", "loss_label"]
    assert loss.list_outputs() == ["loss_output"]
    executor = loss.simple_bind(mx.cpu(), data=DATA.shape)
    assert executor.arg_dict["loss_label"].shape == (2,)
    (out,) = executor.forward(is_train=True, data=nd.array(DATA), loss_label=nd.array(LABEL))
    executor.backward()
    assert_allclose(out.asnumpy(), softmax(DATA), rtol=1e-6)
    expected = softmax(DATA) - np.eye(3)[LABEL.astype(int)]
    assert_allclose(executor.grad_dict["data"].asnumpy(), expected, rtol=1e-5, atol=1e-6)


class Scaled(mx.operator.NumpyOp):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, in_data, out_data):
        out_data[0][:] = in_data[0] * self.factor

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = out_grad[0] * self.factor


def test_objects_of_one_class_keep_their_own_state():
    x = sym.var("x")
    both = Scaled(2)(x) + Scaled(5)(x)
    executor = both.bind(mx.cpu(), {"x": nd.array([1, 3])}, {"x": nd.zeros((2,))})
    assert_array_equal(executor.forward(is_train=True)[0].asnumpy(), [7, 21])
    executor.backward(nd.array([1, 10]))
    assert_array_equal(executor.grad_dict["x"].asnumpy(), [7, 70])


def test_names_are_made_from_the_kind_and_the_base_cannot_be_called():
    with mx.name.NameManager():
        assert Scaled(1)(sym.var("x")).name == "_native0"
        assert ArraySoftmax()(sym.var("x")).name == "_ndarray0"
    with pytest.raises(NotImplementedError, match="PythonOp.get_symbol: derive .* NumpyOp"):
        mx.operator.PythonOp()(sym.var("x"))


def test_an_error_in_an_operator_object_reaches_who_waits():
    class Broken(mx.operator.NumpyOp):
        def forward(self, in_data, out_data):
            raise KeyError("lost")

    executor = Broken()(sym.var("x")).bind(mx.cpu(), {"x": nd.ones((1,))})
    with pytest.raises(mx.MXNetError, match="lost"):
        executor.forward()[0].asnumpy()
