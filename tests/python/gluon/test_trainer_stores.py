"""Trainer with stores that are distributed or of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import pytest
from mxlite import gluon
from test_trainer import scalar, step


class Remote(mx.kvstore.KVStoreBase):
    """A store that claims to be distributed, and records its calls."""

    def __init__(self, name: str = "dist_sync") -> None:
        self._name = name
        self.scales: list[float] = []
        self.optimizer: Any = None

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        for array in out:
            value.copyto(array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        if self.optimizer is not None:
            self.scales.append(self.optimizer.rescale_grad)

    def set_optimizer(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    @staticmethod
    def is_capable(capability: str) -> bool:
        return True

    @property
    def type(self) -> str:
        return self._name

    @property
    def rank(self) -> int:
        return 0

    @property
    def num_workers(self) -> int:
        return 2


def test_distributed_stores_keep_the_first_batch_size(tmp_path: Path) -> None:
    param = scalar(1.0)
    store = Remote()
    trainer = gluon.Trainer([param], "sgd", kvstore=store)
    step(trainer, param, batch_size=4)
    assert store.scales == [0.25]
    with pytest.raises(UserWarning, match="Possible change in the `batch_size`"):
        step(trainer, param, batch_size=2)
    step(trainer, param, batch_size=4)
    for method in (trainer.save_states, trainer.load_states):
        (tmp_path / "x").write_bytes(b"")
        with pytest.raises(AssertionError, match="live on the servers"):
            method(tmp_path / "x")


def test_asynchronous_stores_update_themselves() -> None:
    param = scalar(1.0)
    trainer = gluon.Trainer([param], "sgd", kvstore=Remote("dist_async"), update_on_kvstore=False)
    with pytest.raises(ValueError, match="update_on_kvstore=True when training in async mode"):
        step(trainer, param)
    trainer = gluon.Trainer([param], "sgd", kvstore=Remote("dist_async"))
    step(trainer, param)
    assert trainer._update_on_kvstore


def test_derived_trainers_may_sum_gradients_themselves() -> None:
    class Doubling(gluon.Trainer):
        def _allreduce_grads(self) -> None:
            for entry in self._params:
                for grad in entry.list_grad():
                    grad *= 2

    param = scalar(1.0)
    step(Doubling([param], "sgd", {"learning_rate": 0.1}), param)
    assert param.data().asscalar() == pytest.approx(1 - 0.1 * 4)


def test_states_as_a_tree() -> None:
    params = [scalar(1.0), scalar(1.0)]
    trainers = [gluon.Trainer([p], "adam", {"learning_rate": 0.1}) for p in params]
    step(trainers[0], params[0])
    trainers[1].load_state_dict(trainers[0].state_dict())
    params[1].set_data(params[0].data())
    for trainer, param in zip(trainers, params):
        step(trainer, param)
    assert params[0].data().asscalar() == params[1].data().asscalar()
    assert trainers[1].optimizer.num_update == 2


def test_a_store_that_begins_while_recording_changes_no_weight() -> None:
    net = mx.gluon.nn.Dense(2)
    contexts = [mx.cpu(0), mx.cpu(1)]
    net.initialize(mx.init.One(), ctx=contexts)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
    with mx.autograd.record():
        outputs = [net(mx.nd.ones((1, 3), ctx=contexts[0]))]
        trainer._ready()
        outputs.append(net(mx.nd.ones((1, 3), ctx=contexts[1])))
    mx.autograd.backward(outputs)
    trainer.step(1)
    for ctx in contexts:
        assert net.weight.data(ctx).asnumpy().tolist() == [[-1] * 3] * 2
