"""Mixed precision of symbols, modules and finished models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from custom_ops import custom
from mxlite import nd
from mxlite.contrib import amp
from test_amp import kind, small_net


@pytest.fixture(autouse=True)
def _amp_is_off_again() -> Iterator[None]:
    yield
    amp.switch_off()


@pytest.fixture
def bf16() -> None:
    amp.init("bfloat16")


def mlp() -> mx.sym.Symbol:
    x = mx.sym.var("data")
    x = mx.sym.FullyConnected(x, num_hidden=16, name="fc1")
    x = mx.sym.Activation(x, act_type="relu", name="relu1")
    x = mx.sym.BatchNorm(x, name="bn1", fix_gamma=False)
    x = mx.sym.FullyConnected(x, num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def test_symbols_get_casts_when_they_are_made(bf16: None) -> None:
    ops = [node["op"] for node in json.loads(mlp().tojson(False))["nodes"]]
    assert ops.count("amp_cast") >= 6
    names = mlp().list_arguments()
    assert names == ["data", "fc1_weight", "fc1_bias", "bn1_gamma", "bn1_beta", "fc2_weight",
                     "fc2_bias", "softmax_label"]  # fmt: skip
    clean = [node["op"] for node in json.loads(mlp().tojson())["nodes"]]
    assert "amp_cast" not in clean


def test_shapes_and_types_through_casts(bf16: None) -> None:
    symbol = mlp()
    shapes, _, _ = symbol.infer_shape(data=(5, 7))
    assert dict(zip(symbol.list_arguments(), shapes))["fc1_weight"] == (16, 7)
    types, outputs, _ = symbol.infer_type(data="float32")
    assert set(types) == {np.float32}
    assert outputs == [np.float32]


def test_module_trains(bf16: None) -> None:
    rng = np.random.RandomState(0)
    x = rng.randn(300, 8).astype("float32")
    y = x[:, :3].argmax(axis=1).astype("float32")
    module = mx.mod.Module(mlp(), label_names=["softmax_label"])
    iterator = mx.io.NDArrayIter(x, y, 50, label_name="softmax_label")
    module.fit(iterator, num_epoch=15, optimizer="adam",
               optimizer_params={"learning_rate": 0.02})  # fmt: skip
    assert dict(module.score(iterator, "acc"))["accuracy"] > 0.95
    for value in module.get_params()[0].values():
        assert kind(value) == "float32"


def params_of(symbol: mx.sym.Symbol) -> tuple[dict[str, Any], dict[str, Any]]:
    shapes, _, aux_shapes = symbol.infer_shape(data=(5, 7))
    rng = np.random.RandomState(1)
    args = {
        name: nd.array(rng.uniform(-1, 1, shape))
        for name, shape in zip(symbol.list_arguments(), shapes)
        if name not in ("data", "softmax_label")
    }
    aux = {name: nd.ones(shape) for name, shape in zip(symbol.list_auxiliary_states(), aux_shapes)}
    return args, aux


def outputs_of(symbol: Any, args: Any, aux: Any, x: Any) -> tuple[Any, list[str]]:
    executor = symbol.bind(
        mx.cpu(), {**args, "data": x, "softmax_label": nd.zeros((5,))}, aux_states=aux
    )
    inner = symbol.get_internals()["fc1_output"].bind(
        mx.cpu(), {"data": x, "fc1_weight": args["fc1_weight"], "fc1_bias": args["fc1_bias"]}
    )
    return executor.forward()[0].asnumpy(), [kind(inner.forward()[0])]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_convert_model(dtype: str) -> None:
    symbol = mlp()
    args, aux = params_of(symbol)
    x = nd.random.uniform(-1, 1, shape=(5, 7))
    plain, kinds = outputs_of(symbol, args, aux, x)
    assert kinds == ["float32"]
    converted, new_args, new_aux = amp.convert_model(symbol, args, aux, target_dtype=dtype)
    mixed, kinds = outputs_of(converted, new_args, new_aux, x)
    assert kinds == [dtype]
    rounding = {"float16": 2e-3, "bfloat16": 1.6e-2}[dtype]  # two steps of 1
    np.testing.assert_allclose(mixed, plain, rtol=0, atol=rounding)
    assert {kind(value) for value in new_args.values()} == {"float32"}

    converted, new_args, _ = amp.convert_model(
        symbol, args, aux, target_dtype=dtype, cast_optional_params=True
    )
    assert kind(new_args["fc1_weight"]) == dtype
    assert kind(new_args["bn1_gamma"]) == "float32"
    mixed, _ = outputs_of(converted, new_args, aux, x)
    np.testing.assert_allclose(mixed, plain, rtol=0, atol=rounding)


def test_excluded_nodes_stay_in_float32() -> None:
    symbol = mlp()
    args, aux = params_of(symbol)
    converted, args, aux = amp.convert_model(
        symbol, args, aux, target_dtype="bfloat16", excluded_sym_names=["fc1"]
    )
    _, kinds = outputs_of(converted, args, aux, nd.ones((5, 7)))
    assert kinds == ["float32"]
    with pytest.raises(ValueError, match="'fc9'"):
        amp.convert_symbol(symbol, "bfloat16", excluded_sym_names=["fc9"])


def test_a_value_is_cast_once() -> None:
    x = mx.sym.var("data")
    weights = [mx.sym.FullyConnected(x, num_hidden=2, name=f"fc{i}") for i in range(3)]
    converted = amp.convert_symbol(mx.sym.Group(weights), "bfloat16")
    casts = [name for name in converted.get_internals().list_outputs() if "data_amp_cast" in name]
    assert casts == ["data_amp_cast_bfloat16_output"]


@pytest.mark.parametrize("optional", [False, True])
def test_convert_hybrid_block(optional: bool) -> None:
    net = small_net(hybrid=True)
    x = nd.random.uniform(shape=(4, 1, 8, 8))
    plain = net(x).asnumpy()
    converted = amp.convert_hybrid_block(
        net, "bfloat16", ctx=mx.cpu(), cast_optional_params=optional
    )
    out = converted(x)
    assert kind(out) == "bfloat16"
    np.testing.assert_allclose(out.astype("float32").asnumpy(), plain, atol=3e-2)
    weight = next(
        v for k, v in converted.collect_params().items() if "dense" in k and "weight" in k
    )
    assert kind(weight.data()) == ("bfloat16" if optional else "float32")
    with pytest.raises(mx.MXNetError, match="hybridize"):
        amp.convert_hybrid_block(small_net(hybrid=True))


def test_convert_bucketing_module() -> None:
    def generate(length: int) -> Any:
        x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc", flatten=False)
        x = mx.sym.mean(x, axis=1)
        return mx.sym.SoftmaxOutput(x, name="softmax"), ["data"], ["softmax_label"]

    module = mx.mod.BucketingModule(generate, default_bucket_key=4)
    shapes = [("data", (2, 4, 5))], [("softmax_label", (2,))]
    module.bind(*shapes)
    module.init_params()
    batch = mx.io.DataBatch([nd.ones((2, 4, 5))], [nd.zeros(2)], bucket_key=4,
                            provide_data=shapes[0], provide_label=shapes[1])  # fmt: skip
    module.forward(batch, is_train=False)
    plain = module.get_outputs()[0].asnumpy()
    converted = amp.convert_bucketing_module(module, "bfloat16")
    converted.bind(*shapes, for_training=False)
    converted.forward(batch, is_train=False)
    np.testing.assert_allclose(converted.get_outputs()[0].asnumpy(), plain, atol=1e-2)
    ops = [n.op for n in converted._curr_module.symbol._nodes()]
    assert "amp_cast" in ops


@pytest.mark.parametrize(
    ("lists", "match"),
    [
        ({"fp32_ops": ["elemwise_add"]}, "elemwise_add given, which take the widest type"),
        ({"target_dtype_ops": ["broadcast_mul"]}, "broadcast_mul given, which take the widest"),
        (
            {"fp32_ops": ["Activation"],
             "conditional_fp32_ops": [("Activation", "act_type", ["selu"])]},
            "one list, got Activation in two",
        ),
        (
            {"target_dtype_ops": ["FullyConnected"], "fp32_ops": ["FullyConnected"]},
            "one list, got FullyConnected in two",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [AssertionError, ValueError])
def test_lists_that_contradict_each_other_are_refused(
    lists: dict[str, Any], match: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=match):
        amp.convert_symbol(mlp(), "bfloat16", **lists)


def test_converted_casts_are_named_after_the_output_they_read() -> None:
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="f")
    converted = amp.convert_symbol(mx.sym.softmax(dense, name="sm"), "bfloat16")
    names = converted.get_internals().list_outputs()
    assert "data_amp_cast_bfloat16_output" in names
    assert "f_output_amp_cast_float32_output" in names


def test_loops_and_operators_in_python_run_in_float32() -> None:
    def forward(self, is_train, req, in_data, out_data, aux):  # type: ignore[no-untyped-def]
        self.assign(out_data[0], req[0], in_data[0] * 2)

    states = {"list_auxiliary_states": lambda self: ["count"]}
    states["infer_shape"] = lambda self, in_shape: (in_shape, [in_shape[0]], [(1,)])
    custom("amp_symbol_double", forward, **states)

    def network() -> mx.sym.Symbol:
        dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, no_bias=True, name="f")
        custom = mx.sym.Custom(dense, op_type="amp_symbol_double", name="c")
        total = mx.sym.contrib.foreach(lambda x, s: (x + s, s), dense, mx.sym.var("s"))[0]
        return mx.sym.Group([custom, total])

    x = nd.array([[1, 2, 3], [4, 5, 6]])
    arrays = {"data": x, "f_weight": nd.ones((2, 3)), "s": nd.ones((2,))}
    converted = amp.convert_symbol(network(), "bfloat16")
    names = [node.name for node in converted._nodes()]
    assert names.count("f_output_amp_cast_float32") == 1
    assert "c_count_amp_cast_float32" not in names
    executor = converted.bind(mx.cpu(), arrays, aux_states={"c_count": nd.zeros(1)})
    doubled, total = executor.forward()
    assert kind(doubled) == kind(total) == "float32"
    np.testing.assert_array_equal(doubled.asnumpy(), [[12, 12], [30, 30]])
    np.testing.assert_array_equal(total.asnumpy(), [[7, 7], [16, 16]])


@pytest.mark.parametrize(
    ("op_type", "dtype"), [("amp_exact", "float32"), ("amp_rough", "bfloat16")]
)
def test_conditions_on_custom_operators_hold(op_type: str, dtype: str) -> None:
    def forward(self, is_train, req, in_data, out_data, aux):  # type: ignore[no-untyped-def]
        self.assign(out_data[0], req[0], in_data[0])

    custom(op_type, forward)
    conditions, fp32 = [("Custom", "op_type", ["amp_exact"])], ["softmax"]
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, no_bias=True, name="f")
    same = mx.sym.Custom(dense, op_type=op_type)
    converted = amp.convert_symbol(same, "bfloat16", fp32_ops=fp32, conditional_fp32_ops=conditions)
    arrays = {"data": nd.ones((2, 3)), "f_weight": nd.ones((2, 3))}
    assert kind(converted.bind(mx.cpu(), arrays).forward()[0]) == dtype
    amp.init("bfloat16", fp32_ops=fp32, conditional_fp32_ops=conditions)
    assert kind(nd.Custom(nd.ones((2,)).astype("bfloat16"), op_type=op_type)) == dtype
    composed = mx.sym.Custom(mx.sym.var("x", dtype="bfloat16"), op_type=op_type)
    x = nd.ones((2,)).astype("bfloat16")
    assert kind(composed.bind(mx.cpu(), {"x": x}).forward()[0]) == dtype


def test_casts_in_a_loop_belong_to_its_body(bf16: None) -> None:
    data, state = mx.sym.var("data"), mx.sym.var("state")
    sums = mx.sym.contrib.foreach(lambda x, s: (x + s, s), data, state)[0]
    executor = sums.bind(mx.cpu(), {"data": nd.ones((3, 2)), "state": nd.ones((2,))})
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), np.full((3, 2), 2.0))
