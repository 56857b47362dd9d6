"""Custom operators that compute on the parts of sparse arrays."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from custom_ops import custom
from mxlite import nd
from recording import differentiated


def _square_of_parts(self, is_train, req, in_data, out_data, aux):
    (x,) = in_data
    assert out_data[0].stype == x.stype == aux[0].stype == "csr"
    aux[0][:] = x
    square = nd.sparse.csr_matrix((x.data * x.data, x.indices, x.indptr), shape=x.shape)
    self.assign(out_data[0], req[0], square)


def _twice_the_parts(self, req, out_grad, in_data, out_data, in_grad, aux):
    assert (out_grad[0].stype, in_grad[0].stype) == ("default", "csr")
    assert (aux[0].asnumpy() == in_data[0].asnumpy()).all()
    self.assign(in_grad[0], req[0], 2 * nd.sparse.elemwise_mul(in_data[0], out_grad[0]))


RULES = {
    "list_auxiliary_states": lambda self: ["seen"],
    "infer_shape": lambda self, in_shape: (in_shape, [in_shape[0]], [in_shape[0]]),
    "infer_storage_type": lambda self, in_stype: (["csr"], ["csr"], ["csr"]),
    "infer_storage_type_backward": lambda self, ograd, inputs, outputs, igrad, aux: (
        ["default"],
        inputs,
        outputs,
        inputs,
        aux,
    ),
}
custom("square_of_parts", _square_of_parts, _twice_the_parts, **RULES)


def _dense_square(self, is_train, req, in_data, out_data, aux):
    assert in_data[0].stype == "default"
    self.assign(out_data[0], req[0], in_data[0] * in_data[0])


def _dense_gradient(self, req, out_grad, in_data, out_data, in_grad, aux):
    self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])


custom("dense_square", _dense_square, _dense_gradient)

SOME = np.array([[0, 3, 0], [-2, 0, 1]], np.float32)


def test_an_operator_computes_on_csr_parts():
    x, seen = nd.array(SOME).tostype("csr"), nd.zeros((2, 3), stype="csr")
    head = nd.array([[1, 10, 1], [1, 1, 100]])
    y = differentiated(lambda x: nd.Custom(x, seen, op_type="square_of_parts"), x, head=head)
    assert y.stype == "csr"
    np.testing.assert_array_equal(y.asnumpy(), SOME**2)
    assert x.grad.stype == "csr"
    np.testing.assert_array_equal(x.grad.asnumpy(), [[0, 60, 0], [-4, 0, 200]])
    with pytest.raises(mx.MXNetError, match=r"got \(3, 2\)"):
        nd.Custom(x, nd.zeros((3, 2), stype="csr"), op_type="square_of_parts")


def test_an_operator_on_csr_parts_in_a_symbol():
    net = mx.sym.Custom(mx.sym.var("x", stype="csr"), op_type="square_of_parts", name="s")
    x = nd.array(SOME).tostype("csr")
    grad = nd.zeros((2, 3), stype="csr")
    run = net.bind(mx.cpu(), [x], [grad], aux_states=[nd.zeros((2, 3), stype="csr")])
    assert run.forward(is_train=True)[0].stype == "csr"
    run.backward([nd.ones((2, 3))])
    np.testing.assert_array_equal(run.grad_arrays[0].asnumpy(), 2 * SOME)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_an_operator_without_a_rule_for_storage_gets_dense_copies(stype):
    x = nd.array(SOME).tostype(stype)
    x.attach_grad(stype="default")
    y = differentiated(lambda x: nd.Custom(x, op_type="dense_square"), x)
    np.testing.assert_array_equal(y.asnumpy(), SOME**2)
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 * SOME)
