"""Activation checkpointing: the bits of backward without it, and less memory."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import ready, sequential
from mxlite import autograd, gluon
from mxlite.gluon import nn
from numpy.testing import assert_raises_regex
from processes import run_python
from recording import recorded, variable


class Cut(gluon.HybridBlock):
    """Only ends a compiled graph before and after a block, as a checkpoint does."""

    def __init__(self, inner: gluon.HybridBlock) -> None:
        super().__init__()
        self.inner = inner

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return F.contrib.sum_gradient(self.inner(F.contrib.sum_gradient(x)))


class Residual(gluon.HybridBlock):
    """Uses its input several times, so that gradients are added up in an order."""

    def __init__(self, units: int, cut: bool = False) -> None:
        super().__init__()
        self.first = nn.Dense(units, activation="tanh")
        self.norm = nn.BatchNorm()
        self.drop = nn.Dropout(0.4)
        self.second = Cut(nn.Dense(units)) if cut else nn.Dense(units)
        self.gate = nn.Dense(units, activation="sigmoid")

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        inner = self.second(self.drop(self.norm(self.first(x))))
        return x + inner * self.gate(x) + self.drop(x)


class Stack(gluon.HybridBlock):
    def __init__(self, units: int, count: int, cut_blocks: bool = False, cut: bool = False) -> None:
        super().__init__()
        self.blocks = nn.HybridSequential()
        for index in range(count):
            block = Residual(units, cut and index == 0)
            self.blocks.add(Cut(block) if cut_blocks else block)
        self.last = nn.Dense(1)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return self.last(F.Dropout(self.blocks(x) * x, p=0.3))


class Plain(gluon.Block):
    """A block that is not hybrid, with lists and None among its inputs and outputs."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.inner = Residual(units)

    def forward(self, pair: list[Any], scale: float, nothing: None) -> tuple[Any, dict[str, Any]]:
        y = self.inner(pair[0]) * scale + pair[1]
        return y, {"square": y * y, "nothing": nothing}


class OfPlain(gluon.Block):
    def __init__(self, units: int) -> None:
        super().__init__()
        self.plain = Plain(units)

    def forward(self, x: Any) -> Any:
        y, extra = self.plain([x, x * 2], 0.5, None)
        assert isinstance(extra, dict) and extra["nothing"] is None
        return y + extra["square"]


def steps(make: Any, mark: Any, hybridize: Any, dtype: str = "float32") -> list[np.ndarray]:
    """Train a few steps; return outputs, gradients and parameters as bytes would compare them."""
    mx.random.seed(5)
    net = ready(make(), mx.init.Xavier())
    net.cast(dtype)
    mark(net)
    hybridize(net)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    random = np.random.RandomState(2)
    seen = []
    for _ in range(3):
        x = variable(mx.nd.array(random.uniform(-1, 1, (6, 8)), dtype=dtype))
        with autograd.record():
            y = net(x)
            loss = (y * y).sum()
        loss.backward()
        seen += [y.asnumpy(), x.grad.asnumpy(), mx.nd.random.uniform(shape=(3,)).asnumpy()]
        for param in net.collect_params().values():
            if param.grad_req != "null":
                seen.append(param.grad().asnumpy())
        trainer.step(6)
        seen += [param.data().asnumpy() for param in net.collect_params().values()]
    return seen


def nothing(net: Any) -> None:
    pass


def each_block(net: Stack) -> None:
    for block in net.blocks:
        block.checkpoint()


def nested(net: Stack) -> None:
    each_block(net)
    net.blocks.checkpoint()
    net.checkpoint()


def inside_a_block(net: Stack) -> None:
    each_block(net)
    net.blocks[0].second.checkpoint()


def whole(net: gluon.Block) -> None:
    assert net.checkpoint() is net


def all_hybrid(net: gluon.Block) -> None:
    net.hybridize()


def parts_hybrid(net: Stack) -> None:
    for block in net.blocks:
        block.hybridize()


CASES = [(m, h) for m in (each_block, whole, nested) for h in (nothing, all_hybrid, parts_hybrid)]
CASES += [(inside_a_block, nothing), (inside_a_block, parts_hybrid)]


@pytest.mark.filterwarnings("ignore:Accumulating with a half-precision type")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("mark", "hybridize"), CASES)
def test_gradients_have_the_same_bits(mark: Any, hybridize: Any, dtype: str) -> None:
    # A checkpoint inside a hybridized block ends a graph, which may change the rounding.
    inside = mark is not whole and hybridize is all_hybrid
    wanted = steps(lambda: Stack(8, 2, inside, mark is inside_a_block), nothing, hybridize, dtype)
    got = steps(lambda: Stack(8, 2), mark, hybridize, dtype)
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted):
        assert ours.tobytes() == theirs.tobytes()


def test_blocks_that_are_not_hybrid_and_their_structures() -> None:
    wanted = steps(lambda: OfPlain(8), nothing, nothing)
    for mark in (whole, lambda net: net.plain.checkpoint()):
        for ours, theirs in zip(steps(lambda: OfPlain(8), mark, nothing), wanted):
            assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_running_statistics_are_updated_once(checkpoint: bool, hybridize: bool) -> None:
    net = sequential(nn.BatchNorm(momentum=0.5))
    outer = ready(sequential(net))
    net.checkpoint(checkpoint)
    outer.hybridize(hybridize)
    x = mx.nd.array(np.random.RandomState(0).normal(3, 1, (64, 4)))
    mean = np.zeros(4, "float32")
    for _ in range(3):
        recorded(outer, x)
        mean = 0.5 * mean + 0.5 * x.asnumpy().mean(axis=0)
        np.testing.assert_allclose(net[0].running_mean.data().asnumpy(), mean, rtol=1e-5)


_PEAK = """
import sys
import mxlite as mx
from mxlite import autograd
from mxlite.gluon import nn

net = nn.HybridSequential()
for _ in range(12):
    block = nn.HybridSequential()
    for _ in range(4):
        block.add(nn.Dense(256, activation="tanh", in_units=256))
    net.add(block.checkpoint(sys.argv[1] == "checkpoint"))
net.initialize()
net.hybridize(sys.argv[2] == "hybridize")
x = mx.nd.ones((512, 256))
x.attach_grad()
for _ in range(2):
    with autograd.record():
        y = net(x)
    y.backward()
    mx.nd.waitall()
print(mx.runtime.memory_stats(mx.cpu())["peak"])
"""


@pytest.mark.parametrize("mode", ["eager", "hybridize"])
def test_backward_frees_what_it_has_computed_again(mode: str) -> None:
    """The peak holds the activations of one block, not those of all."""

    def peak(kept: str) -> int:
        # Operators run in the calling thread, so that no other operator adds to the peak.
        environment = {"MXLITE_ENGINE": "naive"}
        return int(run_python("-c", _PEAK, kept, mode, environment=environment).stdout)

    fixed = 48 * 2 * 256 * 256 * 4  # weights and their gradients
    assert peak("checkpoint") - fixed < 0.5 * (peak("keep") - fixed)


def test_gradients_of_gradients_and_retained_graphs() -> None:
    def results(checkpoint: bool) -> list[np.ndarray]:
        net = ready(nn.Dense(3, activation="tanh", in_units=4), mx.init.Constant(0.3))
        net.checkpoint(checkpoint)
        x = variable(mx.nd.array([[1.0, -2, 0.5, 3]]))
        with autograd.record():
            y = net(x)
            first = autograd.grad(y, [x], create_graph=True, retain_graph=True)[0]
            total = (first * first).sum()
        total.backward()
        twice = [x.grad.asnumpy(), net.weight.grad().asnumpy()]
        with autograd.record():
            y = net(x)
        y.backward(retain_graph=True)
        once = net.weight.grad().asnumpy()
        y.backward()
        assert (net.weight.grad().asnumpy() == once).all()
        assert_raises_regex(mx.MXNetError, "was freed by an earlier backward", y.backward)
        return [*twice, once, x.grad.asnumpy()]

    for ours, theirs in zip(results(True), results(False)):
        np.testing.assert_array_equal(ours, theirs)


def test_gradient_of_a_value_from_outside_that_forward_uses() -> None:
    class Uses(gluon.Block):
        def forward(self, x: Any) -> Any:
            return x * self.other

    for checkpoint in (False, True):
        net = Uses().checkpoint(checkpoint)
        w = variable(mx.nd.array([3.0]))
        with autograd.record():
            net.__dict__["other"] = w * w
            y = net(mx.nd.array([2.0]))
        y.backward()
        assert w.grad.asscalar() == 12


def test_changes_before_backward_are_anomalies() -> None:
    net = ready(nn.Dense(3, in_units=2))
    net.checkpoint()
    x = variable(mx.nd.ones((4, 2)))
    for change in (
        lambda: net.weight.data().__setitem__(slice(None), 0),
        lambda: net.weight.set_data(mx.nd.ones((3, 2))),
        lambda: x.__iadd__(1),
    ):
        with autograd.record():
            y = net(x)
        change()
        with (
            autograd.detect_anomaly(),
            pytest.raises(mx.MXNetError, match="operand of .*changed in place"),
        ):
            y.backward()


def test_an_error_of_the_second_forward_is_raised() -> None:
    class Fails(gluon.Block):
        calls = 0

        def forward(self, x: Any) -> Any:
            type(self).calls += 1
            if type(self).calls > 1:
                raise KeyError("second")
            return x * 2

    net = Fails().checkpoint()
    x = variable(mx.nd.ones((2,)))
    with autograd.record():
        y = net(x)
    assert_raises_regex(KeyError, "second", y.backward)


def test_forward_that_writes_a_parameter_is_refused() -> None:
    class Writes(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.weight = self.params.get("weight", shape=(2,))

        def forward(self, x: Any) -> Any:
            with autograd.pause():
                self.weight.set_data(self.weight.data() * 2)
            return x * self.weight.data()

    net = ready(Writes())
    net.checkpoint()
    x = variable(mx.nd.ones((2,)))
    with autograd.record(), pytest.raises(mx.MXNetError, match="differentiable=False"):
        net(x)


def test_without_recording_nothing_is_run_again() -> None:
    net = ready(nn.Dense(3, in_units=2))
    net.checkpoint()
    net.hybridize()
    x = mx.nd.ones((4, 2))
    wanted = net(x).asnumpy()
    symbol = net(mx.sym.var("data"))
    assert "checkpoint" not in symbol.tojson()
    with autograd.record():
        np.testing.assert_array_equal(net(x).asnumpy(), wanted)
    net.checkpoint(False)
    recorded(net, x)


def _checkpointed(function: Any, x: Any) -> Any:
    return mx._core.checkpoint("piece", lambda arrays: [function(arrays[0])], [x], [], [])[0]


def test_a_checkpoint_that_is_run_again_inside_another_keeps_the_masks() -> None:
    """A gradient penalty differentiates an inner checkpoint while the outer one runs forward."""

    def body(x: Any) -> Any:
        inner = variable(mx.nd.ones((50,)))
        dropped = _checkpointed(lambda y: mx.nd.Dropout(y, p=0.5), inner)
        autograd.grad([dropped.sum()], [inner])
        return mx.nd.Dropout(x, p=0.5)

    mx.random.seed(3)
    x = variable(mx.nd.ones((50,)))
    y = recorded(_checkpointed, body, x)
    np.testing.assert_array_equal(x.grad.asnumpy(), y.asnumpy())
    assert 0 < float((y == 0).sum().asscalar()) < 50


def test_fewer_random_numbers_the_second_time_are_an_error() -> None:
    runs = []

    def body(x: Any) -> Any:
        runs.append(1)
        return mx.nd.Dropout(x, p=0.5) if len(runs) == 1 else x * 1

    x = variable(mx.nd.ones((4,)))
    with autograd.record():
        y = _checkpointed(body, x)
    assert_raises_regex(mx.MXNetError, "as the first time, got fewer random numbers", y.backward)
