"""``mx.sym.np``, ``mx.sym.npx`` and files of numpy mode's symbols."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as onp
import pytest
from mxlite import np, npx

S, SX = mx.sym.np, mx.sym.npx
VALUES = {
    "x": onp.array([[1.5, -2, 3], [4, 5.5, -6]], "float32"),
    "y": onp.array([[1, 2, 3]], "float32"),
    "z": onp.array([[2.0], [-1]], "float32"),
}


def _arrays() -> dict[str, Any]:
    return {name: np.array(value) for name, value in VALUES.items()}


def _run(symbol: Any) -> Any:
    arrays = _arrays()
    found = symbol.eval(mx.cpu(), **{name: arrays[name] for name in symbol.list_inputs()})
    assert all(type(value) is np.ndarray for value in found)
    return found[0] if len(found) == 1 else found


# Each expression gives the same on symbols and on arrays; N and P are the two namespaces.
EXPRESSIONS = """
x + y
x - 1
1 - x
x * 2.5
z / x
2 / y
x % 2
y ** 2
x > y
2 >= x
x == x
x != 2
-x
x // y
(x > 0) & (x < 4)
N.exp(x)
N.abs(x)
N.log1p(y)
N.rint(x)
N.isnan(x)
N.logical_not(x)
N.maximum(x, y)
N.maximum(x, 1)
N.arctan2(x, z)
N.hypot(x, y)
N.add(1, x)
N.sum(x)
N.sum(x, axis=1, keepdims=True)
N.mean(x, axis=(0, 1))
N.max(x, axis=0)
N.prod(y)
N.std(x, axis=1)
N.var(x)
N.argmax(x, axis=1)
N.cumsum(x, axis=0)
N.reshape(x, (3, -1))
N.transpose(x)
N.transpose(x, (1, 0))
N.swapaxes(x, 0, 1)
N.expand_dims(x, 0)
N.squeeze(y, 0)
N.broadcast_to(y, (2, 3))
N.concatenate([x, y], axis=0)
N.stack([x, x], axis=1)
N.flip(x, 0)
N.tile(y, (2, 1))
N.repeat(x, 2, axis=0)
N.where(x > 0, x, -x)
N.clip(x, 0, 2)
N.zeros_like(x)
N.dot(x, N.transpose(y))
N.matmul(x, N.transpose(y))
N.outer(y, z)
N.vdot(x, x)
N.ravel(x)
N.sort(x)
N.argsort(x, axis=0)
N.any(x > 5, axis=1)
N.all(x > -9)
N.isposinf(x / 0)
N.full_like(x, 2.5)
N.fliplr(x)
N.diag(N.ravel(y))
N.linalg.inv(N.dot(z, y[:, :2]) + N.eye(2))
N.vstack([x, y, x[0]])
N.vstack([x[0], x[1]])
N.dstack([x, x])
N.dstack([x[0], x[1]])
N.dstack([x[None], x[None]])
N.column_stack([x, z])
N.column_stack([x[0], x[1]])
N.roll(x, 2)
N.roll(x, -1, 1)
N.roll(x, (1, -2), (0, 1))
N.roll(x, 1, (0, 1))
N.tril(x)
N.tril(x, 1)
N.triu(x[None], -1)
N.triu(x / 0)
N.trace(x)
N.trace(x, 1)
N.trace(x[None], 0, 2, 1)
N.diagonal(x, -1)
N.pad(x, ((1, 0), (2, 3)), constant_values=7)
N.pad(x, ((0, 0), (0, 1)))
N.tensordot(x, N.transpose(x), 1)
N.tensordot(x[None], N.transpose(x)[None].T)
N.tensordot(x, x, 2)
N.tensordot(x, y, 0)
N.linalg.det(N.dot(z, y[:, :2]) + N.eye(2))
N.linalg.det((N.dot(z, y[:, :2]) + N.eye(2))[None])
N.linalg.slogdet(N.dot(z, y[:, :2]) + N.eye(2))[1]
N.linalg.solve(N.dot(z, y[:, :2]) + N.eye(2), x)
N.linalg.svd(x)[1]
N.linalg.qr(x)[1]
N.linalg.eigvalsh(N.dot(x, N.transpose(x)))
N.abs(N.linalg.eigh(N.dot(x, N.transpose(x)))[1])
N.linalg.pinv(x, 1e-6)
N.linalg.pinv(x[None], 1e-6)
N.zeros((2, 3)) + x
N.arange(3) * y
N.full((2, 1), 3.0) + y
N.eye(3) * y
x[0, 1] * y
x.sum()
x.mean(axis=0)
x.reshape((6,))
x.T
x[0]
x[0, 1]
x[:, 1:]
x[None, 1]
x[..., 0]
x[1, ..., None]
P.relu(x)
P.sigmoid(x)
P.softmax(x, axis=0)
P.reshape(x, (-5,))
P.one_hot(y, 4)
P.gelu(x)
P.masked_softmax(x, x > 0)
""".strip().splitlines()


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_symbols_compute_what_arrays_do(text: str):
    symbols = {name: mx.sym.var(name).as_np_ndarray() for name in VALUES}
    symbol = eval(text, {"N": S, "P": SX, **symbols})
    assert isinstance(symbol, S._Symbol)
    expected = eval(text, {"N": np, "P": npx, **_arrays()})
    found = _run(symbol)
    assert found.shape == expected.shape
    assert (found.dtype == bool) == (expected.dtype == bool)
    onp.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)
    again = S.load_json(symbol.tojson())
    assert isinstance(again, S._Symbol) and _run(again).shape == expected.shape


def test_classes_of_symbols():
    plain = mx.sym.var("x")
    numpy = plain.as_np_ndarray()
    assert isinstance(numpy, S._Symbol) and not isinstance(plain, S._Symbol)
    assert type(numpy.as_nd_ndarray()) is mx.sym.Symbol and numpy.as_np_ndarray() is numpy
    assert isinstance(mx.sym.FullyConnected(numpy, num_hidden=2), S._Symbol)
    assert isinstance(mx.sym.split(numpy, num_outputs=2)[1], S._Symbol)
    with pytest.raises(TypeError, match="index must be an integer, slice, None or Ellipsis"):
        _ = numpy[[0, 1]]
    with pytest.raises(NotImplementedError, match="sum: initial must have its default"):
        S.sum(numpy, initial=1)
    with pytest.raises(TypeError, match="x1 or x2 must be a Symbol"):
        S.add(1, 2)


# Nodes as MXNet 1.9.1 writes them: operator, attributes, inputs.
FILES = {
    "x + y": [("_npi_add", {}, "xy")],
    "x - 2": [("_npi_subtract_scalar", {"is_int": "True", "scalar": "2.0"}, "x")],
    "1 - x": [("_npi_rsubtract_scalar", {"is_int": "False", "scalar": "1.0"}, "x")],
    "z / x": [("_npi_true_divide", {}, "zx")],
    "x > 1": [("_npi_greater_scalar", {"is_int": "True", "scalar": "1.0"}, "x")],
    "N.exp(x)": [("_npi_exp", {}, "x")],
    "N.abs(x)": [("_npi_absolute", {}, "x")],
    "N.sum(x, axis=1, keepdims=True)": [("_np_sum", {"axis": "1", "keepdims": "True"}, "x")],
    "N.mean(x)": [("_npi_mean", {"axis": "None", "keepdims": "False"}, "x")],
    "N.max(x, axis=0)": [("_np_max", {"axis": "0"}, "x")],
    "N.argmax(x, axis=1)": [("_npi_argmax", {"axis": "1", "keepdims": "False"}, "x")],
    "N.cumsum(x, axis=0)": [("_np_cumsum", {"axis": "0"}, "x")],
    "N.reshape(x, (3, -1))": [("_np_reshape", {"newshape": "(3, -1)", "order": "C"}, "x")],
    "P.reshape(x, (-2, -6, 3, -1))": [("_npx_reshape", {"newshape": "(-2, -6, 3, -1)"}, "x")],
    "x[:, 0]": [
        ("slice", {"begin": "[None, 0]", "end": "[None, 1]", "step": "[None, 1]"}, "x"),
        ("_npx_reshape", {"newshape": "(-2, -3, -4)"}, "0"),
    ],
    "N.transpose(x)": [("_np_transpose", {"axes": "None"}, "x")],
    "N.squeeze(y, 0)": [("_np_squeeze", {"axis": "0"}, "y")],
    "N.concatenate([x, y], axis=0)": [
        ("_npi_concatenate", {"axis": "0", "num_args": "2"}, "xy"),
    ],
    "N.flip(x, 0)": [("_npi_flip", {"axis": "0"}, "x")],
    "N.where(x, x, x + 1)": [
        ("_npi_add_scalar", {"is_int": "True", "scalar": "1.0"}, "x"),
        ("_npi_where", {}, "xx0"),
    ],
    "N.zeros_like(x)": [("_npi_full_like", {"ctx": "cpu(0)", "fill_value": "0"}, "x")],
    "N.dot(x, N.transpose(y))": [("_np_transpose", {}, "y"), ("_np_dot", {}, "x0")],
    "N.zeros((2, 3)) + x": [
        ("_npi_zeros", {"ctx": "cpu(0)", "dtype": "float32", "shape": "(2, 3)"}, ""),
        ("_npi_add", {}, "0x"),
    ],
    "P.relu(x)": [("_npx_relu", {}, "x")],
    "P.sigmoid(x)": [("_npx_sigmoid", {}, "x")],
}  # fmt: skip


def _file(nodes: list[tuple[str, dict[str, str], str]]) -> str:
    variables = sorted({v for _, _, inputs in nodes for v in inputs if v.isalpha()})
    rows: list[dict[str, Any]] = [{"op": "null", "name": v, "inputs": []} for v in variables]
    for number, (op, attrs, inputs) in enumerate(nodes):
        places = [variables.index(i) if i.isalpha() else len(variables) + int(i) for i in inputs]
        rows.append({
            "op": op, "name": f"node{number}", "attrs": attrs,
            "inputs": [[place, 0, 0] for place in places],
        })  # fmt: skip
    graph = {
        "nodes": rows, "arg_nodes": list(range(len(variables))), "heads": [[len(rows) - 1, 0, 0]],
        "attrs": {"is_np_shape": ["int", 1], "mxnet_version": ["int", 10901]},
    }  # fmt: skip
    return json.dumps(graph)


@pytest.mark.parametrize("text", FILES)
def test_files_of_1x_are_read(text: str, tmp_path: Path):
    path = tmp_path / "net-symbol.json"
    path.write_text(_file(FILES[text]))
    expected = eval(text, {"N": np, "P": npx, **_arrays()})
    found = _run(S.load(str(path)))
    assert found.shape == expected.shape
    onp.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)


def test_what_cannot_be_read_is_named():
    with pytest.raises(mx.MXNetError, match="unknown operator '_npi_copyto'"):
        mx.sym.load_json(_file([("_npi_copyto", {}, "x")]))
    with pytest.raises(TypeError, match="_npx_reshape: newshape must be given"):
        mx.sym.load_json(_file([("_npx_reshape", {}, "x")]))


def test_a_network_of_1x_is_read():
    path = Path(__file__).resolve().parents[3] / "data" / "mxnet_1_9_1" / "numpy_net"
    with mx.np_shape(), mx.np_array():
        net = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")
        with onp.load(f"{path}.npz") as saved:
            found = net(np.array(saved["data"]))
            assert type(found) is np.ndarray
            onp.testing.assert_allclose(found.asnumpy(), saved["output"], rtol=1e-6)
        assert {type(p.data()) for p in net.collect_params().values()} == {np.ndarray}
