"""Monitors of executors: names, order and values of outputs and gradients."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from pairing import assert_all_close

sym, nd = mx.sym, mx.nd

Seen = list[tuple[str, np.ndarray]]


def bound(net: Any, request_: str = "write", **values: np.ndarray) -> Any:
    executor = net.simple_bind(
        mx.cpu(), grad_req=request_, **{name: value.shape for name, value in values.items()}
    )
    rng = np.random.RandomState(0)
    for name, array in executor.arg_dict.items():
        array[:] = values.get(name, rng.uniform(-1, 1, array.shape))
    for name, array in executor.aux_dict.items():
        array[:] = 0.25 if name.endswith("mean") else 2
    return executor


def step(executor: Any, heads: Any = None) -> Seen:
    """Run forward and backward; return what a monitor sees."""
    seen: Seen = []
    executor.set_monitor_callback(lambda name, array: seen.append((name, array.asnumpy())))
    executor.forward(is_train=True)
    executor.backward(heads)
    executor.set_monitor_callback(None)
    return seen


def results(executor: Any) -> list[np.ndarray]:
    arrays = [*executor.outputs, *executor.grad_arrays, *executor.aux_arrays]
    return [array.asnumpy() for array in arrays if array is not None]


def check_against_compiled(net: Any, heads: Any = None, **values: np.ndarray) -> Seen:
    """Compare a monitored step to one without a monitor, for every grad_req."""
    for request_ in ("add", "write"):
        monitored, compiled = bound(net, request_, **values), bound(net, request_, **values)
        for executor in (monitored, compiled):
            for grad in executor.grad_arrays:
                grad[:] = 3
        seen = step(monitored, heads)
        compiled.forward(is_train=True)
        compiled.backward(heads)
        assert_all_close(results(monitored), results(compiled), rtol=1e-5, atol=1e-6)
    return seen


def names(seen: Seen) -> list[str]:
    return [name for name, _ in seen]


X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32)


def test_an_input_that_two_nodes_read_has_a_gradient_from_each() -> None:
    x = sym.var("x")
    net = sym.elemwise_add(sym.square(x, name="sq"), x * 3, name="sum")
    seen = check_against_compiled(net, nd.ones((2, 3)), x=X)
    assert names(seen)[:1] == ["sq_output"]
    assert names(seen)[3:5] == ["sum_backward_output0", "sum_backward_output1"]
    gradients = dict(seen)
    np.testing.assert_allclose(gradients["sq_backward_output"], 2 * X)
    assert names(seen)[-1] == "sq_backward_output"  # later nodes come first


def test_one_array_as_two_inputs_of_a_node() -> None:
    x = sym.var("x")
    seen = check_against_compiled(sym.elemwise_mul(x, x, name="mul"), nd.ones((2, 3)), x=X)
    assert names(seen) == ["mul_output", "mul_backward_output0", "mul_backward_output1"]
    np.testing.assert_array_equal(seen[1][1], X)
    np.testing.assert_array_equal(seen[2][1], X)


def test_heads_that_depend_on_each_other() -> None:
    hidden = sym.square(sym.var("x"), name="hidden")
    net = sym.Group([hidden, hidden * 2])
    for heads, expected in [
        ([nd.array(X), nd.ones((2, 3))], X + 2),
        # No gradients given: ones for both heads, also for the one that another head reads.
        (None, 3),
        # Heads without a gradient in a list that is too short get none.
        ([nd.array(X)], X),
        # Gradients of another shape and as many values are allowed.
        ([nd.array(X.reshape(3, 2)), nd.ones((6, 1))], X + 2),
    ]:
        gradients = dict(check_against_compiled(net, heads, x=X))
        found = gradients["hidden_backward_output"]
        np.testing.assert_allclose(found, expected * 2 * X, rtol=1e-6)


def test_a_monitor_may_be_taken_away_between_forward_and_backward() -> None:
    executor = bound(sym.square(sym.var("x")), x=X)
    executor.set_monitor_callback(lambda name, array: None)
    executor.forward(is_train=True)
    executor.set_monitor_callback(None)
    executor.backward(nd.ones((2, 3)))
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), 2 * X)


def test_losses_take_no_head_gradients() -> None:
    net = sym.FullyConnected(sym.var("x"), num_hidden=2, name="fc")
    net = sym.SoftmaxOutput(net, sym.var("label"), name="softmax")
    label = np.array([0, 1], np.float32)
    seen = dict(check_against_compiled(net, x=X, label=label))
    expected = seen["softmax_output"] - np.eye(2, dtype=np.float32)
    np.testing.assert_allclose(seen["softmax_backward_output0"], expected, rtol=1e-6)
    np.testing.assert_allclose(seen["fc_backward_output1"], expected.T @ X, rtol=1e-5)
    np.testing.assert_allclose(seen["fc_backward_output2"], expected.sum(0), rtol=1e-5, atol=1e-6)


def test_statistics_of_normalizations_are_shown() -> None:
    data = np.random.RandomState(1).normal(size=(4, 3, 2)).astype(np.float32)
    net = sym.BatchNorm(sym.var("x"), fix_gamma=False, name="bn")
    seen = check_against_compiled(sym.square(net, name="sq"), nd.ones((4, 3, 2)), x=data)
    assert names(seen) == [
        "bn_output", "bn_mean", "bn_var", "sq_output",
        "sq_backward_output", "bn_backward_output0", "bn_backward_output1", "bn_backward_output2",
    ]  # fmt: skip
    shown = dict(seen)
    np.testing.assert_allclose(shown["bn_mean"], data.mean((0, 2)), rtol=1e-5, atol=1e-6)
    executor = bound(net, x=data)
    step(executor, nd.ones((4, 3, 2)))  # the running statistics are written once
    means = executor.aux_dict["bn_moving_mean"].asnumpy()
    np.testing.assert_allclose(means, 0.9 * 0.25 + 0.1 * data.mean((0, 2)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "op, others",
    [("LayerNorm", ["n_mean", "n_std"]), ("Dropout", []), ("softmax", [])],
)
@pytest.mark.parametrize("is_train", [False, True])
def test_hidden_outputs_without_names_are_not_shown(
    op: str, others: list[str], is_train: bool
) -> None:
    executor = bound(getattr(sym, op)(sym.var("x"), name="n"), x=X)
    seen: Seen = []
    executor.set_monitor_callback(lambda name, array: seen.append((name, array.asnumpy())))
    executor.forward(is_train=is_train)
    assert names(seen) == ["n_output", *others]
    if others:
        np.testing.assert_allclose(seen[1][1].ravel(), X.mean(1), rtol=1e-5)
        np.testing.assert_allclose(seen[2][1].ravel(), X.std(1), rtol=1e-4)


def test_a_loop_is_one_step() -> None:
    outputs, states = sym.contrib.foreach(
        lambda row, total: (row * total, total + row), sym.var("x"), sym.var("s")
    )
    net = sym.broadcast_add(sym.square(outputs, name="sq"), sym.expand_dims(states, axis=0))
    start = np.array([1.0, 2.0, 3.0], np.float32)
    seen = check_against_compiled(net, nd.ones((2, 3)), x=X, s=start)
    loop = [name for name in names(seen) if "_foreach" in name and "_backward_" in name]
    prefix = loop[0].split("_backward_")[0]
    assert loop == [f"{prefix}_backward_output0", f"{prefix}_backward_output1"]


def test_steps_without_influence_report_nothing_and_leave_zeros() -> None:
    x, y = sym.var("x"), sym.var("y")
    net = sym.BlockGrad(sym.square(x, name="sq"), name="stop") + y
    executor = bound(net, x=X, y=X)
    executor.grad_dict["x"][:] = 5
    seen = step(executor, nd.ones((2, 3)))
    assert not executor.grad_dict["x"].asnumpy().any()
    gradients = dict(seen)
    assert not gradients.get("sq_backward_output", np.zeros(1)).any()
    np.testing.assert_array_equal(executor.grad_dict["y"].asnumpy(), np.ones((2, 3)))


@pytest.mark.parametrize("request_", ["write", "add"])
def test_sparse_gradients(request_: str) -> None:
    weight = sym.var("weight", stype="row_sparse")
    net = sym.Embedding(sym.var("data"), weight, 5, 2, sparse_grad=True, name="emb")
    found = []
    seen: list[tuple[str, str]] = []
    for watched in (False, True):
        values = nd.array(np.arange(10).reshape(5, 2)).tostype("row_sparse")
        grad = nd.sparse.zeros("row_sparse", (5, 2))
        args = {"data": nd.array([1, 3, 1]), "weight": values}
        executor = net.bind(mx.cpu(), args, {"weight": grad}, grad_req=request_)
        if watched:
            executor.set_monitor_callback(lambda name, array: seen.append((name, array.stype)))
        for _ in range(2):
            executor.forward(is_train=True)
            executor.backward([nd.array([[1, 2], [3, 4], [5, 6]])])
        found.append(grad.asnumpy())
        assert grad.stype == "row_sparse"
        assert grad.indices.asnumpy().tolist() == [1, 3]
    assert ("emb_backward_output1", "row_sparse") in seen
    factor = 2 if request_ == "add" else 1
    expected = np.zeros((5, 2), np.float32)
    expected[1], expected[3] = [6, 8], [3, 4]
    np.testing.assert_array_equal(found[0], expected * factor)
    np.testing.assert_array_equal(found[1], expected * factor)


def test_errors_of_a_monitor_reach_the_caller() -> None:
    executor = bound(sym.square(sym.var("x"), name="sq"), x=X)

    def fail(name: str, array: Any) -> None:
        if "backward" in name:
            raise KeyError(name)

    executor.set_monitor_callback(fail)
    executor.forward(is_train=True)
    with pytest.raises(KeyError, match="sq_backward_output"):
        executor.backward(nd.ones((2, 3)))
    executor.set_monitor_callback(None)
    executor.forward(is_train=True)
    executor.backward(nd.ones((2, 3)))
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), 2 * X)
