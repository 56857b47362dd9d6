"""ONNX import of quantized operators: arithmetic as ONNX defines it, and layers on int8."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite.contrib import quantization
from mxlite.gluon import nn
from onnx_models import parsed

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from mxlite.onnx import export, import_model, import_to_gluon  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

_RNG = np.random.default_rng(7)


def _ints(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return _RNG.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def _imported(model: Any, constants: dict[str, np.ndarray], folder: Path) -> str:
    for name, array in constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    path = str(folder / "model.onnx")
    onnx.save(model, path)
    return path


def _ops(path: str) -> Counter[str]:
    return Counter(node.op for node in import_model(path)[0]._nodes() if node.op)


# Weights are even: processors without VNNI compute with their halves. For each graph: its text, the
# shape of x, and operators that it becomes.
_SCALES = {
    "s": np.float32(0.02), "t": np.float32(0.05), "z": np.int8(0), "u": np.uint8(0),
    "a": np.uint8(7), "e": np.uint8(128), "ws": _RNG.uniform(0.01, 0.02, 4).astype("float32"),
    "wz": np.zeros(4, "int8"), "w": _ints((4, 3, 3, 3), "int8") & -2,
    "b": _RNG.normal(size=4).astype("float32"), "d": _ints((3, 4), "int8") & -2,
    "b3": _RNG.normal(size=(1, 1, 4)).astype("float32"), "r": np.float32(0.3),
    "six": np.float32(6), "zero": np.float32(0),
}  # fmt: skip
_QUANTIZE = "q = QuantizeLinear(x, s, z) f = DequantizeLinear(q, s, z) "
_WEIGHT = "v = DequantizeLinear<axis = 0>(w, ws, wz) "
_CONV = _QUANTIZE + _WEIGHT + "c = Conv<pads = [1, 1, 1, 1]>(f, v, b) "
GRAPHS: dict[str, tuple[str, tuple[int, ...], set[str]]] = {
    "convolution": (_CONV + "y = Identity(c)", (2, 3, 6, 6), {"_sg_mkldnn_conv"}),
    "convolution, relu6": (
        _CONV + "h = Clip(c, zero, six) o = QuantizeLinear(h, r, u) "
        "y = DequantizeLinear(o, r, u)",
        (2, 3, 6, 6), {"_sg_mkldnn_conv"},
    ),
    "sum": (
        _CONV + "k = Conv<pads = [1, 1, 1, 1]>(f, v) h = Add(c, k) g = Relu(h) "
        "o = QuantizeLinear(g, r, u) y = DequantizeLinear(o, r, u)",
        (2, 3, 6, 6), {"_sg_mkldnn_conv"},
    ),
    "linear": (
        _QUANTIZE + "v = DequantizeLinear<axis = 1>(d, ws, wz) m = MatMul(f, v) y = Add(b, m)",
        (2, 5, 3), {"_sg_mkldnn_fully_connected"},
    ),
    "pooling": (
        _QUANTIZE + "p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(f) "
        "o = QuantizeLinear(p, s, z) y = DequantizeLinear(o, s, z)",
        (2, 3, 6, 6), {"_contrib_quantized_pooling"},
    ),
    "zero point": (
        "q = QuantizeLinear(x, s, a) f = DequantizeLinear(q, s, a) " + _WEIGHT
        + "y = Conv<pads = [1, 1, 1, 1]>(f, v, b)", (2, 3, 6, 6), {"Convolution"},
    ),
    "middle zero point": (
        "q = QuantizeLinear(x, s, e) f = DequantizeLinear(q, s, e) " + _WEIGHT
        + "c = Conv<pads = [1, 1, 1, 1]>(f, v, b) o = QuantizeLinear(c, r, e) "
        "y = DequantizeLinear(o, r, e)",
        (2, 3, 6, 6), {"_sg_mkldnn_conv"},
    ),
    "middle zero point, integers are read": (
        "q = QuantizeLinear(x, s, e) f = DequantizeLinear(q, s, e) " + _WEIGHT
        + "c = Conv<pads = [1, 1, 1, 1]>(f, v, b) k = Cast<to = 1>(q) m = ReduceMax(k) "
        "y = Add(c, m)",
        (2, 3, 6, 6), {"Convolution"},
    ),
    "linear, bias with all axes": (
        _QUANTIZE + "v = DequantizeLinear<axis = 1>(d, ws, wz) m = MatMul(f, v) y = Add(m, b3)",
        (2, 5, 3), {"_sg_mkldnn_fully_connected"},
    ),
    "linear, bias with more axes": (
        _QUANTIZE + "v = DequantizeLinear<axis = 1>(d, ws, wz) m = MatMul(f, v) y = Add(m, b3)",
        (5, 3), {"broadcast_add"},
    ),
    "asymmetric padding": (
        _QUANTIZE + _WEIGHT + "y = Conv<pads = [0, 1, 1, 0]>(f, v, b)", (2, 3, 6, 6),
        {"Convolution"},
    ),
    "two readers": (_CONV + "h = Relu(c) y = Add(h, c)", (2, 3, 6, 6), {"_sg_mkldnn_conv", "relu"}),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_layers_on_int8(name: str, tmp_path: Path) -> None:
    text, shape, ops = GRAPHS[name]
    sizes = ", ".join(map(str, shape))
    model = parsed(f"g (float[{sizes}] x) => (float[] y) {{ {text} }}")
    used = {i for node in model.graph.node for i in node.input}
    path = _imported(model, {n: np.asarray(a) for n, a in _SCALES.items() if n in used}, tmp_path)
    x = _RNG.normal(size=shape).astype("float32")
    model.opset_import[0].version = 21  # onnx's evaluator lacks the operators of older opsets
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    block = import_to_gluon(path)
    found = _ops(path)
    assert ops <= set(found)
    assert any("_sg_" in op for op in ops) == any("_sg_" in op for op in found)
    step = 0.31 if "o = QuantizeLinear" in text and name != "pooling" else 1e-4
    for hybridize in (False, True):
        block.hybridize(hybridize)
        difference = np.abs(block(mx.nd.array(x)).asnumpy() - expected)
        # Where a sum is nearly half a step, another order of additions rounds to another step.
        assert difference.max() <= step and (difference > 1e-4).mean() < 0.01


INTEGERS = {
    "ConvInteger": ("ConvInteger", [((1, 3, 5, 5), "uint8"), ((4, 3, 3, 3), "uint8")], [9, 5]),
    "many products": ("MatMulInteger", [((3, 900), "uint8"), ((900, 4), "int8")], [200, -3]),
    "a row of zero points": ("MatMulInteger", [((3, 8), "int8"), ((8, 4), "int8")], [[1, 2, 3], 5]),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_products_are_exact(name: str, tmp_path: Path) -> None:
    op, given, zeros = INTEGERS[name]
    x, w = (_ints(shape, dtype) for shape, dtype in given)
    kind, sizes = given[0][1], ", ".join(map(str, x.shape))
    model = parsed(f"g ({kind}[{sizes}] x) => (int32[] y) {{ y = {op}(x, w, xz, wz) }}")
    points = [np.asarray(zero, dtype) for zero, (_, dtype) in zip(zeros, given)]
    path = _imported(model, {"w": w, "xz": points[0], "wz": points[1]}, tmp_path)
    found = import_to_gluon(path)(mx.nd.array(x, dtype=kind)).asnumpy()
    a = x.astype("int64") - points[0].reshape(-1, *[1] * (points[0].ndim))
    b = w.astype("int64") - points[1]
    if op == "MatMulInteger":
        expected = a @ b
    else:
        windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), axis=(2, 3))
        expected = np.einsum("nchwij,fcij->nfhw", windows, b)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)


def test_quantized_network_survives_a_round_trip(tmp_path: Path) -> None:
    mx.random.seed(0)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D())
    net.add(nn.Conv2D(8, 3), nn.Flatten(), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    x = mx.nd.random.uniform(-1, 1, shape=(2, 3, 8, 8))
    own = quantization.quantize_net_v2(net, calib_data=[x], calib_mode="naive")
    path = export(own, x, path=tmp_path / "net.onnx", check=False)
    counts = _ops(path)
    assert (counts["_sg_mkldnn_conv"], counts["_sg_mkldnn_fully_connected"]) == (2, 1)
    assert not {"Convolution", "FullyConnected"} & set(counts)
    expected = own(x).asnumpy()
    found = import_to_gluon(path)(x).asnumpy()
    # ONNX has an int32 bias, mxlite a float32 one.
    np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())
