"""ONNX import: round trips, training, and files that are damaged or hostile."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite.gluon import nn, rnn
from mxlite.gluon.contrib.nn import transformer
from mxlite.ndarray.structure import flatten
from onnx_models import parsed, session

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from mxlite.onnx import (  # noqa: E402
    OnnxError,
    export,
    get_model_metadata,
    import_model,
    import_to_gluon,
)
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def small_network() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D())
    net.add(nn.Flatten(), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    return net


@pytest.fixture
def exported(tmp_path: Path) -> tuple[nn.HybridSequential, str]:
    net = small_network()
    path = export(net, mx.nd.ones((2, 3, 8, 8)), path=tmp_path / "net.onnx", check=False,
                  dynamic_axes={"data": {0: "N"}})  # fmt: skip
    return net, path


NETWORKS = {"mobilenetv2_0.25": 32, "resnet18_v2": 32, "alexnet": 67}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_survive_a_round_trip(name: str, tmp_path: Path) -> None:
    net = mx.gluon.model_zoo.vision.get_model(name, classes=10)
    net.initialize(mx.init.Xavier())
    size = NETWORKS[name]
    x = mx.nd.random.uniform(-1, 1, shape=(2, 3, size, size))
    path = export(net, x, path=tmp_path / "net.onnx", check=False, dynamic_axes={"data": [0]})
    block = import_to_gluon(path, mx.cpu())
    for data in (x, mx.nd.concat(x, x, x, dim=0)):
        expected = net(data).asnumpy()
        np.testing.assert_allclose(block(data).asnumpy(), expected, 1e-4, 1e-5)


IDS = mx.nd.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
SMALL = {"vocab_size": 20, "units": 8, "num_layers": 2, "num_heads": 2, "max_length": 8}
SEQUENCE = mx.nd.random.normal(shape=(5, 2, 4))
MODELS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "bert": (
        transformer.BERTModel(**SMALL, hidden_size=16),
        (IDS, mx.nd.zeros((2, 5)), mx.nd.array([5, 3])),
        {},
    ),
    "gpt": (transformer.GPTModel(**SMALL), (IDS,), {"data": {0: "N"}}),
    "lstm": (rnn.LSTM(3, 2, bidirectional=True), (SEQUENCE,), {}),
    "gru": (rnn.GRU(3, layout="NTC"), (SEQUENCE,), {"data": {0: "N"}}),
    "rnn": (rnn.RNN(3, 2, activation="relu"), (SEQUENCE,), {}),
    "lstm with states": (rnn.LSTM(3), (SEQUENCE, [mx.nd.ones((1, 2, 3))] * 2), {}),
}


@pytest.mark.parametrize("name", MODELS)
def test_sequence_models_survive_a_round_trip(name: str, tmp_path: Path) -> None:
    net, inputs, free = MODELS[name]
    net.initialize(mx.init.Xavier())
    path = export(net, *inputs, path=tmp_path / "net.onnx", dynamic_axes=free)
    outputs = import_to_gluon(path, mx.cpu())(*flatten(inputs, "inputs")[0])
    outputs = outputs if isinstance(outputs, list) else [outputs]
    for found, expected in zip(outputs, flatten(net(*inputs), "outputs")[0]):
        np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), 1e-4, 1e-5)


def test_an_imported_block_trains(exported: tuple[nn.HybridSequential, str]) -> None:
    block = import_to_gluon(exported[1], mx.cpu())
    trainer = mx.gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1})
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    data, label = mx.nd.random.normal(shape=(16, 3, 8, 8)), mx.nd.arange(16) % 5
    losses = []
    for _ in range(12):
        with mx.autograd.record():
            loss = loss_of(block(data), label).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    assert losses[-1] < 0.5 * losses[0]


def test_import_model_gives_a_symbol_to_bind(exported: tuple[nn.HybridSequential, str]) -> None:
    net, path = exported
    symbol, args, states = import_model(path)
    assert {name.rpartition("_")[2] for name in states} == {"mean", "var"}
    module = mx.mod.Module(symbol, ["data"], None)
    module.bind([("data", (3, 3, 8, 8))], for_training=False)
    module.set_params(args, states)
    x = mx.nd.random.uniform(shape=(3, 3, 8, 8))
    module.forward(mx.io.DataBatch([x]))
    expected = net(x).asnumpy()
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected, 1e-4, 1e-5)


def test_metadata(exported: tuple[nn.HybridSequential, str]) -> None:
    found = get_model_metadata(exported[1])
    assert found["input_tensor_data"] == [("data", (0, 3, 8, 8), TensorProto.FLOAT)]
    assert [shape for _, shape in found["output_tensor_data"]] == [(0, 5)]


def model_of(
    nodes: list[Any], shapes: dict[str, Any], out: str, weights: Any = (), opset: int = 17
) -> Any:
    """Return a model of float32 inputs."""
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    outputs = [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def test_reshapes_made_of_free_dimensions(tmp_path: Path) -> None:
    """PyTorch writes ``x.view(x.shape[0], -1)`` like this."""
    const = numpy_helper.from_array
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    weights = [
        const(np.array(0), "zero"),
        const(np.array([0]), "axes"),
        const(np.array([-1]), "rest"),
    ]
    onnx.save(model_of(nodes, {"x": ["N", 3, 4]}, "y", weights), tmp_path / "m.onnx")
    block = import_to_gluon(tmp_path / "m.onnx", mx.cpu())
    assert [block(mx.nd.ones((n, 3, 4))).shape for n in (1, 2, 9)] == [(1, 12), (2, 12), (9, 12)]
    assert not block.collect_params()


POSITIONS = """g (int64[N,T] ids) => (float y) {
  one = Constant<value = int64 {1}>() zero = Constant<value = int64 {0}>()
  s = Shape(ids) t = Gather(s, one) r = Range(zero, t, one)
  a = Gather(table, r) b = Gather(table, ids) y = Add(a, b) }"""
MASK = """g (float[N,T,T] x) => (float y) {
  one = Constant<value = int64[1] {1}>() zero = Constant<value = int64[1] {0}>()
  two = Constant<value = int64[1] {2}>() s = Shape(x) t = Slice(s, one, two)
  m = Slice(lower, zero, t, zero) k = Slice(m, zero, t, one) c = Cast<to = 9>(k)
  low = Constant<value = float {-1.0}>() y = Where(c, x, low) }"""
TOKEN = """g (float[N,3,4] x) => (float y) {
  zero = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>()
  s = Shape(x) n = Slice(s, zero, one) rest = Constant<value = int64[2] {1, 4}>()
  shape = Concat<axis = 0>(n, rest) e = Expand(token, shape) y = Concat<axis = 1>(e, x) }"""
ENDS = """g (float[N,T] x) => (float y) {
  zero = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>()
  six = Constant<value = int64[1] {6}>() y = Slice(x, zero, six, one) }"""
LAST = """g (float[N,T] x) => (float y) {
  last = Constant<value = int64 {-1}>() row = Gather(x, last)
  ends = Constant<value = int64[2] {-1, 0}>() y = Gather(row, ends) }"""
NUMBERS = np.random.RandomState(0)
OF_FREE_SIZES: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "positions": (POSITIONS, [(2, 3), (1, 9)]),
    "mask": (MASK, [(2, 3, 3), (1, 8, 8)]),
    "token": (TOKEN, [(2, 3, 4), (6, 3, 4)]),
    "ends": (ENDS, [(2, 9), (3, 20), (1, 4)]),
    "last": (LAST, [(2, 9), (9, 20), (1, 1)]),
}


@pytest.mark.parametrize("name", OF_FREE_SIZES)
def test_sizes_of_free_dimensions(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    text, shapes = OF_FREE_SIZES[name]
    model = parsed(text)
    for key, array in (
        ("table", NUMBERS.rand(20, 5)), ("lower", np.tri(30)), ("token", NUMBERS.rand(1, 1, 4)),
    ):  # fmt: skip
        model.graph.initializer.append(numpy_helper.from_array(array.astype("float32"), key))
    path = str(tmp_path / "m.onnx")
    onnx.save(model, path)
    runtime = session(path)
    block = import_to_gluon(path)
    for shape in shapes:
        entry = runtime.get_inputs()[0]
        dtype = "int64" if "int64" in entry.type else "float32"
        x = NUMBERS.randint(0, 20, shape).astype(dtype)
        expected = runtime.run(None, {entry.name: x})[0]
        np.testing.assert_allclose(block(mx.nd.array(x, dtype=dtype)).asnumpy(), expected, 1e-6)


@pytest.mark.parametrize("op, of_two", [("mul", 30), ("max", 5), ("min", 2), ("add", 10)])
def test_reductions_at_constant_indices_are_symbols(op: str, of_two: int, tmp_path: Path) -> None:
    model = parsed(
        "g (float[3,1] x, float[2,1] u) => (float[3,1] y) { y = ScatterElements(x, i, u) }"
    )
    model.graph.node[0].attribute.append(helper.make_attribute("reduction", op))
    model.graph.initializer.append(numpy_helper.from_array(np.array([[1], [1]]), "i"))
    onnx.save(model, tmp_path / "m.onnx")
    symbol, arguments, _ = import_model(tmp_path / "m.onnx")
    given = {"x": mx.nd.array([[2], [3], [4]]), "u": mx.nd.array([[2], [5]]), **arguments}
    (y,) = symbol.bind(mx.cpu(), given).forward()
    assert y.asnumpy().tolist() == [[2], [of_two], [4]]


def test_an_expanded_number_is_a_constant(tmp_path: Path) -> None:
    text = """g (float[9] x) => (float[3,3] y) { three = Constant<value = int64 {3}>()
      two = Constant<value = int64[1] {2}>() s = Expand(three, two) y = Reshape(x, s) }"""
    onnx.save(parsed(text), tmp_path / "m.onnx")
    symbol, arguments, _ = import_model(tmp_path / "m.onnx")
    assert symbol.infer_shape(x=(9,))[1] == [(3, 3)] and not arguments


@pytest.mark.parametrize(
    "node",
    [
        "y = GatherElements(x, i)",
        "y = GatherND(x, i)",
        "y = ScatterElements(x, i, u)",
        "s = Constant<value = int64[2] {1, 2}>() e = Expand(i, s) y = ScatterElements(x, e, u)",
    ],
)
def test_negative_indices_along_a_free_axis_are_refused(node: str, tmp_path: Path) -> None:
    model = parsed(f"g (float[N,2] x, float[1,2] u) => (float y) {{ {node} }}")
    index = np.array([[-1]] if "Expand" in node else [[-1, 0]])
    model.graph.initializer.append(numpy_helper.from_array(index, "i"))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(OnnxError, match="indices must not be negative along a free axis"):
        import_model(tmp_path / "m.onnx")


def test_a_free_dimension_without_name_is_no_reference(tmp_path: Path) -> None:
    text = POSITIONS.replace("[N,T]", "[?,?]")
    model = parsed(text)
    table = NUMBERS.rand(20, 5).astype("float32")
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(OnnxError, match="give input_shapes"):
        import_to_gluon(tmp_path / "m.onnx")
    block = import_to_gluon(tmp_path / "m.onnx", input_shapes={"ids": (1, 2)})
    assert block(mx.nd.array([[0, 1]], dtype="int64")).shape == (1, 2, 5)


HUGE = {
    "Range": """g (float[2] x) => (float y) { zero = Constant<value = int64 {0}>()
      n = Constant<value = int64 {99999999999}>() one = Constant<value = int64 {1}>()
      r = Range(zero, n, one) c = Cast<to = 1>(r) y = Add(c, x) }""",
    "ConstantOfShape": """g (float[2] x) => (float y) {
      n = Constant<value = int64[1] {99999999999}>() c = ConstantOfShape(n) y = Add(c, x) }""",
    "Resize": """g (float[1,1,2,2] x) => (float y) {
      n = Constant<value = int64[4] {1, 1, 9999999, 9999999}>() y = Resize(x, , , n) }""",
    "Loop": """g (float[2] x) => (float[2] y) { n = Constant<value = int64 {99999999999}>()
      y = Loop(n, , x) <body = b (int64 i, bool c, float[2] s) => (bool co, float[2] so) {
        co = Identity(c) so = Neg(s) }> }""",
}


@pytest.mark.parametrize("op", HUGE)
def test_huge_numbers_of_elements_are_refused(op: str, tmp_path: Path) -> None:
    model = parsed(HUGE[op])
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(OnnxError, match=f"{op} .*the number of .* must be from 0 to 268435456"):
        import_model(tmp_path / "m.onnx")


def test_damaged_files(exported: tuple[nn.HybridSequential, str], tmp_path: Path) -> None:
    data = Path(exported[1]).read_bytes()
    broken = tmp_path / "broken.onnx"
    rng = np.random.RandomState(0)
    for cut in (0, 1, 7, len(data) // 2, len(data) - 1):
        broken.write_bytes(data[:cut])
        with pytest.raises(OnnxError):
            import_model(broken)
    for _ in range(60):  # any error but a crash or a wrong type
        changed = bytearray(data)
        for at in rng.randint(0, len(data), 8):
            changed[at] = rng.randint(0, 256)
        broken.write_bytes(bytes(changed))
        with suppress(ValueError, OSError):
            import_model(broken)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        import_model(tmp_path / "none.onnx")


def external(tmp_path: Path, **entries: str) -> Path:
    """Write a model whose weight is in another file, with the given entries for it."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(np.arange(6, dtype="float32").tobytes())
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3])
    weight.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = model_of([node], {"x": [1, 2]}, "y", [weight])
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def test_external_data_is_read(tmp_path: Path) -> None:
    path = external(tmp_path, location="weights.bin")
    out = import_to_gluon(path, mx.cpu())(mx.nd.ones((1, 2)))
    assert out.asnumpy().tolist() == [[3, 5, 7]]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../secret.bin"}, "must be a file below"),
        ({"location": "/etc/passwd"}, "must be a file below"),
        ({"location": "."}, "must be a file below"),
        ({"location": "none.bin"}, "there is no file"),
        ({"location": "weights.bin", "offset": "4"}, "must be 24 bytes within the 24"),
        ({"location": "weights.bin", "length": "9999999999"}, "must be 24 bytes"),
        ({"location": "weights.bin", "offset": "-8"}, "must be 24 bytes"),
        ({"location": "weights.bin", "offset": "a"}, "must be integers"),
    ],
)
def test_bad_external_data(entries: dict[str, str], message: str, tmp_path: Path) -> None:
    path = external(tmp_path, **entries)
    with pytest.raises((OnnxError, FileNotFoundError), match=message):
        import_model(path)


def test_external_data_behind_a_link_is_refused(tmp_path: Path) -> None:
    path = external(tmp_path, location="link.bin")
    (path.parent / "link.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(OnnxError, match="must be a file below"):
        import_model(path)


def test_unknown_operators_and_opsets(tmp_path: Path) -> None:
    nodes = [helper.make_node("Sqrl", ["x"], ["a"], name="first"),
             helper.make_node("Sqrm", ["a"], ["b"], name="second")]  # fmt: skip
    onnx.save(model_of(nodes, {"x": [1]}, "b"), tmp_path / "m.onnx")
    with pytest.raises(OnnxError, match="Sqrl 'first', Sqrm 'second'"):
        import_model(tmp_path / "m.onnx")
    for opset in (1, 6, 99):
        onnx.save(model_of(nodes, {"x": [1]}, "b", opset=opset), tmp_path / "m.onnx")
        with pytest.raises(OnnxError, match=f"the opset must be from 7 to .*, got {opset}"):
            import_model(tmp_path / "m.onnx")


def test_wrong_sizes_are_found_before_memory_is_taken(tmp_path: Path) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**40, 3], raw_data=bytes(24))
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    onnx.save(model_of([node], {"x": [1, 2]}, "y", [weight]), tmp_path / "m.onnx")
    with pytest.raises(OnnxError, match="must have .* bytes, got 24"):
        import_model(tmp_path / "m.onnx")


# Constants whose size is that of the batch, as exporters write positions and masks.
GROWING = {
    "linear": (
        "r = Range(zero, b, one) u = Unsqueeze(r, last) m = Mul(u, three) i = Add(m, places) "
        "g = Reshape(x, flat) y = Gather(g, i)",
        lambda x: x.reshape(-1)[np.arange(len(x))[:, None] * 3 + [0, 2]],
    ),
    "equal": ("s = Concat<axis = 0>(bs, three) e = Expand(row, s) y = Add(x, e)",
              lambda x: x + np.float32([1, 2, 3])),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_constants_of_free_size(name: str, tmp_path: Path) -> None:
    text, function = GROWING[name]
    arrays = {"zero": 0, "one": 1, "last": [1], "three": [3], "places": [[0, 2]], "flat": [-1],
              "first": [0], "none": 0}  # fmt: skip
    model = parsed(
        "g (float[N, 3] x) => (float[] y) { s0 = Shape(x) b = Gather(s0, none) "
        f"bs = Unsqueeze(b, first) {text} }}"
    )
    for key, value in arrays.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value, "int64"), key))
    row = numpy_helper.from_array(np.asarray([[1, 2, 3]], "float32"), "row")
    model.graph.node.insert(0, helper.make_node("Constant", [], ["row"], value=row))
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    block = import_to_gluon(path)
    for size in (2, 5):
        x = np.arange(size * 3, dtype="float32").reshape(size, 3)
        np.testing.assert_array_equal(block(mx.nd.array(x)).asnumpy(), function(x))
