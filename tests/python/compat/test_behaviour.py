"""Behaviour and attributes that test suites and scripts of 1.x rely on."""

from __future__ import annotations

import json
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, gluon, nd
from numpy.testing import assert_raises_regex
from recording import recorded


@pytest.fixture
def x():
    return nd.array([[1.0, 2, 3], [4, 5, 6]])


def test_gradients_of_one_variable_come_in_a_list(x):
    x.attach_grad()
    with autograd.record():
        y = x * x
    found = autograd.grad(y, x)
    assert isinstance(found, list) and len(found) == 1
    np.testing.assert_array_equal(found[0].asnumpy(), 2 * x.asnumpy())


def test_numpy_functions_take_arrays(x):
    assert isinstance(np.exp(x), np.ndarray)
    np.testing.assert_allclose(np.exp(x), np.exp(x.asnumpy()))
    assert np.all(x == x) and not np.isnan(x).any() and np.linalg.norm(x) > 9
    np.testing.assert_array_equal(np.concatenate([x, x]), np.concatenate([x.asnumpy()] * 2))
    assert np.array([x, x]).shape == (2, 2, 3)
    assert np.add.reduce(x, axis=0).tolist() == [5, 7, 9]
    assert_raises_regex(
        TypeError, "out must be a NumPy array, got an NDArray", np.exp, x.asnumpy(), out=x
    )


@pytest.mark.parametrize("number", [np.float32(2), np.int64(2), np.float64(2), np.array(2.0)])
def test_numpy_numbers_leave_the_work_to_arrays(x, number):
    for result in (number * x, x * number, number + x - number, x**number, number - x):
        assert isinstance(result, nd.NDArray) and result.dtype == np.float32
    np.testing.assert_array_equal((number / x).asnumpy(), 2 / x.asnumpy())
    np.testing.assert_array_equal((number < x).asnumpy(), (x.asnumpy() > 2).astype(np.float32))
    np.testing.assert_array_equal((number == x).asnumpy(), (x.asnumpy() == 2).astype(np.float32))


def test_numpy_numbers_keep_the_gradient(x):
    x.attach_grad()
    recorded(lambda: (np.float32(3) * x).sum())
    assert (x.grad == 3).asnumpy().all()


@pytest.mark.parametrize(
    "mix",
    [
        lambda x: x + np.ones((2, 3)),
        lambda x: np.ones((2, 3)) + x,
        lambda x: np.ones((2, 3)) == x,
        lambda x: x * np.ones((2, 3)),
    ],
)
def test_arrays_of_two_kinds_are_not_mixed(x, mix):
    assert_raises_regex(TypeError, r"asnumpy\(\)", mix, x)


def test_split_v2(x):
    first, second = nd.split_v2(x, (1,), axis=1)
    assert first.asnumpy().tolist() == [[1], [4]] and second.shape == (2, 2)
    assert [part.shape for part in x.split_v2(3, axis=1)] == [(2, 1)] * 3
    assert [part.shape for part in nd.split_v2(x, 3, 1, squeeze_axis=True)] == [(2,)] * 3
    assert nd.split_v2(x, 2)[1].asnumpy().tolist() == [[4, 5, 6]]
    with pytest.raises(ValueError, match="size 3 of axis 1 cannot be split into 2"):
        nd.split_v2(x, 2, axis=1)
    assert_raises_regex(ValueError, "must be an int or a tuple", nd.split_v2, x, 1.5)
    x.attach_grad()
    recorded(lambda: nd.split_v2(x, (1,), axis=1)[1].sum())
    assert x.grad.asnumpy().tolist() == [[0, 1, 1]] * 2


def test_histogram():
    data = nd.array([0, 1, 2, 3, 4, 10])
    counts, ends = nd.histogram(data, bins=3)
    assert counts.asnumpy().tolist() == [4, 1, 1] and counts.dtype == np.float32
    np.testing.assert_allclose(ends.asnumpy(), [0, 10 / 3, 20 / 3, 10], rtol=1e-6)
    counts, _ = nd.histogram(data, bins=3, range=(0, 5))
    assert counts.asnumpy().tolist() == [2, 2, 1] and counts.dtype == np.int64
    counts, ends = nd.histogram(data, bins=nd.array([0, 2, 3, 10]))
    assert counts.asnumpy().tolist() == [2, 1, 3] and ends.shape == (4,)
    assert_raises_regex(ValueError, "bins", nd.histogram, data, bins="auto")


def test_onehot_encode():
    out = nd.ones((2, 3), dtype="int32")
    assert nd.onehot_encode(nd.array([0, 2]), out) is out
    assert out.asnumpy().tolist() == [[1, 0, 0], [0, 0, 1]] and out.dtype == np.int32
    with pytest.raises(ValueError, match=r"\(rows, classes\)"):
        nd.onehot_encode(nd.array([0, 2]), nd.ones((3, 3)))


def test_squeeze_in_place_shares_memory():
    x = nd.zeros((1, 3, 1))
    view = x.squeeze(inplace=True)
    view[:] = 1
    assert view.shape == (3,) and x.sum().asscalar() == 3
    assert x.squeeze(axis=0, inplace=True).shape == (3, 1)
    assert x.squeeze(axis=(0, -1)).shape == (3,)
    assert nd.zeros((1, 1)).squeeze(inplace=True).shape == (1,)
    assert_raises_regex(ValueError, "axis 1", x.squeeze, axis=1, inplace=True)
    assert_raises_regex(IndexError, "axis 3", x.squeeze, axis=3, inplace=True)


@pytest.mark.parametrize(
    "axes", [(3, 0), (0, -4), ([0, 1], [1, 1]), ([0, 0], [0, 1]), ([0], [1, 2])]
)
def test_wrong_axes_of_moveaxis_are_value_errors(axes):
    assert_raises_regex(ValueError, "axis|axes", nd.moveaxis, nd.zeros((2, 3, 4)), *axes)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("uniform", {"low": 2, "high": 3}),
        ("normal", {"loc": 2.5, "scale": 0.01}),
        ("gamma", {"alpha": 1e4, "beta": 2.5e-4}),
        ("exponential", {"lam": 0.4}),
        ("poisson", {"lam": 2.5}),
        ("negative_binomial", {"k": 5, "p": 2 / 3}),
        ("generalized_negative_binomial", {"mu": 2.5, "alpha": 0.1}),
    ],
)
def test_draws_in_the_shape_of_an_array(name, options):
    like = nd.zeros((100, 50))
    drawn = getattr(nd.random, f"{name}_like")(like, **options)
    assert drawn.shape == like.shape and drawn.mean().asscalar() == pytest.approx(2.5, abs=0.15)
    symbol = getattr(mx.sym.random, f"{name}_like")(mx.sym.Variable("like"), **options)
    (drawn,) = symbol.eval(like=like)
    assert drawn.shape == like.shape and drawn.mean().asscalar() == pytest.approx(2.5, abs=0.15)


def test_a_trainer_cannot_set_a_scheduled_learning_rate():
    optimizer = mx.optimizer.SGD(lr_scheduler=mx.lr_scheduler.FactorScheduler(step=1))
    trainer = mx.gluon.Trainer(mx.gluon.nn.Dense(1).collect_params(), optimizer)
    assert_raises_regex(ValueError, "LRScheduler", trainer.set_learning_rate, 0.5)


@pytest.mark.parametrize("name", ["sgd", "nag", "lamb", "adam", "rmsprop"])
def test_optimizers_take_lists_of_weights(name):
    def run(in_lists):
        optimizer = mx.optimizer.create(name, learning_rate=0.1, wd=0.01)
        weights = [nd.ones((2, 3)), nd.full((4,), 2.0)]
        grads = [nd.full((2, 3), 0.5), nd.full((4,), -1.0)]
        states = [optimizer.create_state_multi_precision(i, w) for i, w in enumerate(weights)]
        if in_lists:
            optimizer.update_multi_precision([0, 1], weights, grads, states)
        else:
            for arguments in zip([0, 1], weights, grads, states):
                optimizer.update_multi_precision(*arguments)
        return np.concatenate([w.asnumpy().reshape(-1) for w in weights])

    np.testing.assert_array_equal(run(True), run(False))


def test_constant_initializers_are_written_as_json():
    for value in (nd.ones((2,)), np.ones(2), [1.0, 1.0]):
        made = mx.init.Constant(value)
        assert made.dumps() == '["constant", {"value": [1.0, 1.0]}]'
        assert json.dumps(["constant", made._kwargs]) == made.dumps()


def test_multipliers_of_symbols_are_attributes():
    fc = mx.sym.FullyConnected(mx.sym.var("a"), num_hidden=3, lr_mult=2, ctx_group="first")
    assert fc.attr("__lr_mult__") == "2" and fc.attr("ctx_group") == "first"
    with pytest.raises(TypeError, match="lr_mulk"):
        mx.sym.FullyConnected(mx.sym.var("a"), num_hidden=3, lr_mulk=2)


def test_fresh_gradients_can_be_marked_as_used(x):
    assert x.as_nd_ndarray() is x
    x.attach_grad()
    with autograd.record():
        (x * 2).backward()
    assert x._fresh_grad
    x._fresh_grad = False
    assert not x._fresh_grad


def test_star_imports_bring_what_test_files_use():
    names: dict[str, object] = {}
    exec("from mxlite.test_utils import *\nfrom mxlite.autograd import *", names)
    assert names["mx"] is mx and names["np"] is np and names["NDArray"] is nd.NDArray
    for name in ("os", "sys", "record", "assert_almost_equal", "rand_ndarray", "use_np"):
        assert name in names
    names = {}
    exec("from mxlite.ndarray import *", names)
    assert names["zeros"] is nd.zeros and names["FullyConnected"] is nd.FullyConnected
    assert nd.ndarray.py_slice is slice
    assert nd.ndarray._DTYPE_NP_TO_MX[np.float16] == 2
    assert nd.ndarray._STORAGE_TYPE_ID_TO_STR[2] == "csr"


def test_uneven_splits_are_those_of_numpy():
    for size in (5, 10, 11):
        parts = mx.gluon.utils.split_data(nd.arange(size), 4, even_split=False)
        expected = np.array_split(np.arange(size), 4)
        assert [p.asnumpy().tolist() for p in parts] == [e.tolist() for e in expected]


def test_unsuitable_inputs_of_hybridized_blocks_are_value_errors():
    class Add(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, a, b=None):
            return a if b is None else a + b

    block = Add()
    assert block(nd.ones(2), 1).asnumpy().tolist() == [2, 2]
    assert_raises_regex(ValueError, "NDArray", block, None)
    block.hybridize()
    for wrong in ((nd.ones(2), 1), (nd.ones(2), "1"), (None, None)):
        assert_raises_regex(ValueError, "hybridized block", block, *wrong)


class Identity(mx.autograd.Function):
    def forward(self, x: Any) -> Any:
        return x

    def backward(self, grad: Any) -> Any:
        return grad


def of_module() -> Any:
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)
    return mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))


def iterator() -> Any:
    return mx.io.NDArrayIter(np.ones((4, 2)), np.ones(4), 2)


OPTIMIZER = "clip_gradient idx2name lr lr_mult lr_scheduler multi_precision num_update param_dict"
OPTIMIZER += " rescale_grad sym_info wd wd_mult aggregate_num begin_num_update"
METRIC = "global_num_inst global_sum_metric label_names name num_inst output_names sum_metric"
SCHEDULER = "base_lr warmup_begin_lr warmup_final_lr warmup_mode warmup_steps"

# Attributes to which 1.9.1 lets programs assign the value that they have.
ASSIGNABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "Function": (Identity, "saved_tensors"),
    "Context": (lambda: mx.Context("cpu", 1), "device_id device_typeid"),
    "CSRNDArray": (lambda: nd.ones((2, 2)).tostype("csr"), ""),
    "RowSparseNDArray": (lambda: nd.ones((2, 2)).tostype("row_sparse"), ""),
    "Parameter": (
        lambda: gluon.Parameter("p", shape=(2,)),
        "dtype grad_req init lr_mult name shape wd_mult",
    ),
    "ParameterDict": (lambda: gluon.ParameterDict("q_"), ""),
    "Dense": (lambda: gluon.nn.Dense(2), "act"),
    "Conv2D": (lambda: gluon.nn.Conv2D(2, 3), "act"),
    "DataLoader": (lambda: gluon.data.DataLoader([1, 2], 1), ""),
    "Adam": (mx.optimizer.Adam, OPTIMIZER + " beta1 beta2 epsilon lazy_update"),
    "SGD": (mx.optimizer.SGD, OPTIMIZER + " lazy_update momentum"),
    "Updater": (lambda: mx.optimizer.get_updater(mx.optimizer.SGD()), "optimizer states"),
    "Accuracy": (mx.metric.Accuracy, METRIC + " axis"),
    "F1": (mx.metric.F1, METRIC + " average"),
    "CompositeEvalMetric": (mx.metric.CompositeEvalMetric, "metrics name label_names output_names"),
    "Xavier": (mx.init.Xavier, "factor_type magnitude rnd_type"),
    "FactorScheduler": (
        lambda: mx.lr_scheduler.FactorScheduler(5),
        SCHEDULER + " count factor step stop_factor_lr",
    ),
    "CosineScheduler": (
        lambda: mx.lr_scheduler.CosineScheduler(5),
        SCHEDULER + " base_lr_orig final_lr max_steps max_update",
    ),
    "NDArrayIter": (
        iterator,
        "batch_size cursor data data_list idx label last_batch_handle num_data num_source shuffle",
    ),
    "ResizeIter": (lambda: mx.io.ResizeIter(iterator(), 3), "batch_size cur current_batch size"),
    "DataBatch": (
        lambda: mx.io.DataBatch([nd.ones(2)]),
        "bucket_key data index label pad provide_data provide_label",
    ),
    "DataDesc": (lambda: mx.io.DataDesc("x", (2,)), "dtype layout"),
    "Module": (
        of_module,
        "binded for_training inputs_need_grad logger optimizer_initialized params_initialized",
    ),
    "Monitor": (
        lambda: mx.mon.Monitor(1),
        "activated exes interval monitor_all queue re_prog sort step",
    ),
    "CustomOpProp": (mx.operator.CustomOpProp, "need_top_grad_"),
    "Speedometer": (
        lambda: mx.callback.Speedometer(1),
        "auto_reset batch_size frequent init last_count tic",
    ),
}


@pytest.mark.parametrize("name", ASSIGNABLE)
def test_attributes_can_be_assigned(name: str) -> None:
    make, attributes = ASSIGNABLE[name]
    made = make()
    for attribute in attributes.split():
        setattr(made, attribute, getattr(made, attribute))
    made.an_own_attribute = 5
    assert made.an_own_attribute == 5


def test_assigned_numbers_of_a_context_are_used() -> None:
    context = mx.cpu(0)
    context.device_id = 3
    assert context == mx.cpu(3) != mx.cpu(0)
    context.device_typeid = 2
    assert context == mx.gpu(3) and context.device_type == "gpu"
    assert hash(context) == hash(mx.gpu(3))
    with pytest.raises(mx.MXNetError, match="device_id of gpu must be at least 0, got -1"):
        context.device_id = -1
    with pytest.raises(mx.MXNetError, match="device_typeid must be 1 .*got 9"):
        context.device_typeid = 9


def test_a_changed_context_of_an_array_leaves_the_array_where_it_is() -> None:
    array = nd.ones((2,))
    array.ctx.device_id = 1
    assert array.ctx == mx.cpu(0)
    assert nd.ones((2,), ctx=mx.cpu(0)).ctx.device_id == 0
