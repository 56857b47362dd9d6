"""Recurrent layers in ONNX: what the operators lack, both ways, equal to ONNX Runtime."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite.gluon import rnn
from onnx_models import session
from pairing import pairs

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from mxlite.onnx import OnnxError, export, import_to_gluon  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

TIME, BATCH, SIZE, HIDDEN = 5, 3, 4, 6

EXPORTED: dict[str, dict[str, Any]] = {
    "projection": {"projection_size": 3},
    "two directions": {"projection_size": 3, "bidirectional": True, "num_layers": 2},
    "lengths": {"projection_size": 3, "bidirectional": True, "use_sequence_length": True},
    "clipped states": {"state_clip_min": -0.1, "state_clip_max": 0.2, "num_layers": 2},
}


@pytest.mark.parametrize("name", EXPORTED)
def test_an_lstm_that_onnx_lacks_is_exported(name: str, tmp_path: Path) -> None:
    options = EXPORTED[name]
    layer = rnn.LSTM(HIDDEN, **options)
    layer.initialize(mx.init.Uniform(0.7))
    inputs = [mx.nd.random.normal(shape=(TIME, BATCH, SIZE))]
    lengths = {}
    if options.get("use_sequence_length"):
        lengths = {"sequence_length": mx.nd.array([5, 2, 1])}
    states = layer.begin_state(BATCH)
    states = [mx.nd.random.normal(shape=state.shape) for state in states]
    if lengths:
        inputs += [states, lengths["sequence_length"]]
        path = export(layer, *inputs, path=tmp_path / "net.onnx")
    else:
        path = export(layer, *inputs, states, path=tmp_path / "net.onnx")
    out, last = layer(inputs[0], states, **lengths)
    found = import_to_gluon(path)(inputs[0], *states, *lengths.values())
    for array, expected in pairs(found, [out, *last]):
        np.testing.assert_allclose(array.asnumpy(), expected.asnumpy(), 1e-4, 1e-5)


def model(op: str, direction: str, lengths: bool, states: bool, **attrs: Any) -> tuple[Any, Any]:
    """Return a model of one layer with random weights, and its inputs."""
    rng = np.random.RandomState(0)
    gates, count = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], 2 if direction == "bidirectional" else 1
    shapes = {
        "w": (count, gates * HIDDEN, SIZE),
        "r": (count, gates * HIDDEN, HIDDEN),
        "b": (count, 2 * gates * HIDDEN),
    }
    if attrs.pop("peepholes", False):
        shapes["p"] = (count, 3 * HIDDEN)
    values = {
        name: rng.uniform(-0.7, 0.7, shape).astype("float32") for name, shape in shapes.items()
    }
    fed = {"x": rng.randn(TIME, BATCH, SIZE).astype("float32")}
    names = ["x", "w", "r", "b", "", "", "", ""]
    if lengths:
        fed["lengths"], names[4] = np.array([5, 1, 3], "int32"), "lengths"
    for i, name in enumerate(("h", "c")[: 2 if op == "LSTM" else 1]):
        if states:
            fed[name] = rng.randn(count, BATCH, HIDDEN).astype("float32")
            names[5 + i] = name
    if "p" in values:
        names[7] = "p"
    while not names[-1]:
        names.pop()
    outputs = ["y", "y_h", "y_c"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, names, outputs, hidden_size=HIDDEN, direction=direction, **attrs)
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in fed.items()
    ]
    graph = helper.make_graph(
        [node], "g", infos,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in values.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), fed


KINDS: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {}),
    ("LSTM", {"peepholes": True, "clip": 0.5}),
    ("LSTM", {"activations": ["HardSigmoid", "Relu", "Softsign"]}),
    ("GRU", {}),
    ("GRU", {"linear_before_reset": 1}),
    ("GRU", {"linear_before_reset": 1, "activations": ["Sigmoid", "Softsign"]}),
    ("RNN", {"activations": ["Relu"]}),
    ("RNN", {"activations": ["LeakyRelu"], "activation_alpha": [0.3]}),
]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "attrs"), KINDS)
def test_layers_are_imported(op: str, attrs: Any, direction: str, tmp_path: Path) -> None:
    if direction == "bidirectional":
        attrs = {key: v * 2 if isinstance(v, list) else v for key, v in attrs.items()}
    for lengths, states in product((False, True), (False, True)):
        made, fed = model(op, direction, lengths, states, **attrs)
        path = str(tmp_path / "m.onnx")
        onnx.save(made, path)
        inputs = [mx.nd.array(array, dtype=array.dtype) for array in fed.values()]
        found = import_to_gluon(path)(*inputs)
        for array, expected in pairs(found, session(path).run(None, fed)):
            np.testing.assert_allclose(array.asnumpy(), expected, 1e-3, 1e-5)


def test_an_unknown_activation(tmp_path: Path) -> None:
    made, _ = model("RNN", "forward", False, False, activations=["Affine"])
    onnx.save(made, tmp_path / "m.onnx")
    with pytest.raises(OnnxError, match="activations must be of .*, got Affine"):
        import_to_gluon(tmp_path / "m.onnx")
