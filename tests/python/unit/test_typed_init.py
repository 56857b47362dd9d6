"""Numbers, texts and switches that layers, optimizers and their like are made with."""

from __future__ import annotations

import inspect

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon
from mxlite.gluon import nn, rnn

WRONG = {
    "an optimizer": lambda: mx.optimizer.SGD(learning_rate="0.1"),
    "one by name": lambda: mx.optimizer.create("adam", beta1="0.9"),
    "its momentum": lambda: mx.optimizer.SGD(momentum=[0.9]),
    "its weight decay": lambda: mx.optimizer.SGD(wd=None),
    "a switch of it": lambda: mx.optimizer.SGD(multi_precision="False"),
    "a schedule that is a number": lambda: mx.optimizer.SGD(lr_scheduler=0.1),
    "a schedule": lambda: mx.lr_scheduler.FactorScheduler("5"),
    "its end": lambda: mx.lr_scheduler.CosineScheduler(100, final_lr="0"),
    "its steps": lambda: mx.lr_scheduler.MultiFactorScheduler(["5", "6"]),
    "a loss": lambda: gluon.loss.L2Loss(weight="2"),
    "the axis of a loss": lambda: gluon.loss.SoftmaxCrossEntropyLoss(axis="1"),
    "the labels of a loss": lambda: gluon.loss.SoftmaxCrossEntropyLoss(sparse_label="no"),
    "an initializer": lambda: mx.init.Normal("0.1"),
    "Xavier": lambda: mx.init.Xavier(magnitude="3"),
    "a metric": lambda: mx.metric.TopKAccuracy("5"),
    "units": lambda: nn.Dense("2"),
    "broken units": lambda: nn.Dense(2.5),
    "no units": lambda: nn.Dense(None),
    "inputs of a layer": lambda: nn.Dense(2, in_units="3"),
    "a switch of a layer": lambda: nn.Dense(2, use_bias="False"),
    "an activation": lambda: nn.Dense(2, activation=3),
    "channels": lambda: nn.Conv2D("4", 3),
    "a kernel": lambda: nn.Conv2D(4, "33"),
    "a broken kernel": lambda: nn.Conv2D(4, 3.5),
    "strides": lambda: nn.AvgPool2D(2, strides="ab"),
    "a rate": lambda: nn.Dropout("0.5"),
    "rows": lambda: nn.Embedding("3", 2),
    "a name scope": lambda: nn.Flatten(3),
    "recurrent units": lambda: rnn.LSTM("4"),
    "recurrent dropout": lambda: rnn.LSTM(4, dropout="0.1"),
    "a cell": lambda: rnn.LSTMCell("4"),
    "a parameter": lambda: gluon.Parameter("w", shape=(2,), lr_mult="2"),
    "a parameter's shape": lambda: gluon.Parameter("w", shape="23"),
    "a loader": lambda: gluon.data.DataLoader([1, 2], batch_size="2"),
    "an iterator": lambda: mx.io.NDArrayIter(np.zeros((4, 2)), batch_size="2"),
    "a report": lambda: mx.callback.Speedometer("32"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_type_is_refused_when_the_object_is_made(case):
    wanted = r"\w+: \w[\w\[\]: ]* must be (a|True).*, got"
    with pytest.raises(TypeError, match=wanted):
        WRONG[case]()


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Dropout(-0.1),
        lambda: nn.Dropout(1.5),
        lambda: nn.Embedding(3, -1),
        lambda: rnn.LSTM(4, 0),
        lambda: rnn.LSTM(-4),
        lambda: mx.optimizer.SGD(learning_rate=float("nan")),
    ],
)
def test_a_number_out_of_range_is_refused_when_the_object_is_made(make):
    with pytest.raises(ValueError, match=r"\w+: \w+ must be .*, got"):
        make()


def test_numbers_of_all_kinds_are_taken():
    assert mx.optimizer.SGD(learning_rate=np.float32(0.5)).lr == 0.5
    assert mx.optimizer.SGD(learning_rate=1).lr == 1
    assert mx.lr_scheduler.FactorScheduler(2.5, 0.5, base_lr=1)(4) == 0.5
    layer = nn.Dense(np.int64(2), in_units=np.int32(3), use_bias=1)
    layer.initialize()
    assert layer(mx.nd.ones((1, 3))).shape == (1, 2)
    assert nn.Conv2D(4, np.int64(3))._kwargs["kernel"] == (3, 3)


def test_rates_that_are_set_later_are_checked_too():
    layer = nn.Dense(2, in_units=2)
    layer.initialize()
    trainer = gluon.Trainer(layer.collect_params(), "sgd")
    for wrong in ("0.1", None, [0.1]):
        with pytest.raises(TypeError, match="set_learning_rate: lr must be a number.*, got "):
            trainer.set_learning_rate(wrong)
    with pytest.raises(TypeError, match="SGD: learning_rate must be a number.*, got '0.1'"):
        gluon.Trainer(layer.collect_params(), "sgd", {"learning_rate": "0.1"})


def test_an_initializer_that_is_none_is_named():
    layer = nn.PReLU(3)
    with pytest.raises(TypeError, match="initializer must be an Initializer or its name.*, got 3"):
        layer.initialize()


def test_classes_of_users_keep_their_own_rules():
    class Scaled(gluon.Block):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = float(factor)

        def forward(self, x):
            return x * self.factor

    assert Scaled("2")(mx.nd.ones(1)).asscalar() == 2


def test_signatures_stay_readable():
    names = list(inspect.signature(nn.Dense).parameters)
    assert names[:3] == ["units", "activation", "use_bias"]
    assert "units" in str(inspect.signature(nn.Dense.__init__))
