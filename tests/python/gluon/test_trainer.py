"""Trainer: steps against MXNet 1.9.1, several contexts, stale gradients, states, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import ready, sequential
from mxlite import autograd, gluon, nd
from mxlite.base import FileFormatError, MXNetError
from mxlite.gluon import nn
from numpy.testing import assert_allclose, assert_array_equal, assert_raises_regex
from recording import recorded

DATA = Path(__file__).parents[2] / "data" / "mxnet_1_9_1"


def scalar(value: float, **kwargs: Any) -> gluon.Parameter:
    param = gluon.Parameter("x", shape=(1,), **kwargs)
    param.initialize(init=mx.init.Constant(value), ctx=kwargs.pop("ctx", None))
    return param


def step(trainer: gluon.Trainer, *params: gluon.Parameter, batch_size: int = 1) -> None:
    with autograd.record():
        losses = [(array * 2).sum() for param in params for array in param.list_data()]
    autograd.backward(losses)
    trainer.step(batch_size)


def test_a_step_divides_by_the_batch_size() -> None:
    param = scalar(1.0)
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 0.5})
    step(trainer, param, batch_size=4)
    assert param.data().asscalar() == pytest.approx(1 - 0.5 * 2 / 4)


def test_multipliers_and_momentum() -> None:
    param = scalar(1.0, lr_mult=0.5)
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 1.0, "momentum": 0.5})
    step(trainer, param)
    assert param.data().asscalar() == pytest.approx(0.0)
    step(trainer, param)
    assert param.data().asscalar() == pytest.approx(-1.5)


def test_reduction_and_update_can_be_called_apart() -> None:
    param = ready(gluon.Parameter("x", shape=(1,)), init="ones", ctx=[mx.cpu(0), mx.cpu(1)])
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 1.0}, update_on_kvstore=False)
    with autograd.record():
        losses = [(param.data(mx.cpu(i)) * (i + 1)).sum() for i in range(2)]
    autograd.backward(losses)
    trainer.allreduce_grads()
    assert [grad.asscalar() for grad in param.list_grad()] == [3, 3]
    trainer.update(3)
    assert [array.asscalar() for array in param.list_data()] == [0, 0]


def test_updating_on_the_store_forbids_the_two_halves() -> None:
    param = scalar(1.0)
    trainer = gluon.Trainer([param], "sgd", update_on_kvstore=True)
    for method in (trainer.allreduce_grads, lambda: trainer.update(1)):
        with pytest.raises(AssertionError, match="update_on_kvstore` to False") as caught:
            method()
        assert isinstance(caught.value, MXNetError)


def test_a_stale_gradient_raises_and_can_be_ignored() -> None:
    used, unused = scalar(1.0), gluon.Parameter("unused", shape=(1,))
    unused.initialize(init="ones")
    trainer = gluon.Trainer([used, unused], "sgd", {"learning_rate": 1.0})
    recorded(lambda: used.data() * 2)
    with pytest.raises(UserWarning, match=r"`unused` on context cpu\(0\) has not been updated"):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    assert used.data().asscalar() == pytest.approx(-1.0)
    assert unused.data().asscalar() == 1.0
    assert_raises_regex(UserWarning, "`x` on context", trainer.step, 1)


def test_parameters_without_gradient_are_left_alone() -> None:
    net = ready(nn.BatchNorm(in_channels=1))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0, "wd": 0.5})
    recorded(lambda: net(nd.array([[1.0], [3.0]])).sum())
    trainer.step(1)
    assert net.running_var.data().asscalar() == pytest.approx(0.9 + 0.1 * 1.0)


def test_gradients_can_be_added_over_batches() -> None:
    param = scalar(0.0, grad_req="add")
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 1.0})
    for _ in range(3):
        recorded(lambda: param.data() * 2)
    trainer.step(3)
    param.zero_grad()
    assert param.data().asscalar() == pytest.approx(-2.0)


def test_the_rate_can_be_set_and_read() -> None:
    trainer = gluon.Trainer([scalar(1.0)], "sgd", {"learning_rate": 0.5})
    trainer.set_learning_rate(0.25)
    assert trainer.learning_rate == 0.25
    assert trainer.optimizer.learning_rate == 0.25


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
def test_training_a_net_goes_the_way_of_mxnet(hybrid: bool) -> None:
    """The two steps that made net.params are repeated from the states and values after them."""
    arrays = nd.load(DATA / "net_io.params")
    net = nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(nn.Conv2D(2, 3), nn.BatchNorm(), nn.Dense(2))
    net.load_parameters(DATA / "net.params")
    net.hybridize(hybrid)
    assert_allclose(net(arrays["x"]).asnumpy(), arrays["y"].asnumpy(), rtol=1e-4, atol=1e-5)
    trainer = gluon.Trainer(net.collect_params(), "adam")
    trainer.load_states(DATA / "net.states")
    assert trainer.optimizer.num_update == 2
    assert trainer.learning_rate == pytest.approx(0.1)
    before = net[2].bias.data().asnumpy()
    for _ in range(2):
        recorded(net, arrays["x"])
        trainer.step(1)
    # The gradient of the bias is always 1, so every step of Adam has the length of the rate.
    moved = before - net[2].bias.data().asnumpy()
    assert_allclose(moved, [0.05 + 0.05] * 2, rtol=1e-3)


@pytest.mark.parametrize("contexts", [[mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]])
def test_states_saved_and_loaded_go_on_as_before(contexts: Any, tmp_path: Path) -> None:
    def run(break_at: int) -> list[float]:
        param = ready(gluon.Parameter("x", shape=(1,)), init="ones", ctx=contexts)
        trainer = gluon.Trainer([param], "adam", {"learning_rate": 0.1})
        for number in range(6):
            if number == break_at:
                trainer.save_states(tmp_path / "a.states")
                trainer = gluon.Trainer([param], "adam", {"learning_rate": 9.0})
                trainer.load_states(tmp_path / "a.states")
            step(trainer, param)
        return [array.asscalar() for array in param.list_data()]

    assert run(3) == run(-1)


def test_bad_state_files_are_errors_that_name_the_file(tmp_path: Path) -> None:
    param = scalar(1.0)
    trainer = gluon.Trainer([param], "adam")
    step(trainer, param)
    path = tmp_path / "a.states"
    trainer.save_states(path)
    good = path.read_bytes()
    path.write_bytes(good[:-7])
    with pytest.raises(FileFormatError, match=r"a\.states' of \d+ bytes is truncated or damaged"):
        trainer.load_states(path)
    path.write_bytes(b"GIF89a")
    assert_raises_regex(FileFormatError, r"a\.states' .*neither", trainer.load_states, path)
    with pytest.raises(FileNotFoundError, match="gone' does not exist"):
        trainer.load_states(tmp_path / "gone")


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: gluon.Trainer("abc", "sgd"), "must be a list or dict of Parameters, got str"),
        (lambda: gluon.Trainer([3], "sgd"), "got list of int"),
        (lambda: gluon.Trainer([], "sdg"), "Cannot find optimizer 'sdg'; did you mean"),
        (lambda: gluon.Trainer([], mx.optimizer.SGD(), {"wd": 1}), "optimizer_params must be None"),
        (lambda: gluon.Trainer([], "sgd", kvstore="devise"), "did you mean 'device'"),
        (
            lambda: gluon.Trainer([], "sgd", kvstore=3),
            "kvstore must be KVStore, str or None, got 3",
        ),
        (
            lambda: gluon.Trainer([], "sgd", kvstore=None, update_on_kvstore=True),
            "kvstore must not be None",
        ),
        (
            lambda: gluon.Trainer([scalar(1.0)], "sgd").step(0),
            "batch_size must be .*above.*, got 0",
        ),
        (lambda: gluon.Trainer([scalar(1.0)], "sgd").step(-2), "batch_size must be .*got -2"),
        (lambda: gluon.Trainer([scalar(1.0)], "sgd").step("8"), "batch_size must be .*got '8'"),
    ],
)
def test_bad_arguments_are_named(act: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=words) as caught:
        act()
    assert isinstance(caught.value, MXNetError)


def test_parameters_on_different_contexts_are_refused() -> None:
    one, two = gluon.Parameter("a", shape=(1,)), gluon.Parameter("b", shape=(1,))
    one.initialize(ctx=mx.cpu(0))
    two.initialize(ctx=mx.cpu(1))
    with pytest.raises(ValueError, match=r"'b' is initialized on \[cpu\(1\)\] while previous"):
        gluon.Trainer([one, two], "sgd").step(1)


TWO = [mx.cpu(0), mx.cpu(1)]


def backward(param: gluon.Parameter) -> None:
    """Gradient 1 on the first context, 2 on the second, ..."""
    with autograd.record():
        losses = [(array * (i + 1)).sum() for i, array in enumerate(param.list_data())]
    autograd.backward(losses)


def spread(contexts: list[mx.Context] = TWO) -> gluon.Parameter:
    param = ready(gluon.Parameter("x", shape=(1,)), init="ones", ctx=contexts)
    return param


@pytest.mark.parametrize(
    ("kvstore", "given", "store", "on_store"),
    [
        ("device", None, "device", True),
        ("local", None, "local", True),
        ("device", False, "device", False),
        ("teststore", None, "teststore", False),
        (None, None, None, False),
    ],
)
def test_which_store_two_contexts_get(
    kvstore: Any, given: bool | None, store: str | None, on_store: bool
) -> None:
    param = spread()
    options = {"kvstore": kvstore, "update_on_kvstore": given}
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 0.1}, **options)
    assert trainer._kvstore_params == {"kvstore": kvstore, "update_on_kvstore": given}
    for _ in range(2):
        backward(param)
        trainer.step(1)
    assert (trainer._kvstore and trainer._kvstore.type) == store
    assert bool(trainer._update_on_kvstore) == on_store
    values = [array.asscalar() for array in param.list_data()]
    assert values == pytest.approx([0.4, 0.4] if kvstore else [0.8, 0.6])


def test_copies_that_become_different_are_reported_once() -> None:
    param = spread()
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 0.5}, kvstore=None)
    with pytest.warns(UserWarning, match="kvstore=None sums no gradients") as caught:
        step(trainer, param)
        step(trainer, param)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "[cpu(0), cpu(1)]" in str(caught[0].message)


@pytest.mark.filterwarnings("error")
def test_trainers_without_store_are_quiet_where_nothing_is_lost() -> None:
    one, two = spread([mx.cpu(0)]), spread()
    step(gluon.Trainer([one], "sgd", kvstore=None), one)
    trainer = gluon.Trainer([two], "sgd", kvstore=None)
    backward(two)
    trainer.update(1)  # the caller sums gradients

    class Summing(gluon.Trainer):
        def _allreduce_grads(self) -> None:
            pass

    step(Summing([two], "sgd", kvstore=None), two)


def test_one_context_needs_no_store_unless_one_is_given() -> None:
    for kvstore in ("device", None):
        param = spread([mx.cpu()])
        trainer = gluon.Trainer([param], "sgd", {"learning_rate": 0.1}, kvstore=kvstore)
        step(trainer, param)
        assert trainer._kvstore is None and trainer._update_on_kvstore is None
    param, store = spread([mx.cpu()]), mx.kv.create("local")
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 0.1}, kvstore=store)
    step(trainer, param)
    assert trainer._kvstore is store
    assert trainer._update_on_kvstore


def test_a_store_that_cannot_update_is_refused() -> None:
    trainer = gluon.Trainer([spread()], "sgd", kvstore="teststore", update_on_kvstore=True)
    with pytest.raises(ValueError, match="Please set update_on_kvstore=False when training with"):
        trainer.step(1)


def test_gradients_are_compressed() -> None:
    param = spread()
    options = {"type": "2bit", "threshold": 0.5}
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 1.0}, compression_params=options)
    backward(param)
    trainer.step(2)
    # Two times 0.5 instead of 1 + 2.
    assert [array.asscalar() for array in param.list_data()] == [0.5, 0.5]


@pytest.mark.parametrize("on_store", [True, False])
def test_a_value_set_between_steps_counts(on_store: bool) -> None:
    param = spread()
    options = {"learning_rate": 1.0, "momentum": 0.5}
    trainer = gluon.Trainer([param], "sgd", options, update_on_kvstore=on_store)
    backward(param)
    trainer.step(1)
    param.set_data(mx.nd.array([10.0]))
    backward(param)
    trainer.step(1)
    # 10 less the gradient 3 and half of the last step: the momentum stays.
    assert [array.asscalar() for array in param.list_data()] == [5.5, 5.5]


def test_parameters_whose_shape_comes_later_join_the_store() -> None:
    net = ready(sequential(gluon.nn.Dense(2), gluon.nn.Dense(1)), mx.init.One(), ctx=TWO)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    assert trainer.learning_rate == 0.5
    for _ in range(2):
        with autograd.record():
            losses = [net(mx.nd.ones((1, 3), ctx=ctx)).sum() for ctx in TWO]
        autograd.backward(losses)
        trainer.step(2)
    for param in net.collect_params().values():
        first, second = (array.asnumpy() for array in param.list_data())
        assert_array_equal(first, second)
        assert not np.array_equal(first, np.ones_like(first))


def test_a_context_without_samples_stays_in_step() -> None:
    param = spread()
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 1.0}, update_on_kvstore=False)
    recorded(lambda: param.data(mx.cpu(0)) * 2)
    assert_raises_regex(UserWarning, r"on context cpu\(1\)", trainer.step, 1)
    trainer.step(1, ignore_stale_grad=True)
    assert [array.asscalar() for array in param.list_data()] == [-1, -1]


def test_compare_optimizer_gives_dense_gradients_to_the_first_one():
    class Noting(mx.optimizer.Optimizer):
        def create_state(self, index, weight):
            return None

        def update(self, index, weight, grad, state):
            seen.append((weight.stype, grad.stype))

    seen = []
    storage = {"w_stype": "row_sparse", "g_stype": "row_sparse"}
    mx.test_utils.compare_optimizer(Noting(), Noting(), (4, 3), "float32", **storage)
    assert seen == [("default", "default"), ("row_sparse", "row_sparse")]


def test_an_unknown_storage_type_is_an_assertion_as_well():
    with pytest.raises(AssertionError, match="stype must be .*got 'dense'"):
        mx.gluon.Parameter("weight", shape=(2,), stype="dense")
    sparse = mx.gluon.Parameter("weight", shape=(2, 2), stype="row_sparse")
    assert sparse.var().attr("__storage_type__") == "1"


@pytest.mark.parametrize(
    ("stype", "grad_stype", "asked", "expected"),
    [
        ("default", "default", None, True),
        ("default", "row_sparse", None, False),
        ("default", "row_sparse", True, True),
        ("row_sparse", "row_sparse", None, True),
    ],
)
def test_where_rows_are_updated(stype, grad_stype, asked, expected):
    param = mx.gluon.Parameter("w", shape=(4, 2), stype=stype, grad_stype=grad_stype)
    param.initialize("zeros", ctx=[mx.cpu(0), mx.cpu(1)])
    trainer = mx.gluon.Trainer([param], "sgd", {"learning_rate": 0.5}, update_on_kvstore=asked)
    rows = nd.arange(4)
    with autograd.record():
        arrays = param.list_row_sparse_data(rows) if stype != "default" else param.list_data()
        losses = [(array * 3).sum() for array in arrays]
    autograd.backward(losses)
    trainer.step(1)
    assert trainer._update_on_kvstore is expected
    value = param.row_sparse_data(rows) if stype != "default" else param.data(mx.cpu(1))
    assert_array_equal(value.asnumpy(), np.full((4, 2), -3))


def test_sparse_weights_are_updated_on_the_store_by_one_trainer():
    param = mx.gluon.Parameter("w", shape=(4, 2), stype="row_sparse", grad_stype="row_sparse")
    param.initialize("zeros")
    trainer = mx.gluon.Trainer([param], "sgd", update_on_kvstore=False)
    assert_raises_regex(ValueError, "sparse weights are present", trainer.step, 1)
    with pytest.raises(RuntimeError, match="'w' because it was already set"):
        mx.gluon.Trainer([param], "sgd")
    param._set_trainer(None)
    assert mx.gluon.Trainer([param], "sgd")._params == [param]


def test_a_sparse_weight_on_one_context_has_a_store():
    param = mx.gluon.Parameter("w", shape=(4, 2), stype="row_sparse", grad_stype="row_sparse")
    param.initialize("zeros")
    trainer = mx.gluon.Trainer([param], "sgd", {"learning_rate": 0.5})
    rows = param.row_sparse_data(nd.array([1, 3]))  # before recording
    recorded(lambda: (rows * 3).sum())
    trainer.step(1)
    assert trainer._update_on_kvstore is True
    assert trainer._kvstore._updater.optimizer.learning_rate == 0.5
    assert_array_equal(param.row_sparse_data(nd.arange(4)).asnumpy()[:, 0], [0, -1.5, 0, -1.5])
