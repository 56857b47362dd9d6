"""Shape and type inference of symbols, forward, backward and partial."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite.base import MXNetError

sym = mx.sym
NO_BIAS = {"num_filter": 4, "no_bias": True}
RANGE = {"min_calib_range": 0, "max_calib_range": 9}


def test_weights_follow_from_data() -> None:
    net = sym.FullyConnected(sym.var("data"), num_hidden=30, name="fc1")
    net = sym.FullyConnected(sym.Activation(net, act_type="relu"), num_hidden=10, name="fc2")
    args, outs, aux = net.infer_shape(data=(100, 50))
    assert dict(zip(net.list_arguments(), args)) == {
        "data": (100, 50), "fc1_weight": (30, 50), "fc1_bias": (30,), "fc2_weight": (10, 30),
        "fc2_bias": (10,),
    }  # fmt: skip
    assert outs == [(100, 10)]
    assert aux == []


def test_shapes_by_position() -> None:
    net = sym.var("a") + sym.var("b")
    assert net.infer_shape((2, 3), None) == ([(2, 3), (2, 3)], [(2, 3)], [])
    with pytest.raises(ValueError, match="either by position or by keyword"):
        net.infer_shape((2, 3), b=(2, 3))


def test_elementwise_operators_spread_shapes_backward() -> None:
    a, b = sym.var("a"), sym.var("b")
    net = sym.relu(a) * b + sym.var("c")
    assert net.infer_shape(c=(4, 5))[0] == [(4, 5)] * 3
    assert net.infer_shape(a=(4, 0), b=(0, 5))[1] == [(4, 5)]


def test_the_shape_of_a_variable_counts_and_zero_is_unknown() -> None:
    x = sym.var("x", shape=(0, 7))
    net = sym.FullyConnected(x, num_hidden=3, name="fc")
    args, outs, _ = net.infer_shape_partial()
    assert args == [(0, 7), (3, 7), (3,)]
    assert outs == [(0, 3)]
    assert net.infer_shape(x=(5, 7))[1] == [(5, 3)]


def test_begin_states_get_their_batch_from_the_data() -> None:
    # A recurrent cell: zeros((0, hidden)) meets the data's batch in an addition.
    state = sym.zeros(shape=(0, 4))
    step = sym.FullyConnected(sym.var("x"), num_hidden=8, name="i2h") + sym.FullyConnected(
        state, num_hidden=8, name="h2h"
    )
    args, outs, _ = step.infer_shape(x=(6, 3))
    assert dict(zip(step.list_arguments(), args))["h2h_weight"] == (8, 4)
    assert outs == [(6, 8)]
    executor = step.simple_bind(mx.cpu(), x=(6, 3))
    assert executor.forward()[0].shape == (6, 8)


def test_unknown_shapes_give_none_and_a_warning() -> None:
    net = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc")
    with pytest.warns(UserWarning, match="Cannot decide shape.*\n.*data"):
        assert net.infer_shape() == (None, None, None)
    args, outs, _ = net.infer_shape_partial()
    assert args[0] == ()


@pytest.mark.parametrize(
    ("net", "shapes", "words"),
    [
        (sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc1"),
         {"x": (2, 3), "fc1_weight": (4, 3)}, "Error in operator fc1"),
        (sym.elemwise_add(sym.var("a"), sym.var("b"), name="plus"), {"a": (2, 3), "b": (3, 2)},
         "Error in operator plus"),
        (sym.Convolution(sym.var("x"), kernel=(9, 9), num_filter=1, name="conv"),
         {"x": (1, 1, 3, 3)}, "Error in operator conv"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_name_the_node(net: Any, shapes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        net.infer_shape(**shapes)
    assert isinstance(caught.value, MXNetError)


# -- types ----------------------------------------------------------------------------------------


def test_types_spread_forward_and_backward() -> None:
    net = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc")
    args, outs, _ = net.infer_type(data="float16")
    assert args == [np.float16] * 3
    assert outs == [np.float16]
    assert net.infer_type(fc_weight=np.float64)[0] == [np.float64] * 3
    net = sym.var("x", dtype="float64") * 2 + sym.var("y")
    assert net.infer_type()[0] == [np.float64, np.float64]
    net = sym.var("a") + sym.var("b")
    assert net.infer_type() == (None, None, None)
    assert net.infer_type_partial()[0] == [None, None]


def test_statistics_of_half_batch_norm_are_float32() -> None:
    net = sym.BatchNorm(sym.var("data"), name="bn")
    args, outs, aux = net.infer_type(data="float16")
    assert args == [np.float16, np.float32, np.float32]
    assert outs == [np.float16]
    assert aux == [np.float32, np.float32]


def test_casts_and_indices_are_borders_of_types() -> None:
    x = sym.var("x")
    net = sym.cast(x, dtype="int32")
    assert net.infer_type(x="float64")[1] == [np.int32]
    embedded = sym.Embedding(sym.var("i"), input_dim=3, output_dim=2, dtype="float16", name="e")
    args, outs, _ = embedded.infer_type(i="int32")
    assert args == [np.int32, np.float16]
    assert outs == [np.float16]
    embedded = sym.Embedding(sym.var("i"), sym.var("w"), input_dim=3, output_dim=2)
    assert embedded.infer_type(i="int32", w="float64")[1] == [np.float64]
    assert sym.contrib.index_array(x).infer_type(x="float16")[1] == [np.int64]
    taken = sym.take(sym.var("t"), sym.var("i"))
    assert taken.infer_type(t="float64", i="int64")[1] == [np.float64]
    assert sym.one_hot(x, depth=2, dtype="uint8").infer_type(x="int64")[1] == [np.uint8]


@pytest.mark.parametrize("name", ["ravel_multi_index", "unravel_index"])
def test_indices_of_positions_have_the_type_of_the_positions(name: str) -> None:
    net = getattr(sym, name)(sym.var("x"), shape=(7, 6))
    assert net.infer_type(x="int64") == ([np.int64], [np.int64], [])
    assert net.infer_type() == (None, None, None)


def test_parts_of_a_split_give_the_whole() -> None:
    whole = sym.var("whole", shape=(0, 6))
    parts = sym.split(whole, num_outputs=6, axis=1, squeeze_axis=True)
    assert (parts[2] + sym.var("other", shape=(4,))).infer_shape()[0] == [(4, 6), (4,)]
    whole = sym.var("whole", shape=(0, 0, 7))
    parts = sym.split(whole, num_outputs=2, axis=1)
    assert (parts[0] + sym.var("other", shape=(4, 3, 7))).infer_shape()[0][0] == (4, 6, 7)


def test_extents_before_a_convolution_of_stride_1() -> None:
    data = sym.var("data", shape=(0, 3, 0, 0))
    net = sym.Convolution(data, kernel=(3, 5), num_filter=2, dilate=(2, 1), pad=(1, 0))
    args, _, _ = (net + sym.var("other", shape=(2, 2, 9, 10))).infer_shape()
    assert args[0] == (2, 3, 11, 14)
    net = sym.Convolution(data, kernel=(3, 3), num_filter=2, stride=(2, 2))
    with pytest.warns(UserWarning, match="Cannot decide shape"):
        assert (net + sym.var("other", shape=(2, 2, 9, 9))).infer_shape()[0] is None


@pytest.mark.parametrize("axes", [(), (1, 2, 0), (1, -1, 0)])
def test_shapes_before_a_transpose(axes: tuple[int, ...]) -> None:
    net = sym.transpose(sym.var("x"), axes=axes) + sym.var("y", shape=(2, 3, 4))
    assert net.infer_shape()[0][0] == ((4, 2, 3) if axes else (4, 3, 2))


def test_with_numpy_shapes_minus_one_is_unknown_and_zero_is_empty() -> None:
    x, w = sym.var("x"), sym.var("w")
    product = sym.dot(x, w)
    with mx.np_shape():
        assert product.infer_shape_partial(x=(-1, 3), w=(3, 5))[1] == [(-1, 5)]
        assert product.infer_shape(x=(0, 3), w=(3, 5))[1] == [(0, 5)]
        assert sym.relu(x).infer_shape_partial() == ([None], [None], [])
        assert sym.relu(x).infer_shape(x=())[1] == [()]
        with pytest.warns(UserWarning, match="-1s in shape means unknown"):
            assert product.infer_shape(x=(-1, 3))[1] is None
    assert product.infer_shape_partial(x=(0, 3), w=(3, 5))[1] == [(0, 5)]
    assert sym.relu(x).infer_shape_partial() == ([()], [()], [])


def test_files_say_whether_numpy_shapes_were_on() -> None:
    def text() -> str:
        weight = sym.var("w", shape=(4, 0))
        return str(sym.FullyConnected(sym.var("x"), weight, num_hidden=4).tojson())

    plain = text()
    with mx.np_shape():
        assert '"is_np_shape": ["int", 1]' in text()
        # An unknown dimension of a file that was written without them stays unknown.
        assert sym.load_json(plain).infer_shape(x=(2, 3))[0] == [(2, 3), (4, 3), (4,)]
    assert "is_np_shape" not in plain


def test_parameters_of_a_layer_are_found_with_numpy_shapes() -> None:
    with mx.np_shape():
        layer = mx.gluon.nn.Dense(4)
        assert layer.weight.shape == (4, -1)
        assert layer.weight.var().infer_shape_partial()[1] == [(4, -1)]
        layer.initialize()
        assert layer(mx.nd.ones((2, 3))).shape == (2, 4) and layer.weight.shape == (4, 3)


def test_lengths_of_a_softmax_are_integers_if_nobody_says() -> None:
    net = sym.softmax(sym.var("x"), sym.var("n"), axis=1, use_length=True)
    assert net.infer_type(x="float64")[0] == [np.float64, np.int32]
    assert net.infer_type(x="float64", n="int64")[0] == [np.float64, np.int64]
    run = net.simple_bind(mx.cpu(), x=(2, 3), n=(2,))
    run.arg_dict["n"][:] = [1, 2]
    np.testing.assert_array_equal(run.forward()[0].asnumpy(), [[1, 0, 0], [0.5, 0.5, 0]])


@pytest.mark.parametrize(
    ("known", "codes", "reverse", "shape", "whole"),
    [
        ((0, 3, 5, 5), (0, -1), False, (2, 75), (2, 3, 5, 5)),
        ((5, 3, 0, 5), (0, -1, 0), False, (5, 15, 4), (5, 3, 4, 5)),
        ((0,), (-4, 16, -1), False, (16, 4), (64,)),
        ((1, 2, 3, 0), (-2, -1, 16, -4), True, (1, 2, 3, 4, 16), (1, 2, 3, 64)),
        ((2, 3, 0, 6), (-3, -3), True, (6, 30), (2, 3, 5, 6)),
        ((0, 0), (-1, 4), False, (6, 4), (0, 0)),  # two unknown dimensions stay unknown
    ],
)
def test_the_unknown_dimension_of_what_is_reshaped_follows(known, codes, reverse, shape, whole):
    data = mx.sym.var("data").reshape(codes, reverse=reverse)
    args, outs, _ = (data + mx.sym.ones(shape)).infer_shape_partial(data=known)
    assert (args, outs) == ([whole], [shape])


def test_a_sum_known_to_be_shaped_like_a_weight_tells_the_weights_shape():
    weight = mx.sym.var("weight")
    shifted = mx.sym.broadcast_add(weight, mx.sym.var("shift", shape=(1,)))
    shifted = mx.sym._internal._identity_with_attr_like_rhs(shifted, weight)
    net = mx.sym.FullyConnected(mx.sym.var("data"), shifted, num_hidden=11, no_bias=True)
    args, _, _ = net.infer_shape(data=(7, 100))
    assert dict(zip(net.list_arguments(), args))["weight"] == (11, 100)


@pytest.mark.parametrize(
    ("op", "options", "names", "shapes", "out"),
    [
        ("fully_connected", {"num_hidden": 4}, "weight bias", [(4, 192), (4,)], "int32"),
        ("fully_connected", {"num_hidden": 4, "no_bias": True}, "weight", [(4, 192)], "int32"),
        ("conv", {"kernel": (3, 3), **NO_BIAS}, "weight", [(4, 3, 3, 3)], "int32"),
        ("pooling", {"kernel": (2, 2)}, "", [], "int8"),
        ("act", {"act_type": "relu"}, "", [], "int8"),
        ("flatten", {}, "", [], "int8"),
    ],
)
def test_quantized_layers_tell_their_weights_and_ranges(op, options, names, shapes, out) -> None:
    net = getattr(sym.contrib, "quantized_" + op)(sym.var("data"), name="q", **options)
    arrays = names.split()
    ends = [f"q_{end}_{label}" for label in ["data", *arrays] for end in ("min", "max")]
    assert net.list_arguments() == ["data", *(f"q_{label}" for label in arrays), *ends]
    assert net.infer_shape(data=(2, 3, 8, 8))[0] == [(2, 3, 8, 8), *shapes, *[(1,)] * len(ends)]
    args, outs, _ = net.infer_type(data="int8")
    assert args == [np.int8] * (1 + len(arrays)) + [np.float32] * len(ends)
    assert outs == [np.dtype(out).type, np.float32, np.float32]


def test_a_quantized_embedding_tells_its_table() -> None:
    net = sym.contrib.quantized_embedding(sym.var("data"), input_dim=7, output_dim=3, name="q")
    args, outs, _ = net.infer_shape(data=(5,))
    assert (args, outs) == ([(5,), (7, 3), (1,), (1,)], [(5, 3), (1,), (1,)])
    assert net.infer_type(data="int32")[0] == [np.int32, np.int8, np.float32, np.float32]


@pytest.mark.parametrize(
    ("op", "options", "types", "out"),
    [
        ("add", {}, ("int8", "int8"), "int32"),
        ("add", RANGE, ("uint8", "uint8"), "uint8"),
        ("add", RANGE, ("uint8", "int8"), "int8"),
        ("mul", {}, ("int8", "int8"), "int32"),
        ("mul", RANGE, ("int8", "int8"), "int8"),
        ("mul", {"enable_float_output": True}, ("int8", "int8"), "float32"),
    ],
)
def test_quantized_pairs_tell_their_shapes_types_and_ranges(op, options, types, out) -> None:
    a, b = (sym.var(name, dtype=dtype) for name, dtype in zip("ab", types))
    net = getattr(sym.contrib, "quantized_elemwise_" + op)(a, b, name="q", **options)
    ends = ["q_lhs_min", "q_lhs_max", "q_rhs_min", "q_rhs_max"]
    assert net.list_arguments() == ["a", "b", *ends]
    assert net.infer_shape(a=(2, 3))[0] == [(2, 3), (2, 3), *[(1,)] * 4]
    executor = net.simple_bind(mx.cpu(), grad_req="null", a=(2, 3))
    assert [array.dtype for array in executor.arg_arrays[2:]] == [np.float32] * 4
    for name in ("a", "b"):
        executor.arg_dict[name][:] = 100
    for end in ends:
        executor.arg_dict[end][:] = 127 if end.endswith("max") else -127
    found = executor.forward()
    assert found[0].dtype == np.dtype(out)
    kinds = [np.float32] * (len(found) - 1)
    assert net.infer_type()[1] == [np.dtype(out).type, *kinds]


F32, I8, U8, I32 = np.float32, np.int8, np.uint8, np.int32


@pytest.mark.parametrize(
    ("op", "options", "data", "types", "out"),
    [
        ("quantize", {"out_type": "int8"}, None, [F32, F32, F32], [I8, F32, F32]),
        ("quantize", {"out_type": "uint8"}, F32, [F32, F32, F32], [U8, F32, F32]),
        ("quantize_v2", {"out_type": "uint8"}, F32, [F32], [U8, F32, F32]),
        ("quantize_v2", {"out_type": "auto"}, F32, [F32], [I8, F32, F32]),
        ("quantize_v2", {"out_type": "auto", **RANGE}, F32, [F32], [U8, F32, F32]),
        ("quantize_asym", {}, F32, [F32], [U8, F32, F32]),
        ("dequantize", {}, U8, [U8, F32, F32], [F32]),
        ("requantize", {"out_type": "int8"}, None, [I32, F32, F32], [I8, F32, F32]),
        ("requantize", {"out_type": "uint8"}, I32, [I32, F32, F32], [U8, F32, F32]),
        ("calibrate_entropy", {"num_quantized_bins": 3}, F32, [F32, F32], [F32, F32]),
    ],
)
def test_conversions_tell_their_types(op, options, data, types, out) -> None:
    net = getattr(sym.contrib, op)(sym.var("data"), name="q", **options)
    given = {} if data is None else {"data": data}
    assert net.infer_type(**given) == (types, out, [])


def test_ends_of_ranges_are_bound_as_float32() -> None:
    net = sym.contrib.quantize_v2(sym.var("data"), out_type="int8", name="q")
    assert net.infer_type_partial()[:2] == ([None], [np.int8, np.float32, np.float32])
    net = sym.contrib.requantize(sym.var("data"), sym.var("low"), sym.var("high"), out_type="int8")
    executor = net.simple_bind(mx.cpu(), data=(2, 3), type_dict={"data": np.int32})
    for name, value in {"data": 2**30, "low": -1, "high": 1}.items():
        executor.arg_dict[name][:] = value
    numbers, low, high = executor.forward()
    assert numbers.dtype == np.int8 and (numbers.asnumpy() == 127).all()
    assert float(high.asscalar()) == -float(low.asscalar()) == pytest.approx(0.5)


def test_a_quantized_batch_norm_tells_its_statistics_and_ranges() -> None:
    norm = sym.contrib.quantized_batch_norm(
        sym.var("x"), min_calib_range=-1, max_calib_range=1, name="q"
    )
    assert norm.list_auxiliary_states() == ["q_moving_mean", "q_moving_var"]
    args, _, states = norm.infer_shape(x=(2, 3, 4, 4))
    assert (args, states) == ([(2, 3, 4, 4), (3,), (3,), (1,), (1,)], [(3,), (3,)])
    data = mx.nd.array(np.arange(-6, 6).reshape(2, 3, 2)).astype("int8")
    values = [data, mx.nd.ones((3,)), mx.nd.ones((3,)), mx.nd.array([-127]), mx.nd.array([127])]
    names = norm.list_arguments()
    moving = {"q_moving_mean": mx.nd.zeros((3,)), "q_moving_var": mx.nd.full((3,), 4)}
    executor = norm.bind(mx.cpu(), dict(zip(names, values)), aux_states=moving)
    out, low, high = executor.forward()
    scale = max(abs(low.asscalar()), abs(high.asscalar())) / 127
    expected = np.clip(data.asnumpy() / 2 + 1, -1, 1)
    np.testing.assert_allclose(out.asnumpy() * scale, expected, atol=scale)


def test_long_chains_are_ordered_and_end_without_recursion() -> None:
    x = sym.var("x")
    for _ in range(50_000):
        x = x + 1
    assert x.list_arguments() == ["x"]
    assert x.infer_shape(x=(2, 3))[1] == [(2, 3)]
    del x
