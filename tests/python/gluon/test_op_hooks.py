"""Hooks on the operators of blocks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import hybridized, ready
from mxlite import gluon, nd
from mxlite.gluon import nn
from recording import recorded, variable


def make_net() -> nn.HybridSequential:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(3, in_units=4, activation="relu"), nn.Dense(2, in_units=3))
    net.initialize(mx.init.One())
    return net


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybridized"])
def test_a_hook_sees_the_outputs_of_each_operator_in_order(hybrid: bool) -> None:
    net, seen = make_net(), []
    net.hybridize(hybrid)
    x = nd.ones((5, 4))
    before = net(x).asnumpy()
    net.register_op_hook(lambda name, op, array: seen.append((name, op, array.asnumpy())))
    np.testing.assert_array_equal(net(x).asnumpy(), before)
    names = ["net_dense0_fwd", "net_dense0_relu_fwd", "net_dense1_fwd"] if hybrid else [
        "net_dense0_fullyconnected0", "net_dense0_relu_activation0", "net_dense1_fullyconnected0"
    ]  # fmt: skip
    ops = ["FullyConnected", "Activation", "FullyConnected"]
    assert [(n, op) for n, op, _ in seen] == [(f"{n}_output", op) for n, op in zip(names, ops)]
    assert [array.shape for *_, array in seen] == [(5, 3), (5, 3), (5, 2)]
    np.testing.assert_array_equal(seen[0][2], np.full((5, 3), 4))
    np.testing.assert_array_equal(seen[2][2], before)


@pytest.mark.parametrize(
    ("hybrid", "names"),
    [
        (False, "fullyconnected0_data fullyconnected0_weight fullyconnected0_bias"),
        (True, "fwd_data fwd_weight fwd_bias fwd_output relu_fwd_input0 relu_fwd_output"),
    ],
)
def test_monitor_all_shows_inputs_too_and_names_decode_as_in_1_x(hybrid: bool, names: str) -> None:
    net, found = hybridized(make_net(), hybrid), []
    net.register_op_hook(lambda name, op, array: found.append(name.decode("utf-8")), True)
    net(nd.ones((1, 4)))
    expected = [f"net_dense0_{name}" for name in names.split()]
    assert found[: len(expected)] == expected


def test_a_block_that_asks_for_shapes_is_watched_without_a_symbol() -> None:
    class Halves(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.relu(x[: x.shape[0] // 2])

    net, names = Halves(prefix="halves_"), []
    net.hybridize()
    net.register_op_hook(lambda name, op, array: names.append((name, array.shape)))
    np.testing.assert_array_equal(net(nd.array([1, -1, 5, 6])).asnumpy(), [1, 0])
    assert names[-1] == ("halves_relu0_output", (2,))


def test_a_hook_may_call_operators_and_gradients_are_as_without() -> None:
    net, norms = make_net(), []
    net.hybridize()
    x = variable(nd.array([[1.0, -2.0, 3.0, 4.0]]))
    recorded(lambda: net(x).sum())
    expected = x.grad.asnumpy()
    net.register_op_hook(lambda name, op, array: norms.append((array * 2).norm().asscalar()))
    recorded(lambda: net(x).sum())
    np.testing.assert_array_equal(x.grad.asnumpy(), expected)
    assert len(norms) == 3


def test_none_ends_the_calls_and_other_blocks_and_threads_have_none() -> None:
    net, other, seen = make_net(), make_net(), []

    def hook(*args: Any) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(other, nd.ones((1, 4))).result().wait_to_read()
        seen.append(args)

    net.register_op_hook(hook)
    other(nd.ones((1, 4)))
    assert not seen
    net(nd.ones((1, 4)))
    assert len(seen) == 3
    net.register_op_hook(None)
    net(nd.ones((1, 4)))
    assert len(seen) == 3


def test_an_error_of_the_hook_reaches_the_caller() -> None:
    net = make_net()

    def hook(*args: Any) -> None:
        raise KeyError("from the hook")

    net.register_op_hook(hook)
    with pytest.raises(KeyError, match="from the hook"):
        net(nd.ones((1, 4)))
    net.register_op_hook(None)
    assert net(nd.ones((1, 4))).shape == (1, 2)


def test_a_plain_block_hands_the_hook_to_its_children() -> None:
    class Plain(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.body = make_net()

        def forward(self, x: Any) -> Any:
            return self.body(x)

    net, ops = Plain(), []
    net.register_op_hook(lambda name, op, array: ops.append(str(op)))
    net(nd.ones((1, 4)))
    assert ops == ["FullyConnected", "Activation", "FullyConnected"]


def test_a_reshape_is_seen() -> None:
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            return x.reshape((-1,)) + 1

    net, shapes = Net(), []
    net.register_op_hook(lambda name, op, array: shapes.append(array.shape))
    net(nd.ones((2, 3)))
    assert shapes == [(6,), (6,)]


def test_a_handle_removes_its_hook_and_attaches_once() -> None:
    handle, hooks = gluon.utils.HookHandle(), {}
    handle.detach()
    with handle:
        handle.attach(hooks, print)
        assert list(hooks.values()) == [print]
        with pytest.raises(ValueError, match="cannot be attached twice"):
            handle.attach(hooks, print)
    assert not hooks


def test_a_hook_is_there_before_shapes_are_known() -> None:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(2))
    net.initialize()
    net.hybridize()
    names: list[str] = []
    net.register_op_hook(lambda name, op, array: names.append(name))
    assert net(mx.nd.ones((2, 3, 4))).shape == (2, 2)
    assert names == ["net_dense0_fwd_output"]


def test_hidden_outputs_are_not_shown() -> None:
    norm = ready(mx.gluon.nn.BatchNorm(prefix="norm_"), hybridize=True)
    data = mx.nd.ones((2, 3))
    norm(data)
    names: list[str] = []
    norm.register_op_hook(lambda tensor, op, array: names.append(str(tensor)), False)
    norm(data)
    assert names == ["norm_fwd_output"]
