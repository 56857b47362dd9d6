"""Sparse arrays against SciPy: making, converting, cutting, saving, operators."""

from __future__ import annotations

import logging
import pickle

import mxlite as mx
import numpy as np
import pytest
import scipy.sparse as sp
from mxlite import nd
from mxlite.ndarray.sparse import storage
from pairing import pairs

DTYPES = ("float32", "float64", "float16", "int32")


def random_csr(rows=5, columns=7, density=0.4, dtype="float32", seed=0):
    matrix = sp.random(rows, columns, density, "csr", random_state=seed)
    matrix.data = np.round(matrix.data * 8 - 4)
    matrix.eliminate_zeros()
    return matrix.astype("float32" if dtype == "float16" else dtype)


def random_rows(shape=(6, 3), rows=(1, 4), dtype="float32", seed=0):
    values = np.zeros(shape, dtype)
    values[list(rows)] = np.random.RandomState(seed).randint(1, 9, (len(rows), *shape[1:]))
    return values


@pytest.mark.parametrize("dtype", DTYPES)
def test_csr_and_scipy_have_the_same_parts(dtype):
    matrix = random_csr(dtype=dtype)
    array = nd.sparse.csr_matrix(matrix, dtype=dtype)
    assert isinstance(array, nd.NDArray) and isinstance(array, nd.sparse.BaseSparseNDArray)
    assert array.stype == "csr" and array.shape == (5, 7) and array.dtype == np.dtype(dtype).type
    assert array.indices.dtype == array.indptr.dtype == np.int64
    array.check_format()
    np.testing.assert_array_equal(array.asnumpy(), matrix.toarray())
    if dtype != "float16":
        back = array.asscipy()
        assert (back != matrix).nnz == 0 and back.dtype == matrix.dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_dense_arrays_go_there_and_back(stype, dtype):
    for values in (random_csr().toarray(), np.zeros((3, 4)), np.ones((1, 1)), np.zeros((0, 4))):
        dense = nd.array(values, dtype=dtype)
        there = dense.tostype(stype)
        assert there.stype == stype and there.dtype == np.dtype(dtype).type
        there.check_format()
        np.testing.assert_array_equal(there.tostype("default").asnumpy(), dense.asnumpy())


def test_row_sparse_arrays_have_more_dimensions():
    values = np.zeros((5, 2, 3), "float32")
    values[[0, 3]] = 2
    array = nd.array(values).tostype("row_sparse")
    assert array.data.shape == (2, 2, 3) and array.indices.asnumpy().tolist() == [0, 3]
    with pytest.raises(ValueError, match="2 Dimensional"):
        nd.array(values).tostype("csr")


def test_definitions():
    made = nd.sparse.csr_matrix(([1, 2, 3], [1, 3, 0], [0, 2, 2, 3]))
    assert made.shape == (3, 4) and made.dtype == np.float32
    pairs = nd.sparse.csr_matrix(([1.0, 2, 5], ([1, 0, 1], [3, 2, 3])), shape=(2, 4))
    assert pairs.asnumpy().tolist() == [[0, 0, 2, 0], [0, 0, 0, 6]]
    assert nd.sparse.csr_matrix((3, 4)).asnumpy().tolist() == [[0] * 4] * 3
    rows = nd.sparse.row_sparse_array(([[1, 2], [3, 4]], [2, 0]), shape=(4, 2))
    assert rows.indices.asnumpy().tolist() == [0, 2]
    assert rows.asnumpy().tolist() == [[3, 4], [0, 0], [1, 2], [0, 0]]
    assert nd.zeros((2, 3), stype="csr").stype == "csr"
    assert nd.sparse.zeros("row_sparse", (2, 3)).data.shape == (0, 3)
    assert nd.array(made).stype == "csr" and nd.sparse.array(sp.eye(3)).shape == (3, 3)


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: nd.sparse.csr_matrix((1, 2, 3, 4)), "length of input tuple: 4"),
        (lambda: nd.sparse.csr_matrix([1, 2]), "2 Dimensional"),
        (lambda: nd.sparse.csr_matrix(([1], [0], [0, 1]), shape=(1, 2, 3)), "invalid shape"),
        (lambda: nd.sparse.csr_matrix(([1], ([5], [0])), shape=(1, 1)), "exceed the shape"),
        (lambda: nd.sparse.row_sparse_array(([[1, 2]], [0, 1]), shape=(3, 2)), "data must have"),
        (lambda: nd.sparse.row_sparse_array(([[1, 2]], [0]), shape=(3, 4)), r"shape \(3, 4\)"),
        (lambda: nd.sparse.row_sparse_array((5, 7), shape=(6, 7)), r"invalid shape: \(6, 7\)"),
        (lambda: nd.sparse.csr_matrix((2, 2), shape=(3, 2)), r"invalid shape: \(3, 2\)"),
        (lambda: two_rows([-1, 2]), "indices: numbers must be from 0 to 3, got -1"),
        (lambda: two_rows([0, 4]), "numbers must be from 0 to 3, got 4"),
        (lambda: two_rows([2, 2]), "indices: numbers must be distinct, got 2 twice"),
        (lambda: nd.sparse.zeros("coo", (2, 2)), "storage type must be .*got 'coo'"),
        (lambda: nd.sparse.array(np.eye(2)), "mx.nd.array"),
        (lambda: nd.zeros((2, 2), stype="csr").tostype("row_sparse"), "not supported"),
        (lambda: nd.zeros((2, 2), stype="csr")[0:2:2], "continuous slicing"),
        (lambda: nd.zeros((2, 2), stype="csr")[0, 1], "Multi-dimension"),
        (lambda: bool(nd.zeros((2, 2), stype="csr")), "ambiguous"),
    ],
)
def test_wrong_definitions(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def two_rows(indices):
    return nd.sparse.row_sparse_array(([[1, 2], [3, 4]], indices), shape=(4, 2))


def parts_as_given(kind, values, *places, shape):
    """Return an array of unchecked parts, as 1.x makes it."""
    made = [nd.array(values), *(nd.array(place, dtype="int64") for place in places)]
    return getattr(storage, kind)(*made, shape)


@pytest.mark.parametrize(
    "data",
    [
        lambda: parts_as_given("csr", [1, 2, 3], [1, 3, 9], [0, 2, 2, 3], shape=(3, 4)),
        lambda: parts_as_given("csr", [1, 2, 3], [3, 1, 0], [0, 2, 2, 3], shape=(3, 4)),
        lambda: parts_as_given("csr", [1, 2, 3], [1, 3, 0], [0, 2, 1, 3], shape=(3, 4)),
        lambda: parts_as_given("row_sparse", [[1, 2], [3, 4]], [2, 7], shape=(4, 2)),
        lambda: parts_as_given("row_sparse", [[1, 2], [3, 4]], [2, 2], shape=(4, 2)),
        lambda: two_rows([2, 1]),
    ],
)
def test_damaged_arrays_are_found_and_touch_no_foreign_memory(data):
    array = data()
    with pytest.raises(mx.MXNetError, match="check_format"):
        array.check_format()
    array.asnumpy()
    if array.stype == "csr":
        nd.dot(array, nd.ones((4, 2))).asnumpy()
        nd.dot(array, nd.ones((3, 2)), transpose_a=True).asnumpy()
        nd.sum(array, axis=0).asnumpy()


@pytest.mark.parametrize(
    ("indices", "indptr", "message"),
    [
        ([-1, 1, 0], [0, 2, 2, 3], "indices: numbers must be from 0 to 3, got -1"),
        ([1, 4, 0], [0, 2, 2, 3], "indices: numbers must be from 0 to 3, got 4"),
        ([1, 1, 0], [0, 2, 2, 3], "indices of a row: numbers must be .*got 1 twice"),
        ([3, 1, 3], [0, 3, 3, 3], "indices of a row: numbers must be .*got 3 twice"),
        ([1, 3, 0], [0, 2, 1, 3], "indptr must ascend .*got 0 to 3"),
        ([1, 3, 0], [0, 2, 2, 9], "indptr must ascend .*got 0 to 9"),
        ([1, 3, 0], [1, 2, 2, 3], "indptr must ascend .*got 1 to 3"),
        ([1, 3, 0], [0, 2, 3], "one element more than the 3 rows, got 3"),
        ([0.5, 1, 0], [0, 2, 2, 3], "must be whole numbers"),
        ([1, 3], [0, 2, 2, 3], "data, indices and indptr must be"),
    ],
)
def test_bad_csr_indices_are_errors(indices, indptr, message):
    for kind in (list, np.array, lambda v: nd.array(v, dtype=None if 0.5 in v else "int64")):
        with pytest.raises(ValueError, match=message):
            nd.sparse.csr_matrix(([1, 2, 3], kind(indices), kind(indptr)), shape=(3, 4))


def test_unordered_indices_keep_their_values():
    array = nd.sparse.csr_matrix(([1, 2, 3], [3, 1, 0], [0, 2, 2, 3]), shape=(3, 4))
    assert array.asnumpy().tolist() == [[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 0]]
    rows = two_rows([2, 1])
    assert rows.asnumpy().tolist() == [[0, 0], [3, 4], [1, 2], [0, 0]]


def test_rows_of_a_csr_array():
    matrix = random_csr(6, 5)
    array = nd.sparse.csr_matrix(matrix)
    for key in (slice(1, 4), slice(-2, None), slice(0, 0), slice(None), slice(5, 99)):
        cut = array[key]
        assert cut.stype == "csr"
        cut.check_format()
        np.testing.assert_array_equal(cut.asnumpy(), matrix.toarray()[key])
    for row in (0, 3, -1):
        np.testing.assert_array_equal(array[row].asnumpy(), matrix.toarray()[[row]])
    with pytest.raises(IndexError, match="index 6"):
        array[6]
    cut = nd.slice(array, begin=(1, 2), end=(5, None))
    assert cut.stype == "csr"
    np.testing.assert_array_equal(cut.asnumpy(), matrix.toarray()[1:5, 2:])
    both = nd.concat(array, array[0:2], dim=0)
    assert both.stype == "csr"
    np.testing.assert_array_equal(both.asnumpy(), sp.vstack([matrix, matrix[:2]]).toarray())


def test_assignment_and_copies():
    array = nd.array(random_rows()).tostype("row_sparse")
    other = array.copy()
    array[:] = 0
    assert array.indices.shape == (0,) and other.asnumpy().any()
    array[:] = other
    np.testing.assert_array_equal(array.asnumpy(), other.asnumpy())
    array[:] = np.full((6, 3), 2)
    assert array.indices.asnumpy().tolist() == list(range(6))
    target = nd.zeros((6, 3))
    assert other.copyto(target) is target
    np.testing.assert_array_equal(target.asnumpy(), other.asnumpy())
    csr = nd.zeros((6, 3), stype="csr")
    target.copyto(csr)
    np.testing.assert_array_equal(csr.asnumpy(), other.asnumpy())
    with pytest.raises(TypeError, match="copyto does not support"):
        other.copyto(csr)
    with pytest.raises(ValueError, match=r"only supports \[:\]"):
        csr[1] = 3
    matrix = nd.sparse.csr_matrix(random_csr())
    matrix.data[:] = 2
    assert matrix.asnumpy().max() == 2


def test_methods_without_meaning_say_so():
    array = nd.zeros((2, 2), stype="row_sparse")
    for call in (lambda: array.reshape((4,)), lambda: array.size, lambda: array[0]):
        with pytest.raises(mx.base.NotSupportedForSparseNDArray, match="not supported"):
            call()
    assert repr(array) == "\n<RowSparseNDArray 2x2 @cpu(0)>"


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
def test_files_and_pickles(tmp_path, dtype):
    arrays = {
        "csr": nd.sparse.csr_matrix(random_csr(), dtype=dtype),
        "rows": nd.array(random_rows(), dtype=dtype).tostype("row_sparse"),
        "none": nd.zeros((3, 4), stype="csr", dtype=dtype),
        "dense": nd.ones((2,)),
    }
    nd.save(str(tmp_path / "a.params"), arrays)
    for found in (nd.load(str(tmp_path / "a.params")), pickle.loads(pickle.dumps(arrays))):
        for name, array in arrays.items():
            assert found[name].stype == array.stype and found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name].asnumpy(), array.asnumpy())


UNARY = (
    "abs arcsin arcsinh arctan arctanh cbrt ceil degrees expm1 fix floor log1p negative radians "
    "relu rint round sign sin sinh sqrt square tan tanh trunc zeros_like"
).split()


@pytest.mark.parametrize("name", UNARY)
def test_functions_that_keep_zero_keep_the_storage(name):
    op = getattr(nd, name)
    values = np.array([[0, 0.5, 0, 0.25], [0, 0, 0, 0], [0.75, 0, 0, 0]], "float32")
    expected = op(nd.array(values)).asnumpy()
    for stype in ("csr", "row_sparse"):
        result = op(nd.array(values).tostype(stype))
        assert result.stype == stype
        np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "function, sparse",
    [
        (lambda x: x * 3, True),
        (lambda x: 3 * x, True),
        (lambda x: x / 4, True),
        (lambda x: -x, True),
        (lambda x: x > 0, True),
        (lambda x: x + 0, True),
        (lambda x: x + 1, False),
        (lambda x: 1 - x, False),
        (lambda x: x == 0, False),
        (lambda x: x**2, False),
        (lambda x: nd.clip(x, -1, 2), True),
        (lambda x: nd.clip(x, 1, 2), False),
        (lambda x: nd.cos(x), False),
        (lambda x: nd.contrib.quadratic(x, a=2, b=3), True),
        (lambda x: nd.contrib.quadratic(x, a=2, b=3, c=1), False),
        (lambda x: x.astype("float64"), True),
    ],
)
@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_storage_of_results(function, sparse, stype):
    values = random_csr().toarray()
    result = function(nd.array(values).tostype(stype))
    assert result.stype == (stype if sparse else "default")
    expected = function(nd.array(values)).asnumpy()
    np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-6)


STYPES = ("default", "csr", "row_sparse")
BINARY = {
    "elemwise_add": lambda a, b: a == b,
    "elemwise_sub": lambda a, b: a == b,
    "elemwise_mul": lambda a, b: {a, b} != {"csr", "row_sparse"},
    "broadcast_maximum": lambda a, b: False,
}


@pytest.mark.parametrize("name", sorted(BINARY))
@pytest.mark.parametrize("left", STYPES)
@pytest.mark.parametrize("right", STYPES)
def test_two_arrays(name, left, right):
    a, b = random_csr(seed=1).toarray(), random_csr(seed=2).toarray()
    op = getattr(nd, name)
    result = op(nd.array(a).tostype(left), nd.array(b).tostype(right))
    keeps = BINARY[name](left, right)
    assert (result.stype != "default") == (keeps and {left, right} != {"default"})
    expected = op(nd.array(a), nd.array(b)).asnumpy()
    np.testing.assert_array_equal(result.asnumpy(), expected)


def test_csr_with_rows_and_columns():
    matrix = random_csr()
    array = nd.sparse.csr_matrix(matrix)
    for shape in ((1, 7), (5, 1), (7,), (1,)):
        other = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype("float32")
        for op, reference in ((nd.broadcast_mul, np.multiply), (nd.broadcast_div, np.divide)):
            result = op(array, nd.array(other))
            assert result.stype == "csr"
            expected = reference(matrix.toarray(), other)
            np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["slice", "take", "Concat"])
@pytest.mark.parametrize("indptr", [[0, 2, 1, 3], [0, 2, 2, 9], [-1, 2, 2, 3], [0, 2]])
def test_rows_of_damaged_arrays_are_refused(name, indptr):
    array = parts_as_given("csr", [1, 2, 3], [1, 3, 0], indptr, shape=(3, 4))
    calls = {
        "slice": lambda op: op(array, begin=(0, 1), end=(3, 4)),
        "take": lambda op: op(array, nd.array([0, 2])),
        "Concat": lambda op: op(array, array, dim=0),
    }
    with pytest.raises(mx.MXNetError, match=f"{name}: indptr of a csr array"):
        calls[name](mx._core.op(name))


def test_signs_and_functions_are_the_same_operators():
    a, b = random_csr(seed=1), random_csr(seed=2)
    csr, other = nd.sparse.csr_matrix(a), nd.sparse.csr_matrix(b)
    column = nd.array(np.arange(1.0, 6).reshape(5, 1))
    for result, expected, stype in (
        (nd.sparse.add(csr, other), a + b, "csr"),
        (csr - other, a - b, "csr"),
        (nd.array(b.toarray()) * csr, a.multiply(b), "csr"),
        (csr * nd.array(b.toarray()), a.multiply(b), "csr"),
        (csr / column, a.multiply(1 / column.asnumpy()), "csr"),
        (2 - csr, 2 - a.toarray(), "default"),
        (nd.sparse.subtract(2, csr), 2 - a.toarray(), "default"),
        (csr > other, (a > b).astype("f"), "default"),
        (csr**2, a.power(2), "default"),
    ):
        assert result.stype == stype
        dense = expected if isinstance(expected, np.ndarray) else expected.toarray()
        np.testing.assert_allclose(result.asnumpy(), dense, rtol=1e-6)
    assert nd.sparse.add is nd.add and nd.sparse.divide(1, 2) == 0.5
    assert (csr == None) is False  # noqa: E711 - as Python compares other objects
    with pytest.raises(TypeError):
        csr + "text"


def test_in_place_operators_keep_the_array():
    dense = same = nd.ones((6, 3))
    rows = nd.array(random_rows()).tostype("row_sparse")
    dense += rows
    assert dense is same
    np.testing.assert_array_equal(same.asnumpy(), 1 + random_rows())
    before = rows
    rows *= 2
    assert rows is before and rows.stype == "row_sparse"
    np.testing.assert_array_equal(rows.asnumpy(), 2 * random_rows())


def test_add_n_of_rows_and_retain():
    a, b = random_rows(rows=(1, 4)), random_rows(rows=(0, 4), seed=1)
    total = nd.add_n(*(nd.array(v).tostype("row_sparse") for v in (a, b, a)))
    assert total.stype == "row_sparse" and total.indices.asnumpy().tolist() == [0, 1, 4]
    np.testing.assert_array_equal(total.asnumpy(), a + b + a)
    kept = nd.sparse.retain(total, nd.array([4, 5]))
    assert kept.indices.asnumpy().tolist() == [4, 5]
    np.testing.assert_array_equal(kept.data.asnumpy(), [(a + b + a)[4], [0, 0, 0]])
    np.testing.assert_array_equal(total.retain(nd.array([0])).data.asnumpy(), b[:1])


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums(axis, keepdims):
    matrix = random_csr()
    for name in ("sum", "mean"):
        op = getattr(nd, name)
        options = {"keepdims": keepdims} if axis is None else {"axis": axis, "keepdims": keepdims}
        result = op(nd.sparse.csr_matrix(matrix), **options)
        expected = op(nd.array(matrix.toarray()), **options)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result.asnumpy(), expected.asnumpy(), rtol=1e-6)


def test_square_sum_norm_counts_and_edges():
    rows = nd.array(random_rows()).tostype("row_sparse")
    squares = nd._internal._square_sum(rows, axis=1, keepdims=True)
    assert squares.stype == "row_sparse" and squares.shape == (6, 1)
    np.testing.assert_allclose(squares.asnumpy()[:, 0], (random_rows() ** 2).sum(1))
    divided = nd._internal._scatter_elemwise_div(rows, nd.full((6, 3), 4))
    assert divided.stype == "row_sparse"
    np.testing.assert_array_equal(divided.asnumpy(), random_rows() / 4)
    matrix = random_csr()
    array = nd.sparse.csr_matrix(matrix)
    np.testing.assert_allclose(nd.norm(array).asscalar(), np.sqrt((matrix.data**2).sum()), 1e-6)
    assert nd.contrib.getnnz(array).asscalar() == matrix.nnz
    for axis in (0, 1):
        expected = matrix.getnnz(axis)
        np.testing.assert_array_equal(nd.contrib.getnnz(array, axis=axis).asnumpy(), expected)
    edges = nd.sparse.csr_matrix(([5.0, 7, 9], [1, 3, 0], [0, 2, 2, 3]), shape=(3, 4))
    found = nd.contrib.edge_id(edges, nd.array([0, 1, 2, 0]), nd.array([3, 1, 0, 1]))
    assert found.asnumpy().tolist() == [7, -1, 9, 5]
    assert nd.contrib.quadratic(rows, a=np.inf).stype == "default"
    data = nd.ones((5, 7))
    data.attach_grad()
    with mx.autograd.record():
        output = nd.LinearRegressionOutput(data, array)  # labels may be csr
    output.backward()
    np.testing.assert_allclose(data.grad.asnumpy(), (1 - matrix.toarray()) / 7, rtol=1e-6)
    with pytest.raises(TypeError, match="'rows'"):
        nd.sparse.retain(rows, nd.array([1]), rows=3)
    with pytest.raises(mx.MXNetError, match="no indices"):
        nd.sparse.retain(rows)


def test_fallback_is_logged_once_and_can_be_silenced(caplog, monkeypatch):
    from mxlite.ndarray.sparse import dispatch

    monkeypatch.setattr(dispatch, "_logged", set())
    array = nd.sparse.csr_matrix(random_csr())
    with caplog.at_level(logging.WARNING, "mxlite"):
        monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")
        nd.exp(array)
        assert not caplog.records
        monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "1")
        nd.exp(array)
        nd.exp(array)
    assert [r.getMessage() for r in caplog.records][0].startswith("Storage type fallback detected")
    assert len(caplog.records) == 1 and "exp" in caplog.records[0].getMessage()


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("density", [0, 0.5, 1])
def test_rows_taken_from_a_csr_array(mode, density):
    matrix = random_csr(density=density, dtype="int32")
    wanted = [4, 0, 0, -3, 9, 2]
    result = nd.take(nd.array(matrix), nd.array(wanted), mode=mode)
    assert result.stype == "csr" and result.dtype == np.int32
    result.check_format()
    np.testing.assert_array_equal(
        result.asnumpy(), np.take(matrix.toarray(), wanted, axis=0, mode=mode)
    )
    columns = nd.take(nd.array(matrix), nd.array([1, 0]), axis=1)
    assert columns.stype == "default"
    np.testing.assert_array_equal(columns.asnumpy(), matrix.toarray()[:, [1, 0]])


def test_layer_with_a_bias_by_rows():
    rng = np.random.default_rng(1)
    data, weight, bias = (rng.normal(size=s) for s in ((5, 4), (3, 4), (3, 1)))
    arrays = nd.array(data), nd.array(weight), nd.array(bias).tostype("row_sparse")
    result = nd.FullyConnected(*arrays, num_hidden=3)
    np.testing.assert_allclose(result.asnumpy(), data @ weight.T + bias[:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_numbers_and_sparse_arrays_in_a_symbol(stype):
    x = mx.sym.var("x", stype=stype)
    net = mx.sym.Group([x * 2, 3 + x, mx.sym.zeros_like(x), x > 0])
    values = random_csr().toarray()
    found = net.bind(mx.cpu(), {"x": nd.array(values).tostype(stype)}).forward()
    assert [array.stype for array in found] == [stype, "default", stype, stype]
    for array, expected in pairs(found, (values * 2, values + 3, values * 0, values > 0)):
        np.testing.assert_allclose(array.asnumpy(), expected, rtol=1e-6)
