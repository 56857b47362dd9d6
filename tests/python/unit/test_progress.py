"""Progress of long work: a bar on terminals, log lines elsewhere."""

from __future__ import annotations

import io
import logging
import sys
import types
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import _progress, gluon, nd


class Terminal(io.StringIO):
    """A standard error that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(params=[True, False], ids=["tqdm", "own bar"])
def terminal(request: Any, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    if request.param:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    screen = Terminal()
    monkeypatch.setattr(_progress, "sys", types.SimpleNamespace(stderr=screen))
    monkeypatch.setattr(_progress, "_BAR_SECONDS", 0.0)
    return screen


def module(samples: int = 8) -> tuple[mx.mod.Module, mx.io.NDArrayIter]:
    data = mx.io.NDArrayIter(np.zeros((samples, 3), "float32"), np.zeros(samples, "float32"), 2)
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)
    return mx.mod.Module(mx.sym.SoftmaxOutput(dense, name="softmax"), context=mx.cpu()), data


def test_a_terminal_gets_a_bar(terminal: Terminal) -> None:
    with _progress.Progress(4, "packing") as progress:
        for _ in range(3):
            progress.add()
        progress.say("a line above")
    shown = terminal.getvalue()
    assert "packing" in shown and "\r" in shown and "3/4" in shown.replace(" of ", "/")


def test_fit_score_and_predict_show_their_batches(terminal: Terminal) -> None:
    network, data = module()
    network.fit(data, eval_data=data, num_epoch=2)
    network.predict(data)
    shown = terminal.getvalue()
    for what in ("epoch 0", "epoch 1", "score", "predict"):
        assert what in shown
    terminal.truncate(0)
    network, data = module()
    network.fit(data, num_epoch=1, batch_end_callback=lambda param: None)
    assert "epoch" not in terminal.getvalue()  # the callback may print


def test_other_outputs_get_log_lines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_progress, "_LINE_SECONDS", 0.0)
    caplog.set_level(logging.INFO, "mxlite.progress")
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    batches = gluon.data.DataLoader(gluon.data.ArrayDataset(nd.zeros((4, 3)), nd.zeros(4)), 2)
    estimator = gluon.contrib.estimator.Estimator(
        net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer, context=mx.cpu()
    )
    estimator.fit(batches, val_data=batches, epochs=1)
    mx.contrib.quantization.quantize_net_v2(
        net, calib_data=[nd.ones((2, 3))], calib_mode="naive", ctx=mx.cpu()
    )
    lines = [record.getMessage() for record in caplog.records if record.name == "mxlite.progress"]
    assert any(line.startswith("epoch 0: 2 of 2 (100 %), ") for line in lines), lines
    assert any(line.startswith("evaluate: 1 of 2 (50 %), ") for line in lines), lines
    assert any(line.startswith("calibration: 1, ") and "batch/s" in line for line in lines), lines


def test_short_work_writes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    network, data = module()
    network.fit(data, num_epoch=1)
    assert not [r for r in caplog.records if r.name == "mxlite.progress"]
    assert list(_progress.track(iter("ab"), "letters", quiet=True)) == ["a", "b"]
