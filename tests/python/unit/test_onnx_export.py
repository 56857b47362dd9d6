"""ONNX export: operators, networks and files compared with ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite import _core
from mxlite.gluon import nn
from onnx_models import session
from op_cases import all_cases
from op_table import Case

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from mxlite.onnx import OnnxError, export, export_model, get_operator_support  # noqa: E402

OPERATORS = set(get_operator_support())
ROWS_EACH = 3  # rows of each operator that are checked


def exportable(case: Case) -> bool:
    """Return whether a row is of an operator and a dtype that ONNX has.

    Quantized operators can only be exported in a calibrated network: test_quantization_onnx.py.
    """
    if case.error is not None or case.check is not None or case.training or not case.inputs:
        return False
    floats = [a for a in case.inputs if a.dtype.kind == "f"]
    own = _core.describe_op(case.name)["name"]
    return (
        own in OPERATORS
        and not own.startswith(("_contrib_quantize", "_contrib_dequantize", "_sg_mkldnn"))
        and bool(floats)
        and "float32" in case.dtypes
        and all(a.size and np.isfinite(a).all() for a in floats)
    )


def rows() -> list[Case]:
    """Return some rows of each operator."""
    by_name: dict[str, list[Case]] = {}
    for case in filter(exportable, all_cases()):
        by_name.setdefault(case.name, []).append(case)
    return [case for cases in by_name.values() for case in cases[:: -(-len(cases) // ROWS_EACH)]]


# Parts of the errors for what ONNX lacks.
REFUSED = (
    "has no equivalent",
    "axis must be -2",
)


def test_operators_match_onnxruntime(tmp_path: Path) -> None:
    """Export all rows in one test: a test for each would take longer to set up than to run."""
    outcome: Counter[str] = Counter()
    for case in rows():
        arrays = [
            mx.nd.array(a, dtype="float32" if a.dtype.kind == "f" else a.dtype) for a in case.inputs
        ]
        variables = [mx.sym.var(f"x{i}", shape=a.shape or None) for i, a in enumerate(arrays)]
        symbol = _core.compose(case.name, tuple(variables), dict(case.params))
        params = {"x1": arrays[1]} if case.name == "RNN" else {}
        inputs = [arrays[int(n[1:])] for n in symbol.list_inputs() if n not in params]
        try:
            export(symbol, *inputs, path=tmp_path / "case.onnx", params=params)
            outcome["equal"] += 1
        except OnnxError as error:
            assert any(text in str(error) for text in REFUSED), f"{case}: {error}"
            outcome["refused"] += 1
    assert outcome["equal"] > 250 and outcome["refused"] < 12, outcome


NETWORKS = {
    "alexnet": 67,
    "densenet121": 32,
    "inceptionv3": 299,
    "mobilenet0.25": 32,
    "mobilenetv2_0.25": 32,
    "resnet18_v1": 32,
    "resnet18_v2": 32,
    "squeezenet1.0": 224,
    "vgg11_bn": 32,
}


def network(name: str) -> tuple[mx.gluon.HybridBlock, mx.nd.NDArray]:
    """Return a network of the model zoo with random weights and statistics, and an input."""
    net = mx.gluon.model_zoo.vision.get_model(name, classes=10)
    net.initialize(mx.init.Xavier())
    x = mx.nd.random.uniform(-1, 1, shape=(2, 3, NETWORKS[name], NETWORKS[name]))
    if name == "densenet121":  # it ends with a window of 7 x 7 for pictures of 224 x 224
        x = mx.nd.random.uniform(-1, 1, shape=(1, 3, 224, 224))
    with mx.autograd.train_mode():
        net(x)
    return net, x


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_match_onnxruntime_at_any_batch_size(name: str, tmp_path: Path) -> None:
    net, x = network(name)
    path = export(net, x, path=tmp_path / "net.onnx", dynamic_axes={"data": {0: "batch"}})
    model = onnx.load(path)
    assert [entry.name for entry in model.graph.input] == ["data"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert model.opset_import[0].version == 17
    more = mx.nd.concat(x, 2 * x, x[:1], dim=0)
    found = session(path).run(None, {"data": more.asnumpy()})[0]
    expected = net(more).asnumpy()
    np.testing.assert_allclose(found, expected, 1e-3, 1e-4 * np.abs(expected).max())


def test_all_unsupported_operators_are_in_one_error(tmp_path: Path) -> None:
    data = mx.sym.var("data")
    first = mx.sym.erfinv(data, name="first")
    symbol = mx.sym.Group([mx.sym.gammaln(first, name="second"), mx.sym.relu(first)])
    with pytest.raises(OnnxError, match=r"erfinv of first .*, gammaln of second "):
        export(symbol, mx.nd.ones(3), path=tmp_path / "no.onnx")


def test_fix_gamma_uses_ones(tmp_path: Path) -> None:
    net = nn.HybridSequential()
    net.add(nn.BatchNorm(scale=False, in_channels=3))
    net.initialize()
    net[0].gamma.set_data(mx.nd.array([5, 6, 7]))
    export(net, mx.nd.random.uniform(shape=(2, 3, 4)), path=tmp_path / "bn.onnx")


@pytest.mark.parametrize("opset", [13, 15, 16, 17, 18, 20, 21])
def test_opsets(opset: int, tmp_path: Path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3), nn.GroupNorm(2), nn.LayerNorm(axis=1), nn.GELU(), nn.Flatten())
    net.add(nn.Dense(5), nn.LayerNorm(), nn.HybridLambda(lambda F, x: F.mean(x, axis=1)))
    net.initialize(mx.init.Xavier())
    x = mx.nd.random.uniform(shape=(2, 3, 6, 6))
    path = export(net, x, path=tmp_path / "net.onnx", opset=opset)
    assert onnx.load(path).opset_import[0].version == opset


def test_export_model_of_files(tmp_path: Path) -> None:
    data = mx.sym.var("data")
    symbol = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(data, num_hidden=3, name="fc"), name="out")
    values = {"fc_weight": mx.nd.random.uniform(shape=(3, 4)), "fc_bias": mx.nd.ones(3)}
    prefix = str(tmp_path / "net")
    mx.model.save_checkpoint(prefix, 7, symbol, values, {})
    path = str(tmp_path / "net.onnx")
    files = (f"{prefix}-symbol.json", f"{prefix}-0007.params")
    assert export_model(*files, [(2, 4)], np.float32, path) == path
    model = onnx.load(path)
    onnx.checker.check_model(model)
    assert [entry.name for entry in model.graph.input] == ["data"]
    assert [entry.name for entry in model.graph.output] == ["out"]
    export_model(symbol, [values, {}], [(2, 4)], np.float32, path, dynamic=True,
                 dynamic_input_shapes=[("N", 4)])  # fmt: skip
    assert onnx.load(path).graph.output[0].type.tensor_type.shape.dim[0].dim_param == "N"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 2), "Input sym and params should either be files or objects"),
        ((mx.sym.var("x"), {}, []), r"in_shapes and in_types must be one for each input \(x\)"),
        (("a-symbol.json", "b.params"), "must be existing files, got 'a-symbol.json'"),
    ],
)
def test_bad_arguments_of_export_model(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        export_model(*arguments)


def test_external_data(tmp_path: Path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(50, in_units=40))
    net.initialize()
    for _ in range(2):  # the second file replaces the first one
        export(net, mx.nd.ones((1, 40)), path=tmp_path / "net.onnx", external_data=True)
    assert (tmp_path / "net.onnx.data").stat().st_size < 16384


def test_names_of_1x() -> None:
    assert mx.onnx.export_model is export_model
    assert mx.contrib.onnx.export_model is export_model
    assert mx.onnx.mx2onnx.get_operator_support is get_operator_support
