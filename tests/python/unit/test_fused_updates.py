"""Updates of many weights by one call: the same numbers as weight by weight, and fewer calls."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, gluon, nd
from mxlite import optimizer as opt
from mxlite.optimizer.fused import FusedOptimizer
from pairing import assert_all_equal, pairs
from recording import differentiated

SHAPES = [(3, 4), (700,), (1,), (2, 3, 5), (40, 1000)]
CASES: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9, "clip_gradient": 0.1}),
    ("ccsgd", {"momentum": 0.9}),
    ("nag", {}),
    ("nag", {"momentum": 0.9}),
    ("signum", {}),
    ("signum", {"momentum": 0.0}),
    ("lars", {"momentum": 0.9}),
    ("lars", {"momentum": 0.9, "clip_gradient": 0.1}),
    ("lbsgd", {"momentum": 0.9, "batch_scale": 2}),
    ("lbsgd", {"momentum": 0.9, "warmup_strategy": "lars"}),
    ("adam", {"clip_gradient": 0.1}),
    ("adamw", {}),
    ("adamw", {"correct_bias": False}),
    ("adamax", {}),
    ("nadam", {}),
    ("ftml", {"clip_gradient": 0.1}),
    ("lamb", {"lower_bound": 0.1, "upper_bound": 10.0}),
    ("lamb", {"bias_correction": False}),
    ("adagrad", {}),
    ("adadelta", {}),
    ("rmsprop", {"clip_weights": 0.5}),
    ("rmsprop", {"centered": True}),
    ("ftrl", {}),
    ("dcasgd", {"momentum": 0.9}),
]
DTYPES = [("float32", False), ("float64", False), ("float16", True), ("bfloat16", True)]
DTYPES += [("float16", False), ("bfloat16", False)]


def flat(state: Any) -> list[Any]:
    """Return the arrays of a state."""
    if isinstance(state, (tuple, list)):
        return [array for part in state for array in flat(part)]
    return [] if state is None else [state]


class Params(dict):
    """Parameters by index, with factors of their own."""

    def __init__(self, count: int) -> None:
        super().__init__()
        for i in range(count):
            self[i] = gluon.Parameter(f"p{i}", shape=(1,), lr_mult=1 + i / 7, wd_mult=i % 3 / 2)


def trained(
    name: str, options: dict[str, Any], dtypes: list[str], together: bool, steps: int = 3
) -> tuple[list[Any], opt.Updater]:
    """Return weights after some updates, of all at once or one by one."""
    generator = np.random.default_rng(3)
    optimizer = opt.create(
        name, wd=0.01, rescale_grad=0.5, param_dict=Params(len(SHAPES)), **options
    )
    optimizer.lr_scheduler = mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
    updater = opt.get_updater(optimizer)
    weights = [nd.array(generator.normal(size=shape)) for shape in SHAPES]
    weights = [weight.astype(dtype) for weight, dtype in pairs(weights, dtypes)]
    for turn in range(steps):
        grads = [nd.array(generator.normal(size=w.shape)).astype(w.dtype) for w in weights]
        chosen = list(range(len(weights)))[: 3 if turn == 1 else None]  # counts become unequal
        if together:
            updater(chosen, [grads[i] for i in chosen], [weights[i] for i in chosen])
        else:
            for i in chosen:
                updater(i, grads[i], weights[i])
    return weights, updater


@pytest.mark.filterwarnings("ignore:Accumulating with a half-precision type")
@pytest.mark.parametrize(("dtype", "mixed"), DTYPES)
@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda v: str(v))
def test_many_weights_in_one_call_get_the_numbers_of_single_calls(
    name: str, options: dict[str, Any], dtype: str, mixed: bool
) -> None:
    options = {**options, "multi_precision": mixed}
    dtypes = [dtype] * len(SHAPES)
    one, alone = trained(name, options, dtypes, False)
    many, batch = trained(name, options, dtypes, True)
    start, _ = trained(name, options, dtypes, True, steps=0)
    assert any((got.asnumpy() != old.asnumpy()).any() for got, old in pairs(many, start))
    assert_all_equal(many, one)
    assert list(batch.states) == list(alone.states)
    for index in alone.states:
        assert_all_equal(flat(batch.states[index]), flat(alone.states[index]))
    for key in ("num_update", "_all_index_update_counts", "last_lr", "m_schedule"):
        assert getattr(batch.optimizer, key, None) == getattr(alone.optimizer, key, None)


def test_dtypes_are_updated_by_calls_of_their_own() -> None:
    dtypes = ["float32", "float16", "float32", "float64", "bfloat16"]
    options = {"momentum": 0.9, "multi_precision": True}
    one, _ = trained("sgd", options, dtypes, False)
    many, _ = trained("sgd", options, dtypes, True)
    assert_all_equal(many, one)


def operators_of(act: Any) -> list[str]:
    """Return the names of the operators that run."""
    nd.waitall()
    mx._core.profiler_take()
    mx._core.profiler_start(0xFFFFFFFF, False)
    act()
    nd.waitall()
    mx._core.profiler_stop()
    events = mx._core.profiler_take()
    return [
        events["names"][name]
        for name, kind, phase in pairs(events["name"], events["kind"], events["phase"])
        if kind == 0 and phase == ord("B")
    ]


def a_trainer(
    count: int, name: str = "sgd", options: Any = None, ctx: Any = None, **kwargs: Any
) -> tuple[gluon.Trainer, list[Any]]:
    params = [gluon.Parameter(f"p{i}", shape=(3, 2)) for i in range(count)]
    for param in params:
        param.initialize(init="ones", ctx=ctx)
    return gluon.Trainer(params, name, options, **kwargs), params


def backward(params: list[Any]) -> None:
    with autograd.record():
        losses = [(array * (i + 1)).sum() for i, p in enumerate(params) for array in p.list_data()]
    autograd.backward(losses)


def operators_of_a_step(trainer: gluon.Trainer, params: list[Any]) -> list[str]:
    for _ in range(2):  # the first step makes states
        backward(params)
        ran = operators_of(lambda: trainer.step(1))
    return ran


MOMENTUM = {"momentum": 0.9}


@pytest.mark.parametrize(
    ("name", "options", "operators"),
    [
        ("sgd", MOMENTUM, ["multi_sgd_mom_update"] * 3),
        ("adam", None, ["_multi_adam_update"] * 3),
        ("lamb", None, ["_multi_lamb_update"] * 3),
        ("rmsprop", None, ["_multi_rmsprop_update"] * 3),
        # All norms are read at once.
        ("lars", None, ["multi_sum_sq"] * 2 + ["multi_sgd_update"] * 3),
    ],
)
def test_a_step_of_161_parameters_calls_few_operators(
    name: str, options: Any, operators: list[str]
) -> None:
    assert operators_of_a_step(*a_trainer(161, name, options)) == operators


def test_the_number_of_weights_in_a_call_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_OPTIMIZER_AGGREGATION_SIZE", "4")
    ran = operators_of_a_step(*a_trainer(9, options=MOMENTUM))
    assert ran == ["multi_sgd_mom_update"] * 2 + ["sgd_mom_update"]
    monkeypatch.setenv("MXNET_OPTIMIZER_AGGREGATION_SIZE", "many")
    with pytest.raises(ValueError, match="MXNET_OPTIMIZER_AGGREGATION_SIZE must be .*got 'many'"):
        opt.create("sgd")


def test_a_sparse_gradient_is_updated_alone_and_touches_its_rows() -> None:
    results = []
    for together in (False, True):
        updater = opt.get_updater(opt.create("sgd", momentum=0.9, learning_rate=0.1))
        weights = [nd.ones((4, 2)) for _ in range(3)]
        rows = nd.sparse.row_sparse_array(([[1.0, 2.0]], [2]), shape=(4, 2))
        grads = [nd.ones((4, 2)), rows, nd.ones((4, 2))]
        for _ in range(2):
            if together:
                updater([0, 1, 2], grads, weights)
            else:
                for arguments in zip([0, 1, 2], grads, weights):
                    updater(*arguments)
        assert (weights[1].asnumpy()[:2] == 1).all()
        assert (weights[1].asnumpy()[2] != 1).all()
        results.append(weights)
    assert_all_equal(*results)


@pytest.mark.parametrize("name", ["adam", "adagrad", "adamw", "lamb", "rmsprop", "ftrl"])
def test_sparse_gradients_of_every_optimizer_change_the_weight(name: str) -> None:
    updater = opt.get_updater(opt.create(name))
    rows = nd.sparse.row_sparse_array(([[1.0, 2.0]], [2]), shape=(4, 2))
    weights = [nd.ones((4, 2)), nd.ones((4, 2))]
    updater([0, 1], [rows, rows.tostype("default")], weights)
    for weight in weights:
        assert (weight.asnumpy()[2] != 1).all()


def test_a_weight_given_twice_is_updated_twice() -> None:
    weight = nd.ones((3,))
    updater = opt.get_updater(opt.create("sgd", learning_rate=1.0))
    updater([0, 1], [nd.ones((3,)), nd.ones((3,)) * 2], [weight, weight])
    assert weight.asnumpy().tolist() == [-2.0] * 3


def test_a_subclass_that_defines_update_gets_single_weights() -> None:
    seen: list[Any] = []

    class Recorder(opt.Adam):
        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            seen.append(index)
            super().update(index, weight, grad, state)

    weights = [nd.ones((3,)), nd.ones((2,))]
    plain = [weight.copy() for weight in weights]
    opt.get_updater(Recorder())([0, 1], [nd.ones((3,)), nd.ones((2,))], weights)
    opt.get_updater(opt.create("adam"))([0, 1], [nd.ones((3,)), nd.ones((2,))], plain)
    assert seen == [0, 1]
    assert_all_equal(weights, plain)


def test_an_optimizer_of_its_own_gets_lists_if_it_asks_for_them() -> None:
    seen: list[Any] = []

    class Lists(opt.Optimizer):
        def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            seen.append(index)
            for array, gradient in zip(weight, grad):
                array[:] = array - gradient

    optimizer = Lists()
    optimizer.aggregate_num = 2
    dtypes = ["float32", "float64", "float32", "float32"]
    weights = [nd.ones((2,), dtype=dtype) for dtype in dtypes]
    opt.get_updater(optimizer)(list("abcd"), [w.copy() for w in weights], weights)
    assert seen == [["a", "c"], ["d"], ["b"]]
    assert all((weight.asnumpy() == 0).all() for weight in weights)


@pytest.mark.parametrize("on_store", [None, False, True])
@pytest.mark.parametrize("together", [False, True])
def test_several_contexts_get_the_same_numbers(on_store: bool | None, together: bool) -> None:
    trainer, params = a_trainer(
        5, options=MOMENTUM, ctx=[mx.cpu(0), mx.cpu(1)], update_on_kvstore=on_store
    )
    if not together:
        trainer.optimizer.aggregate_num = 1
    for _ in range(3):
        backward(params)
        trainer.step(2)
    for i, param in enumerate(params):
        weight, mom = 1.0, 0.0
        for _ in range(3):
            mom = 0.9 * mom - 0.01 * (2 * (i + 1) / 2)
            weight += mom
        for array in param.list_data():
            np.testing.assert_allclose(array.asnumpy(), weight, rtol=1e-5)


def test_a_module_updates_all_parameters_by_one_call() -> None:
    data = mx.sym.Variable("data")
    for i in range(3):
        data = mx.sym.FullyConnected(data, num_hidden=4, name=f"fc{i}")
    outcomes = []
    for size in (1, 64):
        module = mx.mod.Module(
            mx.sym.LinearRegressionOutput(data, name="lro"), label_names=("lro_label",)
        )
        module.bind([("data", (2, 4))], [("lro_label", (2, 4))])
        mx.random.seed(1)
        module.init_params(mx.init.Uniform(0.5))
        options = {"momentum": 0.9, "wd": 0.1}
        module.init_optimizer(optimizer="sgd", optimizer_params=options)
        module._optimizer.aggregate_num = size
        batch = mx.io.DataBatch([nd.ones((2, 4))], [nd.zeros((2, 4))])
        for _ in range(2):
            module.forward_backward(batch)
            ran = operators_of(module.update)
        assert ran == (["multi_sgd_mom_update"] if size == 64 else ["sgd_mom_update"] * 6)
        outcomes.append([value.asnumpy() for _, value in sorted(module.get_params()[0].items())])
    assert_all_equal(*outcomes)


def test_loaded_states_follow_the_weights_context() -> None:
    updater = opt.get_updater(opt.create("sgd", momentum=0.9))
    weights = [nd.ones((2,)), nd.ones((3,))]
    updater([0, 1], [w.copy() for w in weights], weights)
    moved = [weight.as_in_context(mx.cpu(1)) for weight in weights]
    updater([0, 1], [w.copy() for w in moved], moved)
    assert [updater.states[i].ctx for i in range(2)] == [mx.cpu(1)] * 2


CLIPPED = ["sgd", "adam", "adamw", "lamb", "lars", "nadam"]


def clipped_trainer(name: str, limit: float | None, **kwargs: Any) -> tuple[Any, list[Any]]:
    return a_trainer(4, name, {"learning_rate": 0.1}, clip_global_norm=limit, **kwargs)


@pytest.mark.parametrize("name", CLIPPED)
def test_gradients_are_clipped_by_the_norm_of_all(name: str) -> None:
    trainer, params = clipped_trainer(name, 1.5)
    plain, others = clipped_trainer(name, None)
    assert trainer.gradient_norm is None
    for _ in range(2):
        backward(params)
        trainer.step(2)
        backward(others)
        grads = [param.grad() / 2 for param in others]
        norm = gluon.utils.clip_global_norm(grads, 1.5)
        assert norm == pytest.approx(np.sqrt(6 * (1 + 4 + 9 + 16)) / 2)
        assert trainer.gradient_norm.asscalar() == pytest.approx(norm)
        for param, grad in pairs(others, grads):
            param.grad()[:] = grad * 2
        plain.step(2)
    assert plain.gradient_norm is None
    for param, other in pairs(params, others):
        assert (param.data().asnumpy() != 1).all()
        np.testing.assert_allclose(param.data().asnumpy(), other.data().asnumpy(), rtol=2e-6)


@pytest.mark.parametrize("name", CLIPPED)
def test_gradients_below_the_limit_stay_as_they_are(name: str) -> None:
    outcomes = []
    for limit in (None, 100.0):
        trainer, params = clipped_trainer(name, limit)
        backward(params)
        trainer.step(2)
        outcomes.append([param.data().asnumpy() for param in params])
    assert_all_equal(*outcomes)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("name", CLIPPED)
def test_a_norm_that_is_not_finite_changes_nothing(name: str, bad: float) -> None:
    trainer, params = clipped_trainer(name, 1.0)
    backward(params)
    params[2].grad()[:] = bad
    trainer.step(1)
    assert all((param.data().asnumpy() == 1).all() for param in params)


def test_clipping_calls_few_operators_and_waits_for_none() -> None:
    ran = operators_of_a_step(*clipped_trainer("sgd", 1.0))
    assert ran.count("multi_sum_sq") == ran.count("multi_sgd_update") == 1
    assert len(ran) <= 10


def test_clipping_on_several_contexts() -> None:
    contexts = [mx.cpu(0), mx.cpu(1)]
    trainer, params = clipped_trainer("sgd", 1.0, ctx=contexts)
    backward(params)
    trainer.step(1)
    factor = 1 / np.sqrt(6 * 4 * (1 + 4 + 9 + 16))  # sums of two equal gradients
    for i, param in enumerate(params):
        for array in param.list_data():
            np.testing.assert_allclose(array.asnumpy(), 1 - 0.1 * 2 * (i + 1) * factor, rtol=1e-5)


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf"), "1"])
def test_a_limit_must_be_above_zero(limit: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="clip_global_norm must be a number"):
        clipped_trainer("sgd", limit)


def test_clipping_refuses_updates_on_the_store_and_sparse_gradients() -> None:
    with pytest.raises(ValueError, match="clip_global_norm needs all gradients"):
        a_trainer(1, update_on_kvstore=True, clip_global_norm=1.0)
    param = gluon.Parameter("p", shape=(4, 2), grad_stype="row_sparse")
    param.initialize(init="ones")
    trainer = gluon.Trainer([param], "sgd", clip_global_norm=1.0)
    differentiated(lambda: nd.Embedding(nd.array([1]), param.data(), 4, 2, sparse_grad=True).sum())
    with pytest.raises(ValueError, match="storage type row_sparse"):
        trainer.step(1)
    assert (param.data().asnumpy() == 1).all()


def test_every_update_operator_has_a_form_over_many_weights() -> None:
    families = [op["update_family"] for op in mx._core.list_ops() if op["update_family"]]
    forms = {(family["name"], bool(family["count"]), family["mixed"]) for family in families}
    assert len(forms) == len(families)
    names = {name for name, _, _ in forms}
    assert {"sgd_update", "_adamw_update", "lamb_update"} <= names
    names.remove("_contrib_group_adagrad_update")
    assert {(name, True, mixed) for name in names for mixed in (False, True)} <= forms
    assert issubclass(opt.SGD, FusedOptimizer)
