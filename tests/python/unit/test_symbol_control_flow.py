"""mx.sym.contrib: foreach, while_loop and cond in symbols, bound and in blocks."""

from __future__ import annotations

import json
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, gluon, nd, sym
from numpy.testing import assert_allclose, assert_array_equal
from pairing import pairs

DATA = Path(__file__).parents[2] / "data/mxnet_1_9_1"
X = np.arange(6, dtype=np.float32).reshape(3, 2) + 1
S = np.array([10, 20], np.float32)


def run(symbol, grad=True, **arrays):
    """Bind, run forward and backward; returns outputs and gradients by name."""
    values = {name: nd.array(value) for name, value in arrays.items()}
    grads = {name: nd.zeros(value.shape) for name, value in values.items()}
    executor = symbol.bind(mx.cpu(), values, grads)
    outputs = executor.forward(is_train=True)
    if grad:
        executor.backward([nd.ones(out.shape) for out in outputs])
    return [out.asnumpy() for out in outputs], {k: g.asnumpy() for k, g in grads.items()}


def foreach_symbol():
    x, s, w = sym.var("x"), sym.var("s"), sym.var("w")
    outputs, states = sym.contrib.foreach(lambda d, st: (d * w + st[0], [st[0] * 2]), x, [s])
    return sym.Group([outputs, *states])


def test_foreach_runs_and_differentiates():
    symbol = foreach_symbol()
    assert symbol.list_arguments() == ["x", "s", "w"]
    assert symbol.infer_shape(x=(7, 2), s=(2,), w=(2,))[1] == [(7, 2), (2,)]
    (outputs, state), grads = run(symbol, x=X, s=S, w=np.array([1, 2], np.float32))
    assert_array_equal(outputs, X * [1, 2] + S * np.array([[1], [2], [4]]))
    assert_array_equal(state, S * 8)
    assert_array_equal(grads["s"], [1 + 2 + 4 + 8] * 2)
    assert_array_equal(grads["w"], X.sum(axis=0))


def test_weights_of_a_layer_inside_a_loop_get_their_shapes():
    def body(d, states):
        h = sym.FullyConnected(d, num_hidden=4, name="fc")
        return h, [states[0] + h]

    outputs, _ = sym.contrib.foreach(body, sym.var("data"), [sym.var("init")])
    arguments, outs, _ = outputs.infer_shape(data=(5, 2, 3), init=(2, 4))
    named = dict(zip(outputs.list_arguments(), arguments))
    assert named["fc_weight"] == (4, 3)
    assert named["fc_bias"] == (4,)
    assert outs == [(5, 2, 4)]
    executor = outputs.simple_bind(mx.cpu(), data=(5, 2, 3), init=(2, 4))
    for name in ("data", "fc_weight"):
        executor.arg_dict[name][:] = 1
    assert_array_equal(executor.forward()[0].asnumpy(), np.full((5, 2, 4), 3))


def while_symbol():
    limit, step, start = sym.var("limit"), sym.var("step"), sym.var("start")
    outputs, (count, total) = sym.contrib.while_loop(
        lambda i, total: i < limit,
        lambda i, total: (total * 2, [i + 1, total + step]),
        [sym.zeros_like(limit), start],
        max_iterations=5,
    )
    return sym.Group([outputs, count, total])


@pytest.mark.parametrize("limit", [0, 3, 9])
def test_while_loop_runs_pads_and_differentiates(limit):
    steps, symbol = min(limit, 5), while_symbol()
    assert symbol.infer_shape(limit=(1,), step=(2,), start=(2,))[1] == [(5, 2), (1,), (2,)]
    values = {"limit": np.array([limit], np.float32), "step": S, "start": X[0]}
    (outputs, count, total), grads = run(symbol, **values)
    assert outputs.shape == (5, 2)
    for i in range(5):
        assert_array_equal(outputs[i], 2 * (X[0] + i * S) if i < steps else [0, 0])
    assert count == steps
    assert_array_equal(total, X[0] + steps * S)
    assert_array_equal(grads["start"], [2 * steps + 1] * 2)


@pytest.mark.parametrize("a", [1, 5])
def test_cond_runs_one_branch(a):
    x, y = sym.var("x"), sym.var("y")
    symbol = sym.contrib.cond(x * y < 5, lambda: (x + 5) * (y + 5), lambda: (x - 5) * (y - 5))
    (value,), grads = run(symbol, x=np.array([a], np.float32), y=np.array([2], np.float32))
    offset = 5 if a == 1 else -5
    assert value == (a + offset) * (2 + offset)
    assert grads["x"] == 2 + offset
    assert grads["y"] == a + offset


@pytest.mark.parametrize(
    ("watched", "words"),
    [
        (False, "must be an array of one element"),
        (True, r"a condition must have exactly one element, got shape \(2,\)"),
    ],
)
def test_a_condition_of_several_elements_is_an_error(watched, words):
    x, y = sym.var("x"), sym.var("y")
    loop, _ = sym.contrib.while_loop(lambda i: i < y, lambda i: (i, [i + 1]), [x], 4)
    for symbol in (loop, sym.contrib.cond(x < y, lambda: x, lambda: y)):
        executor = symbol.bind(mx.cpu(), {"x": nd.ones((2,)), "y": nd.ones((2,))})
        if watched:  # runs node by node
            executor.set_monitor_callback(lambda name, array: None)
        with pytest.raises(ValueError, match=words):
            executor.forward()


def test_loops_nest():
    def body(d, states):
        inner = sym.contrib.while_loop(lambda y: y < 10, lambda y: (None, y * 3), d, 5)[1]
        return inner, [states[0] + inner]

    outputs, states = sym.contrib.foreach(body, sym.var("x"), [sym.var("s")])
    (values, total), grads = run(
        sym.Group([outputs, *states]), x=np.array([[1], [4], [20]], np.float32),
        s=np.zeros(1, np.float32),
    )  # fmt: skip
    assert_array_equal(values, [[27], [12], [20]])
    assert_array_equal(total, [59])
    assert_array_equal(grads["x"], [[54], [6], [2]])


class Net(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.layer = gluon.nn.Dense(2, in_units=2)
        self.norm = gluon.nn.BatchNorm(in_channels=2)

    def hybrid_forward(self, F, x, s):  # noqa: N803
        return F.contrib.foreach(lambda d, st: (self.norm(self.layer(d)) + st, st * 2), x, s)[0]


def test_a_block_gives_the_same_as_symbol_and_as_arrays():
    net = Net()
    net.initialize(mx.init.Xavier())
    x, s = nd.array(np.random.RandomState(0).randn(3, 4, 2)), nd.ones((4, 2))
    with autograd.train_mode():
        for _ in range(3):
            net(x, s)
    expected = net(x, s).asnumpy()
    symbol = net(sym.var("x"), sym.var("s"))
    assert len(symbol.list_auxiliary_states()) == 2
    block = gluon.SymbolBlock(symbol, [sym.var("x"), sym.var("s")], net.collect_params())
    assert_allclose(block(x, s).asnumpy(), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda x: sym.contrib.foreach(lambda d, s: (d, s), 1, []), TypeError, "must be Symbols"),
        (lambda x: sym.contrib.foreach(lambda d, s: (d, [s, s]), x, x), ValueError,
         "must return 1 states.*got 2"),
        (lambda x: sym.contrib.foreach(lambda d, s: (s, [s]), x, [x]), AssertionError,
         "does not use data 0"),
        (lambda x: sym.contrib.foreach(lambda d, s: (d, [s[0], s[0]]), x, [x, x]), ValueError,
         "does not use state 1"),
        (lambda x: sym.contrib.while_loop(lambda y: y, lambda y: (y, y), x), ValueError,
         "max_iterations"),
        (lambda x: sym.contrib.while_loop(lambda y: y, lambda y: (y, []), x, 3), ValueError,
         "length of loop_vars"),
        (lambda x: sym.contrib.cond(1, lambda: x, lambda: x), TypeError, "pred must be .*got 1"),
        (lambda x: sym.contrib.cond(x, lambda: x, lambda: [x]), ValueError, "differently nested"),
    ],
)  # fmt: skip
def test_wrong_calls_are_named(call, kind, match):
    with pytest.raises(kind, match=match):
        call(sym.var("x"))


def loops_of_1_9_1():
    return sym.load(DATA / "loops-symbol.json")


LOOP_VALUES = {
    "data": X[:, None],
    "start": np.array([[1, 2, 3]], np.float32),
    "weight": np.ones((3, 2), np.float32),
    "low": np.array([2], np.float32),
    "high": np.array([4], np.float32),
    "x": np.array([5], np.float32),
}


def test_a_file_of_1_9_1_with_loops_and_branches_runs():
    symbol = loops_of_1_9_1()
    assert symbol.list_arguments() == ["data", "start", "weight", "low", "high", "x"]
    assert symbol.list_outputs() == [
        "_foreach0_output0", "_foreach0_output1", "_while_loop0_output0", "_while_loop0_output1",
        "_while_loop0_output2", "_cond0_output",
    ]  # fmt: skip
    (rows, last, steps, i, x, chosen), grads = run(symbol, **LOOP_VALUES)
    sums = np.cumsum(X.sum(axis=1))[:, None, None] + LOOP_VALUES["start"]
    assert_array_equal(rows, sums)
    assert_array_equal(last, sums[-1])
    assert_array_equal(steps[:2], [[7], [12]])
    assert (i, x, chosen) == (4, 20, 6)
    assert_array_equal(grads["start"], [[4, 4, 4]])


@pytest.mark.parametrize("make", [loops_of_1_9_1, foreach_symbol], ids=["file", "own"])
def test_loops_are_the_same_after_saving_and_loading(make):
    symbol = make()
    again = sym.load_json(symbol.tojson())
    assert again.tojson() == symbol.tojson()
    values = LOOP_VALUES if make is loops_of_1_9_1 else {"x": X, "s": S, "w": X[0]}
    (outputs, grads), (outputs_again, grads_again) = run(symbol, **values), run(again, **values)
    for one, other in pairs(outputs, outputs_again):
        assert_array_equal(one, other)
    for name, grad in grads.items():
        assert_array_equal(grad, grads_again[name])


def test_variables_of_one_name_in_a_subgraph_are_told_apart_by_position():
    x, v, w = sym.var("x"), sym.var("v"), sym.var("w")
    outputs, _ = sym.contrib.foreach(lambda d, st: ((d + st) * v - w, st), x, sym.var("s"))
    graph = json.loads(outputs.tojson())
    (loop,) = [node for node in graph["nodes"] if node["op"] == "_foreach"]
    for node in loop["subgraphs"][0]["nodes"]:
        if node["op"] == "null":
            node["name"] = "same"
    loaded = sym.load_json(json.dumps(graph))
    values = {"x": X, "s": S, "v": np.array([2, 3], np.float32), "w": np.ones(2, np.float32)}
    assert loaded.infer_shape(x=(3, 2), s=(2,), v=(2,), w=(2,))[1] == [(3, 2)]
    expected = (X + S) * values["v"] - 1
    assert_array_equal(run(loaded, **values)[0][0], expected)
    arrays = {name: nd.array(value) for name, value in values.items()}
    watched = loaded.bind(mx.cpu(), arrays)
    watched.set_monitor_callback(lambda name, array: None)
    assert_array_equal(watched.forward()[0].asnumpy(), expected)


def test_values_of_one_name_around_a_loop_are_told_apart():
    first, second = sym.relu(sym.var("a"), name="same"), sym.exp(sym.var("b"), name="same")
    outputs, _ = sym.contrib.foreach(lambda d, st: (d * first - second, st), sym.var("x"), [])
    graph = json.loads(outputs.tojson())
    (loop,) = [node for node in graph["nodes"] if node["op"] == "_foreach"]
    names = [node["name"] for node in loop["subgraphs"][0]["nodes"] if node["op"] == "null"]
    assert names[1:] == ["same_output", "same_output_import1"]
    for symbol in (outputs, sym.load_json(json.dumps(graph))):
        (result,), _ = run(symbol, x=X, a=S, b=np.zeros(2, np.float32))
        assert_array_equal(result, X * S - 1)


@pytest.mark.parametrize("is_train", [False, True])
def test_loops_run_node_by_node_as_in_compiled_graphs(is_train):
    x, y = sym.var("a"), sym.var("b")
    chosen = sym.contrib.cond(x < y, lambda: x * y, lambda: x - y)
    symbol = sym.Group([foreach_symbol(), while_symbol(), chosen])
    values = {"x": X, "s": S, "w": X[1], "step": S, "start": X[0], "limit": [3.0], "a": [2.0],
              "b": [5.0]}  # fmt: skip
    arrays = {name: nd.array(value) for name, value in values.items()}
    seen = []
    results = []
    for watched in (False, True):
        grads = {name: nd.zeros(array.shape) for name, array in arrays.items()}
        executor = symbol.bind(mx.cpu(), arrays, grads)
        if watched:
            executor.set_monitor_callback(lambda name, array: seen.append(name))
        outputs = executor.forward(is_train=is_train)
        if is_train:
            executor.backward([nd.ones(output.shape) for output in outputs])
        results.append([a.asnumpy() for a in [*outputs, *grads.values()]])
    assert any("_while_loop" in name for name in seen)
    for one, other in pairs(*results):
        assert_allclose(one, other, rtol=1e-6)


def test_a_loop_in_a_loop_and_an_unused_loop_variable_are_saved():
    def outer(row, states):
        inner, _ = sym.contrib.while_loop(
            lambda i, unused: i < 3, lambda i, unused: (i * row, [i + 1, unused]),
            [sym.var("i"), states[0]], max_iterations=3,
        )  # fmt: skip
        return inner.sum() + states[0], [states[0] + 1]

    outputs, _ = sym.contrib.foreach(outer, sym.var("x"), [sym.var("s")])
    again = sym.load_json(outputs.tojson())
    values = {"x": X[:, :1], "s": np.zeros(1, np.float32), "i": np.ones(1, np.float32)}
    (expected,), _ = run(outputs, grad=False, **values)
    (got,), _ = run(again, grad=False, **values)
    assert_array_equal(expected, 3 * X[:, :1] + np.arange(3)[:, None])
    assert_array_equal(got, expected)


def test_a_hybridized_block_with_a_loop_is_exported(tmp_path):
    class Scan(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            start = F.zeros_like(F.slice_axis(x, axis=0, begin=0, end=1)).reshape((-1,))
            return F.contrib.foreach(lambda d, s: (d + s, d + s), x, start)[0]

    net = Scan()
    net.hybridize()
    expected = net(nd.array(X)).asnumpy()
    net.export(str(tmp_path / "scan"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "scan-symbol.json"), ["data"])
    assert_array_equal(block(nd.array(X)).asnumpy(), expected)
    assert_array_equal(expected, X.cumsum(axis=0))
