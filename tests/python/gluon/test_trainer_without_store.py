"""Trainers that do not sum the gradients of several contexts."""

from __future__ import annotations

import mxlite as mx
import pytest
from mxlite import autograd, gluon


def parameter(contexts: list[mx.Context]) -> gluon.Parameter:
    param = gluon.Parameter("x", shape=(1,))
    param.initialize(init="ones", ctx=contexts)
    return param


def backward(param: gluon.Parameter) -> None:
    with autograd.record():
        losses = [(array * 2).sum() for array in param.list_data()]
    autograd.backward(losses)


def step(trainer: gluon.Trainer, param: gluon.Parameter) -> None:
    backward(param)
    trainer.step(1)


def test_copies_that_become_different_are_reported_once() -> None:
    param = parameter([mx.cpu(0), mx.cpu(1)])
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 0.5}, kvstore=None)
    with pytest.warns(UserWarning, match="kvstore=None sums no gradients") as caught:
        step(trainer, param)
        step(trainer, param)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "[cpu(0), cpu(1)]" in str(caught[0].message)


@pytest.mark.filterwarnings("error")
def test_trainers_without_store_are_quiet_where_nothing_is_lost() -> None:
    one = parameter([mx.cpu(0)])
    step(gluon.Trainer([one], "sgd", kvstore=None), one)
    two = parameter([mx.cpu(0), mx.cpu(1)])
    trainer = gluon.Trainer([two], "sgd", kvstore=None)
    backward(two)
    trainer.update(1)  # the caller sums gradients

    class Summing(gluon.Trainer):
        def _allreduce_grads(self) -> None:
            pass

    step(Summing([two], "sgd", kvstore=None), two)
