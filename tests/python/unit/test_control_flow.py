"""foreach, while_loop and cond: eager, recorded, and inside hybridized blocks."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn
from numpy.testing import assert_array_equal
from pairing import assert_all_close, pairs
from recording import differentiated, variable


def hybridized(function):
    block = nn.HybridLambda(function)
    block.hybridize()
    return block


def flat(outputs):
    if isinstance(outputs, nd.NDArray):
        return [outputs]
    return [array for part in outputs for array in flat(part)]


def run_both(function, *inputs, grad=True):
    """Values and input gradients of a function, eagerly; hybridized must give the same."""
    results = []
    for hybrid in (False, True):
        block = nn.HybridLambda(function)
        block.hybridize(hybrid)
        arrays = [nd.array(value, dtype=value.dtype) for value in inputs]
        plain = [out.asnumpy() for out in flat(block(*arrays))]
        for array in arrays:
            array.attach_grad()
        with autograd.record():
            outputs = flat(block(*arrays))
        assert_all_close(outputs, plain, rtol=1e-6)
        if grad:
            autograd.backward([out for out in outputs if out._recorded])
        results.append((plain, [array.grad.asnumpy() for array in arrays]))
    eager, hybridized = results
    for eager_values, values in zip(eager, hybridized):
        assert_all_close(values, eager_values, rtol=1e-6, atol=1e-6)
    return eager


X = np.arange(6, dtype=np.float32).reshape(3, 2) + 1
S = np.array([10, 20], np.float32)


def test_foreach_stacks_outputs_and_hands_states_on():
    def run(F, x, s):  # noqa: N803
        return F.contrib.foreach(lambda d, st: (d + st[0], [st[0] * 2]), x, [s])

    (outputs, state), (dx, ds) = run_both(run, X, S)
    assert_array_equal(outputs, [[11, 22], [23, 44], [45, 86]])
    assert_array_equal(state, [80, 160])
    assert_array_equal(dx, np.ones((3, 2)))
    assert_array_equal(ds, [1 + 2 + 4 + 8] * 2)


def test_foreach_takes_lists_of_data_and_nested_outputs():
    def run(F, x, y):  # noqa: N803
        def body(data, states):
            a, b = data
            return [a * b, [a + b, a - b]], states

        return F.contrib.foreach(body, [x, y], [x[0]])[0]

    (product, total, difference), _ = run_both(run, X, 2 * X)
    assert_array_equal(product, 2 * X * X)
    assert_array_equal(total, 3 * X)
    assert_array_equal(difference, -X)


def test_foreach_keeps_a_single_state_an_array():
    outputs, state = nd.contrib.foreach(lambda d, s: (d * s, s + 1), nd.array(X), nd.ones((2,)))
    assert isinstance(state, nd.NDArray)
    assert_array_equal(state.asnumpy(), [4, 4])
    assert_array_equal(outputs.asnumpy(), X * np.array([[1], [2], [3]]))


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (nd.zeros((0, 2)), ValueError, r"foreach: data must have one size .*\(0, 2\)"),
        ([nd.zeros((2, 1)), nd.zeros((3, 1))], ValueError, "one size"),
        (np.zeros((2, 2)), TypeError, "foreach: data must be NDArrays"),
    ],
)
def test_foreach_over_wrong_data_is_an_error(data, error, words):
    with pytest.raises(error, match=words):
        nd.contrib.foreach(lambda d, s: (d, s), data, [])


def count_up(F, limit, step, start, iterations=5):  # noqa: N803
    """Add ``step`` while the sum of the counter is below ``limit``."""

    def cond(i, total):
        return i < limit

    def func(i, total):
        return total * 2, [i + 1, total + step]

    return F.contrib.while_loop(cond, func, [F.zeros_like(limit), start], iterations)


def test_while_loop_stops_when_the_condition_fails_and_pads_with_zeros():
    limit = np.array([3], np.float32)
    (outputs, count, total), (_, d_step, d_start) = run_both(count_up, limit, S, X[0])
    assert_array_equal(count, [3])
    assert_array_equal(total, X[0] + 3 * S)
    assert outputs.shape == (5, 2)
    assert_array_equal(outputs[:3], [2 * X[0], 2 * (X[0] + S), 2 * (X[0] + 2 * S)])
    assert_array_equal(outputs[3:], np.zeros((2, 2)))
    assert_array_equal(d_step, [2 * 3 + 3] * 2)
    assert_array_equal(d_start, [2 * 3 + 1] * 2)


def test_one_graph_serves_loops_of_different_lengths():
    block = hybridized(count_up)
    for limit in (3, 1, 5, 9):
        outputs, (count, total) = block(nd.array([limit]), nd.array(S), nd.array(X[0]))
        steps = min(limit, 5)
        assert_array_equal(count.asnumpy(), [steps])
        assert_array_equal(total.asnumpy(), X[0] + steps * S)
        assert_array_equal(outputs.asnumpy()[steps:], np.zeros((5 - steps, 2)))
    (compiled,) = block._compilation.graphs.values()
    assert compiled.graph.num_signatures == 1


def test_while_loop_without_a_step():
    outputs, (count, total) = count_up(nd, nd.array([0]), nd.array(S), nd.array(X[0]))
    assert outputs == []
    assert_array_equal(total.asnumpy(), X[0])
    block = hybridized(count_up)
    start = nd.array(X[0])
    outputs, (count, total) = block(nd.array([0]), nd.array(S), start)
    assert_array_equal(outputs.asnumpy(), np.zeros((5, 2)))
    total[:] = 0  # not the memory of the input
    assert_array_equal(start.asnumpy(), X[0])


def test_gradients_of_a_loop_without_a_step_are_zeros():
    block = hybridized(count_up)
    arrays = [nd.array([0]), nd.array(S), nd.array(X[0])]
    for array in arrays:
        array.attach_grad()
        array.grad[:] = 7
    with autograd.record():
        outputs, (count, total) = block(*arrays)
    autograd.backward([outputs, total])
    assert_array_equal(arrays[1].grad.asnumpy(), [0, 0])
    assert_array_equal(arrays[2].grad.asnumpy(), [1, 1])


def test_while_loop_reaches_max_iterations():
    def run(F, x):  # noqa: N803
        return F.contrib.while_loop(lambda x: x.sum() < 1e9, lambda x: (None, x * 2), x, 7)

    (value,), (dx,) = run_both(run, X)
    assert_array_equal(value, X * 128)
    assert_array_equal(dx, np.full((3, 2), 128))


def test_while_loop_of_integers_and_several_nested_outputs():
    def run(F, i, s):  # noqa: N803
        return F.contrib.while_loop(
            lambda i, s: i <= 5, lambda i, s: ([i + s, [i]], [i + 1, s + i]), (i, s), 10
        )

    i, s = np.array([0], np.int64), np.array([1], np.int64)
    (sums, indices, last, total), _ = run_both(run, i, s, grad=False)
    assert_array_equal(sums[:6, 0], [1, 2, 4, 7, 11, 16])
    assert_array_equal(indices[:6, 0], range(6))
    assert sums.dtype == np.int64
    assert (last, total) == (6, 16)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (dict(max_iterations=None), "max_iterations should be specified"),
        (dict(max_iterations="many"), "Cannot convert max_iterations"),
        (dict(loop_vars=[]), "at least one element"),
        (dict(func=lambda x: (x, [x, x])), "length of loop_vars should be consistent"),
    ],
)
def test_while_loop_with_wrong_arguments(arguments, match):
    call = dict(
        cond=lambda x: x < 3, func=lambda x: (x, x + 1), loop_vars=[nd.zeros((1,))],
        max_iterations=4,
    )  # fmt: skip
    with pytest.raises(ValueError, match=match):
        nd.contrib.while_loop(**{**call, **arguments})


def test_outputs_of_changing_shape_are_named():
    with pytest.raises(ValueError, match=r"Step 1, shape is \(2,\)"):
        nd.contrib.while_loop(
            lambda x: x.size < 4, lambda x: (x, nd.concat(x, x, dim=0)), nd.ones((1,)), 9
        )


def test_a_loop_variable_of_changing_type_is_named_when_hybridized():
    block = hybridized(
        lambda F, x: F.contrib.while_loop(  # noqa: N803
            lambda x: x < 3, lambda x: (x, x.astype("float64")), x, 4
        )
    )
    with pytest.raises(ValueError, match=r"loop variable 0 must keep .*float32\(1,\).* float64"):
        block(nd.zeros((1,)))


@pytest.mark.parametrize("a", [1, 5])
def test_cond_runs_one_branch(a):
    def run(F, a, b):  # noqa: N803
        return F.contrib.cond(a * b < 5, lambda: (a + 5) * (b + 5), lambda: (a - 5) * (b - 5))

    (value,), (da, db) = run_both(run, np.array([a], np.float32), np.array([2], np.float32))
    offset = 5 if a == 1 else -5
    assert value == (a + offset) * (2 + offset)
    assert da == 2 + offset
    assert db == a + offset


def test_cond_takes_numbers():
    assert nd.contrib.cond(0, lambda: 1, lambda: 2) == 2


def test_branches_must_agree_when_hybridized():
    block = hybridized(
        lambda F, x: F.contrib.cond(x.sum() > 0, lambda: x, lambda: x.reshape((-1,)))  # noqa: N803
    )
    with pytest.raises(
        ValueError,
        match=r"output 0 must have one .* float32\(2, 3\) from "
        "then_func",
    ):
        block(nd.ones((2, 3)))


class Refine(gluon.HybridBlock):
    """A loop around layers with parameters and running statistics, before and behind others."""

    def __init__(self, layers):
        super().__init__()
        self.inside = nn.Dense(3, in_units=layers)
        self.norm = nn.BatchNorm(in_channels=3)
        self.before = nn.Dense(3, in_units=3)
        self.behind = nn.Dense(2, in_units=3)

    def hybrid_forward(self, F, x):  # noqa: N803
        h = self.before(x)

        def func(i, h):
            h = F.tanh(self.norm(self.inside(h))) + h
            return h, [i + 1, h]

        outputs, (_, h) = F.contrib.while_loop(
            lambda i, h: i < 3, func, [F.zeros((1,)), h], max_iterations=4
        )
        return self.behind(h) + outputs.sum()


@pytest.mark.parametrize("layers", [3, 0], ids=["known", "deferred"])
def test_a_loop_around_layers_trains_as_eagerly(layers):
    x = np.random.RandomState(0).randn(4, 3).astype(np.float32)
    results = []
    for hybrid in (False, True):
        mx.random.seed(7)
        net = Refine(layers)
        net.initialize(mx.init.Xavier())
        net.hybridize(hybrid)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-5})
        losses = []
        for _ in range(3):
            loss = differentiated(lambda net=net: (net(nd.array(x)) ** 2).mean())
            trainer.step(1)
            losses.append(loss.asscalar())
        params = [p.data().asnumpy() for p in net.collect_params().values()]
        results.append((losses, params, net(nd.array(x)).asnumpy()))
    assert losses[2] < losses[0]
    for eager, hybridized in pairs(*results):
        assert_all_close(hybridized, eager, rtol=1e-4, atol=1e-6)


def test_loops_and_branches_nest():
    def run(F, x):  # noqa: N803
        def inner(y):
            return F.contrib.while_loop(lambda y: y.max() < 10, lambda y: (None, y * 3), y, 5)[1]

        def func(i, x):
            x = F.contrib.cond(i < 1, lambda: inner(x), lambda: x - 1)
            return x, [i + 1, x]

        return F.contrib.while_loop(lambda i, x: i < 3, func, [F.zeros((1,)), x], 3)

    (outputs, _, last), (dx,) = run_both(run, np.array([1, 2], np.float32))
    assert_array_equal(outputs, [[9, 18], [8, 17], [7, 16]])
    assert_array_equal(last, [7, 16])
    assert_array_equal(dx, [9 * 4] * 2)


def test_a_block_with_a_loop_inside_a_hybridized_block():
    inner = nn.HybridLambda(count_up)
    outer = nn.HybridLambda(lambda F, *xs: inner(*[x * 1 for x in xs])[1][1] + 1)  # noqa: N803
    outer.hybridize()
    result = outer(nd.array([2]), nd.array(S), nd.array(X[0]))
    assert_array_equal(result.asnumpy(), X[0] + 2 * S + 1)


def test_second_derivatives_go_through_a_loop():
    block = hybridized(
        lambda F, x: F.contrib.while_loop(  # noqa: N803
            lambda i, y: i < 3, lambda i, y: (None, [i + 1, y * x]), [F.zeros((1,)), x], 3
        )[1][1]
    )
    x = variable(nd.array([2.0, 3.0]))
    with autograd.record():
        (first,) = autograd.grad(block(x), [x], create_graph=True)
    first.backward()
    assert_array_equal(first.asnumpy(), 4 * np.array([8.0, 27.0]))
    assert_array_equal(x.grad.asnumpy(), 12 * np.array([4.0, 9.0]))


def test_an_error_in_a_loop_names_the_node():
    block = hybridized(
        lambda F, x: F.contrib.while_loop(  # noqa: N803
            lambda x: F._internal._raise_async(x), lambda x: (x, x), x, 4
        )
    )
    with pytest.raises(mx.MXNetError, match="while running node .*_while_loop"):
        block(nd.zeros((1,)))


def test_names_as_symbols_take_them_are_accepted():
    x = nd.array([1.0, 2.0])
    assert_array_equal(nd.contrib.cond(1, lambda: x, lambda: -x, name="c").asnumpy(), [1, 2])
    out, _ = nd.contrib.foreach(lambda a, s: (a + 1, s), x, [], name="f")
    assert_array_equal(out.asnumpy().ravel(), [2, 3])
    out, _ = nd.contrib.while_loop(
        lambda v: v < 2, lambda v: (v, v + 1), nd.array([1.0]), max_iterations=1, name="w"
    )
    assert_array_equal(out.asnumpy(), [[1]])
