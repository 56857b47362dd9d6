"""Parameters have the names of MXNet 1.9.1, which docs/migrate/compat.md lists."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd, sym
from mxlite._dev import gen_compat

# Callables that no program calls by keyword: constructors that take handles of 1.9.1's C interface
# or that only the library calls, methods that blocks call, and an operator that 1.9.1 describes
# wrongly.
NOT_TAKEN = {
    "mxnet.executor.Executor",
    "mxnet.gluon.data.dataloader._MultiWorkerIter",
    "mxnet.gluon.rnn.rnn_cell.HybridSequentialRNNCell.hybrid_forward",
    "mxnet.gluon.rnn.rnn_cell.ModifierCell.hybrid_forward",
    "mxnet.io.io.MXDataIter",
    "mxnet.kvstore.kvstore.KVStore",
    "mxnet.ndarray._internal._linspace",
    "mxnet.symbol._internal._linspace",
}


def test_every_name_takes_the_keywords_of_1x(alias: Any) -> None:
    refused = {
        f"{section.module}.{name}": text
        for section in gen_compat.sections()
        for name, text in section.differs.items()
        if "does not take" in text and f"{section.module}.{name}" not in NOT_TAKEN
    }
    assert refused == {}


MATRIX = nd.array([[0.0, 2.0], [3.0, 0.0]])
CSR = MATRIX.tostype("csr")
X = sym.var("x")


def value_of(result: Any) -> Any:
    """Return an array's or a symbol's values as lists; of a symbol for x = 3."""
    if isinstance(result, sym.Symbol):
        result = result.eval(x=nd.array([3.0]))[0]
    return result.asnumpy().tolist()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: sym.pow(base=X, exp=2), [9]),
        (lambda: sym.power(base=2, exp=X), [8]),
        (lambda: nd.power(base=nd.array([3]), exp=2), [9]),
        (lambda: nd.array([3]).broadcast_like(other=nd.ones((2, 1))), [[3], [3]]),
        (lambda: nd.array([3]).broadcast_like(rhs=nd.ones((2, 1))), [[3], [3]]),
        (lambda: nd.array([[3]]).broadcast_like(nd.ones((2,)), lhs_axes=0, rhs_axes=0), [[3], [3]]),
        (lambda: X.expand_dims(axis=0, inplace=True), [[3]]),
        (lambda: X.expand_dims(0).squeeze(axis=0, inplace=False), [3]),
        (lambda: X.flatten(inplace=True), [[3]]),
        (lambda: X.diag(k=0), [[3]]),
        (lambda: sym.Group([X], create_fn=sym.Symbol), [3]),
        (lambda: nd.from_numpy(np.ones(2, "float32"), array_cls=nd.NDArray), [1, 1]),
    ],
)
def test_calls_by_keyword(call: Any, expected: Any) -> None:
    assert value_of(call()) == expected


@pytest.mark.parametrize(
    ("call", "shape", "expected"),
    [
        (lambda **k: nd.contrib.edge_id(CSR, nd.array([0, 1]), nd.array([1, 1]), **k), 2, [2, -1]),
        (lambda **k: nd.contrib.getnnz(CSR, axis=0, **k), 2, [1, 1]),
        (lambda **k: nd.sparse.cast_storage(CSR, "default", **k), (2, 2), [[0, 2], [3, 0]]),
        (lambda **k: nd.contrib.boolean_mask(MATRIX, nd.array([0, 1]), **k), (1, 2), [[3, 0]]),
        (lambda **k: nd.random.uniform_like(data=nd.ones(2), low=1, high=1, **k), 2, [1, 1]),
    ],
)
def test_functions_that_are_no_operators_take_out_and_name(
    call: Any, shape: Any, expected: Any
) -> None:
    out = nd.zeros(shape)
    assert call(out=out, name="n") is out
    assert out.asnumpy().tolist() == expected == call().asnumpy().tolist()


def test_rows_are_retained_into_out() -> None:
    rows = MATRIX.tostype("row_sparse")
    for retain in (rows.retain, lambda *a, **k: nd.sparse.retain(rows, *a, **k)):
        out = nd.sparse.zeros("row_sparse", (2, 2))
        assert retain(nd.array([1]), out=out, name="n") is out
        assert out.asnumpy().tolist() == [[0, 0], [3, 0]]


def test_classes_take_the_keywords_of_1x() -> None:
    scope = mx.AttrScope(group="a")
    assert scope.get(attr={"b": "c"}) == {"group": "a", "b": "c"}
    local = mx.metric.PCC(has_global_stats=False)
    both = mx.metric.CompositeEvalMetric(metrics=[local, mx.metric.Accuracy()])
    both.update_dict(labels={"l": nd.array([0, 1])}, preds={"p": nd.array([[0.9, 0.1], [0, 1]])})
    assert dict(both.get_name_value()) == {"pcc": 1, "accuracy": 1}
    local.reset_local()
    assert np.isnan(local.get_global()[1])
    cell = gluon.rnn.RNNCell(2, input_size=1)
    cell.initialize()
    output, states = cell.forward(inputs=nd.ones((1, 1)), states=cell.begin_state(batch_size=1))
    assert output.shape == (1, 2) and len(states) == 1
    wrapped = mx.rnn.ZoneoutCell(mx.rnn.RNNCell(2, prefix="r_"))
    assert wrapped.begin_state(init_sym=sym.ones)[0].list_attr()["shape"]
    assert str(mx.error.InternalError(msg="broken")) == "broken"
    loss = gluon.loss._apply_weighting(nd, nd.ones(2))
    assert loss.asnumpy().tolist() == [1, 1]


def test_only_arrays_of_mxlite_are_made_of_numpy_arrays() -> None:
    with pytest.raises(NotImplementedError, match="array_cls must be NDArray, got str"):
        nd.from_numpy(np.ones(2), array_cls=str)


@pytest.fixture(scope="module")
def found():
    return {section.module: section for section in gen_compat.sections()}


def test_every_name_of_the_list_is_in_one_of_three_groups(found):
    for module, names in gen_compat.surface().items():
        section = found[module]
        listed = [*section.done, *section.differs, *section.missing]
        assert len(listed) == len(set(listed))
        assert set(names) <= set(listed), module


def test_what_is_there_is_done_and_what_is_not_is_missing(found):
    assert {"Context", "cpu"} <= set(found["mxnet.context"].done)
    assert "MXCallbackList" in found["mxnet.base"].missing
    assert "torch" in found["mxnet"].missing and "np" in found["mxnet"].done
    assert "whole process" in found["mxnet.util"].differs["set_np"]


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        (lambda data, axis, name: None, []),
        (lambda data, *axis, name: None, ["axis"]),
        (lambda data, **others: None, ["axis", "name"]),
        (eval("lambda data, /, axis, name: None"), ["data"]),
        (mx.nd.op.softmax, []),
        (mx.sym.relu, ["axis"]),
        (mx.symbol.symbol.load_json, ["data", "axis", "name"]),
    ],
)
def test_parameters_that_cannot_be_given_by_keyword_are_a_difference(value, refused):
    wanted = ["self", "data", "axis", "name", "*args", "**kwargs"]
    assert gen_compat.refused_parameters(wanted, value, gen_compat.all_by_name()) == refused


def test_a_difference_does_not_hide_that_parameters_are_not_taken(monkeypatch):
    monkeypatch.setitem(gen_compat.DIFFERENCES, "mxnet.ndarray._internal._linspace", "text")
    survey = gen_compat.Survey("mxnet.ndarray._internal", gen_compat.all_by_name())
    section = survey.run({"_linspace": ["start", "step"]})
    assert section.differs == {"_linspace": "text; does not take `step`"}


def test_table_of_differences_names_only_what_exists(monkeypatch):
    monkeypatch.setitem(gen_compat.DIFFERENCES, "mxnet.no_such_name", "text")
    with pytest.raises(SystemExit, match="mxnet.no_such_name"):
        gen_compat.sections()


def test_page_and_readme_have_the_counts(found):
    sections = list(found.values())
    done, differs, missing = gen_compat.totals(
        [s for s in sections if not s.module.startswith(gen_compat.NUMPY_MODE)]
    )
    page = gen_compat.page(sections)
    assert f"| all but numpy mode | {done} | {differs} | {missing} |" in page
    assert "- `set_np` differs: switches the whole process" in page
    if gen_compat.README.is_file():
        done, differs, missing = gen_compat.totals(sections)
        text = " ".join(gen_compat.readme(sections).split())
        assert f"{done} are done, {differs} differ and {missing} are missing" in text
