"""The calls of an optimizer step are kept for the next step as long as nothing changes."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd
from mxlite import optimizer as opt
from pairing import pairs


def a_trainer(count: int, name: str) -> tuple[gluon.Trainer, list[Any]]:
    params = [gluon.Parameter(f"p{i}", shape=(3, 2)) for i in range(count)]
    for param in params:
        param.initialize(init="ones")
    return gluon.Trainer(params, name), params


def set_gradients(params: list[Any], turn: int) -> None:
    """Do what backward does."""
    for i, param in enumerate(params):
        if param.grad_req != "null":
            param.grad()[:] = (i + 1) * (turn - 1.5)
            param.data()._set_fresh_grad(True)


CHANGES: dict[str, Any] = {
    "nothing": lambda trainer, params: None,
    "values": lambda trainer, params: params[1].set_data(nd.ones((3, 2)) * 5),
    "values in place": lambda trainer, params: params[1].data().__setitem__(0, 7),
    "arrays": lambda trainer, params: params[1].initialize(init="ones", force_reinit=True),
    "request": lambda trainer, params: setattr(params[1], "grad_req", "null"),
    "adding": lambda trainer, params: setattr(params[1], "grad_req", "add"),
    "multipliers": lambda trainer, params: setattr(params[1], "lr_mult", 0.25),
    "rate": lambda trainer, params: trainer.set_learning_rate(0.5),
    "decay": lambda trainer, params: setattr(trainer.optimizer, "wd", 0.1),
    "clipping": lambda trainer, params: setattr(trainer.optimizer, "clip_gradient", 0.01),
    "calls": lambda trainer, params: setattr(trainer.optimizer, "aggregate_num", 2),
    "one state": lambda trainer, params: trainer._updaters[0].states.pop(1),
    "a list of states": lambda trainer, params: trainer._updaters[0].states.update(
        {1: [nd.ones((3, 2)), nd.ones((3, 2))]}
    ),
    "all states": lambda trainer, params: trainer._updaters[0].set_states(
        trainer._updaters[0].get_states(dump_optimizer=True)
    ),
    "context": lambda trainer, params: [p.reset_ctx(mx.cpu(1)) for p in params],
    "dtype": lambda trainer, params: [p.cast("float64") for p in params],
    "fewer parameters": lambda trainer, params: trainer._params.pop(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_step_sees_what_changed_since_the_one_before(change: str) -> None:
    def weights(forget: bool) -> list[Any]:
        trainer, params = a_trainer(5, "adam")
        seen = []
        for turn in range(5):
            if turn == 2:
                CHANGES[change](trainer, params)
                if change in ("context", "dtype"):
                    trainer._updaters[0].states.clear()
            if forget:
                trainer.optimizer._plans.clear()
                trainer._arrays._seen = []
                for updater in trainer._updaters:
                    updater._last = None
            set_gradients(params, turn)
            trainer.step(1)
            seen += [param.data().asnumpy() for param in params]
        return seen

    for got, want in pairs(weights(False), weights(True)):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


def test_the_calls_of_a_step_are_kept() -> None:
    trainer, params = a_trainer(5, "adam")
    for turn in range(2):
        set_gradients(params, turn)
        trainer.step(1)
    (plan,) = trainer.optimizer._plans.values()
    set_gradients(params, 2)
    trainer.step(1)
    (again,) = trainer.optimizer._plans.values()
    assert again is plan


def test_no_gradients_are_kept_alive_that_nobody_else_holds() -> None:
    weights = [nd.ones(3), nd.ones(3)]
    updater = opt.get_updater(opt.create("adam"))
    updater([0, 1], [nd.ones(3), nd.ones(3)], weights)
    assert not updater.optimizer._plans
