"""Checkpoints that do not fit the objects: errors with both values, and nothing half-changed."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import checkpoint, gluon, nd
from mxlite.base import FileFormatError
from mxlite.gluon import nn
from mxlite.gluon.data import DataLoader
from recording import differentiated

FUZZER = Path(__file__).parents[2] / "fuzz" / "checkpoint_states.py"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.ckpt"


def test_changed_tables_change_no_object() -> None:
    command = [sys.executable, str(FUZZER), "--count", "250", "--seed", "3"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    refused = int(result.stdout.split()[0])
    assert refused > 100, result.stdout


# -- data loaders --------------------------------------------------------------------------------


def numbers(loader: Any) -> list[list[int]]:
    return [batch.asnumpy().astype(int).tolist() for batch in loader]


def samples(count: int = 60) -> Any:
    return np.arange(count, dtype="float32")


def saved_in_the_middle(path: Path, **options: Any) -> list[list[int]]:
    """Save after 3 batches of 10 from 60 samples; return the batches that are left."""
    np.random.seed(3)
    loader = DataLoader(samples(), 10, **options)
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    checkpoint.save(path, data=loader)
    return numbers(batches)


@pytest.mark.parametrize(
    ("count", "options", "words"),
    [
        (50, {"batch_size": 10, "shuffle": True}, "samples 60, but this loader has 50"),
        (60, {"batch_size": 12, "shuffle": True}, "batch_size 10, but this loader has 12"),
        (60, {"batch_size": 10}, "sampler 'RandomSampler', but this loader has 'Sequential"),
        (
            60,
            {"batch_size": 10, "shuffle": True, "last_batch": "discard"},
            "last_batch 'keep', but this loader has 'discard'",
        ),
    ],
)
def test_the_position_of_another_loader_is_refused(
    path: Path, count: int, options: dict[str, Any], words: str
) -> None:
    rest = saved_in_the_middle(path, shuffle=True)
    with pytest.raises(ValueError, match=rf"a\.ckpt', 'data': .*has {words}"):
        checkpoint.load(path, data=DataLoader(samples(count), **options))
    loader = DataLoader(samples(), 10, shuffle=True)
    checkpoint.load(path, data=loader)
    assert numbers(loader) == rest


def test_a_position_without_settings_is_that_of_an_older_version() -> None:
    loader = DataLoader(samples(), 10)
    for i, _ in enumerate(loader):
        if i == 2:
            old = {key: loader.state_dict()[key] for key in ("begin", "taken")}
    other = DataLoader(samples(), 10)
    other.load_state_dict(old)
    assert numbers(other)[0][0] == 30


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("way", ["break", "interrupt"])
def test_a_position_saved_after_the_loop_was_left_is_kept(
    path: Path, way: str, workers: int
) -> None:
    np.random.seed(3)
    order = numbers(DataLoader(samples(), 10, shuffle=True, num_workers=workers))
    np.random.seed(3)
    loader = DataLoader(samples(), 10, shuffle=True, num_workers=workers)
    try:
        for i, _ in enumerate(loader):
            if i == 2 and way == "break":
                break
            if i == 2:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        checkpoint.save(path, data=loader)
    checkpoint.save(path, data=loader)
    other = DataLoader(samples(), 10, shuffle=True, num_workers=workers)
    checkpoint.load(path, data=other)
    checkpoint.save(path, data=other)  # a position that was loaded is not lost either
    checkpoint.load(path, data=other)
    assert numbers(other) == order[3:]
    assert len(numbers(other)) == 6
    assert len(numbers(loader)) == 6  # in the process itself the next loop begins a new pass
    assert loader.state_dict()["begin"] is None


def test_a_loop_left_after_its_last_batch_is_complete() -> None:
    loader = DataLoader(samples(), 10)
    for i, _ in enumerate(loader):
        if i + 1 == len(loader):
            break
    assert loader.state_dict()["begin"] is None
    for _ in loader:
        break
    assert loader.state_dict()["taken"] == 1
    loader.clean()
    assert loader.state_dict()["begin"] is None


def test_a_sampler_without_length_is_resumed() -> None:
    class Endless:
        def __iter__(self) -> Any:
            return iter([[0, 1], [2, 3], [4, 5]])

    loader, other = (DataLoader(samples(), batch_sampler=Endless()) for _ in range(2))
    for _ in loader:
        break
    other.load_state_dict(loader.state_dict())
    assert numbers(other) == [[2, 3], [4, 5]]


# -- trainers, metrics, schedulers ---------------------------------------------------------------


def trained(optimizer: str, **options: Any) -> tuple[Any, Any]:
    net = nn.Dense(1, in_units=2)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, options)
    differentiated(lambda: net(nd.ones((1, 2))))
    trainer.step(1)
    return net, trainer


def test_another_class_of_optimizer_is_refused(path: Path) -> None:
    net, trainer = trained("adam", learning_rate=0.1)
    checkpoint.save(path, net=net, trainer=trainer)
    net, trainer = trained("sgd", learning_rate=0.3)
    before = net.weight.data().asnumpy()
    with pytest.raises(
        FileFormatError, match=r"a\.ckpt', 'trainer'.*optimizer must be 'Adam'.*'SGD'"
    ):
        checkpoint.load(path, net=net, trainer=trainer)
    assert type(trainer.optimizer).__name__ == "SGD"
    assert trainer.learning_rate == 0.3
    np.testing.assert_array_equal(net.weight.data().asnumpy(), before)


def test_the_checkpoint_s_options_are_restored_with_a_warning(path: Path) -> None:
    net, trainer = trained("sgd", learning_rate=0.1, wd=0.01)
    trainer.set_learning_rate(0.05)
    checkpoint.save(path, net=net, trainer=trainer)
    net, trainer = trained("sgd", learning_rate=0.1, wd=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the program gives what it gave before
        checkpoint.load(path, net=net, trainer=trainer)
    assert trainer.learning_rate == 0.05
    net, trainer = trained("sgd", learning_rate=0.2, momentum=0.9)
    with pytest.warns(UserWarning) as caught:
        checkpoint.load(path, net=net, trainer=trainer)
    texts = [str(entry.message) for entry in caught]
    assert len(texts) == 2
    assert "gives learning_rate 0.2, the checkpoint was saved with 0.1" in texts[0]
    assert "gives momentum 0.9, the checkpoint was saved with 0.0" in texts[1]
    assert (trainer.learning_rate, trainer.optimizer.momentum) == (0.05, 0.0)


def test_another_scheduler_of_a_trainer_is_replaced_with_a_warning(path: Path) -> None:
    schedule = mx.lr_scheduler.FactorScheduler(3, 0.5, base_lr=0.4)
    net, trainer = trained("adam", lr_scheduler=schedule)
    checkpoint.save(path, net=net, trainer=trainer)
    net, trainer = trained("adam", lr_scheduler=mx.lr_scheduler.CosineScheduler(9, base_lr=0.4))
    with pytest.warns(UserWarning, match='lr_scheduler "Cosine.*saved with "FactorScheduler'):
        checkpoint.load(path, net=net, trainer=trainer)
    own = mx.optimizer.Adam(lr_scheduler=mx.lr_scheduler.FactorScheduler(3, 0.5, base_lr=0.4))
    with warnings.catch_warnings():
        # Must not warn: the optimizer object holds a scheduler equal to the saved one.
        warnings.simplefilter("error")
        checkpoint.load(path, net=net, trainer=gluon.Trainer(net.collect_params(), own))
    assert type(trainer.optimizer.lr_scheduler).__name__ == "FactorScheduler"
    assert trainer.optimizer.lr_scheduler(4) == 0.2


def test_another_class_of_metric_or_scheduler_is_refused(path: Path) -> None:
    schedule = mx.lr_scheduler.PolyScheduler(10)
    both = mx.metric.CompositeEvalMetric([mx.metric.MAE(), mx.metric.MSE()])
    checkpoint.save(path, metric=mx.metric.Accuracy(), both=both, schedule=schedule)
    with pytest.raises(FileFormatError, match=r"'metric'.*metric must be 'Accuracy', .* got 'MAE'"):
        checkpoint.load(path, metric=mx.metric.MAE())
    with pytest.raises(FileFormatError, match="metric 1: metric must be 'MSE', .* got 'RMSE'"):
        checkpoint.load(path, both=mx.metric.create(["mae", "rmse"]))
    with pytest.raises(FileFormatError, match="number of metrics must be 2, .* got 1"):
        checkpoint.load(path, both=mx.metric.create(["mae"]))
    with pytest.raises(FileFormatError, match="must be 'PolyScheduler', .* got 'CosineScheduler'"):
        checkpoint.load(path, schedule=mx.lr_scheduler.CosineScheduler(10))


def test_options_of_a_metric_are_restored_with_a_warning(path: Path) -> None:
    checkpoint.save(path, metric=mx.metric.TopKAccuracy(3))
    metric = mx.metric.TopKAccuracy(5)
    with pytest.warns(UserWarning, match=r"top_k 5 \(saved: 3\)"):
        checkpoint.load(path, metric=metric)
    assert metric.top_k == 3


@pytest.mark.parametrize("kind", [mx.metric.F1, mx.metric.MCC])
def test_counts_of_a_metric_go_on(path: Path, kind: Any) -> None:
    labels, scores = nd.array([1, 0, 1, 1]), nd.array([[0, 1], [1, 0], [1, 0], [0, 1]])
    first, second = kind(average="micro"), kind(average="micro")
    first.update([labels], [scores])
    checkpoint.save(path, metric=first)
    checkpoint.load(path, metric=second)
    for metric in (first, second):
        metric.update([labels], [nd.ones((4, 2))])
    assert second.get() == first.get()
    assert second.num_inst == 8


def test_a_module_keeps_its_optimizer_class(path: Path) -> None:
    net = mx.sym.LinearRegressionOutput(
        mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1), mx.sym.var("y"), name="y"
    )
    modules = []
    for optimizer in ("adam", "sgd"):
        module = mx.mod.Module(net, label_names=["y"])
        module.bind([("data", (2, 3))], [("y", (2, 1))])
        module.init_params()
        module.init_optimizer(optimizer=optimizer)
        modules.append(module)
    checkpoint.save(path, module=modules[0])
    with pytest.raises(FileFormatError, match=r"'module'.*optimizer must be 'Adam', .* got 'SGD'"):
        checkpoint.load(path, module=modules[1])
    checkpoint.load(path, module=modules[0])


def test_an_option_that_is_none_takes_numbers_only() -> None:
    _, trainer = trained("sgd")
    state = trainer.state_dict()
    attributes = state["contexts"][0]["optimizer"]["attributes"]
    for bad in ("1", [], {}):
        attributes["clip_gradient"] = bad
        with pytest.raises(FileFormatError, match="clip_gradient must be a number"):
            trainer.load_state_dict(state)
    attributes["clip_gradient"] = 2.0
    trainer.load_state_dict(state)
    attributes["clip_gradient"] = None
    trainer.load_state_dict(state)
    assert trainer.optimizer.clip_gradient is None


# -- objects of a program ------------------------------------------------------------------------


class Counter:
    def __init__(self, value: int) -> None:
        self.value = value

    def state_dict(self) -> dict[str, int]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.value = state["value"]
        if self.value > 5:
            raise ValueError("too much")


def test_objects_get_back_their_states_when_a_later_one_raises(path: Path) -> None:
    checkpoint.save(path, first=Counter(3), second=Counter(9), net=trained("sgd")[0])
    first, second, net = Counter(0), Counter(1), trained("sgd")[0]
    before = net.weight.data().asnumpy()
    with pytest.raises(FileFormatError, match=r"a\.ckpt', 'second': .*too much"):
        checkpoint.load(path, net=net, first=first, second=second)
    assert (first.value, second.value) == (0, 1)
    np.testing.assert_array_equal(net.weight.data().asnumpy(), before)


def test_an_array_of_another_type_changes_no_parameter(tmp_path: Path) -> None:
    net, half = nn.HybridSequential(), nn.HybridSequential()
    for block in (net, half):
        block.add(nn.Dense(2, in_units=2), nn.Dense(2, in_units=2))
        block.initialize(mx.init.One())
    half[1].cast("float16")
    half[0].weight.set_data(nd.zeros((2, 2)))
    path = str(tmp_path / "a.params")
    half.save_parameters(path)
    with pytest.raises(mx.base.DTypeError, match="dtype incompatible"):
        net.load_parameters(path)
    assert net[0].weight.data().asnumpy().sum() == 4


def test_a_damaged_random_state_changes_no_generator() -> None:
    state = mx.random.random_state()
    state["numpy"]["pos"] = 700
    mx.random.seed(4)
    before = mx.random.random_state()["mxlite"]
    with pytest.raises(FileFormatError, match="position 700 is outside"):
        mx.random.set_random_state(state)
    assert mx.random.random_state()["mxlite"] == before
