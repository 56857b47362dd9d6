"""Operators on sparse arrays refuse what they refuse on dense ones, and name themselves."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd

DENSE = nd.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
CSR, ROWS = DENSE.tostype("csr"), DENSE.tostype("row_sparse")

SQUARE, OTHER = nd.zeros((3, 2)).tostype("csr"), nd.zeros((2, 3))
ONE_ROW = nd.array(1).reshape((1,)).tostype("row_sparse")
CALLS = [
    ("clip", (CSR,), {"a_min": 0.0}, TypeError, "clip.* missing required .*a_max"),
    ("clip", (CSR, 0, "x"), {}, ValueError, "clip: parameter a_max must .*, got 'x'"),
    ("tan", (CSR, ROWS), {}, TypeError, "tan"),
    ("relu", (DENSE, CSR, CSR), {}, TypeError, "relu"),
    ("broadcast_div", (CSR,), {}, TypeError, r"broadcast_div.* missing required input 'rhs'"),
    ("Embedding", (DENSE, ROWS), {"output_dim": 3}, TypeError, "Embedding.* missing .*input_dim"),
    ("slice", (CSR,), {"end": (2, 2)}, TypeError, "slice.* missing required .*begin"),
    ("sgd_update", (ROWS,), {"lr": 1.0}, TypeError, "sgd_update.* missing required input 'grad'"),
    ("sgd_update", (ROWS, ROWS), {"lr": "x"}, ValueError, "sgd_update: parameter lr"),
    ("dot", (CSR, ROWS), {"transpose_z": 1}, TypeError, "dot.* unexpected keyword .*transpose_z"),
    ("dot", (CSR, CSR), {}, ValueError, "dot: lhs of shape"),
    (
        "dot",
        (CSR, ROWS),
        {"forward_stype": "x"},
        ValueError,
        "parameter forward_stype must be one of .*, got 'x'",
    ),
    (
        "dot",
        (CSR, nd.zeros((3, 2, 2))),
        {"forward_stype": "csr"},
        ValueError,
        "dot: .* forward_stype",
    ),
    ("_mul_scalar", (CSR, DENSE), {"scalar": 2.0}, TypeError, "_mul_scalar"),
    ("prod", (CSR, CSR), {}, TypeError, "prod: parameter axis must be .*, got CSRNDArray"),
    ("elemwise_add", (CSR, SQUARE), {}, ValueError, "elemwise_add"),
    ("elemwise_add", (CSR, mx.sym.var("x")), {}, TypeError, "must all be Symbols or all NDArrays"),
    ("take", (ONE_ROW, CSR), {"axis": 5}, IndexError, "take"),
    ("abs", (CSR,), {"out": nd.zeros((5,))}, ValueError, r"abs: out: .*\(5,\).*\(2, 3\)"),
    ("abs", (CSR,), {"out": [OTHER] * 2}, TypeError, "abs: out must have 1 arrays, got 2"),
    ("abs", (DENSE,), {"out": [OTHER] * 2}, TypeError, "abs: out must have 1 arrays, got 2"),
    ("cast_storage", (nd.ones((2, 3, 4)),), {"stype": "csr"}, ValueError, ".*2 Dimensional"),
    ("_sparse_retain", (OTHER, nd.array([0])), {}, TypeError, "_sparse_retain: .* RowSparseNDArr"),
]


@pytest.mark.parametrize(("name", "args", "params", "error", "match"), CALLS)
def test_wrong_calls_on_sparse_arrays_name_the_operator(name, args, params, error, match):
    with pytest.raises(error, match=match) as caught:
        mx._core.op(name)(*args, **params)
    assert isinstance(caught.value, mx.MXNetError)


def test_parameters_have_the_same_forms_as_in_dense_calls():
    """Numbers as text and NumPy's scalars are converted before a rule sees them."""
    for given in ("2", np.float32(2), np.int64(2)):
        result = nd._internal._mul_scalar(CSR, scalar=given)
        assert result.stype == "csr"
        np.testing.assert_array_equal(result.asnumpy(), DENSE.asnumpy() * 2)
    np.testing.assert_array_equal(nd.sum(CSR, axis="1").asnumpy(), [1, 5])
    np.testing.assert_array_equal(
        nd.concat(CSR, CSR, dim=np.int64(0)).asnumpy()[2:], DENSE.asnumpy()
    )


def test_empty_arrays_are_limited_as_in_numpy():
    assert nd.zeros((2**31, 0)).asnumpy().shape == (2**31, 0)
    with pytest.raises(ValueError, match=r"an empty array of shape .* must be below 2\^60"):
        nd.zeros((2**40, 0, 2**40))
    with pytest.raises(ValueError, match="broadcast_to"):
        nd.broadcast_to(nd.zeros((1, 0, 1)), shape=(2**40, 0, 2**40))


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_truth_values_are_subtracted_as_in_dense_calls(stype):
    lhs, rhs = [[True, False], [True, True]], [[True, True], [False, False]]
    dense = [nd.array(values, dtype="bool") for values in (lhs, rhs)]
    sparse = [array.tostype(stype) for array in dense]
    np.testing.assert_array_equal(
        nd.elemwise_sub(*sparse).asnumpy(), nd.elemwise_sub(*dense).asnumpy()
    )


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
@pytest.mark.parametrize("shape", [(2, 3), (4, 1), (0, 3)])
def test_a_traced_array_is_not_stored_sparsely(stype, shape):
    """The stored elements are not known while a block is traced."""

    class Net(mx.gluon.HybridBlock):
        def forward(self, x):
            return nd.cast_storage(x, stype=stype)

    net = Net()
    expected = net(nd.ones(shape))
    assert expected.stype == stype
    net.hybridize()
    with pytest.warns(UserWarning, match="cast_storage: .* while a hybridized forward is"):
        assert net(nd.ones(shape)).stype == stype
