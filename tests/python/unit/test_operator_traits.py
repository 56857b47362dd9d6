"""Facts about operators stand in their schemas, not in lists of names in the Python package."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite import _core, nd, sym
from mxlite.contrib import amp

PACKAGE = Path(mx.__file__).parent
SCHEMAS = {op["name"]: op for op in _core.list_ops()}
NAMES = {name for op in SCHEMAS.values() for name in (op["name"], *op["aliases"])} | {"Custom"}
NAMES -= {"sum", "mean", "min", "max"}  # words for reductions of any kind

# Files that may list operators, and why: none of the lists says what an operator does.
ALLOWED = {
    "_dev/gen_examples.py": "the operators whose examples are written by hand",
    "contrib/quantization/files_1x.py": "the operators whose int8 versions files of 1.x hold",
    "gluon/rnn/base_cell.py": "the activations that cells call as operators",
    "ndarray/methods.py": "the operators that 1.x has as methods of arrays",
    "ndarray/sparse/__init__.py": "the operators that 1.x has in mx.nd.sparse",
    "symbol/operators.py": "the operators that symbols have as methods, besides those of arrays",
}
# Packages that list operators under other names: those of ONNX, of mx.np and of mx.npx.
OTHER_NAMES = ("onnx", "numpy", "numpy_extension")


def _listed(node: ast.AST) -> list[str]:
    """Return the strings of a list, tuple, set, dict or text of words."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        items: list[ast.expr | None] = list(node.elts)
    elif isinstance(node, ast.Dict):
        items = [*node.keys, *node.values]
    elif isinstance(node, ast.Compare):
        items = [node.left, *node.comparators]
    elif isinstance(node, ast.Call):
        items = list(node.args)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        words = node.value.split()
        return words if len(words) > 2 and all(word.isidentifier() for word in words) else []
    else:
        return []
    return [i.value for i in items if isinstance(i, ast.Constant) and isinstance(i.value, str)]


def _exported(tree: ast.Module) -> set[ast.AST]:
    """Return the nodes of ``__all__``: a class may be called as an operator."""
    return {
        part
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for part in ast.walk(node)
    }


def operator_lists(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line and names of what lists at least three operators, and hardly anything else."""
    tree = ast.parse(text)
    exported = _exported(tree)
    for node in ast.walk(tree):
        names = [] if node in exported else _listed(node)
        found = [name for name in names if name in NAMES]
        if len(set(found)) >= 3 and 3 * len(found) >= 2 * len(names):
            yield getattr(node, "lineno", 0), found


def test_no_module_lists_operators():
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}:{line}": names
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in OTHER_NAMES
        for line, names in operator_lists(path.read_text(encoding="utf-8"))
    }
    tables = {at: names for at, names in found.items() if at.split(":")[0] not in ALLOWED}
    assert not tables, "state what is true of these operators in their schemas"
    assert {at.split(":")[0] for at in found} == set(ALLOWED), "entries without a list"


TABLES = [
    'X = ("Convolution", "Pooling", "relu")',
    'X = {"Convolution": 1, "Pooling": 2, "relu": 2}',
    'X = {1: "Convolution", 2: "Pooling", 3: "relu"}',
    'X = "sin cos tan abs".split()',
    'if x in {"sin", "cos", "tan"}: pass',
    'rule("sin", "cos", "tan")(f)',
]
OTHERS = [
    '__all__ = ["Embedding", "Dropout", "Flatten"]',
    '("sin", "cos")',
    '("weight", "bias", "sum")',
    '"""Return the sum and the mean of the data."""',
]


def test_the_scan_finds_tables_and_passes_over_other_lists():
    assert [text for text in (*TABLES, *OTHERS) if list(operator_lists(text))] == TABLES


# ---- sparse storage ------------------------------------------------------------------------------

ZEROS = np.zeros((3, 2), np.float32)


def _one_input() -> list[str]:
    """Return the operators whose sparse results are stored where their input is."""
    kept = []
    for name, op in SCHEMAS.items():
        if len(op["inputs"]) != 1 or any(p["required"] for p in op["params"]) or op["variadic"]:
            continue
        values = nd.array(ZEROS).tostype("csr")
        if _core.bind_arguments(_core.op(name), (values,), {}, False)[3]:
            kept.append(name)
    return kept


KEPT = _one_input()


def test_some_operators_keep_zeros():
    assert {"abs", "sin", "relu", "BlockGrad", "_mul_scalar"} <= set(KEPT)
    assert not {"cos", "exp", "sigmoid", "_plus_scalar"} & set(KEPT)


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_operators_that_keep_zeros_give_zero_for_zero(name, dtype):
    try:
        found = _core.op(name)(nd.array(ZEROS, dtype=dtype))
    except mx.base.DTypeError:
        assert dtype == "int32"  # the operator takes floating types only
        return
    np.testing.assert_array_equal(found.asnumpy(), ZEROS)


SCALARS = [-2.0, -0.5, 0.0, 0.5, 2.0, float("inf"), float("nan")]


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "bool"])
@pytest.mark.parametrize(
    "name", sorted(n for n in SCHEMAS if n.endswith("_scalar") and n != "_slice_assign_scalar")
)
def test_sparse_results_of_scalars_equal_dense_ones(name, dtype):
    """A result is only left sparse where the scalar, in the array's dtype, keeps zeros."""
    op = _core.op(name)
    data = np.array([[0, 1, 0], [0, 0, 0]]).astype(dtype)
    for scalar in SCALARS:
        if dtype in ("int32", "bool") and not np.isfinite(scalar):
            continue
        dense = op(nd.array(data, dtype=dtype), scalar=scalar)
        sparse = op(nd.array(data, dtype=dtype).tostype("csr"), scalar=scalar)
        if name in ("_mul_scalar", "_div_scalar") and (scalar == 0 or not np.isfinite(scalar)):
            assert sparse.stype == "csr"  # without NaNs, as in 1.x
            continue
        np.testing.assert_array_equal(sparse.asnumpy(), dense.asnumpy(), err_msg=str(scalar))


def test_padded_memory_stays_zero_between_convolutions():
    """Element-wise operators run on blocked memory whose padding the next layer reads."""

    def net(x):
        x = nd.Convolution(x, weights[0], no_bias=True, kernel=(3, 3), num_filter=5)
        x = nd.abs(nd.clip(x, a_min=-3, a_max=3))
        x = (x * 2 > 0.1) + nd.sqrt(x) + nd.expm1(x)
        return nd.Convolution(x, weights[1], no_bias=True, kernel=(3, 3), num_filter=7)

    generator = np.random.RandomState(3)
    data = nd.array(generator.standard_normal((2, 3, 12, 12)))
    weights = [nd.array(generator.standard_normal(s) / 6) for s in ((5, 3, 3, 3), (7, 5, 3, 3))]
    graph = _core.CachedGraph(lambda inputs, params: [net(inputs[0])], "padded")
    np.testing.assert_allclose(graph(data).asnumpy(), net(data).asnumpy(), rtol=1e-4, atol=1e-4)


def test_updates_name_their_form_for_rows():
    forms = {n: op["storage"]["row_update"] for n, op in SCHEMAS.items()}
    forms = {name: form for name, form in forms.items() if form is not None}
    assert len(forms) == 6
    for name, form in forms.items():
        update, rows = SCHEMAS[name], SCHEMAS[form["op"]]
        assert rows["inputs"] == ["weight", "values", "indices", *update["inputs"][2:]]
        assert [p["name"] for p in rows["params"]] == [p["name"] for p in update["params"]]


# ---- mixed precision -----------------------------------------------------------------------------


def test_conditions_of_float32_name_values_of_parameters():
    found = {n: op["amp"]["float32_if"] for n, op in SCHEMAS.items()}
    found = {name: condition for name, condition in found.items() if condition is not None}
    assert found == {
        "Activation": ("act_type", ["softrelu"]),
        "LeakyReLU": ("act_type", ["elu", "selu"]),
    }
    for name, (param, values) in found.items():
        (info,) = (p for p in SCHEMAS[name]["params"] if p["name"] == param)
        assert all(repr(value) in info["python_type"] for value in values)


def test_loss_outputs_have_the_scale_that_mixed_precision_changes():
    losses = [n for n, op in SCHEMAS.items() if op["amp"]["loss_output"]]
    assert sorted(losses) == sorted(amp.list_loss_output_functions("float16"))
    for name in losses:
        assert "grad_scale" in [p["name"] for p in SCHEMAS[name]["params"]]


@pytest.mark.parametrize(
    "name", ["BatchNorm", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU"]
)
def test_float32_inputs_of_normalization_stay_so_in_a_half_block(name):
    x, params = sym.var("data"), {"key": "k"} if "Sync" in name else {}
    normalized = _core.op(name)(x, name="n", **params)
    block = mx.gluon.SymbolBlock(sym.FullyConnected(normalized, num_hidden=2, name="fc"), [x])
    block.cast("float16")
    dtypes = {k: np.dtype(p.dtype).name for k, p in block.collect_params().items()}
    assert {dtypes.pop("fc_weight"), dtypes.pop("fc_bias")} == {"float16"}
    assert len(dtypes) == 4 and set(dtypes.values()) == {"float32"}


# ---- symbols -------------------------------------------------------------------------------------


def test_operators_that_choose_storage_have_their_shapes_in_schemas():
    x, index = sym.var("x"), sym.var("index")
    chosen = {n for n, op in SCHEMAS.items() if op["storage"]["chooses_storage"]}
    assert chosen == {"cast_storage", "_sparse_retain", "_square_sum"}
    rows = sym.cast_storage(x, stype="row_sparse")
    assert rows.infer_shape(x=(3, 2))[1] == [(3, 2)]
    kept = sym.sparse.retain(rows, index)
    assert kept.infer_shape(x=(3, 2), index=(1,))[1] == [(3, 2)]
    assert kept.infer_type(x="float16", index="int64")[1] == [np.float16]
    sums = sym._internal._square_sum
    for params, shape in (
        ({"axis": 1, "keepdims": True}, (3, 1)),
        ({"axis": 0}, (2,)),
        ({}, (1,)),
        ({"axis": 0, "exclude": True}, (3,)),
    ):
        assert sums(x, **params).infer_shape(x=(3, 2))[1] == [shape], params


@pytest.mark.parametrize("stype", ["default", "csr", "row_sparse"])
@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_sums_of_squares_of_all_storage_types(axis, exclude, stype):
    data = np.array([[1, -2, 0], [0, 0, 0], [0, 3, 0]], np.float32)
    over = axis
    if exclude and axis is not None:
        over = tuple({0, 1} - set(np.atleast_1d(axis).tolist()))
    expected = np.sum(data**2, axis=over, keepdims=True)
    x = nd.array(data).tostype(stype)
    params = {"axis": () if axis is None else axis, "keepdims": True, "exclude": exclude}
    if exclude and axis == (0, 1):
        return  # reduces nothing: each operator has its own meaning of no axes
    found = nd._internal._square_sum(x, **params)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)
    composed = sym._internal._square_sum(sym.var("x"), **params)
    (run,) = composed.bind(mx.cpu(), {"x": x}).forward()
    np.testing.assert_allclose(run.asnumpy(), expected, rtol=1e-6)


def test_files_name_operators_as_1x_does():
    x = sym.var("x")
    for composed, name in (
        (sym.cumsum(x), "_np_cumsum"),
        (sym.shuffle(x), "_shuffle"),
        (sym.ravel_multi_index(x, shape=(2, 3)), "_ravel_multi_index"),
    ):
        assert json.loads(composed.tojson())["nodes"][-1]["op"] == name
        assert sym.load_json(composed.tojson()).tojson() == composed.tojson()


def test_executors_trace_symbols_without_python(monkeypatch):
    """The graph of a symbol is built by the core: no operator is called from Python."""
    x = sym.var("x")
    net = sym.FullyConnected(sym.relu(x, name="r"), num_hidden=3, name="fc")
    executor = net.simple_bind(mx.cpu(), x=(2, 4))
    for name, array in executor.arg_dict.items():
        array[:] = nd.array(np.random.RandomState(len(name)).standard_normal(array.shape))
    monkeypatch.setattr(_core, "evaluate", None)
    (found,) = executor.forward()
    arrays = {name: array.asnumpy() for name, array in executor.arg_dict.items()}
    expected = np.maximum(arrays["x"], 0) @ arrays["fc_weight"].T + arrays["fc_bias"]
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5)
    assert executor._bound.num_signatures == 1
