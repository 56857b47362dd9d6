"""ONNX with loops and branches: both ways, equal to ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from onnx_models import parsed, session
from pairing import pairs

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from mxlite.onnx import OnnxError, export, import_model, import_to_gluon  # noqa: E402

contrib = mx.sym.contrib


def var(name: str) -> mx.sym.Symbol:
    return mx.sym.var(name)


def cell() -> tuple[Any, dict[str, Any]]:
    """Return a recurrent cell with a weight from outside of the loop, and a scalar state."""

    def body(x: Any, states: Any) -> Any:
        h = mx.sym.FullyConnected(x, var("w"), num_hidden=4, no_bias=True) + states[0]
        return mx.sym.tanh(h), [states[0] * 0.5 + 1, states[1] + mx.sym.sum(x)]

    out, states = contrib.foreach(body, var("x"), [var("h"), var("k")])
    random = mx.nd.random.normal
    return mx.sym.Group([out, *states]), {
        "w": random(shape=(4, 3)), "x": random(shape=(5, 2, 3)), "h": random(shape=(2, 4)),
        "k": mx.nd.zeros(1),
    }  # fmt: skip


def of_scalars() -> tuple[Any, dict[str, Any]]:
    out, last = contrib.foreach(lambda x, s: (x * s, s + x), var("x"), var("s"))
    return mx.sym.Group([out, last]), {"x": mx.nd.arange(5), "s": mx.nd.ones(1)}


def nested() -> tuple[Any, dict[str, Any]]:
    def row(x: Any, s: Any) -> Any:
        out, last = contrib.foreach(lambda y, t: (y + t, t * 2), x, s)
        return out, mx.sym.broadcast_add(last, mx.sym.sum(x))

    out, last = contrib.foreach(row, var("x"), var("s"))
    return mx.sym.Group([out, last]), {
        "x": mx.nd.random.normal(shape=(3, 4, 2)), "s": mx.nd.ones(2),
    }  # fmt: skip


def loop(most: int) -> tuple[Any, dict[str, Any]]:
    outs, last = contrib.while_loop(
        lambda i, s: mx.sym.sum(s) < 30,
        lambda i, s: ([mx.sym.broadcast_mul(s, i), s + 1], [i + 1, s * 2]),
        [var("i"), var("s")],
        max_iterations=most,
    )
    return mx.sym.Group([*outs, *last]), {"i": mx.nd.ones(1), "s": mx.nd.ones((2, 2))}


def branch(sign: int) -> tuple[Any, dict[str, Any]]:
    x = var("x")
    out = contrib.cond(mx.sym.sum(x) > 0, lambda: [x * 2, x], lambda: [x + 1, mx.sym.exp(x)])
    return mx.sym.Group(out), {"x": mx.nd.ones((2, 3)) * sign}


EXPORTED: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "foreach": cell,
    "foreach of scalars": of_scalars,
    "foreach in foreach": nested,
    "while_loop": lambda: loop(7),
    "while_loop that is cut": lambda: loop(2),
    "cond, then": lambda: branch(1),
    "cond, else": lambda: branch(-1),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_control_flow_is_exported(name: str, tmp_path: Path) -> None:
    symbol, values = EXPORTED[name]()
    params = {"w": values["w"]} if "w" in values else {}
    inputs = [values[key] for key in symbol.list_inputs() if key not in params]
    path = export(symbol, *inputs, path=tmp_path / "net.onnx", params=params)
    if name.startswith("while_loop"):
        with pytest.raises(OnnxError, match="must be constant for scan outputs"):
            import_model(path)
    outputs = import_to_gluon(path)(*inputs)
    for found, wanted in pairs(outputs, symbol.eval(**values)):
        np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), 1e-5, 1e-6)


def test_a_loop_with_any_number_of_steps(tmp_path: Path) -> None:
    out, last = contrib.foreach(lambda x, s: (x + s, s * 0.5), var("x"), var("s"))
    x, s = mx.nd.random.normal(shape=(4, 2)), mx.nd.ones(2)
    symbol = mx.sym.Group([out, last])
    path = export(symbol, x, s, path=tmp_path / "n.onnx", dynamic_axes={"x": {0: "T"}})
    longer = mx.nd.random.normal(shape=(9, 2))
    found = session(path).run(None, {"x": longer.asnumpy(), "s": s.asnumpy()})
    for array, wanted in pairs(found, symbol.eval(x=longer, s=s)):
        np.testing.assert_allclose(array, wanted.asnumpy(), 1e-5)


COUNTED = """g (float[2,3] x) => (float[2,3] y, float[4,2,3] ys) {
  trips = Constant<value = int64 {4}>() go = Constant<value = bool {1}>()
  y, ys = Loop(trips, go, x) <body = b (int64 i, bool c, float[2,3] s)
      => (bool co, float[2,3] so, float[2,3] o) {
    co = Identity(c) f = Cast<to = 1>(i) t = Add(s, x) so = Add(t, f) o = Mul(so, so) }> }"""
CONDITIONAL = """g (float[2,3] x) => (float[2,3] y) {
  trips = Constant<value = int64 {10}>() go = Constant<value = bool {1}>()
  y = Loop(trips, go, x) <body = b (int64 i, bool c, float[2,3] s) => (bool co, float[2,3] so) {
    two = Constant<value = float {2.0}>() so = Mul(s, two) m = ReduceMax<keepdims = 0>(so)
    most = Constant<value = float {20.0}>() co = Less(m, most) }> }"""
BRANCH = """g (float[2,3] x) => (float[2,3] y) {
  m = ReduceSum<keepdims = 0>(x) z = Constant<value = float {0.0}>() p = Greater(m, z)
  y = If(p) <then_branch = t () => (float[2,3] a) { a = Mul(x, x) },
             else_branch = e () => (float[2,3] b) { b = Neg(x) }> }"""
CONSTANT = """g (float[2,3] x) => (float[2,3] y) {
  s = Shape(x) k = Size(s) two = Constant<value = int64 {2}>() p = Equal(k, two)
  y = If(p) <then_branch = t () => (float[2,3] a) { a = Mul(x, x) },
             else_branch = e () => (float[1,2,3] b) {
    axes = Constant<value = int64[1] {0}>() b = Unsqueeze(x, axes) }> }"""
UNUSED = """g (float[2,3] x) => (float[2] y, float[3,2] ys) {
  one = Constant<value = int64[1] {1}>() sums = ReduceSum<keepdims = 0>(x, one)
  y, ys = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
      scan_output_directions = [1], body = b (float[2] s, float[2] c) => (float[2] t, float[2] o) {
    t = Identity(c) o = Neg(c) }>(sums, x) }"""
IMPORTED = {
    "counted": COUNTED, "conditional": CONDITIONAL, "branch": BRANCH, "constant": CONSTANT,
    "backwards, with an unused state": UNUSED,
}  # fmt: skip


@pytest.mark.parametrize("name", IMPORTED)
def test_control_flow_is_imported(name: str, tmp_path: Path) -> None:
    model = parsed(IMPORTED[name])
    onnx.checker.check_model(model)
    path = str(tmp_path / "m.onnx")
    onnx.save(model, path)
    runtime = session(path)
    block = import_to_gluon(path)
    for sign in (1, -1):
        x = sign * np.random.RandomState(0).rand(2, 3).astype("float32")
        outputs = block(mx.nd.array(x))
        outputs = outputs if isinstance(outputs, list) else [outputs]
        for found, wanted in pairs(outputs, runtime.run(None, {"x": x})):
            np.testing.assert_allclose(found.asnumpy(), wanted, 1e-5, 1e-6)


def test_gradients_pass_an_imported_loop(tmp_path: Path) -> None:
    model = parsed(COUNTED)
    onnx.save(model, tmp_path / "m.onnx")
    block, x = import_to_gluon(tmp_path / "m.onnx"), mx.nd.ones((2, 3))
    x.attach_grad()
    with mx.autograd.record():
        last = block(x)[0]
    last.backward()
    assert (x.grad.asnumpy() == 5).all()  # x is the first state, and is added four times
