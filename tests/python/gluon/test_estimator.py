"""Estimator and its event handlers: log lines, counts and files of MXNet 1.9.1."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon
from mxlite.gluon import nn
from mxlite.gluon.contrib import estimator as est
from numpy.testing import assert_array_equal

RNG = np.random.RandomState(0)
X = RNG.randn(24, 5).astype("float32")
Y = (X[:, 0] > 0).astype("float32") + (X[:, 1] > 0)


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(re.sub(r"\d+\.\d{3}s", "T", record.getMessage()))


def loader() -> gluon.data.DataLoader:
    return gluon.data.DataLoader(gluon.data.ArrayDataset(X, Y), batch_size=8)


def make(hybrid: bool = True, **options: Any) -> tuple[Any, list[str]]:
    """Return an estimator whose numbers are known from 1.9.1, and the list of its log lines."""
    net = nn.HybridSequential(prefix="m_")
    with net.name_scope():
        net.add(nn.Dense(3, in_units=5))
    net.initialize(mx.init.One())
    net.hybridize(hybrid)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    made = est.Estimator(net=net, loss=loss, trainer=trainer, context=mx.cpu(), **options)
    handler = Lines()
    made.logger.handlers = [handler]
    return made, handler.lines


accuracy = mx.metric.Accuracy
BEGIN = "Training begin: using optimizer SGD with current learning rate 0.1000 "


def epoch_lines(epoch: int, values: str) -> list[str]:
    begin = f"[Epoch {epoch}] Begin, current learning rate: 0.1000"
    return [begin, f"[Epoch {epoch}] Finished in T, {values}"]


def test_the_default_metrics_and_lines() -> None:
    made, lines = make()
    made.fit(loader(), epochs=2)
    last = "training accuracy: 0.8333, training softmaxcrossentropyloss: 0.9551"
    assert lines == [
        BEGIN,
        "Train for 2 epochs.",
        *epoch_lines(0, "training accuracy: 0.3333, training softmaxcrossentropyloss: 1.0707"),
        *epoch_lines(1, last),
        f"Train finished using total 0s with 2 epochs. {last}",
    ]
    names = ["validation accuracy", "validation softmaxcrossentropyloss"]
    assert [metric.name for metric in made.val_metrics] == names


def test_validation_after_each_epoch() -> None:
    made, lines = make(train_metrics=accuracy())
    made.fit(loader(), loader(), epochs=2)
    assert lines[2:6] == [
        "[Epoch 0] Begin, current learning rate: 0.1000",
        "Validation Begin",
        "[Epoch 0] Finished in T, validation accuracy: 0.8750",
        "[Epoch 0] Finished in T, training accuracy: 0.3333",
    ]
    assert lines[8].startswith("[Epoch 1] Finished in T, validation accuracy")


def test_a_number_of_batches_goes_over_epochs() -> None:
    made, lines = make(train_metrics=[accuracy()])
    made.fit(loader(), batches=4)
    assert lines[1:] == [
        "Train for 4 batches.",
        *epoch_lines(0, "training accuracy: 0.3333"),
        *epoch_lines(1, "training accuracy: 1.0000"),
        "Train finished using total 0s with 2 epochs. training accuracy: 1.0000",
    ]


def test_lines_within_an_epoch() -> None:
    made, lines = make(train_metrics=[accuracy()])
    handler = est.LoggingHandler(log_interval=2, metrics=made.train_metrics)
    made.fit(loader(), epochs=1, event_handlers=[handler])
    assert lines[3:5] == [
        "[Epoch 0][Batch 0][Samples 8] time/interval: T training accuracy: 0.0000",
        "[Epoch 0][Batch 2][Samples 24] time/interval: T training accuracy: 0.3333",
    ]


def test_handlers_are_called_in_order() -> None:
    calls: list[tuple[str, list[str]]] = []

    def noting(name: str) -> Any:
        def method(self: Any, estimator: Any, *args: Any, **kwargs: Any) -> bool:
            calls.append((name, sorted(kwargs)))
            # The epoch ends after its second batch, and training after its first epoch.
            return name == "epoch_end" or (name == "batch_end" and len(calls) >= 6)

        return method

    kinds = (est.TrainBegin, est.EpochBegin, est.BatchBegin, est.BatchEnd, est.EpochEnd,
             est.TrainEnd)  # fmt: skip
    events = "train_begin epoch_begin batch_begin batch_end epoch_end train_end".split()
    mine = type("Mine", kinds, {name: noting(name) for name in events})()
    made, _ = make(train_metrics=[accuracy()])
    made.fit(loader(), epochs=5, event_handlers=mine)
    batch = [("batch_begin", ["batch"]), ("batch_end", ["batch", "label", "loss", "pred"])]
    begin, end = [("train_begin", []), ("epoch_begin", [])], [("epoch_end", []), ("train_end", [])]
    assert calls == [*begin, *batch, *batch, *end]


def test_the_order_of_the_default_handlers() -> None:
    made, _ = make(train_metrics=[accuracy()])
    made.max_epoch, made.max_batch = 1, None
    names = [type(h).__name__ for h in made._prepare_default_handlers(loader(), None)]
    assert names == [
        "GradientUpdateHandler", "MetricHandler", "ValidationHandler", "StoppingHandler",
        "LoggingHandler",
    ]  # fmt: skip


def test_own_steps() -> None:
    class Slow(est.GradientUpdateHandler):
        steps = 0

        def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
            Slow.steps += 1

    made, _ = make()
    before = made.net[0].weight.data().asnumpy()
    made.fit(loader(), epochs=1, event_handlers=[Slow()])
    assert Slow.steps == 3
    assert_array_equal(made.net[0].weight.data().asnumpy(), before)


def test_evaluation_alone_and_another_network() -> None:
    made, lines = make(train_metrics=[accuracy()])
    made.evaluate(loader())
    assert lines == ["Validation Begin", "[Epoch 0] Finished in T, validation accuracy: 0.2083"]
    other = nn.Dense(3, in_units=5)
    other.initialize(mx.init.Zero())
    made.val_net = other
    made.evaluate(loader())
    assert made.val_metrics[0].get()[1] == pytest.approx(float((Y == 0).mean()))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_checkpoints_and_the_best_model(tmp_path: Path) -> None:
    made, lines = make(train_metrics=[accuracy()])
    handler = est.CheckpointHandler(
        tmp_path, "mm", max_checkpoints=2, verbose=1, save_best=True, mode="max",
        monitor=made.train_metrics[0],
    )  # fmt: skip
    made.fit(loader(), epochs=4, event_handlers=[handler])
    at = f"model at {tmp_path} with prefix:"
    assert [line for line in lines if "Checkpoint" in line] == [
        f"[Epoch 0] CheckpointHandler: trained total 4 batches, saving {at} mm-epoch0batch3",
        "[Epoch 0] CheckpointHandler: training accuracy improved from -inf to 0.33333, updating "
        f"best {at} mm-best",
        f"[Epoch 1] CheckpointHandler: trained total 7 batches, saving {at} mm-epoch1batch6",
        "[Epoch 1] CheckpointHandler: training accuracy improved from 0.33333 to 0.83333, updating "
        f"best {at} mm-best",
        f"[Epoch 2] CheckpointHandler: trained total 10 batches, saving {at} mm-epoch2batch9",
        "[Epoch 2] CheckpointHandler: training accuracy improved from 0.83333 to 0.87500, updating "
        f"best {at} mm-best",
        f"[Epoch 3] CheckpointHandler: trained total 13 batches, saving {at} mm-epoch3batch12",
        "[Epoch 3] CheckpointHandler: training accuracy did not improve from 0.87500, skipping "
        "updating best model",
    ]
    assert files(tmp_path) == [
        "mm-best.params", "mm-best.states", "mm-epoch2batch9.params", "mm-epoch2batch9.states",
        "mm-epoch3batch12.params", "mm-epoch3batch12.states", "mm-symbol.json",
    ]  # fmt: skip


def test_resuming(tmp_path: Path) -> None:
    made, _ = make(train_metrics=[accuracy()])
    made.fit(loader(), epochs=4, event_handlers=[est.CheckpointHandler(tmp_path, "mm")])
    weights = made.net[0].weight.data().asnumpy()
    again, lines = make(train_metrics=[accuracy()])
    handler = est.CheckpointHandler(tmp_path, "mm", resume_from_checkpoint=True)
    again.fit(loader(), epochs=6, event_handlers=[handler])
    assert lines[0] == (
        "CheckpointHandler: Checkpoint resumed from epoch 3 batch 12, continue to train for 2 "
        "epochs "
    )
    assert lines[2] == "Train for 2 epochs."
    assert {"mm-epoch4batch15.params", "mm-epoch5batch18.states"} <= set(files(tmp_path))
    whole, _ = make(train_metrics=[accuracy()])
    whole.fit(loader(), epochs=6)
    assert_array_equal(again.net[0].weight.data().asnumpy(), whole.net[0].weight.data().asnumpy())
    assert (weights != whole.net[0].weight.data().asnumpy()).any()
    with pytest.raises(ValueError, match="maximum number of epoch 6"):
        make()[0].fit(
            loader(), epochs=6,
            event_handlers=[est.CheckpointHandler(tmp_path, "mm", resume_from_checkpoint=True)],
        )  # fmt: skip


def test_checkpoints_by_batch(tmp_path: Path) -> None:
    made, lines = make(train_metrics=[accuracy()])
    handler = est.CheckpointHandler(tmp_path, epoch_period=None, batch_period=2)
    made.fit(loader(), batches=6, event_handlers=[handler])
    names = [f"model-epoch{e}batch{b}.params" for e, b in ((0, 1), (1, 3), (1, 5))]
    assert [name for name in files(tmp_path) if name.endswith(".params")] == names
    scratch, lines = make()
    options = {"epoch_period": None, "batch_period": 2, "resume_from_checkpoint": True}
    handler = est.CheckpointHandler(tmp_path / "new", **options)
    scratch.fit(loader(), batches=3, event_handlers=[handler])
    assert lines[0] == "CheckpointHandler: No checkpoint found, training from scratch for 3 batches"
    with pytest.raises(AssertionError, match="same type of period"):
        made.fit(loader(), epochs=9, event_handlers=[handler])
    (tmp_path / "new" / "model-epochXbatch1.params").write_bytes(b"")
    with pytest.raises(ValueError, match="model-epochXbatch1"):
        scratch.fit(loader(), batches=9, event_handlers=[handler])


def test_networks_that_are_not_hybridized_have_no_symbol(tmp_path: Path) -> None:
    made, lines = make(hybrid=False)
    made.fit(loader(), epochs=1, event_handlers=[est.CheckpointHandler(tmp_path)])
    assert any(line.startswith("Model architecture(symbol file) is not saved") for line in lines)
    assert "model-symbol.json" not in files(tmp_path)


def test_early_stopping() -> None:
    made, lines = make(train_metrics=[accuracy()])
    options = {"patience": 1, "mode": "max", "min_delta": 0.5}
    handler = est.EarlyStoppingHandler(monitor=made.train_metrics[0], **options)
    made.fit(loader(), epochs=9, event_handlers=[handler])
    assert (handler.stopped_epoch, handler.current_epoch, handler.wait) == (2, 3, 1)
    assert handler.best == pytest.approx(0.8333333333)
    assert handler.stop_training
    # The line is written where 1.x writes it: before the last one.
    text = "early stopping due to training accuracy not improving"
    assert lines[-2] == f"[Epoch 2] EarlyStoppingHanlder: {text}"


@pytest.mark.parametrize(
    ("metric", "operator"), [(mx.metric.Accuracy(), np.greater), (mx.metric.MSE(), np.less)]
)
def test_auto_mode_follows_the_metric(metric: Any, operator: Any) -> None:
    with pytest.warns(UserWarning, match=f"`{operator.__name__}` operator will be used"):
        assert est.EarlyStoppingHandler(metric).monitor_op is operator


def test_a_metric_that_is_not_updated_warns(tmp_path: Path) -> None:
    made, _ = make(train_metrics=[accuracy()])
    unused = made.val_metrics[0]
    handler = est.EarlyStoppingHandler(monitor=unused, mode="max")
    keeper = est.CheckpointHandler(tmp_path, save_best=True, monitor=unused, mode="max")
    with pytest.warns(RuntimeWarning) as warned:
        made.fit(loader(), epochs=1, event_handlers=[handler, keeper])
    texts = [str(entry.message) for entry in warned]
    assert any("validation accuracy is not updated" in text for text in texts)
    assert any("Skipping save best because validation accuracy" in text for text in texts)


def test_other_metrics_than_the_estimators_are_refused() -> None:
    made, _ = make(train_metrics=[accuracy()])
    with pytest.raises(ValueError, match="MetricHandler refers to a metric instance"):
        made.fit(loader(), epochs=1, event_handlers=[est.MetricHandler(accuracy())])


def test_several_contexts_and_own_batches() -> None:
    net = nn.Dense(3, in_units=5)
    contexts = [mx.cpu(0), mx.cpu(1)]
    with pytest.warns(UserWarning, match="No trainer specified"):
        made = est.Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), context=contexts)
    assert made.trainer.learning_rate == 0.001
    made.logger.handlers = []
    made.fit(loader(), epochs=1)
    assert made.train_metrics[0].num_inst == 24

    class Twice(est.BatchProcessor):
        def fit_batch(self, estimator: Any, batch: Any, batch_axis: int = 0) -> Any:
            return super().fit_batch(estimator, [batch[0] * 2, batch[1]], batch_axis)

    with pytest.warns(UserWarning):
        own = est.Estimator(net, gluon.loss.L2Loss(), context=contexts, batch_processor=Twice())
    assert isinstance(own.batch_processor, Twice)


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: est.Estimator(3, 4), "loss must be a Loss"),
        (lambda: est.Estimator(nn.Dense(2), gluon.loss.L2Loss(), train_metrics=[3]), "metrics mus"),
        (lambda: est.Estimator(nn.Dense(2), gluon.loss.L2Loss(), trainer=3), "Trainer must be a"),
        (lambda: est.Estimator(nn.Dense(2), gluon.loss.L2Loss(), context=3), "context must be a"),
        (lambda: est.LoggingHandler(log_interval="x"), "log_interval must be"),
        (lambda: est.EarlyStoppingHandler(monitor=3), "Please provide one of the metric objects"),
        (lambda: est.EarlyStoppingHandler(mx.metric.CompositeEvalMetric()), "not supported"),
        (lambda: est.MetricHandler(3), "metrics must be"),
        (lambda: est.CheckpointHandler("unused-folder", save_best=True), "To save best model only"),
        (lambda: make()[0].fit(loader()), "one and only one of"),
        (lambda: make()[0].fit(loader(), epochs=1, batches=2), "one and only one of"),
        (lambda: make()[0].fit([1, 2], epochs=1), "Gluon DataLoader"),
        (lambda: make()[0].evaluate([1, 2]), "Gluon DataLoader"),
        (lambda: make()[0].fit(loader(), epochs=1, event_handlers=[3]), "EventHandler"),
        (lambda: make(batch_processor=3), "fit_batch"),
    ],
)
def test_errors(make_it: Any, message: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        make_it()


@pytest.mark.parametrize("error", [AssertionError, ValueError])
def test_a_context_that_does_not_exist_is_refused(error: Any) -> None:
    with pytest.raises(error, match=r"gpu\(100\) is not available"):
        est.Estimator(nn.Dense(2), gluon.loss.L2Loss(), context=[mx.cpu(), mx.gpu(100)])
