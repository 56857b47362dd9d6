"""Symbols on sparse arrays: executors and modules with csr data and weights stored by rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd, sym

DATA = np.array([[0, 2, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]], np.float32)
LABEL = np.array([[1], [0], [2]], np.float32)


def linear(**options: Any) -> Any:
    weight = sym.var("fc_weight", stype="row_sparse", shape=(4, 1))
    product = sym.sparse.dot(sym.var("data", stype="csr"), weight)
    return sym.LinearRegressionOutput(product, sym.var("label"), name="out", **options)


def test_simple_bind_makes_arrays_of_the_variables_storage_types() -> None:
    executor = linear().simple_bind(mx.cpu(), data=(3, 4))
    stypes = [executor.arg_dict[name].stype for name in ("data", "fc_weight", "label")]
    assert stypes == ["csr", "row_sparse", "default"]
    assert executor.grad_dict["fc_weight"].stype == "row_sparse"
    plain = linear().simple_bind(
        mx.cpu(), stype_dict={"data": "default", "fc_weight": "default"}, data=(3, 4)
    )
    assert {array.stype for array in plain.arg_arrays} == {"default"}
    with pytest.raises(ValueError, match="stype of fc_weight must be .*got 'rows'"):
        linear().simple_bind(mx.cpu(), stype_dict={"fc_weight": "rows"}, data=(3, 4))


@pytest.mark.parametrize("is_sparse", [True, False])
def test_a_gradient_by_rows_has_the_rows_of_the_data(is_sparse: bool) -> None:
    kind = "csr" if is_sparse else "default"
    rows = "row_sparse" if is_sparse else "default"
    weight = np.array([[1], [2], [3], [4]], np.float32)
    args = {
        "data": nd.array(DATA).tostype(kind), "fc_weight": nd.array(weight).tostype(rows),
        "label": nd.array(LABEL),
    }  # fmt: skip
    grad = nd.sparse.zeros(rows, (4, 1))
    executor = linear().bind(mx.cpu(), args, {"fc_weight": grad})
    (out,) = executor.forward(is_train=True)
    executor.backward()
    np.testing.assert_array_equal(out.asnumpy(), DATA @ weight)
    np.testing.assert_array_equal(grad.asnumpy(), DATA.T @ (DATA @ weight - LABEL))
    if is_sparse:
        assert grad.indices.asnumpy().tolist() == [0, 1]


def test_data_of_another_batch_is_given_to_forward() -> None:
    executor = linear().simple_bind(mx.cpu(), data=(3, 4))
    executor.copy_params_from({"fc_weight": nd.ones((4, 1))})
    (out,) = executor.forward(data=nd.array(DATA * 3).tostype("csr"))
    np.testing.assert_array_equal(out.asnumpy(), DATA.sum(axis=1, keepdims=True) * 3)
    bigger = executor.reshape(data=(5, 4), label=(5, 1), allow_up_sizing=True)
    assert bigger.arg_dict["data"].stype == "csr" and bigger.forward()[0].shape == (5, 1)


def test_embeddings_that_ask_for_it_have_gradients_by_rows() -> None:
    net = sym.Embedding(sym.var("data"), input_dim=6, output_dim=2, sparse_grad=True, name="emb")
    executor = net.simple_bind(mx.cpu(), data=(3,), grad_req={"emb_weight": "write"})
    executor.forward(is_train=True, data=nd.array([4, 1, 4]))
    executor.backward(nd.array([[1, 2], [3, 4], [10, 20]]))
    grad = executor.grad_dict["emb_weight"]
    assert grad.stype == "row_sparse" and grad.indices.asnumpy().tolist() == [1, 4]
    assert grad.data.asnumpy().tolist() == [[3, 4], [11, 22]]


@pytest.mark.parametrize("kvstore", [None, "local"])
def test_a_module_updates_the_rows_it_saw(kvstore: str | None, tmp_path: Path) -> None:
    data = nd.array(DATA).tostype("csr")
    batches = mx.io.NDArrayIter(data, LABEL, 3, label_name="label", last_batch_handle="discard")
    module = mx.mod.Module(linear(), label_names=["label"])
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.One())
    options = {"learning_rate": 0.5, "wd": 0.1, "rescale_grad": 1.0}
    store = None if kvstore is None else mx.kv.create(kvstore)
    module.init_optimizer(store, "sgd", options)
    batch = batches.next()
    module.prepare(batch, sparse_row_id_fn=lambda b: {"fc_weight": b.data[0].indices})
    module.forward_backward(batch)
    module.update()
    expected = np.ones((4, 1), np.float32)
    gradient = DATA.T @ (DATA @ expected - LABEL)
    expected[:2] -= 0.5 * (gradient[:2] + 0.1 * expected[:2])  # rows 2 and 3 do not even decay
    params, _ = module.get_params()
    assert params["fc_weight"].stype == "row_sparse"
    np.testing.assert_allclose(params["fc_weight"].asnumpy(), expected, rtol=1e-6)
    module.save_checkpoint(str(tmp_path / "linear"), 1)
    loaded = mx.model.load_checkpoint(str(tmp_path / "linear"), 1)[1]["fc_weight"]
    assert loaded.stype == "row_sparse"
    np.testing.assert_allclose(loaded.asnumpy(), expected, rtol=1e-6)


def test_storage_is_converted_and_rows_are_kept_inside_of_a_symbol() -> None:
    x = sym.var("x")
    rows = sym.cast_storage(x, stype="row_sparse", name="rows")
    kept = sym.sparse.retain(rows, sym.var("index"))
    net = sym.Group([kept, sym._internal._square_sum(rows, axis=1, keepdims=True)])
    data = np.array([[1, 2], [0, 0], [3, 4]], np.float32)
    values = {"x": nd.array(data), "index": nd.array([2])}
    assert net.infer_shape(x=(3, 2), index=(1,))[1] == [(3, 2), (3, 1)]
    for symbol in (net, sym.load_json(net.tojson())):
        chosen, sums = symbol.bind(mx.cpu(), values).forward()
        assert chosen.stype == "row_sparse" and chosen.indices.asnumpy().tolist() == [2]
        np.testing.assert_array_equal(chosen.asnumpy(), [[0, 0], [0, 0], [3, 4]])
        np.testing.assert_array_equal(sums.asnumpy(), [[5], [0], [25]])
    with pytest.raises(ValueError, match="stype must .*, got 'rows'"):
        sym.cast_storage(x, stype="rows")


LEFT = np.array([[1, 0, -2], [0, 0, 0], [3, 0, 0], [0, 0, 0]], np.float32)
RIGHT = np.array([[0, 0, 0], [0, -4, 0], [5, 0, 1], [0, 0, 0]], np.float32)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
@pytest.mark.parametrize("name", ["maximum", "minimum", "hypot"])
def test_the_larger_of_sparse_arrays_is_sparse_by_its_elementwise_name(
    name: str, stype: str
) -> None:
    expected = getattr(np, name)(LEFT, RIGHT)
    left, right = (nd.array(value).tostype(stype) for value in (LEFT, RIGHT))
    composed = getattr(sym, name)(sym.var("a"), sym.var("b"))
    (out,) = composed.bind(mx.cpu(), {"a": left, "b": right}).forward()
    eager = getattr(nd._internal, f"_{name}")
    # The broadcasting operators, and other pairs of storage types, are dense as in 1.x.
    broadcast, mixed = getattr(nd, f"broadcast_{name}"), eager(left, nd.array(RIGHT))
    found = [out, eager(left, right), broadcast(left, right), mixed]
    assert [array.stype for array in found] == [stype, stype, "default", "default"]
    for array in found:
        np.testing.assert_allclose(array.asnumpy(), expected, rtol=1e-6)
    with pytest.raises(ValueError, match=f"_{name}: rhs must have the shape of lhs"):
        eager(left, nd.array(RIGHT[:2]).tostype(stype))


def test_the_larger_of_sparse_arrays_has_a_gradient() -> None:
    a, b = (nd.array(value).tostype("row_sparse") for value in (LEFT, RIGHT))
    grads = {"a": nd.zeros(LEFT.shape), "b": nd.zeros(LEFT.shape)}
    executor = sym.maximum(sym.var("a"), sym.var("b")).bind(mx.cpu(), {"a": a, "b": b}, grads)
    executor.forward(is_train=True)
    executor.backward(nd.full(LEFT.shape, 3))
    np.testing.assert_array_equal(grads["b"].asnumpy(), 3 * (LEFT < RIGHT))
    np.testing.assert_array_equal(grads["a"].asnumpy(), 3 * (LEFT >= RIGHT))


@pytest.mark.parametrize("stype", ["default", "csr", "row_sparse"])
@pytest.mark.parametrize(("name", "sign"), [("plus", 1), ("minus", -1)])
def test_scatter_adds_to_what_is_stored(name: str, sign: int, stype: str) -> None:
    stored = {
        "default": np.ones_like(LEFT), "csr": LEFT != 0,
        "row_sparse": LEFT.any(axis=1, keepdims=True),
    }[stype]  # fmt: skip
    data = nd.array(LEFT).tostype(stype)
    symbol = getattr(sym._internal, f"_scatter_{name}_scalar")(sym.var("a"), scalar=2)
    assert f'"op": "_scatter_{name}_scalar"' in symbol.tojson()
    (bound,) = sym.load_json(symbol.tojson()).bind(mx.cpu(), {"a": data}).forward()
    eager = getattr(nd._internal, f"_scatter_{name}_scalar")(data, scalar=2)
    for out in (bound, eager):
        assert out.stype == stype
        np.testing.assert_array_equal(out.asnumpy(), LEFT + sign * 2 * stored)


def test_scatter_divides_what_is_stored() -> None:
    division = sym._internal._scatter_elemwise_div(sym.var("a"), sym.var("b"))
    by = np.full(LEFT.shape, 4, np.float32)
    by[1] = 0  # no row of LEFT is stored there
    for stype, expected in (("row_sparse", "row_sparse"), ("csr", "default")):
        values = {"a": nd.array(LEFT).tostype(stype), "b": nd.array(by)}
        (out,) = division.bind(mx.cpu(), values).forward()
        assert out.stype == expected
        wanted = LEFT / np.where(by == 0, 1, by)
        if stype == "csr":
            wanted[1] = np.nan
        np.testing.assert_array_equal(out.asnumpy(), wanted)


def test_states_that_another_executor_renews_do_not_stop_backward() -> None:
    data = nd.array(LEFT).tostype("row_sparse")
    norm = sym.BatchNorm(sym.var("data", stype="row_sparse"), fix_gamma=False, name="bn")
    states = {"bn_moving_mean": nd.zeros((3,)), "bn_moving_var": nd.ones((3,))}
    values = {"data": data, "bn_gamma": nd.ones((3,)), "bn_beta": nd.zeros((3,))}
    grads = [{name: nd.zeros(value.shape) for name, value in values.items()} for _ in range(2)]
    first, second = (norm.bind(mx.cpu(), values, g, aux_states=states) for g in grads)
    first.forward(is_train=True)
    second.forward(is_train=True)
    mean = states["bn_moving_mean"].asnumpy()
    np.testing.assert_allclose(mean, LEFT.mean(axis=0) * (1 - 0.9**2), rtol=1e-5, atol=1e-7)
    for executor in (first, second):
        executor.backward(nd.ones(LEFT.shape))
    np.testing.assert_array_equal(states["bn_moving_mean"].asnumpy(), mean)
    for found in grads:
        np.testing.assert_array_equal(found["bn_beta"].asnumpy(), [4, 4, 4])
