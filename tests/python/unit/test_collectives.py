"""Collective operators and names of exchanges in a process that has joined no job."""

from __future__ import annotations

from types import SimpleNamespace

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd
from mxlite.comm import groups
from mxlite.gluon import HybridBlock, nn
from pairing import assert_all_close
from recording import variable


class Net(HybridBlock):
    """Layers with state and random numbers between collectives, and parts that need neither."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.first, self.second = nn.Dense(6, in_units=4), nn.Dense(3, in_units=6)
            self.norm, self.dropout = nn.BatchNorm(in_channels=6), nn.Dropout(0.5)

    def hybrid_forward(self, F, x):
        apart = F.sum(x * x, axis=1)
        y = F.contrib.all_reduce(self.first(x), op="mean")
        apart = F.sqrt(apart + 1)
        y = F.contrib.all_gather(F.relu(self.norm(y)), axis=1)
        F.contrib.reduce_scatter(y)
        z = self.second(y)
        return F.contrib.broadcast(z), apart, self.dropout(F.ones_like(z))


@pytest.mark.parametrize("training", [False, True])
def test_hybridized_blocks_compute_what_eager_ones_do(training: bool) -> None:
    net = Net()
    net.initialize(mx.init.Uniform(0.5))
    states = {k: p.data().copy() for k, p in net.collect_params().items()}
    x = mx.nd.array(np.random.RandomState(3).uniform(-1, 1, (5, 4)))
    results = []
    for hybridize in (False, True, True):
        for name, parameter in net.collect_params().items():
            parameter.set_data(states[name])
        net.hybridize(hybridize)
        x.attach_grad()
        with autograd.record(train_mode=training):
            z, apart, kept = net(x)
        autograd.backward([z, apart])
        assert set(np.unique(kept.asnumpy())) <= ({0.0, 2.0} if training else {1.0})
        running = {k: p.data() for k, p in net.collect_params().items() if "running" in k}
        assert len(running) == 2
        arrays = [z, apart, x.grad, net.first.weight.grad(), *running.values()]
        results.append([a.asnumpy() for a in arrays])
    for others in results[1:]:
        assert_all_close(results[0], others, rtol=1e-5, atol=1e-6)
    assert np.abs(results[0][2]).max() > 0


def test_a_while_loop_may_call_collectives() -> None:
    class Loop(HybridBlock):
        def hybrid_forward(self, F, x):
            step = lambda i, total: (i, [i + 1, F.contrib.all_reduce(total) * 2])  # noqa: E731
            _, (_, total) = F.contrib.while_loop(
                lambda i, total: i < 3, step, [F.zeros((1,)), x], max_iterations=5
            )
            return total

    loop = Loop()
    loop.hybridize()
    assert loop(mx.nd.ones((2,))).asnumpy().tolist() == [8, 8]


def test_min_has_no_gradient() -> None:
    x = variable(mx.nd.ones((2,)))
    with autograd.record():
        y = mx.nd.contrib.reduce_scatter(x, op="min")
    with pytest.raises(mx.MXNetError, match="op 'min' is not differentiable"):
        y.backward()


def test_an_unfit_out_is_refused() -> None:
    with pytest.raises(ValueError, match=r"out must have shape \(2,\), got \(3,\)"):
        mx.nd.contrib.all_reduce(mx.nd.ones((2,)), out=mx.nd.ones((3,)))


def test_an_exchange_is_named_by_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []

    def submit(kind: str, given: list[str], rows: list[mx.nd.NDArray], *args, **options):
        names.extend(given)
        return rows

    monkeypatch.setattr(groups, "submit", submit)
    monkeypatch.setattr(groups, "waited", lambda pending, rows, ctx: rows)
    group = SimpleNamespace(number=77, ranks=[0, 2], size=2, index=0)
    for _ in range(2):
        assert groups.exchange_texts(group, "lr", "Trainer.step") == ["lr"]
    assert [name.rsplit(" ", 1)[0] for name in names] == [
        "exchange of settings between ranks 0, 2, number"
    ] * 2
    assert len(set(names)) == 2
    assert groups.ranks_text([4]) == "rank 4"
