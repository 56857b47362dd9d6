"""Steps that the device skips for an overflow: nothing is read before the update."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, gluon, nd
from mxlite.contrib import amp
from mxlite.contrib.amp.loss_scaler import LossScaler
from pairing import pairs

SHAPES = [(3, 4), (700,), (1,), (40, 1000)]
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9, "clip_gradient": 0.1}),
    ("nag", {"momentum": 0.9}),
    ("signum", {}),
    ("adam", {}),
    ("adamw", {}),
    ("adamax", {}),
    ("nadam", {}),
    ("ftml", {}),
    ("lamb", {}),
    ("lars", {"momentum": 0.9}),
    ("adagrad", {}),
    ("adadelta", {}),
    ("rmsprop", {"centered": True}),
    ("ftrl", {}),
    ("dcasgd", {"momentum": 0.9}),
    ("groupadagrad", {"wd": 0.0}),
]
TYPES = ["float32", "float16", "float64"]


class ReadAtOnce:
    """Reads the result of each check before the update, as scalers of other libraries do."""

    def __init__(self) -> None:
        self._scaler = LossScaler()

    def has_overflow(self, params: Any) -> bool:
        result = self._scaler.has_overflow(params)
        vars(self).update(vars(self._scaler))
        return result


@pytest.fixture(autouse=True)
def mixed_precision() -> Iterator[None]:
    amp.init("bfloat16")
    yield
    amp.switch_off()


def trained(
    name: str,
    options: dict[str, Any],
    steps: str,
    dtype: str = "float32",
    contexts: int = 1,
    scaler: Any = None,
    **kwargs: Any,
) -> gluon.Trainer:
    """Return a trainer after some steps: "g" is a step with finite gradients, "i" and "n" are steps
    with an infinity or NaN; the gradients of good steps are numbered without the others."""
    shapes = [(4, 3), (2, 5)] if name == "groupadagrad" else SHAPES
    generator = np.random.default_rng(5)
    params = [gluon.Parameter(f"p{i}", shape=shape, dtype=dtype) for i, shape in enumerate(shapes)]
    for param in params:
        param.initialize(ctx=[mx.cpu(i) for i in range(contexts)], init="zeros")
        param.set_data(nd.array(generator.normal(size=param.shape)).astype(dtype))
    options = {"wd": 0.01, "multi_precision": dtype == "float16", **options}
    options["lr_scheduler"] = mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
    trainer = gluon.Trainer(params, name, options, **kwargs)
    amp.init_trainer(trainer)
    if scaler is not None:
        trainer._amp_loss_scaler = scaler
    for turn, step in enumerate(steps):
        good = steps[:turn].count("g")
        values = np.random.default_rng(good)
        for i, param in enumerate(params):
            grad = values.normal(size=param.shape)
            for k, array in enumerate(param.list_grad()):
                array[:] = nd.array(grad).astype(dtype)
                if step in "in" and i == 1 and k == contexts - 1:
                    array[0] = np.inf if step == "i" else np.nan
            for array in param.list_data():
                array._set_fresh_grad(True)
        trainer.step(1)
    return trainer


def numbers_of(value: Any) -> Any:
    """Return arrays as numpy arrays."""
    if isinstance(value, dict):
        return {key: numbers_of(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [numbers_of(entry) for entry in value]
    return value.asnumpy() if hasattr(value, "asnumpy") else value


def everything(trainer: gluon.Trainer) -> dict[str, Any]:
    """Return weights, states, counts and the loss scale."""
    return numbers_of(
        {
            "weights": [array for param in trainer._params for array in param.list_data()],
            "trainer": trainer.state_dict(),
            "fresh": [array._fresh_grad for p in trainer._params for array in p.list_data()],
        }
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=str)
def test_skipped_steps_change_nothing(name: str, options: dict[str, Any], dtype: str) -> None:
    got = everything(trained(name, options, "iggnig", dtype))
    want = everything(trained(name, options, "ggg", dtype))
    assert got["trainer"].pop("loss_scaler") != want["trainer"].pop("loss_scaler")
    np.testing.assert_equal(got, want)
    start = everything(trained(name, options, "", dtype))
    assert any((a != b).any() for a, b in pairs(got["weights"], start["weights"]))


@pytest.mark.parametrize("steps", ["i", "gi", "ginngg", "iiig"])
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS[1:12:3], ids=str)
def test_the_result_is_that_of_reading_before_the_update(
    name: str, options: dict[str, Any], steps: str
) -> None:
    for count in range(len(steps) + 1):
        got = everything(trained(name, options, steps[:count]))
        want = everything(trained(name, options, steps[:count], scaler=ReadAtOnce()))
        scaler = want["trainer"]["loss_scaler"]
        want["trainer"]["loss_scaler"] = vars(scaler.pop("_scaler"))
        np.testing.assert_equal(got, want)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "lamb"])
def test_a_scale_of_the_device_changes_no_bit(name: str, dtype: str) -> None:
    got = everything(trained(name, {}, "ggg", dtype))
    want = everything(trained(name, {}, "ggg", dtype, scaler=ReadAtOnce()))
    np.testing.assert_equal(got["weights"], want["weights"])


def test_nothing_is_read_before_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    for name in ("asnumpy", "asscalar", "wait_to_read"):
        before = getattr(mx.nd.NDArray, name)

        def noted(self: Any, *, _before: Any = before, _name: str = name) -> Any:
            read.append(_name)
            return _before(self)

        monkeypatch.setattr(mx.nd.NDArray, name, noted)
    trainer = trained("sgd", {}, "i")
    assert not read
    scaler = trainer._amp_loss_scaler
    assert scaler.loss_scale == 2**16  # chosen by the check before
    assert trainer.learning_rate == 0.1  # asks the scheduler by the number of updates
    assert read == ["asnumpy"]
    assert trainer.optimizer.num_update == 0
    assert scaler._next_loss_scale == 2**15
    assert read == ["asnumpy"]


@pytest.mark.parametrize(
    "options",
    [
        {"contexts": 2, "kvstore": None},
        {"contexts": 2, "update_on_kvstore": False},
        {"clip_global_norm": 0.5},
    ],
)
def test_contexts_skip_together_and_clipped_gradients(options: dict[str, Any]) -> None:
    got = everything(trained("adam", {}, "gig", **options))
    want = everything(trained("adam", {}, "gg", **options))
    got["trainer"].pop("loss_scaler"), want["trainer"].pop("loss_scaler")
    np.testing.assert_equal(got, want)
    if "clip_global_norm" in options:
        free = everything(trained("adam", {}, "gg"))
        assert any((a != b).any() for a, b in pairs(got["weights"], free["weights"]))


def test_a_step_stays_unsettled_until_its_numbers_are_asked_for() -> None:
    trainer = trained("adam", {}, "gi")
    assert trainer._amp_loss_scaler._unsettled is not None
    assert trainer.optimizer._index_update_count == dict.fromkeys(range(len(SHAPES)), 1)
    assert trainer._amp_loss_scaler._unsettled is None
    assert trainer.optimizer._unsettled is None
    trainer = trained("sgd", {}, "ggi")  # a rate lowered in a skipped step is raised again
    assert trainer.learning_rate == 0.1
    assert trainer.optimizer.lr_scheduler.count == 0


def test_a_first_step_that_is_skipped_leaves_no_states(tmp_path: Path) -> None:
    trainer = trained("adam", {}, "i", "float16")
    trainer.save_states(str(tmp_path / "states"))
    fresh = trained("adam", {}, "", "float16")
    fresh.save_states(str(tmp_path / "none"))
    assert (tmp_path / "states").read_bytes() == (tmp_path / "none").read_bytes()
    # The float32 copies of the next step are those of the weights then.
    for param in trainer._params:
        param.set_data(nd.ones(param.shape, dtype="float16"))
        param.grad()[:] = 0
        param.data()._set_fresh_grad(True)
    trainer.optimizer.wd = 0.0
    trainer.step(1)
    for param in trainer._params:
        assert (param.data().asnumpy() == 1).all()


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))]
)
def test_copies_of_an_optimizer_have_the_settled_counts(copied: Any) -> None:
    trainer = trained("nadam", {}, "gi")
    trainer.optimizer.param_dict = {}
    twin = copied(trainer.optimizer)
    assert twin.num_update == 1
    assert twin.m_schedule == trainer.optimizer.m_schedule
    weight, grad = nd.ones(3), nd.ones(3)
    mx.optimizer.get_updater(twin)(0, grad, weight)
    assert (weight.asnumpy() != 1).all()


def test_loading_states_ends_the_wait(tmp_path: Path) -> None:
    trainer = trained("adam", {}, "gg")
    trainer.save_states(str(tmp_path / "states"))
    other = trained("adam", {}, "i")
    other.load_states(str(tmp_path / "states"))
    assert other.optimizer.num_update == 2
    np.testing.assert_equal(
        numbers_of(other._updaters[0].states), numbers_of(trainer._updaters[0].states)
    )


def test_sparse_gradients_are_read_before_the_update() -> None:
    param = gluon.Parameter("x", shape=(5, 2), grad_stype="row_sparse")
    param.initialize(init="ones")
    trainer = gluon.Trainer([param], "adam", kvstore=None)
    amp.init_trainer(trainer)
    for factor in (1e38, 1.0):
        with autograd.record():
            rows = nd.Embedding(
                nd.array([1, 3]), param.data(), input_dim=5, output_dim=2, sparse_grad=True
            )
            loss = rows.sum() * factor * factor
        loss.backward()
        trainer.step(1)
        changed = (param.data().asnumpy() != 1).any(axis=1)
        assert changed.tolist() == ([False] * 5 if factor > 1 else [0, 1, 0, 1, 0])
    assert trainer.optimizer.num_update == 1


def test_finite_values_of_all_sizes_and_types() -> None:
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        for size in (1, 255, 256, 257, 40000, 100003):
            arrays = [nd.ones(7, dtype=dtype), nd.ones(size, dtype=dtype), nd.ones(0, dtype=dtype)]
            assert nd.multi_all_finite(*arrays, num_arrays=3).asscalar() == 1
            for position in {0, size // 2, size - 1}:
                for value in (np.inf, -np.inf, np.nan):
                    arrays[1][position] = value
                    assert nd.multi_all_finite(*arrays, num_arrays=3).asscalar() == 0
                arrays[1][position] = 1
    largest = nd.array([np.finfo("float64").max, np.finfo("float64").tiny], dtype="float64")
    assert nd.all_finite(largest).asscalar() == 1
    assert nd.all_finite(nd.array([np.finfo("float32").max] * 3)).asscalar() == 1
    assert nd.multi_all_finite(nd.ones(3, dtype="int32"), num_arrays=1).asscalar() == 1


def test_a_scaler_that_decides_itself_is_asked_before_the_update() -> None:
    class Never(LossScaler):
        def has_overflow(self, params: Any) -> bool:
            super().has_overflow(params)
            return False

    trainer = trained("sgd", {}, "i", scaler=Never())
    assert trainer.optimizer.num_update == 1
    assert not np.isfinite(trainer._params[1].data().asnumpy()).all()
    assert trainer._amp_loss_scaler._next_loss_scale == 2**15
