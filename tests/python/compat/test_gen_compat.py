"""The generator of docs/compat.md."""

from __future__ import annotations

import mxlite as mx
import pytest
from mxlite._dev import gen_compat


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
    assert "NDArrayHandle" in found["mxnet.base"].missing
    assert "np" in found["mxnet"].missing and "nd" in found["mxnet"].done
    assert "off is accepted" in found["mxnet.util"].differs["set_np"]


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
    assert "- `set_np` differs: NumPy shapes can be switched on" in page
    if gen_compat.README.is_file():
        text = " ".join(gen_compat.readme(sections).split())
        assert f"{done} are done, {differs} differ and {missing} are missing" in text
