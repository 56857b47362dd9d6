"""Products, gradients and updates of sparse arrays, and models trained with them."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
import scipy.sparse as sp
from mxlite import autograd, gluon, nd

MATRIX = sp.random(6, 9, 0.4, "csr", random_state=3, dtype="float32")


def uniform(*shape, seed=0, dtype="float32"):
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("width", [1, 3, 300])
def test_products_with_dense_matrices(dtype, width):
    lhs = nd.sparse.csr_matrix(MATRIX, dtype=dtype)
    tolerance = 1e-2 if dtype == "float16" else 1e-5
    right, left = uniform(9, width, dtype=dtype), uniform(6, width, dtype=dtype)
    result = nd.dot(lhs, nd.array(right, dtype=dtype))
    assert result.stype == "default" and result.dtype == np.dtype(dtype).type
    np.testing.assert_allclose(result.asnumpy(), MATRIX @ right, tolerance, tolerance)
    rows = nd.dot(lhs, nd.array(left, dtype=dtype), transpose_a=True)
    assert rows.stype == "row_sparse"
    assert rows.indices.asnumpy().tolist() == sorted(set(MATRIX.indices))
    np.testing.assert_allclose(rows.asnumpy(), MATRIX.T @ left, tolerance, tolerance)


def test_products_of_other_storage_types():
    csr, dense = nd.sparse.csr_matrix(MATRIX), MATRIX.toarray()
    rows = uniform(9, 4) * np.arange(9)[:, None].__mod__(2)
    right = nd.array(rows).tostype("row_sparse")
    np.testing.assert_allclose(nd.dot(csr, right).asnumpy(), dense @ rows, 1e-5, 1e-6)
    left = uniform(2, 6)
    product = nd.dot(nd.array(left), csr)
    assert product.stype == "csr"
    np.testing.assert_allclose(product.asnumpy(), left @ dense, 1e-5, 1e-6)
    flat = nd.dot(nd.array(left), csr, forward_stype="default")
    assert flat.stype == "default"
    np.testing.assert_allclose(nd.dot(csr, csr, transpose_b=True).asnumpy(), dense @ dense.T, 1e-5)
    weights = uniform(3, 9)
    np.testing.assert_allclose(
        nd.dot(csr, nd.array(weights), transpose_b=True).asnumpy(), dense @ weights.T, 1e-5, 1e-6
    )
    vector = uniform(9)
    np.testing.assert_allclose(nd.dot(csr, nd.array(vector)).asnumpy(), dense @ vector, 1e-5, 1e-6)
    output = nd.FullyConnected(csr, nd.array(weights), nd.ones((3,)), num_hidden=3)
    np.testing.assert_allclose(output.asnumpy(), dense @ weights.T + 1, 1e-5, 1e-6)
    with pytest.raises(ValueError, match=r"dot: lhs of shape \(6, 9\) and rhs of shape \(6, 2\)"):
        nd.dot(csr, nd.ones((6, 2)))
    with pytest.raises(TypeError, match="rhs must have the dtype of lhs, float32, got float64"):
        nd.dot(csr, nd.ones((9, 2), dtype="float64"))


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
@pytest.mark.parametrize("grad_stype", ["default", "row_sparse"])
def test_gradient_of_a_product(stype, grad_stype):
    csr = nd.sparse.csr_matrix(MATRIX)
    weight = nd.array(uniform(9, 4)).tostype(stype)
    weight.attach_grad(stype=grad_stype)
    head = uniform(6, 4, seed=1)
    with autograd.record():
        output = nd.dot(csr, weight) * nd.array(head)
    output.backward()
    assert weight.grad.stype == grad_stype
    np.testing.assert_allclose(weight.grad.asnumpy(), MATRIX.T @ head, 1e-5, 1e-6)
    if grad_stype == "row_sparse":
        assert weight.grad.indices.asnumpy().tolist() == sorted(set(MATRIX.indices))


def test_gradients_add_up_and_keep_their_object():
    csr = nd.sparse.csr_matrix(MATRIX)
    once = MATRIX.T @ np.ones((6, 2))
    for request, factor in (("write", 2), ("add", 6)):
        weight = nd.ones((9, 2))
        weight.attach_grad(request, stype="row_sparse")
        grad = weight.grad
        assert grad.indices.shape == (0,)
        for _ in range(3):
            with autograd.record():
                output = nd.dot(csr, weight) + nd.dot(csr, weight)
            output.backward()
        assert weight.grad is grad
        np.testing.assert_allclose(grad.asnumpy(), factor * once, rtol=1e-5)
    with autograd.record():
        output = nd.dot(csr, weight)
    gradient = autograd.grad(output, [weight])[0]
    assert gradient.stype == "row_sparse"
    np.testing.assert_allclose(gradient.asnumpy(), once, rtol=1e-5)


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_gradient_of_embedding(stype):
    weight = nd.array(uniform(5, 3)).tostype(stype)
    indices = np.array([[1, 4], [1, 9]], "float32")  # 9 is clipped to 4
    weight.attach_grad(stype="row_sparse")
    head = nd.ones((2, 2, 3))
    with autograd.record():
        output = nd.Embedding(
            nd.array(indices), weight, input_dim=5, output_dim=3, sparse_grad=True
        )
    output.backward(head)
    head[:] = 100  # the gradient shares no memory with it
    clipped = np.clip(indices, 0, 4).astype(int)
    np.testing.assert_array_equal(output.asnumpy(), uniform(5, 3)[clipped])
    assert weight.grad.stype == "row_sparse" and weight.grad.indices.asnumpy().tolist() == [1, 4]
    assert weight.grad.data.asnumpy().tolist() == [[2, 2, 2], [2, 2, 2]]
    target = nd.ones((5, 3))
    nd.sgd_update(target, weight.grad, out=target, lr=0.1)
    np.testing.assert_allclose(target.asnumpy()[:, 0], [1, 0.8, 1, 1, 0.8], rtol=1e-6)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: nd.square(x),
        lambda x: x * 3 + x * x,
        lambda x: nd.exp(x),
        lambda x: nd.sum(x, axis=1),
        lambda x: nd.elemwise_mul(x, nd.ones((6, 9)) * 2),
    ],
)
def test_gradients_of_other_operators_are_those_of_dense_arrays(function, stype):
    grads = []
    for kind in (stype, "default"):
        array = nd.array(MATRIX.toarray()).tostype(kind)
        array.attach_grad()
        with autograd.record():
            output = function(array)
        output.backward()
        grads.append(array.grad)
    assert grads[0].stype == stype
    np.testing.assert_allclose(grads[0].asnumpy(), grads[1].asnumpy(), rtol=1e-6)


def test_a_changed_input_is_noticed():
    array = nd.array(MATRIX.toarray()).tostype("row_sparse")
    array.attach_grad()
    with autograd.record():
        output = nd.square(array)
    array.data[:] = 1
    with pytest.warns(UserWarning, match="an input of square.*changed in place"):
        output.backward()
    stored = (MATRIX.toarray() != 0).any(1, keepdims=True)
    np.testing.assert_array_equal(array.grad.asnumpy(), 2 * stored * np.ones(MATRIX.shape))


# ---- updates -------------------------------------------------------------------------------------

UPDATES = {
    "sgd_update": (0, {"lr": 0.1, "wd": 0.1}),
    "sgd_mom_update": (1, {"lr": 0.1, "wd": 0.1, "momentum": 0.9}),
    "adam_update": (2, {"lr": 0.1, "wd": 0.1}),
    "_sparse_adagrad_update": (1, {"lr": 0.1}),
}


@pytest.mark.parametrize("name", sorted(UPDATES))
@pytest.mark.parametrize("stype", ["default", "row_sparse"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_lazy_updates_change_the_rows_of_the_gradient_only(name, stype, dtype):
    count, options = UPDATES[name]
    op = mx._core.op(name)
    rows, shape = [1, 4], (6, 700)  # longer than one block
    gradient = np.zeros(shape, dtype)
    gradient[rows] = uniform(2, 700, dtype=dtype)

    def arrays(kind):
        made = [nd.array(uniform(*shape, seed=2), dtype=dtype)]
        made += [nd.full(shape, 0.5, dtype=dtype) for _ in range(count)]
        return [array.tostype(kind) for array in made]

    dense, lazy = arrays("default"), arrays(stype)
    before = [array.asnumpy() for array in dense]
    sparse_gradient = nd.array(gradient, dtype=dtype).tostype("row_sparse")
    op(dense[0], nd.array(gradient, dtype=dtype), *dense[1:], out=dense[0], **options)
    op(lazy[0], sparse_gradient, *lazy[1:], out=lazy[0], **options)
    rest = [row for row in range(6) if row not in rows]
    for one, other, old in zip(lazy, dense, before):
        assert one.stype == stype
        tolerance = 2e-3 if dtype == "float16" else 1e-6
        np.testing.assert_allclose(one.asnumpy()[rows], other.asnumpy()[rows], tolerance, 1e-6)
        np.testing.assert_array_equal(one.asnumpy()[rest], old[rest])
    if "lazy_update" in op.__doc__:
        full = arrays(stype)
        op(full[0], sparse_gradient, *full[1:], out=full[0], lazy_update=False, **options)
        np.testing.assert_allclose(full[0].asnumpy(), dense[0].asnumpy(), 2e-3, 1e-6)


def test_group_adagrad_and_ftrl():
    gradient = nd.sparse.row_sparse_array((np.ones((2, 2), "float32"), [1, 3]), shape=(4, 2))
    weight, history = nd.ones((4, 2)), nd.ones((4, 1)) * 0.5
    nd.contrib.group_adagrad_update(weight, gradient, history, out=weight, lr=0.1)
    np.testing.assert_allclose(weight.asnumpy()[:, 1], [1, 0.91835064, 1, 0.91835064], rtol=1e-6)
    assert history.asnumpy()[:, 0].tolist() == [0.5, 1.5, 0.5, 1.5]
    # Numbers of MXNet 1.9.1.
    arrays = [(nd.ones((4, 2)) * v).tostype("row_sparse") for v in (1, 0.5, 0.5)]
    nd.ftrl_update(arrays[0], gradient, *arrays[1:], out=arrays[0], lr=0.1, wd=0.1)
    np.testing.assert_allclose(arrays[0].asnumpy()[:, 0], [1, 0.16406265, 1, 0.16406265], rtol=1e-5)


def test_rows_wider_than_a_block_are_updated_whole():
    width = 1100  # rows are updated in blocks of 512 elements
    values = np.random.RandomState(1).uniform(-1, 1, (2, width)).astype("float32")
    gradient = nd.sparse.row_sparse_array((values, [1, 3]), shape=(4, width))
    start = np.random.RandomState(2).uniform(-1, 1, (4, width)).astype("float32")
    weight, history = nd.array(start), nd.ones((4, 1)) * 0.5
    nd.contrib.group_adagrad_update(weight, gradient, history, out=weight, lr=0.1)
    want, sums = start.copy(), np.array([0.5, 0.5, 0.5, 0.5])
    sums[[1, 3]] += (values.astype("float64") ** 2).mean(1)
    want[[1, 3]] -= 0.1 * values / np.sqrt(sums[[1, 3], None] + 1e-5)
    np.testing.assert_allclose(history.asnumpy()[:, 0], sums, rtol=1e-5)
    np.testing.assert_allclose(weight.asnumpy(), want, rtol=1e-5, atol=1e-6)
    weight, state = nd.array(start), nd.zeros((4, width))
    nd.sgd_mom_update(weight, gradient, state, out=weight, lr=0.5, momentum=0.9)
    want = start.copy()
    want[[1, 3]] -= 0.5 * values
    np.testing.assert_allclose(weight.asnumpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "adam", "adagrad", "ftrl", "rmsprop", "nag", "signum"])
def test_optimizers_take_row_sparse_gradients(name):
    weight = gluon.Parameter("w", shape=(9, 2), grad_stype="row_sparse")
    weight.initialize(mx.init.One())
    trainer = gluon.Trainer([weight], name, {"learning_rate": 0.1})
    csr = nd.sparse.csr_matrix(MATRIX)
    for _ in range(2):
        with autograd.record():
            loss = nd.square(nd.dot(csr, weight.data()))
        loss.backward()
        trainer.step(6)
    changed = np.flatnonzero((weight.data().asnumpy() != 1).any(1)).tolist()
    used = sorted(set(MATRIX.indices))
    assert set(used) <= set(changed)
    if name in ("sgd", "adam", "adagrad"):
        assert changed == used


# ---- gluon ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("hybrid", [False, True])
def test_embedding_layer_updates_the_rows_it_read(hybrid):
    layer = gluon.nn.Embedding(10, 2, sparse_grad=True)
    layer.initialize()
    if hybrid:
        layer.hybridize()
    trainer = gluon.Trainer(layer.collect_params(), "sgd", {"learning_rate": 1.0, "wd": 0.1})
    before = layer.weight.data().asnumpy()
    with autograd.record():
        output = layer(nd.array([1, 3, 1]))
    output.backward()
    assert layer.weight.grad().stype == "row_sparse"
    assert layer.weight.grad().indices.asnumpy().tolist() == [1, 3]
    trainer.step(1)
    changed = (layer.weight.data().asnumpy() != before).any(1)
    assert np.flatnonzero(changed).tolist() == [1, 3]
    layer.weight.zero_grad()
    assert layer.weight.grad().indices.shape == (0,)


def test_row_sparse_parameters(tmp_path):
    layer = gluon.contrib.nn.SparseEmbedding(10, 2)
    layer.initialize()
    weight = layer.weight
    for call in (weight.data, weight.list_data):
        with pytest.raises(RuntimeError, match=r"use row_sparse_data\(\)"):
            call()
    with pytest.raises(RuntimeError, match="no Trainer"):
        weight.row_sparse_data(nd.array([1]))
    trainer = gluon.Trainer(layer.collect_params(), "adam", {"learning_rate": 0.5})
    rows = weight.row_sparse_data(nd.array([3, 1, 3]))
    assert rows.stype == "row_sparse" and rows.indices.asnumpy().tolist() == [1, 3]
    before = weight.row_sparse_data(nd.arange(10)).asnumpy()
    with autograd.record():
        output = layer(nd.array([1, 3, 1]))
    output.backward()
    assert weight.grad().indices.asnumpy().tolist() == [1, 3]
    trainer.step(1)
    after = weight.list_row_sparse_data(nd.arange(10))[0].asnumpy()
    assert np.flatnonzero((after != before).any(1)).tolist() == [1, 3]
    layer.save_parameters(str(tmp_path / "e.params"))
    assert nd.load(str(tmp_path / "e.params"))["weight"].stype == "row_sparse"
    other = gluon.contrib.nn.SparseEmbedding(10, 2)
    other.load_parameters(str(tmp_path / "e.params"))
    gluon.Trainer(other.collect_params(), "sgd")
    np.testing.assert_array_equal(other.weight.row_sparse_data(nd.arange(10)).asnumpy(), after)


class WideDeep(gluon.HybridBlock):
    """A linear model on csr features and a network on embedded categories."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.wide = self.params.get("wide", shape=(1000, 1), grad_stype="row_sparse")
            self.embedding = gluon.nn.Embedding(50, 4, sparse_grad=True)
            self.hidden = gluon.nn.Dense(8, activation="relu")
            self.last = gluon.nn.Dense(1)

    def hybrid_forward(self, F, features, categories, wide):  # noqa: N803
        deep = self.last(self.hidden(F.flatten(self.embedding(categories))))
        return F.dot(features, wide) + deep


@pytest.mark.parametrize("hybrid", [False, True])
def test_wide_and_deep_learns(hybrid):
    random = np.random.RandomState(7)
    mx.random.seed(7)
    features = sp.random(512, 1000, 0.02, "csr", random_state=random, dtype="float32")
    categories = random.randint(0, 50, (512, 2))
    truth = features @ random.normal(size=(1000, 1)) + random.normal(size=50)[categories].sum(
        1, keepdims=True
    )
    labels = (truth > np.median(truth)).astype("float32")
    net = WideDeep()
    net.initialize(mx.init.Normal(0.1))
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    loss_function = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    csr = nd.sparse.csr_matrix(features)
    losses = []
    for _ in range(12):
        for begin in range(0, 512, 64):
            batch = csr[begin : begin + 64]
            with autograd.record():
                output = net(batch, nd.array(categories[begin : begin + 64]))
                loss = loss_function(output, nd.array(labels[begin : begin + 64]))
            loss.backward()
            assert net.wide.grad().stype == "row_sparse"
            trainer.step(64)
            losses.append(loss.mean().asscalar())
    assert np.mean(losses[:8]) > 0.6 and np.mean(losses[-8:]) < 0.25


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1, -2, None])
def test_gradient_of_sums_of_squares(axis, keepdims):
    values = np.array([[0, 0, 0], [1, 2, 0], [0, 0, 0], [-3, 0, 4]], np.float32)
    x = nd.array(values).tostype("row_sparse")
    x.attach_grad()
    with autograd.record():
        sums = nd._internal._square_sum(x, axis=axis, keepdims=keepdims)
        y = sums * sums.shape[0]
    weights = np.arange(1, np.prod(sums.shape) + 1, dtype=np.float32).reshape(sums.shape)
    y.backward(nd.array(weights))
    kept = np.sum(values, axis=axis, keepdims=True).shape
    expected = 2 * values * weights.reshape(kept) * sums.shape[0]
    assert x.grad.stype == "row_sparse"
    np.testing.assert_allclose(x.grad.asnumpy(), expected)


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_sparse_embedding_keeps_its_gradient_by_rows(stype):
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    weight, rows = nd.array(table).tostype(stype), nd.array([3, 1, 3])
    weight.attach_grad(stype="row_sparse")
    with autograd.record():
        y = nd.contrib.SparseEmbedding(rows, weight, input_dim=4, output_dim=2, deterministic=True)
    y.backward(nd.array([[1, 2], [3, 4], [5, 6]]))
    expected = [[0, 0], [3, 4], [0, 0], [6, 8]]
    assert weight.grad.stype == "row_sparse" and weight.grad.indices.asnumpy().tolist() == [1, 3]
    np.testing.assert_array_equal(y.asnumpy(), table[[3, 1, 3]])
    np.testing.assert_array_equal(weight.grad.asnumpy(), expected)

    net = mx.sym.contrib.SparseEmbedding(
        mx.sym.var("x"), input_dim=4, output_dim=2, deterministic=False, name="look"
    )
    assert net.list_arguments() == ["x", "look_weight"]
    run = net.simple_bind(
        mx.cpu(), x=(3,), grad_req={"x": "null", "look_weight": "write"},
        stype_dict={"look_weight": stype},
    )  # fmt: skip
    run.arg_dict["x"][:] = rows
    run.arg_dict["look_weight"][:] = weight
    np.testing.assert_array_equal(run.forward(is_train=True)[0].asnumpy(), table[[3, 1, 3]])
    run.backward([nd.array([[1, 2], [3, 4], [5, 6]])])
    assert run.grad_dict["look_weight"].stype == "row_sparse"
    np.testing.assert_array_equal(run.grad_dict["look_weight"].asnumpy(), expected)
