"""Callbacks and the monitor: the log lines of MXNet 1.9.1."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import mxlite as mx
import pytest
from mxlite.model import BatchEndParam


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(mx.callback.time, "time", lambda: now[0])
    return now


def metric() -> Any:
    return mx.metric.create(["acc", "ce"])


def seen(found: Any) -> None:
    found.update([mx.nd.array([0, 1])], [mx.nd.array([[0.9, 0.1], [0.8, 0.2]])])


def run(callback: Any, clock: list[float], batches: int, found: Any, epoch: int = 0) -> None:
    for number in range(batches):
        if found is not None:
            seen(found)
        clock[0] += 0.5
        callback(BatchEndParam(epoch=epoch, nbatch=number, eval_metric=found, locals=None))


VALUES = "\taccuracy=0.500000\tcross-entropy=0.857399"


@pytest.mark.parametrize(("auto_reset", "second"), [(True, "2-4"), (False, "0-4")])
def test_speed_and_metric(
    caplog: pytest.LogCaptureFixture, clock: list[float], auto_reset: bool, second: str
) -> None:
    caplog.set_level(logging.INFO)
    callback, found = mx.callback.Speedometer(10, 2, auto_reset=auto_reset), [metric(), metric()]
    for epoch in range(2):
        run(callback, clock, 6, found[epoch], epoch)
    # One batch follows the last reset.
    assert found[1].get_metric(0).num_inst == (2 if auto_reset else 12)
    assert found[1].get_metric(0).global_num_inst == 12
    assert caplog.messages == [
        f"Epoch[{epoch}] Batch [{batches}]\tSpeed: 20.00 samples/sec{VALUES}"
        for epoch in range(2)
        for batches in ("0-2", second)
    ]


def test_speed_without_metric_and_without_time(
    caplog: pytest.LogCaptureFixture, clock: list[float]
) -> None:
    caplog.set_level(logging.INFO)
    callback = mx.callback.Speedometer(10, 2)
    run(callback, clock, 3, None)
    for number in range(3):
        callback(BatchEndParam(1, number, None, None))
    assert caplog.messages == [
        "Iter[0] Batch [2]\tSpeed: 20.00 samples/sec",
        "Iter[1] Batch [2]\tSpeed: inf samples/sec",
    ]


@pytest.mark.parametrize("auto_reset", [True, False])
def test_training_metric(
    caplog: pytest.LogCaptureFixture, clock: list[float], auto_reset: bool
) -> None:
    caplog.set_level(logging.INFO)
    found = metric()
    run(mx.callback.log_train_metric(2, auto_reset), clock, 4, found)
    assert caplog.messages == [
        f"Iter[0] Batch[{number}] Train-{text}"
        for number in (0, 2)
        for text in ("accuracy=0.500000", "cross-entropy=0.857399")
    ]
    assert found.get_metric(0).num_inst == (2 if auto_reset else 8)


def test_progress_and_validation(caplog: pytest.LogCaptureFixture, clock: list[float]) -> None:
    caplog.set_level(logging.INFO)
    run(mx.callback.ProgressBar(4, 10), clock, 4, None)
    bars = ("[----------] 0%", "[==--------] 25%", "[=====-----] 50%", "[========--] 75%")
    assert caplog.messages == [f"{bar}\r" for bar in bars]
    caplog.clear()
    found = metric()
    seen(found)
    mx.callback.LogValidationMetricsCallback()(BatchEndParam(3, 9, found, None))
    mx.callback.LogValidationMetricsCallback()(BatchEndParam(3, 9, None, None))
    assert caplog.messages == [
        "Epoch[3] Validation-accuracy=0.500000",
        "Epoch[3] Validation-cross-entropy=0.857399",
    ]


def net() -> Any:
    dense = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    return mx.sym.SoftmaxOutput(dense, name="softmax")


def test_checkpoints_of_every_period(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    prefix = str(tmp_path / "a")
    callback = mx.callback.do_checkpoint(prefix, 2)
    for epoch in range(4):
        callback(epoch, net(), {"fc_weight": mx.nd.ones((2, 2)) * epoch}, {})
    files = [f"a-{epoch:04}.params" for epoch in (2, 4)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*files, "a-symbol.json"]
    assert caplog.messages == [f'Saved checkpoint to "{tmp_path / file}"' for file in files]
    _, args, _ = mx.model.load_checkpoint(prefix, 4)
    assert args["fc_weight"].asnumpy().tolist() == [[3, 3], [3, 3]]


def test_checkpoints_of_a_module() -> None:
    calls = []

    class Saved:
        def save_checkpoint(self, *args: Any) -> None:
            calls.append(args)

    callback = mx.callback.module_checkpoint(Saved(), "p", period=3, save_optimizer_states=True)
    for epoch in range(6):
        callback(epoch, None, None, None)
    assert calls == [("p", 3, True), ("p", 6, True)]


# -- monitor --------------------------------------------------------------------------------------

ARGUMENTS = [("data", "1.0\t"), ("fc_weight", "1.0\t"), ("fc_bias", "1.0\t")]
LABEL = ("softmax_label", "1.0\t")
OUTPUTS = [
    ("fc_output", "4.0\t"),
    ("softmax_output", "0.5\t"),
    ("softmax_backward_output0", "0.5\t"),
    ("softmax_backward_output1", "0.0\t"),
    ("fc_backward_output0", "0.0\t"),
    ("fc_backward_output1", "1.0\t"),
    ("fc_backward_output2", "1.0\t"),
]


def watched(**options: Any) -> tuple[Any, Any]:
    exe = net().simple_bind(mx.cpu(), data=(2, 3))
    for array in exe.arg_arrays:
        array[:] = 1
    monitor = mx.mon.Monitor(2, **options)
    monitor.install(exe)
    return exe, monitor


def collected(exe: Any, monitor: Any) -> list[list[tuple[int, str, str]]]:
    found = []
    for _ in range(3):
        monitor.tic()
        exe.forward(is_train=True)
        exe.backward()
        found.append(monitor.toc())
    return found


def test_the_monitor_sees_outputs_and_arguments_every_interval() -> None:
    expected = [*OUTPUTS, *ARGUMENTS, LABEL]
    assert collected(*watched()) == [
        [(1, *entry) for entry in expected],
        [],
        [(3, *entry) for entry in expected],
    ]


def test_names_are_chosen_and_sorted() -> None:
    first = collected(*watched(pattern=".*output"))[0]
    assert first == [(1, *entry) for entry in OUTPUTS]
    names = [name for _, name, _ in collected(*watched(sort=True, monitor_all=True))[0]]
    assert names == sorted(names)
    assert names.count("fc_weight") == 3


def test_statistics_of_ones_own() -> None:
    exe, monitor = watched(stat_func=lambda x: [x.min(), x.max()], pattern="fc_output")
    assert collected(exe, monitor)[0] == [(1, "fc_output", "4.0\t4.0\t")]
    exe, monitor = watched(stat_func=lambda x: x[0], pattern="fc_weight")
    assert collected(exe, monitor)[0] == [(1, "fc_weight", "[1. 1. 1.]\t")]
    exe, monitor = watched(stat_func=lambda x: 3)
    monitor.tic()
    with pytest.raises(TypeError, match="stat_func must return .*got int"):
        monitor.toc()


def test_the_monitor_prints(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    exe, monitor = watched(pattern="fc_output")
    for _ in range(2):
        monitor.tic()
        exe.forward(is_train=True)
        monitor.toc_print()
    assert caplog.messages == ["Batch:       1 fc_output                      4.0\t"]
