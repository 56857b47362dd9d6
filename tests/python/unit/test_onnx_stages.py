"""ONNX import of graphs in which sizes depend on values: a compiled part, then single operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite.gluon import SymbolBlock
from onnx_models import parsed, session
from pairing import pairs

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from mxlite.onnx import OnnxError, import_model, import_to_gluon  # noqa: E402

SELECTED = """g (float[4,3] x, float[3,2] w) => (float[N,2] y, int64[M] places) {
  h = MatMul(x, w) s = ReduceSum<keepdims = 0>(h, one) z = Sub(s, s) good = Greater(s, z)
  at = NonZero(good) axes = Constant<value = int64[1] {0}>() places = Squeeze(at, axes)
  y = Gather(h, places) }"""
SORTED = """g (float[4,3] x) => (float[K,3] y, int64[K] order) {
  first = Constant<value = int64 {0}>() s = Gather<axis = 1>(x, first) z = Sub(s, s)
  good = Greater(s, z) at = NonZero(good) axes = Constant<value = int64[1] {0}>()
  places = Squeeze(at, axes) found = Gather(s, places) size = Shape(found)
  two = Constant<value = int64[1] {2}>() k = Min(size, two) best, order = TopK(found, k)
  own = Gather(places, order) y = Gather(x, own) }"""
COUNTED = """g (float[4,3] x) => (float[N] y, float[N,3] ys, float[4,3] last) {
  m = ReduceMax<keepdims = 0>(x) four = Constant<value = float {4.0}>() scaled = Mul(m, four)
  count = Cast<to = 7>(scaled) z = Constant<value = int64 {0}>() d = Constant<value = int64 {1}>()
  numbers = Range(z, count, d) y = Cast<to = 1>(numbers) go = Constant<value = bool {1}>()
  last, ys = Loop(count, go, x) <body = b (int64 i, bool c, float[4,3] s)
      => (bool co, float[4,3] so, float[3] o) {
    co = Identity(c) so = Add(s, x) top = Constant<value = int64 {0}>() o = Gather(so, top) }> }"""
BRANCHES = """g (float[4,3] x) => (float[A,B] y) {
  m = ReduceSum<keepdims = 0>(x) z = Constant<value = float {0.0}>() p = Greater(m, z)
  y = If(p) <then_branch = t () => (float[3,4] a) { a = Transpose(x) },
             else_branch = e () => (float[4,3] b) { b = Neg(x) }> }"""
WRITTEN = """g (float[4,3] x) => (float[4,3] y) {
  zero = Constant<value = int64[1] {0}>() first = Gather<axis = 1>(x, zero) z = Sub(first, first)
  good = Greater(first, z) at = NonZero(good) row = Constant<value = int64 {0}>()
  places = Gather(at, row) rows = Gather(x, places) size = Shape(rows) minus = Neg(rows)
  shape = Constant<value = int64[2] {-1, 1}>() column = Reshape(places, shape)
  whole = Expand(column, size) y = ScatterElements<axis = 0>(x, whole, minus) }"""
GRAPHS = {"selected": SELECTED, "sorted": SORTED, "counted": COUNTED, "branches": BRANCHES,
          "written": WRITTEN}  # fmt: skip


def written(text: str, path: Path, **constants: Any) -> Path:
    model = parsed(text)
    for name, array in constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        for info in [info for info in model.graph.input if info.name == name]:
            model.graph.input.remove(info)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def of(name: str, path: Path, text: str = "") -> Path:
    w = np.random.default_rng(1).normal(size=(3, 2)).astype("float32")
    constants = {"w": w, "one": np.array([1])} if name == "selected" else {}
    return written(text or GRAPHS[name], path / "m.onnx", **constants)


def data() -> list[np.ndarray]:
    """Return data of which some, all and no rows are selected."""
    random = np.random.default_rng(0)
    one = random.normal(size=(4, 3)).astype("float32")
    return [one, abs(one), -abs(one), one[::-1].copy()]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_results_are_those_of_onnx_runtime(name: str, free: bool, tmp_path: Path) -> None:
    text = GRAPHS[name].replace("float[4,3] x", "float[R,3] x", 1) if free else GRAPHS[name]
    path = of(name, tmp_path, text)
    runtime, block = session(path), import_to_gluon(path)
    assert not isinstance(block, SymbolBlock)
    shapes = set()
    for x in data():
        outputs = block(mx.nd.array(x))
        outputs = outputs if isinstance(outputs, list) else [outputs]
        for found, wanted in pairs(outputs, runtime.run(None, {"x": x})):
            assert found.shape == wanted.shape and found.dtype == wanted.dtype
            np.testing.assert_allclose(found.asnumpy(), wanted, 1e-5, 1e-6)
        shapes.add(outputs[0].shape)
    assert len(shapes) > 1 or name == "written"


def test_gradients_reach_parameters_before_and_after_the_selection(tmp_path: Path) -> None:
    text = SELECTED.replace("y = Gather(h, places) }", "r = Gather(h, places) y = MatMul(r, v) }")
    random = np.random.default_rng(1)
    w, v = (random.normal(size=shape).astype("float32") for shape in ((3, 2), (2, 2)))
    path = written(text, tmp_path / "m.onnx", w=w, v=v, one=np.array([1]))
    block, x = import_to_gluon(path), data()[0]
    trainer = mx.gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1})
    with mx.autograd.record():
        y, places = block(mx.nd.array(x))
    y.backward()
    trainer.step(1)
    chosen = x[places.asnumpy()]
    assert 0 < len(chosen) < 4
    ones = np.ones((len(chosen), 2), "float32")
    params = block.collect_params()
    np.testing.assert_allclose(params["v"].data().asnumpy(), v - 0.1 * (chosen @ w).T @ ones, 1e-4)
    np.testing.assert_allclose(params["w"].data().asnumpy(), w - 0.1 * chosen.T @ (ones @ v.T),
                               1e-4)  # fmt: skip
    block.save_parameters(str(tmp_path / "p.params"))
    other = import_to_gluon(path)
    other.load_parameters(str(tmp_path / "p.params"))
    np.testing.assert_array_equal(other(mx.nd.array(x))[0].asnumpy(),
                                  block(mx.nd.array(x))[0].asnumpy())  # fmt: skip


def test_gradients_of_a_product_at_repeated_indices(tmp_path: Path) -> None:
    text = 'g (float[3] x) => (float[3] y) { y = ScatterND<reduction = "mul">(x, at, u) }'
    u = np.array([2, 3, 5], "float32")
    path = written(text, tmp_path / "m.onnx", at=np.array([[0], [0], [2]]), u=u)
    block, x = import_to_gluon(path), mx.nd.array([7, 11, 13])
    x.attach_grad()
    with mx.autograd.record():
        y = block(x)
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), [42, 11, 65])
    np.testing.assert_array_equal(x.grad.asnumpy(), [6, 1, 5])
    grad = block.collect_params()["u"].grad()
    np.testing.assert_array_equal(grad.asnumpy(), [21, 14, 13])


def test_inputs_that_are_read_as_numbers_are_not_trained(tmp_path: Path) -> None:
    text = SELECTED.replace("y = Gather(h, places) }", """r = Gather(h, places)
      u = Unsqueeze(r, axes) o, last, cell = LSTM<hidden_size = 4>(u, i2h, h2h)
      wide = Resize(last, , scales) v = Squeeze(wide, axes) y = MatMul(v, out) }""")  # fmt: skip
    random = np.random.default_rng(2)
    shapes = {"w": (3, 2), "i2h": (1, 16, 2), "h2h": (1, 16, 4), "out": (4, 2)}
    weights = {name: random.normal(size=s).astype("float32") for name, s in shapes.items()}
    path = written(text, tmp_path / "m.onnx", **weights, one=np.array([1]),
                   scales=np.array([1, 2, 1], "float32"))  # fmt: skip
    block, x = import_to_gluon(path), data()[0]
    params = block.collect_params()
    assert {name for name, p in params.items() if p.grad_req == "write"} == {"w", "out"}
    trainer = mx.gluon.Trainer(params, "sgd")
    with mx.autograd.record():
        y = block(mx.nd.array(x))[0]
    y.backward()
    trainer.step(1)
    y = block(mx.nd.array(x))[0]
    params["out"].set_data(mx.nd.array(weights["out"]))
    params["w"].set_data(mx.nd.array(weights["w"]))
    expected = session(path).run(None, {"x": x})[0]
    np.testing.assert_allclose(block(mx.nd.array(x))[0].asnumpy(), expected, 1e-5, 1e-6)
    assert abs(y.asnumpy() - expected).max() > 1e-3


@pytest.mark.parametrize("free", [False, True])
def test_the_number_of_inputs_is_checked(free: bool, tmp_path: Path) -> None:
    text = BRANCHES.replace("float[4,3] x", "float[R,3] x") if free else BRANCHES
    block, x = import_to_gluon(of("branches", tmp_path, text)), mx.nd.array(data()[0])
    for inputs in ([], [x, x]):
        words = rf"stagedblock\d+: the number of inputs must be 1 \(x\), got {len(inputs)}"
        with pytest.raises(ValueError, match=words):
            block(*inputs)


def test_empty_constants_in_the_second_stage(tmp_path: Path) -> None:
    text = SELECTED.replace("y = Gather(h, places) }",
                            "r = Gather(h, places) y = Concat<axis = 0>(r, none) }")  # fmt: skip
    w = np.ones((3, 2), "float32")
    path = written(text, tmp_path / "m.onnx", w=w, one=np.array([1]), none=w[:0])
    x = data()[0]
    found = import_to_gluon(path)(mx.nd.array(x))[0]
    np.testing.assert_allclose(found.asnumpy(), session(path).run(None, {"x": x})[0], 1e-5)


def test_extremes_of_no_integers_are_the_limits_of_the_dtype(tmp_path: Path) -> None:
    places = SORTED.partition("found = ")[0]
    text = places.replace("(float[K,3] y, int64[K] order)", "(int64 least, int64 most)") + (
        "found = Gather(s, places) whole = Cast<to = 7>(found) "
        "least = ReduceMin<keepdims = 0>(whole) most = ReduceMax<keepdims = 0>(whole) }"
    )
    block = import_to_gluon(written(text, tmp_path / "m.onnx"))
    limits = np.iinfo("int64")
    found = [array.asnumpy().item() for array in block(mx.nd.array(data()[2]))]
    assert found == [limits.max, limits.min]


def test_a_symbol_of_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OnnxError, match="NonZero 'at': .*got computed values"):
        import_model(of("selected", tmp_path))


def test_what_has_no_equivalent_is_named(tmp_path: Path) -> None:
    text = SELECTED.replace("y = Gather(h, places) }", "r = Gather(h, places) y = Nothing(r) }")
    model = parsed(text)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(OnnxError, match="no equivalent is known for Nothing 'y'"):
        import_to_gluon(tmp_path / "m.onnx")
    text = text.replace("Nothing(r)", 'Pad<mode = "wrap">(r, widths)')
    path = written(text, tmp_path / "m.onnx", w=np.ones((3, 2), "float32"), one=np.array([1]),
                   widths=np.array([1, 0, 1, 0]))  # fmt: skip
    with pytest.raises(OnnxError, match="Pad 'y': mode must be"):
        import_to_gluon(path)(mx.nd.array(data()[0]))
