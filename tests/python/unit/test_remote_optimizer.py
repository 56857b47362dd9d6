"""The description of an optimizer that servers get: its operator and parameters."""

from __future__ import annotations

import json
from typing import Any

import mxlite as mx
import pytest
from mxlite import _core
from mxlite import optimizer as opt
from mxlite.kvstore.remote_optimizer import RemoteOptimizer, refused_by_servers

KINDS = {
    name: kind for name, kind in opt.Optimizer.opt_registry.items() if not refused_by_servers(kind)
}


def sent(optimizer: Any) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(RemoteOptimizer(optimizer).text())
    return fields


def test_servers_have_these_optimizers() -> None:
    assert sorted(KINDS) == [
        "adadelta", "adagrad", "adam", "adamax", "adamw", "ccsgd", "ftml", "ftrl", "nag",
        "rmsprop", "sgd", "signum", "test",
    ]  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_an_operator_knows_all_parameters_that_are_sent(name: str) -> None:
    fields = sent(opt.create(name, clip_gradient=0.5, wd=0.1))
    known = _core.op(fields["operator"]).__signature__.parameters
    assert set(fields["params"]) <= set(known)
    assert any(key.startswith("clip_grad") for key in fields["params"]) or name == "test"
    assert not {"lr", "wd", "rescale_grad"} & set(fields["params"]) or name == "test"


def test_the_fields_of_some_optimizers() -> None:
    fields = sent(opt.create("sgd", learning_rate=0.3, momentum=0.9, wd=0.1))
    assert fields["operator"] == "sgd_mom_update"
    assert fields["params"] == {"momentum": 0.9}
    assert (fields["learning_rate"], fields["wd"], fields["rows"]) == (0.3, 0.1, True)
    assert sent(opt.create("sgd"))["operator"] == "sgd_update"
    assert not sent(opt.create("sgd", lazy_update=False))["rows"]
    assert sent(opt.create("adamw"))["decoupled"]
    assert "t" not in sent(opt.create("adamw"))["params"]
    assert sent(opt.create("adamw", correct_bias=False))["params"]["t"] == 0
    assert sent(opt.create("rmsprop", centered=True))["operator"] == "rmspropalex_update"


def test_changed_numbers_are_news_once() -> None:
    sgd = opt.create("sgd", learning_rate=0.3, momentum=0.9)
    remote = RemoteOptimizer(sgd)
    assert remote.news() is None
    sgd.momentum = 0.5
    assert json.loads(remote.news() or "")["params"] == {"momentum": 0.5}
    assert remote.news() is None
    sgd.momentum = float("nan")
    with pytest.raises(ValueError, match="momentum must be a finite number.*, got nan"):
        remote.news()


def test_classes_that_servers_cannot_compute_are_refused() -> None:
    class Mine(opt.SGD):
        def update(self, *args: Any) -> None:
            raise AssertionError

    for kind in (Mine, opt.LAMB, opt.Nadam, opt.LARS, opt.DCASGD, opt.SGLD, opt.LBSGD):
        assert "servers have no optimizer" in str(refused_by_servers(kind))
    with pytest.raises(NotImplementedError, match="servers have no optimizer 'Mine'"):
        RemoteOptimizer(Mine())
    with pytest.raises(TypeError, match="optimizer must be .*got str"):
        RemoteOptimizer("sgd")  # type: ignore[arg-type]
    assert mx.optimizer.SGD is opt.SGD
