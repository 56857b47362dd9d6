"""Operators written in Python: errors are raised by the right wait, and the process continues."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from custom_ops import custom, quiet_engine, sigmoid_forward  # noqa: F401
from mxlite import autograd, gluon, nd
from mxlite.operator import CustomOp, register
from numpy.testing import assert_allclose, assert_array_equal
from recording import differentiated, variable


def failing_forward(self, is_train, req, in_data, out_data, aux):
    raise ZeroDivisionError("no luck today")


custom("t_fail", failing_forward)


def test_an_error_in_forward_reaches_every_waiter_with_its_line():
    x = nd.Custom(nd.ones((2,)), op_type="t_fail")
    good = nd.ones((2,)) + 1
    line = failing_forward.__code__.co_firstlineno + 1
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match="ZeroDivisionError: no luck today") as info:
            x.asnumpy()
        text = str(info.value)
        assert "Error in CustomOp.forward of 't_fail'" in text
        assert f'test_custom_op_errors.py", line {line}, in failing_forward' in text
    with pytest.raises(mx.MXNetError, match="no luck"):
        (x + 1).wait_to_read()
    assert_array_equal(good.asnumpy(), [2, 2])


def test_waitall_raises_the_error_once_and_the_process_goes_on():
    nd.Custom(nd.ones((2,)), op_type="t_fail")
    with pytest.raises(mx.MXNetError, match="no luck today"):
        nd.waitall()
    nd.waitall()
    assert nd.Custom(nd.zeros((1,)), op_type="t_sigmoid").asscalar() == 0.5


def test_an_error_in_backward_reaches_the_gradient_s_reader():
    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        raise KeyError("lost")

    custom("t_fail_back", sigmoid_forward, backward)
    x = nd.ones((2,))
    y = differentiated(lambda x: nd.Custom(x, op_type="t_fail_back"), x)
    with pytest.raises(mx.MXNetError, match="Error in CustomOp.backward of 't_fail_back'"):
        x.grad.asnumpy()
    assert_allclose(y.asnumpy(), [0.7310586] * 2, rtol=1e-6)


def test_an_error_of_an_operator_inside_the_callback_counts_as_the_callback_s():
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], nd._internal._raise_async(in_data[0]))

    custom("t_fail_inside", forward)
    x = nd.Custom(nd.ones((2,)), op_type="t_fail_inside")
    with pytest.raises(mx.MXNetError, match="_raise_async: fails by design"):
        x.asnumpy()


def test_an_error_of_an_input_skips_the_callback():
    calls = []
    custom("t_count", lambda self, **_: calls.append(1))
    x = nd.Custom(nd._internal._raise_async(nd.ones((2,))), op_type="t_count")
    with pytest.raises(mx.MXNetError, match="_raise_async: fails by design"):
        x.asnumpy()
    assert not calls


def test_an_error_in_a_hybridized_block():
    net = gluon.nn.HybridLambda(lambda F, x: F.Custom(x * 2, op_type="t_fail") + 1)
    net.hybridize()
    with pytest.raises(mx.MXNetError, match="no luck today"):
        net(nd.ones((2,))).asnumpy()


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda x: nd.Custom(x, op_type="t_sigmiod"), ValueError, "did you mean 't_sigmoid'"),
        (lambda x: nd.Custom(x), TypeError, "op_type"),
        (lambda x: nd.Custom(x, x, op_type="t_sigmoid"), TypeError, r"takes 1 arrays \(data\)"),
        (lambda x: nd.Custom(op_type="t_sigmoid"), TypeError, "missing input 'data'"),
        (lambda x: nd.Custom(x, data=x, op_type="t_sigmoid"), TypeError, "given twice"),
        (
            lambda x: nd.Custom(1.0, op_type="t_sigmoid"),
            TypeError,
            "inputs must be NDArrays, got float",
        ),
        (lambda x: nd.Custom(x, op_type="t_sigmoid", beta=2), TypeError, "beta"),
    ],
)
def test_wrong_calls_are_named(call, kind, match):
    with pytest.raises(kind, match=match):
        call(nd.ones((2,)))


@pytest.mark.parametrize(
    ("methods", "match"),
    [
        (dict(infer_shape=lambda self, s: 1 / 0), "infer_shape of 't_bad' raised ZeroDivision"),
        (dict(infer_shape=lambda self, s: (s, [], [])), "must return 1 entries for outputs, got 0"),
        (dict(infer_shape=lambda self, s: (s,)), "must return 2 or 3 lists, got 1"),
        (dict(infer_shape=lambda self, s: ([[7]], s)), r"from infer_shape, \(7,\), got \(2,\)"),
        (dict(infer_type=lambda self, t: ([np.int8], t)), "must have the dtype from infer_type"),
        (dict(create_operator=lambda self, *a: {}[1]), "create_operator of 't_bad' raised KeyErr"),
        (dict(list_arguments=lambda self: []), "missing|takes 0 arrays"),
    ],
)
def test_faults_of_the_prop_raise_in_the_call(methods, match):
    custom("t_bad", sigmoid_forward, **methods)
    with pytest.raises(mx.MXNetError, match=match):
        nd.Custom(nd.ones((2,)), op_type="t_bad")


def test_register_takes_classes_of_the_right_kind():
    with pytest.raises(TypeError, match="prop_cls must be"):
        register("t_wrong")(CustomOp)


def test_second_derivatives_are_refused_not_wrong():
    x = variable(nd.ones((2,)))
    with autograd.record():
        y = nd.Custom(x, op_type="t_sigmoid")
        (first,) = autograd.grad(y, [x], create_graph=True)
        z = first * 2
    with pytest.raises(NotImplementedError, match="gradient of the backward"):
        z.backward()


def assign_nothing(self, *args, **kwargs):
    pass


custom("t_assign_nothing", assign_nothing, assign_nothing)
custom("t_copy_without_gradient", lambda self, is_train, req, in_data, out_data, aux: self.assign(
    out_data[0], req[0], in_data[0]), assign_nothing)  # fmt: skip


def test_what_an_operator_does_not_assign_is_0():
    for _ in range(20):
        for used in [nd.full((4096,), 7.0) for _ in range(8)]:  # memory that is used again
            used.wait_to_read()
        del used
        x = nd.ones((4096,))
        assert_array_equal(nd.Custom(x, op_type="t_assign_nothing").asnumpy(), 0)
        differentiated(lambda x: nd.Custom(x, op_type="t_copy_without_gradient"), x)
        assert_array_equal(x.grad.asnumpy(), 0)
