"""Quantized networks in ONNX Runtime: float layers between QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from mxlite.contrib import quantization
from mxlite.gluon import nn

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from mxlite.onnx import OnnxError, export, import_to_gluon  # noqa: E402


def _quantized(name: str, mode: str) -> tuple[mx.gluon.SymbolBlock, nd.NDArray]:
    mx.random.seed(0)
    net = mx.gluon.model_zoo.vision.get_model(name, classes=10)
    net.initialize(mx.init.Xavier())
    size = 224 if name.startswith("squeezenet") else 64
    batch = nd.random.uniform(-1, 1, shape=(1, 3, size, size))
    with mx.autograd.train_mode():
        net(batch)
    return quantization.quantize_net_v2(net, calib_data=[batch], calib_mode=mode), batch


@pytest.mark.parametrize(
    ("name", "mode"),
    [("resnet18_v1", "naive"), ("squeezenet1.0", "naive")],
)
def test_networks_match_onnxruntime(name: str, mode: str, tmp_path: Path) -> None:
    net, batch = _quantized(name, mode)
    path = export(net, batch, path=tmp_path / "net.onnx", check=False)
    ops = Counter(node.op_type for node in onnx.load(path).graph.node)
    assert ops["QuantizeLinear"] >= ops["Conv"]
    # The runtime's int8 kernels saturate on some processors; unoptimized graphs run in float32.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    found = session.run(None, {"data": batch.asnumpy()})[0]
    net.hybridize(False)  # native kernels, which keep all bits of the weights
    expected = net(batch).asnumpy()
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def test_ranges_must_be_known(tmp_path: Path) -> None:
    net, batch = _quantized("resnet18_v1", "none")
    with pytest.raises(OnnxError, match="quantize with calib_mode naive or entropy"):
        export(net, batch, path=tmp_path / "net.onnx")


def _ops_in_runtime(path: str, folder: Path) -> Counter[str]:
    """Return the operators that ONNX Runtime computes after all of its optimizations."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 3  # it warns that the optimized file is for this processor only
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return Counter(n.op_type for n in onnx.load(options.optimized_model_filepath).graph.node)


def test_onnxruntime_computes_layers_on_int8(tmp_path: Path) -> None:
    """Two convolutions with unsigned results read the signed result of the first one."""
    net, branches = nn.HybridSequential(), mx.gluon.contrib.nn.HybridConcurrent(axis=1)
    branches.add(*(nn.Conv2D(8, 3, activation="relu") for _ in range(2)))
    net.add(nn.Conv2D(8, 3), branches, nn.Flatten())
    net.initialize(mx.init.Xavier())
    batch = nd.random.uniform(-1, 1, shape=(1, 3, 12, 12))
    own = quantization.quantize_net_v2(net, calib_data=[batch], calib_mode="naive")
    path = export(own, batch, path=tmp_path / "net.onnx", check=False)
    ops = _ops_in_runtime(path, tmp_path)
    assert ops["QLinearConv"] == 3 and not {"Conv", "FusedConv"} & set(ops)


@pytest.mark.parametrize("activation", [None, "relu"])
def test_onnxruntime_adds_to_convolutions_on_int8(activation: str | None, tmp_path: Path) -> None:
    data = mx.sym.var("data")
    first = mx.sym.Convolution(data, kernel=(1, 1), num_filter=8, name="first")
    if activation:
        first = mx.sym.relu(first)
    total = mx.sym.Convolution(first, kernel=(1, 1), num_filter=8, name="second") + first
    last = mx.sym.Pooling(mx.sym.relu(total) if activation else total, kernel=(2, 2))
    net = mx.gluon.SymbolBlock(last, [data])
    net.initialize(mx.init.Uniform(0.5))
    batch = nd.random.uniform(-1, 1, shape=(1, 3, 12, 12))
    own = quantization.quantize_net_v2(net, calib_data=[batch], calib_mode="naive")
    path = export(own, batch, path=tmp_path / "net.onnx", check=False)
    ops = _ops_in_runtime(path, tmp_path)
    assert (ops["QLinearConv"], ops["QLinearAdd"]) == (2, 1)
    found, expected = import_to_gluon(path)(batch).asnumpy(), own(batch).asnumpy()
    # Rounding before the sum adds less than a step of twice the range.
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def test_onnxruntime_multiplies_int8_along_the_last_axis(tmp_path: Path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(16, flatten=False, activation="relu"), nn.Dense(8, flatten=False))
    net.initialize(mx.init.Xavier())
    batch = nd.random.uniform(-1, 1, shape=(2, 5, 12))
    own = quantization.quantize_net_v2(net, calib_data=[batch], calib_mode="naive")
    path = export(own, batch, path=tmp_path / "net.onnx", check=False)
    ops = _ops_in_runtime(path, tmp_path)
    assert not {"Gemm", "MatMul", "FusedGemm", "FusedMatMul"} & set(ops), ops
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found, expected = session.run(None, {"data": batch.asnumpy()})[0], own(batch).asnumpy()
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def test_batch_norm_of_int8_data(tmp_path: Path) -> None:
    """BatchNorm stays a layer if a convolution does not precede it, as in ResNet v2."""
    net = nn.HybridSequential()
    net.add(nn.MaxPool2D(), nn.BatchNorm(), nn.Conv2D(8, 3))
    net.initialize(mx.init.Xavier())
    batch = nd.random.uniform(-1, 1, shape=(4, 3, 12, 12))
    with mx.autograd.train_mode():
        net(batch)
    own = quantization.quantize_net_v2(net, calib_data=[batch], calib_mode="naive")
    path = export(own, batch, path=tmp_path / "net.onnx", check=False)
    names = [node.op_type for node in onnx.load(path).graph.node]
    at = names.index("BatchNormalization")
    assert names[at - 1 : at + 2 : 2] == ["DequantizeLinear", "QuantizeLinear"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found, expected = session.run(None, {"data": batch.asnumpy()})[0], own(batch).asnumpy()
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def test_tables_of_embeddings_are_stored_as_int8(tmp_path: Path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Embedding(20, 8), nn.Dense(4, flatten=False))
    net.initialize(mx.init.Uniform(1))
    batch = nd.array([[1, 19, 0]])
    own = quantization.quantize_net_v2(net, calib_data=[batch], calib_mode="naive")
    path = export(own, batch, path=tmp_path / "net.onnx", check=False)
    graph = onnx.load(path).graph
    table = next(t for t in graph.initializer if list(t.dims) == [20, 8])
    assert table.data_type in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
    assert [n.op_type for n in graph.node if table.name in n.input] == ["Gather"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found, expected = session.run(None, {"data": batch.asnumpy()})[0], own(batch).asnumpy()
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
