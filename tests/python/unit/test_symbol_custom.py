"""mx.sym.Custom: operators written in Python in symbols."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from custom_ops import custom
from mxlite import gluon, nd
from mxlite.operator import CustomOp, CustomOpProp, register
from numpy.testing import assert_allclose, assert_array_equal


class SoftmaxOp(CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        aux[0][:] += 1
        x = in_data[0].asnumpy()
        e = np.exp(x - x.max(axis=1, keepdims=True))
        self.assign(out_data[0], req[0], nd.array(e / e.sum(axis=1, keepdims=True)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        grad = out_data[0].asnumpy().copy()
        grad[np.arange(len(grad)), in_data[1].asnumpy().astype(int)] -= 1
        self.assign(in_grad[0], req[0], nd.array(grad))


@register("ts_softmax")
class SoftmaxProp(CustomOpProp):
    def __init__(self, scale="1"):
        super().__init__(need_top_grad=False)
        assert scale == "(2, 3)"

    def list_arguments(self):
        return ["data", "label"]

    def list_auxiliary_states(self):
        return ["calls"]

    def infer_shape(self, in_shape):
        return [in_shape[0], [in_shape[0][0]]], [in_shape[0]], [[1]]

    def create_operator(self, ctx, shapes, dtypes):
        return SoftmaxOp()


def network():
    data = mx.sym.Variable("data")
    fc = mx.sym.FullyConnected(data, num_hidden=3, name="fc")
    return mx.sym.Custom(fc, op_type="ts_softmax", scale=(2, 3), name="softmax")


def test_names_shapes_types_and_files():
    net = network()
    assert net.list_arguments() == ["data", "fc_weight", "fc_bias", "softmax_label"]
    assert net.list_auxiliary_states() == ["softmax_calls"]
    assert net.list_outputs() == ["softmax_output"]
    types, outs, _ = net.infer_type(data="float64")
    assert types[0] == outs[0] == np.float64
    text = net.tojson()
    assert '"op": "Custom"' in text and '"op_type": "ts_softmax"' in text
    again = mx.sym.load_json(text)
    assert again.tojson() == text
    for symbol in (net, again):
        arguments, outputs, states = symbol.infer_shape(data=(4, 5))
        assert arguments == [(4, 5), (3, 5), (3,), (4,)]
        assert (outputs, states) == ([(4, 3)], [(1,)])


def test_an_executor_trains_with_it():
    executor = network().simple_bind(mx.cpu(), data=(4, 5))
    executor.arg_dict["data"][:] = np.random.RandomState(0).randn(4, 5)
    executor.arg_dict["fc_weight"][:] = 0.1
    executor.arg_dict["softmax_label"][:] = nd.array([0, 1, 2, 0])
    probabilities = executor.forward(is_train=True)[0].asnumpy()
    assert_allclose(probabilities, np.full((4, 3), 1 / 3), rtol=1e-6)
    executor.backward()
    expected = probabilities.copy()
    expected[range(4), [0, 1, 2, 0]] -= 1
    assert_allclose(executor.grad_dict["fc_bias"].asnumpy(), expected.sum(axis=0), rtol=1e-5)
    assert executor.aux_dict["softmax_calls"].asscalar() == 1


def test_a_block_with_a_custom_operator_is_exported(tmp_path):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 3)

    custom("ts_triple", forward)

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):  # noqa: N803
            return F.Custom(x + 1, op_type="ts_triple")

    net = Net()
    net.hybridize()
    x = nd.array([1.0, 2.0])
    expected = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    again = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"])
    assert_array_equal(again(x).asnumpy(), expected)
    assert_array_equal(expected, [6, 9])


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda x: mx.sym.Custom(x), TypeError, "op_type"),
        (lambda x: mx.sym.Custom(x, op_type="ts_sofmax"), ValueError, "did you mean 'ts_softmax'"),
        (lambda x: mx.sym.Custom(x, x, x, x, op_type="ts_softmax", scale=(2, 3)), TypeError,
         r"takes 3 \(data, label, calls\)"),
        (lambda x: mx.sym.Custom(x, data=x, op_type="ts_softmax", scale=(2, 3)), TypeError,
         "given twice"),
        (lambda x: mx.sym.Custom(datum=x, op_type="ts_softmax", scale=(2, 3)), TypeError,
         "'datum' is unknown"),
        (lambda x: mx.sym.Custom(mx.sym.Group([x, x]), op_type="ts_softmax", scale=(2, 3)),
         TypeError, "one output"),
    ],
)  # fmt: skip
def test_wrong_calls_are_named(call, kind, match):
    with pytest.raises(kind, match=match):
        call(mx.sym.Variable("x"))
