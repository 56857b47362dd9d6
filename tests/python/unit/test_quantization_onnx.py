"""Quantized networks in ONNX Runtime: float layers between QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from mxlite.contrib import quantization

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from mxlite.onnx import OnnxError, export  # noqa: E402


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
