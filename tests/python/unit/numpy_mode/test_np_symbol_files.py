"""The operators of MXNet 1.9.1's numpy mode in symbols: files, names and values.

tests/data/make_numpy_symbols.py describes the data file, which has the results of 1.9.1.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as onp
import pytest
from mxlite import np

DATA = Path(__file__).resolve().parents[3] / "data"
GIVEN = json.loads((DATA / "numpy_symbols_1.9.1.json").read_text())
VALUES = {
    name: onp.array(v["values"], v["dtype"]).reshape(v["shape"])
    for name, v in GIVEN["values"].items()
}
GRAPHS = {graph["call"]: graph for graph in GIVEN["graphs"]}
DRAWN = ("R.", "random", "I.multinomial", "dropout", "empty_like")  # calls without fixed values
# Only internal calls of 1.9.1 write these operators.
UNKNOWN = {
    "_npi_copyto", "_npi_cvimdecode", "_npi_cvimread", "_npi_cvimresize",
}  # fmt: skip


@pytest.fixture(autouse=True)
def numpy_mode():
    with mx.util.np_shape(True), mx.util.np_array(True):
        yield


def _json(graph: dict[str, Any]) -> str:
    nodes = [
        {"op": op, "name": name, "attrs": attrs, "inputs": [[*entry, 0] for entry in inputs]}
        for op, name, attrs, inputs in graph["nodes"]
    ]
    return json.dumps({
        "nodes": nodes,
        "arg_nodes": [i for i, node in enumerate(nodes) if node["op"] == "null"],
        "heads": [[*head, 0] for head in graph["heads"]],
        "attrs": {"is_np_shape": ["int", 1], "mxnet_version": ["int", 10901]},
    })  # fmt: skip


def _check(symbol: Any, graph: dict[str, Any]) -> None:
    found = symbol.eval(mx.cpu(), **{n: np.array(VALUES[n]) for n in symbol.list_inputs()})
    assert len(found) == len(graph["heads"])
    for array, wanted in zip(found, graph["outputs"] or ()):
        assert onp.dtype(array.dtype) == wanted["dtype"]
        if 0 in wanted["shape"]:  # 1.9.1 does not know the shape before the graph runs
            continue
        assert list(array.shape) == wanted["shape"]
        if not any(part in graph["call"] for part in DRAWN):
            values = onp.array([float(v) for v in wanted["values"]]).reshape(wanted["shape"])
            onp.testing.assert_allclose(array.asnumpy(), values, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("call", GRAPHS)
def test_graphs_of_1x_are_read(call: str):
    _check(mx.sym.np.load_json(_json(GRAPHS[call])), GRAPHS[call])


@pytest.mark.parametrize("call", [c for c in GRAPHS if not c.startswith("I.")])
def test_functions_give_what_those_of_1x_give(call: str):
    symbols = {n: mx.sym.var(n, dtype=v.dtype).as_np_ndarray() for n, v in VALUES.items()}
    spaces = {"N": mx.sym.np, "P": mx.sym.npx, "R": mx.sym.np.random, "L": mx.sym.np.linalg}
    symbol = eval(call, {**symbols, **spaces, "onp": onp})
    if isinstance(symbol, (list, tuple)):
        symbol = mx.sym.Group(list(symbol)).as_np_ndarray()
    _check(symbol, GRAPHS[call])


@pytest.mark.parametrize("name", sorted(set(GIVEN["operators"]) - UNKNOWN))
def test_operators_of_1x_are_known(name: str):
    graph = {"nodes": [[name, "node", {}, []]], "heads": [[0, 0]]}
    try:
        mx.sym.load_json(_json(graph))
    except mx.MXNetError as error:  # most operators need attributes or inputs
        assert "unknown operator" not in str(error)


def test_every_function_of_1x_composes():
    assert sum(map(len, GIVEN["names"].values())) == 258
    for path, names in GIVEN["names"].items():
        module = mx.sym
        for part in path.split("."):
            module = getattr(module, part)
        assert [name for name in names if not hasattr(module, name)] == []


DTYPES = ("bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64")


@pytest.mark.parametrize("sign", ["+", "*", "/", "<", "**"])
def test_operands_of_different_dtypes_are_promoted(sign: str):
    pairs = [(a, b) for a in DTYPES for b in DTYPES]
    symbols = [
        eval(f"a {sign} b", {"a": mx.sym.var(f"a{i}").as_np_ndarray(),
                             "b": mx.sym.var(f"b{i}").as_np_ndarray()})
        for i in range(len(pairs))
    ]  # fmt: skip
    arrays = {}
    for i, (a, b) in enumerate(pairs):
        arrays[f"a{i}"] = np.array([1, 0], dtype=a)
        arrays[f"b{i}"] = np.array([1, 2], dtype=b)
    found = mx.sym.Group(symbols).eval(mx.cpu(), **arrays)
    for i, result in enumerate(found):
        wanted = eval(f"a {sign} b", {"a": arrays[f"a{i}"], "b": arrays[f"b{i}"]})
        assert result.dtype == wanted.dtype, pairs[i]
        onp.testing.assert_array_equal(result.asnumpy(), wanted.asnumpy())


def test_promotion_reaches_blocks_and_gradients():
    x, y = (mx.sym.var(name).as_np_ndarray() for name in "xy")
    net = mx.gluon.SymbolBlock([mx.sym.np.sum(x * y + x)], [x, y])
    a, b = np.array([1.0, 2.0]), np.array([3, 4], dtype="int32")
    a.attach_grad()
    with mx.autograd.record():
        total = net(a, b)
    total.backward()
    assert total.dtype == onp.float32 and float(total) == 14.0
    assert a.grad.tolist() == [4.0, 5.0]
    _, types, _ = (x * y).infer_type(x="float64", y="int32")
    assert [onp.dtype(t) for t in types] == ["float64"]


def test_results_whose_shape_depends_on_values():
    x = mx.sym.var("x").as_np_ndarray()
    symbol = mx.sym.np.sum(mx.sym.np.unique(x) * 2)
    values = np.array([3.0, 1.0, 3.0])
    assert float(symbol.eval(mx.cpu(), x=values)[0]) == 8.0
    net = mx.gluon.SymbolBlock([symbol], [x])
    assert float(net(values)) == 8.0
    again = mx.sym.load_json(symbol.tojson())
    assert float(again.eval(mx.cpu(), x=values)[0]) == 8.0


def test_gradients_pass_through_functions():
    x = mx.sym.var("x").as_np_ndarray()
    symbol = mx.sym.np.einsum("ij,ij->", x, mx.sym.np.roll(x, 1, axis=0))
    executor = symbol.bind(mx.cpu(), {"x": np.array([[1.0, 2], [3, 4]])},
                           args_grad={"x": np.zeros((2, 2))})  # fmt: skip
    executor.forward(is_train=True)
    executor.backward()
    assert executor.grad_dict["x"].tolist() == [[6.0, 8.0], [2.0, 4.0]]


def test_bad_calls():
    x = mx.sym.var("x").as_np_ndarray()
    with pytest.raises(TypeError, match="average: axis must be no Symbol"):
        mx.sym.np.average(x, axis=x)
    with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
        mx.sym.np.std(x, axes=1)
    with pytest.raises(NotImplementedError, match="argsort: order must be None"):
        mx.sym.np.argsort(x, order="field")
    with pytest.raises(TypeError, match="_npi_std: inputs must be Symbols of one output"):
        mx.sym.np.std(mx.sym.np.split(x, 2))
    with pytest.raises(IndexError, match="axis 5 is out of bounds"):
        mx.sym.np.roll(x, 1, axis=5).eval(mx.cpu(), x=np.zeros(3))
