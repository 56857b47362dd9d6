"""Recorded calls of a CachedGraph: gradients, saved values, random numbers, state, second order."""

from __future__ import annotations

from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from mxlite.base import MXNetError
from pairing import assert_all_close, assert_all_equal, pairs
from recording import differentiated, variable
from test_graph import compiled, dense_params, dense_relu

Forward = Callable[..., Any]


def gradients_of(call: Forward, arrays: list[Any], seed: int = 1) -> list[Any]:
    """Values and gradients of ``call(*arrays)``, summed with weights."""
    for a in arrays:
        a.attach_grad()
    mx.random.seed(seed)
    with autograd.record():
        outputs = call(*arrays)
        outputs = outputs if isinstance(outputs, list) else [outputs]
        loss = sum((y * nd.arange(y.size).reshape(y.shape)).sum() for y in outputs)
    loss.backward()
    return [y.asnumpy() for y in outputs] + [a.grad.asnumpy() for a in arrays]


def check(forward: Forward, arrays: list[Any], num_inputs: int = 1, rtol: float = 1e-5) -> None:
    graph = compiled(forward, tuple(arrays[num_inputs:]))
    eager = gradients_of(lambda *a: _listed(forward(*a)), arrays)
    for _ in range(2):
        hybrid = gradients_of(lambda *a: graph(*a[:num_inputs]), arrays)
        for h, e in zip(hybrid, eager):
            np.testing.assert_allclose(h, e, rtol=rtol, atol=rtol * max(1.0, np.abs(e).max()))


def _listed(outputs: Any) -> Any:
    return list(outputs) if isinstance(outputs, tuple) else outputs


def normal(*shape: int) -> Any:
    return nd.random.normal(shape=shape)


@pytest.mark.parametrize(
    ("forward", "shapes"),
    [
        (lambda x: nd.tanh(x) * x, [(3, 4)]),
        (lambda x: x, [(3,)]),
        (lambda x: x.reshape((4, 3)) + 1, [(3, 4)]),
        (lambda x, y: x * y + y, [(3, 4), (1, 4)]),
        (lambda x, y: (x * y, nd.exp(x) + y), [(3, 4), (3, 4)]),
        (lambda x: nd.BlockGrad(x) * x, [(5,)]),
        (lambda x: nd.concat(x, nd.relu(x), x * 2, dim=1), [(2, 3)]),
        (lambda x: nd.softmax(nd.transpose(x)), [(2, 3)]),
        (lambda x: (x + 1, x + 1), [(2, 3)]),
        (lambda x: nd.slice_axis(x, axis=1, begin=1, end=3).sum(axis=0), [(2, 4)]),
    ],
)
def test_gradients_equal_eager(forward: Forward, shapes: list[tuple[int, ...]]) -> None:
    arrays = [normal(*s) for s in shapes]
    check(forward, arrays, num_inputs=len(arrays))
    check(forward, arrays, num_inputs=1)


def test_only_needed_gradients_are_computed() -> None:
    x, (w, b) = normal(2, 3), dense_params()
    graph = compiled(dense_relu, (w, b))
    w.attach_grad()
    for grad_req in ("write", "null", "add"):
        b.attach_grad(grad_req=grad_req)
        y = differentiated(lambda: graph(x))
        if grad_req != "null":
            np.testing.assert_allclose(b.grad.asnumpy(), (y.asnumpy() > 0).sum(axis=0))
    assert x.grad is None
    y = differentiated(lambda: graph(x))
    np.testing.assert_allclose(b.grad.asnumpy(), 2 * (y.asnumpy() > 0).sum(axis=0))


def test_nothing_recorded_without_variables() -> None:
    graph = compiled(lambda x: x * 2)
    with autograd.record():
        y = graph(nd.ones((2,)))
    with pytest.raises(MXNetError, match="not computed from a variable"):
        y.backward()


def test_gradients_flow_through_calls_before_and_after() -> None:
    w = variable(normal(3, 3))
    x = variable(normal(2, 3))
    graph = compiled(lambda x, w: nd.tanh(nd.dot(x, w)), (w,))

    def run(f: Forward) -> list[Any]:
        with autograd.record():
            y = f(f(x * 2) + x)  # twice in one computation
            y = (y * y).sum()
        y.backward()
        return [w.grad.asnumpy().copy(), x.grad.asnumpy().copy()]

    eager = run(lambda x: nd.tanh(nd.dot(x, w)))
    assert_all_close(run(graph), eager, rtol=1e-4, atol=1e-5)


def test_head_gradients_of_some_outputs() -> None:
    x = variable(normal(3))
    graph = compiled(lambda x: (x * 2, nd.argmax(x, axis=0), x * x))
    for choice, expected in (((0,), 2 + 0 * x), ((2,), 2 * x), ((0, 2), 2 + 2 * x)):
        with autograd.record():
            outputs = graph(x)
        autograd.backward([outputs[i] for i in choice])
        np.testing.assert_allclose(x.grad.asnumpy(), expected.asnumpy(), rtol=1e-6)


def test_dropout_uses_one_mask_for_both_directions() -> None:
    x = variable(nd.ones((1000,)))
    graph = compiled(lambda x: nd.Dropout(x, p=0.5))
    seen = []
    for _ in range(2):
        y = differentiated(lambda: graph(x))
        np.testing.assert_array_equal(x.grad.asnumpy(), y.asnumpy())
        seen.append(y.asnumpy())
    assert (seen[0] != seen[1]).any()
    assert 300 < (seen[0] == 0).sum() < 700
    with autograd.record(train_mode=False):
        np.testing.assert_array_equal(graph(x).asnumpy(), x.asnumpy())


def batch_norm(x: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
    return nd.BatchNorm(x, gamma, beta, mean, var, fix_gamma=False, momentum=0.9)


def test_writing_saved_values_is_an_anomaly() -> None:
    x, w = variable(normal(2, 3)), variable(normal(3, 4))
    for value, graph in [
        ("parameter 0", compiled(lambda x, w: nd.dot(nd.tanh(x), w), (w,))),
        ("input 0", compiled(lambda x: x * x)),
        ("output 0", compiled(lambda x: nd.exp(x))),
    ]:
        with autograd.record():
            y = graph(x)
        {"parameter 0": w, "input 0": x, "output 0": y}[value][:] = 0
        with (
            autograd.detect_anomaly(),
            pytest.raises(MXNetError, match=f"{value} of Net.*changed in place"),
        ):
            y.backward()


def test_an_operator_without_gradient_raises_at_backward() -> None:
    names = [o["name"] for o in mx._core.list_ops() if not o["differentiable"]]
    assert "_trigamma" in names
    x = variable(normal(3))
    op = mx._core.op("_trigamma")
    with autograd.record():
        y = compiled(lambda x: op(x * 2))(x)
    with pytest.raises(MXNetError, match="not differentiable"):
        y.backward()


def test_second_order_equals_eager() -> None:
    def forward(x: Any, w: Any) -> Any:
        return nd.tanh(nd.dot(x, w)) * x

    x, w = normal(3, 3), normal(3, 3)
    results = []
    for hybrid in (False, True):
        call = compiled(forward, (w,)) if hybrid else lambda x: forward(x, w)
        x.attach_grad()
        w.attach_grad()
        with autograd.record():
            y = call(x * 2)
            gx, gw = autograd.grad([y], [x, w], create_graph=True, retain_graph=True)
            loss = (gx * gx).sum() + (gw * x).sum()
        loss.backward()
        results.append([a.asnumpy().copy() for a in (y, gx, gw, x.grad, w.grad)])
    assert_all_close(*results, rtol=1e-4, atol=1e-5)


def test_second_order_with_dropout_and_state_repeats_the_same_forward() -> None:
    params = [nd.ones((4,)), nd.zeros((4,)), nd.zeros((4,)), nd.ones((4,))]
    x = variable(normal(6, 4))

    def forward(x: Any, *bn: Any) -> Any:
        return nd.Dropout(batch_norm(x, *bn), p=0.5)

    graph = compiled(forward, tuple(params))
    with autograd.record():
        y = graph(x)
        statistics = params[2].asnumpy()
        (gx,) = autograd.grad([y], [x], create_graph=True, retain_graph=True)
    np.testing.assert_array_equal(params[2].asnumpy(), statistics)
    (first,) = autograd.grad([y], [x])
    np.testing.assert_allclose(gx.asnumpy(), first.asnumpy(), rtol=1e-5, atol=1e-6)


def test_the_same_array_twice() -> None:
    x = variable(normal(3))
    graph = compiled(lambda a, b: a * a * b)
    for create_graph in (False, True):
        with autograd.record():
            y = graph(x, x)
            (g,) = autograd.grad([y], [x], create_graph=create_graph, retain_graph=True)
        np.testing.assert_allclose(g.asnumpy(), 3 * x.asnumpy() ** 2, rtol=1e-5)


def test_captured_variables_get_gradients() -> None:
    scale = variable(nd.array([2.0]))
    x = nd.ones((3,))
    graph = compiled(lambda x: x * scale)
    for _ in range(2):
        differentiated(lambda: graph(x))
        assert scale.grad.asscalar() == 3


def test_gradients_in_half_precision() -> None:
    for dtype in ("float16", "bfloat16"):
        x, w = normal(4, 8).astype(dtype), normal(3, 8).astype(dtype)
        graph = compiled(lambda x, w: nd.FullyConnected(x, w, num_hidden=3, no_bias=True), (w,))
        x.attach_grad()
        w.attach_grad()
        with autograd.record():
            y = graph(x)
        y.backward()
        assert x.grad.dtype == x.dtype
        total = w.astype("float32").asnumpy().sum(axis=0)
        got = x.grad.astype("float32").asnumpy()
        np.testing.assert_allclose(got, np.broadcast_to(total, got.shape), rtol=2e-2, atol=2e-2)


def test_an_input_without_influence_gets_gradient_0() -> None:
    graph = compiled(lambda x, y: nd.sign(x) + y)
    x, y = nd.ones((2,)), nd.ones((2,))
    for array in (x, y):
        array.attach_grad()
        array.grad[:] = 7
    differentiated(graph, x, y)
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 0])
    np.testing.assert_array_equal(y.grad.asnumpy(), [1, 1])


def residual_net(x: Any, w1: Any, w2: Any, *norms: Any) -> Any:
    """Convolution, BatchNorm, relu, convolution, BatchNorm, addition, relu: what is fused."""
    options = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 32, "no_bias": True}
    y = nd.BatchNorm(nd.Convolution(x, w1, **options), *norms[:4], fix_gamma=False)
    y = nd.Activation(y, act_type="relu")
    y = nd.BatchNorm(nd.Convolution(y, w2, **options), *norms[4:], fix_gamma=False)
    y = nd.Activation(y + x, act_type="relu")
    return nd.FullyConnected(
        nd.Pooling(y, kernel=(2, 2), stride=(2, 2), pool_type="max").mean(axis=(2, 3)),
        nd.ones((3, 32)) / 32,
        num_hidden=3,
        no_bias=True,
    )


def residual_arrays(size: int) -> list[Any]:
    norm = [nd.random.uniform(0.5, 1.5, (32,)) for _ in range(4)]
    weights = [normal(32, 32, 3, 3) * 0.1 for _ in range(2)]
    return [normal(8, 32, size, size), *weights, *norm, *[a + 0.1 for a in norm]]


@pytest.mark.parametrize("size", [6, 34])  # 34: Winograd, and data that is normalized again
def test_residual_block_with_batch_norm(size: int) -> None:
    mx.random.seed(4)
    arrays = residual_arrays(size)

    def run(hybrid: bool) -> list[Any]:
        x, *params = own = [a.copy() for a in arrays]
        graph = compiled(residual_net, tuple(params))
        learned = [variable(own[i]) for i in (0, 1, 2, 3, 4, 7, 8)]
        for _ in range(2):
            with autograd.record():
                y = graph(x) if hybrid else residual_net(*own)
                loss = (y * nd.arange(y.size).reshape(y.shape)).sum()
            loss.backward()
        moving = [own[i] for i in (5, 6, 9, 10)]
        return [a.asnumpy() for a in (y, *[a.grad for a in learned], *moving)]

    for e, h in pairs(run(False), run(True)):
        np.testing.assert_allclose(h, e, rtol=2e-3, atol=5e-4 * max(1e-3, np.abs(e).max()))


def test_memory_of_saved_values_is_used_but_nothing_that_is_seen_changes() -> None:
    w = normal(64, 64)
    graph = compiled(lambda x, w: [nd.tanh(nd.dot(x, w)), nd.sigmoid(nd.dot(nd.tanh(x), w))], (w,))
    x = variable(normal(512, 64))
    w.attach_grad()
    kept, first = None, None
    for turn in range(3):
        with autograd.record():
            y, z = graph(x)
            loss = (y * z).sum()
        before = y.asnumpy(), z.asnumpy()
        loss.backward(retain_graph=turn == 1)
        grads = x.grad.asnumpy(), w.grad.asnumpy()
        first = first or grads
        kept = kept if kept is not None else w.grad[3:5]
        assert_all_equal((y, z), before)
        assert_all_equal(grads, first)
        np.testing.assert_array_equal(kept.asnumpy(), first[1][3:5])
        if turn == 1:
            loss.backward()
            np.testing.assert_array_equal(x.grad.asnumpy(), first[0])
        with pytest.raises(MXNetError, match="freed by an earlier backward"):
            loss.backward()


def test_a_gradient_that_backward_reads_is_not_overwritten() -> None:
    x = nd.array([1.0, 2.0])
    graph = compiled(lambda x, y: x * x * y)
    differentiated(lambda x: graph(x, nd.array([3.0, 4.0])), x)
    np.testing.assert_allclose(x.grad.asnumpy(), [6.0, 16.0])
    differentiated(lambda: graph(x, x.grad))  # 2 * x * grad
    np.testing.assert_allclose(x.grad.asnumpy(), [12.0, 64.0])


@pytest.mark.parametrize("form", ["gelu", "gelu_tanh"])
def test_gradients_through_a_large_gelu(form: str) -> None:
    def forward(x: Any, w1: Any, w2: Any) -> Any:
        inner = nd.FullyConnected(x, w1, no_bias=True, num_hidden=512)
        active = nd.LeakyReLU(inner, act_type=form)
        return nd.FullyConnected(active, w2, no_bias=True, num_hidden=16)

    check(forward, [normal(1024, 16), 0.3 * normal(512, 16), 0.1 * normal(16, 512)], 3, rtol=3e-5)
