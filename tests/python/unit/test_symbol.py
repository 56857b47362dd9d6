"""Symbols: composing, names, attributes, listing, arithmetic, evaluation."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite.base import MXNetError

sym = mx.sym
CONV = {"num_filter": 2, "kernel": (1, 1)}


def mlp() -> Any:
    data = sym.var("data")
    hidden = sym.Activation(sym.FullyConnected(data, num_hidden=8, name="fc1"), act_type="relu")
    return sym.SoftmaxOutput(sym.FullyConnected(hidden, num_hidden=3, name="fc2"), name="softmax")


# -- composing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (mlp, "data fc1_weight fc1_bias fc2_weight fc2_bias softmax_label"),
        (lambda: sym.FullyConnected(num_hidden=3, name="fc"), "fc_data fc_weight fc_bias"),
        (lambda: sym.Concat(num_args=2, name="c"), "c_arg0 c_arg1"),
        (lambda: sym.Convolution(sym.var("x"), no_bias=True, name="c", **CONV), "x c_weight"),
    ],
)
def test_missing_inputs_become_variables_named_after_the_node(make: Any, arguments: str) -> None:
    assert make().list_arguments() == arguments.split()


def test_inputs_by_keyword_and_position_give_the_same_node() -> None:
    x, w = sym.var("x"), sym.var("w")
    one = sym.FullyConnected(x, w, num_hidden=2, no_bias=True, name="f")
    two = sym.FullyConnected(weight=w, data=x, no_bias=True, num_hidden=2, name="f")
    assert one.tojson() == two.tojson()


X = sym.var("x")
PARTS = sym.SliceChannel(X, num_outputs=3, name="s")
BOTH = sym.Group([sym.var("a"), sym.var("b")])


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (lambda: sym.FullyConnected(X, num_hiden=3), TypeError, "did you mean 'num_hidden'"),
        (lambda: sym.Activation(X, act_type="nope"), ValueError, "act_type"),
        (
            lambda: sym.FullyConnected(data=3, num_hidden=2),
            TypeError,
            "FullyConnected: data must be an NDArray or a Symbol, got int",
        ),
        (lambda: sym.relu(BOTH), TypeError, "got a group of 2"),
        (lambda: PARTS[3], IndexError, "index 3"),
        (lambda: PARTS["s_output9"], ValueError, "s_output9.*did you mean"),
        (lambda: PARTS[1.5], TypeError, "indices"),
        (lambda: sym.Group([X, X])["x"], ValueError, "multiple outputs"),
        (lambda: sym.Group([X, 3]), TypeError, "list of symbols"),
        (lambda: sym.var("x", extra="1"), ValueError, "double underscores"),
        (lambda: sym.var(3), TypeError, "name"),
        (lambda: sym.var("x", attr={"a": 1}), TypeError, "'a' must be a string"),
        (lambda: mx.AttrScope(lr_mult=2), ValueError, "lr_mult.* 2 of type int"),
        (lambda: X + "text", TypeError, "must be a Symbol or a number, got str"),
        (lambda: X + mx.nd.ones((2,)), TypeError, "."),
        (lambda: X * None, TypeError, "."),
        (lambda: X + 1j, TypeError, "."),
        (lambda: sym.add(1, 2), TypeError, "."),
        (lambda: sym.random.uniform(X, 3), TypeError, "all be numbers or all be Symbols"),
        (lambda: BOTH.eval(a=mx.nd.ones(2)), ValueError, "key `b` is missing"),
        (lambda: mx.autograd.get_symbol(mx.nd.ones(2) * 2), MXNetError, "not computed inside au"),
    ],
)
def test_wrong_calls_are_refused(act: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        act()


def test_a_call_replaces_variables_by_name_or_position() -> None:
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    front = sym.relu(sym.var("image"), name="front")
    expected = ["image", "fc_weight", "fc_bias"]
    assert net(data=front).list_arguments() == expected
    assert net(front).list_arguments() == expected
    assert net(data=front, name="renamed").list_outputs() == ["renamed_output"]
    assert net.list_arguments() == ["data", "fc_weight", "fc_bias"]  # unchanged
    with pytest.raises(ValueError, match="no variable 'dat'.*did you mean 'data'"):
        net(dat=front)
    with pytest.raises(TypeError, match="not both"):
        net(front, data=front)
    with pytest.raises(TypeError, match="data: value must be Symbol, got NDArray"):
        net(data=mx.nd.ones(2))


# -- names ----------------------------------------------------------------------------------------


def test_automatic_names_count_by_operator() -> None:
    with mx.name.NameManager():
        x = sym.var("x")
        names = [s.name for s in (sym.relu(x), sym.relu(x), x + x, x * 2, sym.flatten(x))]
    assert names == ["relu0", "relu1", "_plus0", "_mulscalar0", "flatten0"]


def test_a_prefix_goes_before_nodes_and_not_before_variables() -> None:
    with mx.name.Prefix("net_"):
        net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    assert net.list_arguments() == ["data", "net_fc_weight", "net_fc_bias"]


def test_output_names_of_operators_with_several_outputs() -> None:
    assert PARTS.list_outputs() == ["s_output0", "s_output1", "s_output2"]
    assert sym.split(X, num_outputs=1, name="s").list_outputs() == ["s_output0"]
    norm = sym.BatchNorm(X, output_mean_var=True, name="bn")
    assert norm.list_outputs() == ["bn_output", "bn_mean", "bn_var"]
    assert sym.BatchNorm(X, name="bn").list_outputs() == ["bn_output"]


# -- outputs --------------------------------------------------------------------------------------


def test_outputs_are_found_by_number_name_and_slice() -> None:
    assert len(PARTS) == 3
    assert PARTS[1].list_outputs() == PARTS["s_output1"].list_outputs() == ["s_output1"]
    assert PARTS[-1].list_outputs() == ["s_output2"]
    assert PARTS[1:].list_outputs() == ["s_output1", "s_output2"]
    assert [p.list_outputs()[0] for p in PARTS] == PARTS.list_outputs()
    assert {PARTS: 1}[PARTS] == 1  # symbols are keys of dicts, too


def test_internals_and_children() -> None:
    net = mlp()
    internals = net.get_internals()
    assert internals.list_outputs() == [
        "data", "fc1_weight", "fc1_bias", "fc1_output", f"{internals[4].name}_output",
        "fc2_weight", "fc2_bias", "fc2_output", "softmax_label", "softmax_output",
    ]  # fmt: skip
    assert internals["fc1_output"].list_arguments() == ["data", "fc1_weight", "fc1_bias"]
    assert net.get_children().list_outputs() == ["fc2_output", "softmax_label"]
    assert sym.var("x").get_children() is None


def test_group_joins_outputs() -> None:
    assert BOTH.list_outputs() == ["a", "b"]
    assert BOTH.name is None
    assert repr(BOTH) == "<Symbol group [a, b]>"


def test_states_of_batch_norm_are_auxiliary() -> None:
    net = sym.BatchNorm(sym.var("data"), name="bn")
    assert net.list_arguments() == ["data", "bn_gamma", "bn_beta"]
    assert net.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert net.list_inputs() == net.list_arguments() + net.list_auxiliary_states()
    assert net.get_inputs().list_outputs() == net.list_inputs()


# -- attributes -----------------------------------------------------------------------------------


def test_attributes_of_variables() -> None:
    x = sym.var(
        "x", shape=(2, 0), lr_mult=0.5, wd_mult=2, dtype="float16", init=mx.init.One(),
        attr={"mood": "fine"}, __extra__="1",
    )  # fmt: skip
    assert x.attr("mood") == "fine"
    assert x.attr("lr_mult") == x.attr("__lr_mult__") == "0.5"
    assert x.attr("__shape__") == "(2, 0)"
    assert x.attr("__dtype__") == "2"
    assert x.attr("__init__") == '["one", {}]'
    assert x.attr("nothing") is None
    assert x.list_attr()["wd_mult"] == "2"


def test_attribute_scopes_reach_variables_and_operators() -> None:
    with mx.AttrScope(ctx_group="a", __data__="great"):
        x = sym.var("x", attr={"ctx_group": "b"})
        net = sym.FullyConnected(x, num_hidden=2, name="fc")
    assert x.attr("ctx_group") == "b"
    assert net.attr("__ctx_group__") == "a"
    assert net.attr_dict()["fc_weight"]["__data__"] == "great"


def test_an_attribute_of_an_operator_can_name_an_input() -> None:
    net = sym.FullyConnected(sym.var("x"), num_hidden=2, name="fc", attr={"weight_lr_mult": "3"})
    assert net.attr_dict()["fc_weight"]["__lr_mult__"] == "3"
    assert "__lr_mult__" not in net.attr_dict()["fc"]


def test_attr_dict_lists_parameters_as_text() -> None:
    net = sym.Convolution(sym.var("data"), kernel=(3, 3), num_filter=4, no_bias=True, name="c")
    expected = {"kernel": "(3, 3)", "num_filter": "4", "no_bias": "True"}
    assert net.attr_dict() == {"c": expected, "c_weight": expected}
    net._set_attr(__mood__="angry")
    assert net.attr("__mood__") == "angry"


# -- arithmetic and methods -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b,
        lambda a, b: a % b, lambda a, b: a**b, lambda a, b: a == b, lambda a, b: a != b,
        lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: a < b, lambda a, b: a <= b,
        lambda a, b: 2 - a, lambda a, b: 2 / a, lambda a, b: 2**a, lambda a, b: 7 % a,
        lambda a, b: a + 1.5, lambda a, b: a - 1.5, lambda a, b: a * 1.5, lambda a, b: a / 1.5,
        lambda a, b: -a, lambda a, b: abs(a - b), lambda a, b: a > 1.5, lambda a, b: a == 2,
        lambda a, b: np.float32(3) * a,
    ],
)  # fmt: skip
def test_python_operators_agree_with_numpy(function: Any) -> None:
    values = {"a": np.array([[1.0, 2.0, 3.5]], "f"), "b": np.array([[2.0, 2.0, 0.5]], "f")}
    arrays = {key: mx.nd.array(value) for key, value in values.items()}
    symbols = {key: sym.var(key) for key in values}
    result = function(symbols["a"], symbols["b"])
    assert isinstance(result, sym.Symbol)
    used = {key: arrays[key] for key in result.list_arguments()}
    np.testing.assert_allclose(
        result.eval(**used)[0].asnumpy(), function(values["a"], values["b"]).astype("f"), rtol=1e-5
    )


FUNCTIONS = "maximum minimum hypot power add subtract equal lesser".split()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_symbols_and_numbers(name: str) -> None:
    reference = np.less if name == "lesser" else getattr(np, name)
    values, others = np.array([1.0, 2.0, 3.0], "f"), np.array([3.0, 2.0, 1.0], "f")
    a, b = sym.var("a"), sym.var("b")
    function = getattr(sym, name)
    x, y = mx.nd.array(values), mx.nd.array(others)
    for got, expected in (
        (function(a, b).eval(a=x, b=y), reference(values, others)),
        (function(a, 2.0).eval(a=x), reference(values, 2.0)),
        (function(2.0, a).eval(a=x), reference(2.0, values)),
    ):
        np.testing.assert_allclose(got[0].asnumpy(), expected.astype("f"), rtol=1e-6)


def test_methods_are_operators() -> None:
    x = np.arange(6, dtype="f").reshape(2, 3)
    a = sym.var("a")
    for symbol, expected in (
        (a.sum(axis=1), x.sum(1)), (a.reshape((3, 2)), x.reshape(3, 2)), (a.T, x.T),
        (a.transpose(1, 0), x.T), (a.reshape(-1), x.reshape(-1)), (a.exp(), np.exp(x)),
        (a.astype("int32"), x.astype("int32")), (a.expand_dims(axis=0), x[None]),
        (a.slice_axis(axis=1, begin=0, end=2), x[:, :2]), (a.flatten(), x),
        (a.clip(1, 2), x.clip(1, 2)),
    ):  # fmt: skip
        got = symbol.eval(a=mx.nd.array(x))[0].asnumpy()
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "act",
    [
        lambda s: bool(s), lambda s: s.asnumpy(), lambda s: s.wait_to_read(),
        lambda s: s.asscalar(), lambda s: s.__iadd__(1),
    ],
)  # fmt: skip
def test_a_symbol_has_no_value(act: Any) -> None:
    with pytest.raises(NotImplementedError, match="Symbol") as caught:
        act(sym.var("x"))
    assert isinstance(caught.value, MXNetError)


def test_signs_compose_the_operators_of_1x() -> None:
    x, y = sym.var("x"), sym.var("y")
    composed = {
        "_plus": x + y, "_minus": x - y, "_mul": x * y, "_div": x / y, "_mod": x % y,
        "_power": x**y, "_equal": x == y, "_greater": x > y, "_lesser_equal": x <= y,
        "_plusscalar": 1 + x, "_rminusscalar": 1 - x, "_divscalar": x / np.float32(2),
        "_rpowerscalar": 2**x, "_lesser_scalar": x < 1, "broadcast_add": sym.add(x, y),
        "_maximum": sym.maximum(x, y), "_rdivscalar": sym.divide(1, x),
        "_greater_scalar": sym.lesser(1, x), "_logical_or_scalar": sym.logical_or(x, 1),
    }  # fmt: skip
    for hint, symbol in composed.items():
        assert symbol.name.rstrip("0123456789") == hint
    assert sym.maximum(2, 3) == 3


# -- symbols without inputs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        (sym.zeros((2, 3)), np.zeros((2, 3), "f")),
        (sym.ones(3, dtype="int32"), np.ones(3, "i4")),
        (sym.full((2,), 7), np.full(2, 7, "f")),
        (sym.arange(1, 7, 2), np.arange(1, 7, 2, dtype="f")),
        (sym.arange(3, repeat=2), np.repeat(np.arange(3, dtype="f"), 2)),
        (sym.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype="f")),
        (sym.eye(2, 3, 1), np.eye(2, 3, 1, dtype="f")),
    ],
)
def test_creation(symbol: Any, expected: Any) -> None:
    got = symbol.eval()[0].asnumpy()
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_random_symbols_draw_with_the_right_moments() -> None:
    mx.random.seed(3)
    draws = sym.random.normal(2.0, 0.5, shape=(4000,)).eval()[0].asnumpy()
    assert abs(draws.mean() - 2) < 0.05
    assert abs(draws.std() - 0.5) < 0.05
    low, high = sym.var("low"), sym.var("high")
    many = sym.random.uniform(low, high, shape=(1000,))
    got = many.eval(low=mx.nd.array([0.0, 5.0]), high=mx.nd.array([1.0, 6.0]))[0].asnumpy()
    assert got.shape == (2, 1000)
    assert (got[0] < 1).all()
    assert (got[1] >= 5).all()


def test_random_symbols_like_another_and_zipfian_classes() -> None:
    x = sym.var("x")
    assert sym.random.normal_like(x).eval(x=mx.nd.ones((2, 3)))[0].shape == (2, 3)
    group = sym.Group(list(sym.contrib.rand_zipfian(x, num_sampled=50, range_max=8)))
    samples, true, count = (out.asnumpy() for out in group.eval(x=mx.nd.array([3.0])))
    assert ((samples >= 0) & (samples < 8)).all()
    np.testing.assert_allclose(true, np.log(5 / 4) / np.log(9) * 50)
    np.testing.assert_allclose(count, np.log((samples + 2) / (samples + 1)) / np.log(9) * 50)


def test_modules_of_operators() -> None:
    a = sym.var("a")
    product = sym.linalg.gemm2(a, a, transpose_b=True).eval(a=mx.nd.ones((2, 3)))[0]
    assert (product.asnumpy() == 3).all()
    assert sym.image.to_tensor(a).list_arguments() == ["a"]
    assert sym.op.relu(a).list_arguments() == ["a"]
    assert sym.contrib.div_sqrt_dim(a).list_arguments() == ["a"]


# -- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies_are_independent(clone: Any) -> None:
    net = mlp()
    other = clone(net)
    assert other.tojson() == net.tojson()
    other.get_internals()["fc1_output"]._set_attr(__mood__="angry")
    assert net.get_internals()["fc1_output"].attr("__mood__") is None


# -- recorded computations ------------------------------------------------------------------------


def test_a_recorded_computation_is_a_symbol() -> None:
    x, w = mx.nd.array([[1.0, 2.0]]), mx.nd.array([[3.0, 4.0], [5.0, 6.0]])
    for array in (x, w):
        array.attach_grad()
    with mx.autograd.record():
        y = mx.nd.FullyConnected(x, w, num_hidden=2, no_bias=True)
        z = mx.nd.concat(y, y * 2, dim=1).sum()
    symbol = mx.autograd.get_symbol(z)
    assert symbol.list_arguments() == ["var0", "var1"]
    assert symbol.eval(var0=x, var1=w)[0].asscalar() == z.asscalar()
    assert [n["op"] for n in json.loads(symbol.tojson())["nodes"]] == [
        "null", "null", "FullyConnected", "_mul_scalar", "Concat", "sum",
    ]  # fmt: skip
    z.backward()
    with pytest.raises(MXNetError, match="freed by backward"):
        mx.autograd.get_symbol(z)


def test_a_recorded_call_of_a_hybridized_block_is_taken_apart() -> None:
    net = mx.gluon.nn.Dense(2, in_units=3, activation="relu")
    net.initialize()
    net.hybridize()
    x = mx.nd.ones((4, 3))
    x.attach_grad()
    with mx.autograd.record():
        y = net(x) * 3
    symbol = mx.autograd.get_symbol(y)
    values = [x, net.weight.data(), net.bias.data()]
    got = symbol.bind(mx.cpu(), values).forward()[0]
    np.testing.assert_allclose(got.asnumpy(), y.asnumpy(), rtol=1e-6)


def test_attributes_may_be_initializers() -> None:
    out = mx.sym.FullyConnected(
        mx.sym.var("x"), num_hidden=2, name="fc", attr={"__init__": mx.init.Xavier(), "__rank__": 3}
    )
    assert out.attr("__rank__") == "3"
    assert json.loads(out.attr("__init__"))[0] == "xavier"


def test_a_histogram_counts_when_it_runs() -> None:
    counted = mx.sym.histogram(mx.sym.var("a"), bins=4, range=(0, 4), name="h")
    assert counted.list_outputs() == ["h_output0", "h_output1"]
    assert counted.infer_shape(a=(7,)) == ([(7,)], [(4,), (5,)], [])
    values = mx.nd.array([0.5, 1, 3, 3.5])
    for symbol in (counted, mx.sym.load_json(counted.tojson())):
        counts, ends = symbol.bind(mx.cpu(), {"a": values}).forward()
        assert counts.dtype == np.int64 and counts.asnumpy().tolist() == [1, 1, 0, 2]
        assert ends.asnumpy().tolist() == [0, 1, 2, 3, 4]
    given = mx.sym.histogram(mx.sym.var("a"), bins=mx.sym.var("b"))
    counts, ends = given.bind(mx.cpu(), {"a": values, "b": mx.nd.array([0, 1, 4])}).forward()
    assert counts.asnumpy().tolist() == [1, 3] and ends.asnumpy().tolist() == [0, 1, 4]
    with pytest.raises(TypeError, match="range must be given"):
        mx.sym.histogram(mx.sym.var("a"), bins=4)
    with pytest.raises(TypeError, match=r"bins must be an int or a Symbol, got 1\.5"):
        mx.sym.histogram(mx.sym.var("a"), bins=1.5)


def test_in_place_power_and_remainder_compose_a_new_symbol_as_in_1x():
    x = mx.sym.Variable("x")
    y = x
    y **= 2
    y %= 5
    assert x.list_outputs() == ["x"]
    (out,) = y.bind(mx.cpu(), {"x": mx.nd.array([1, 2, 4])}).forward()
    np.testing.assert_array_equal(out.asnumpy(), [1, 4, 1])
    with pytest.raises(NotImplementedError):
        y += 1
