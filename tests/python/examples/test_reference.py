"""The reference of the site: every operator has a page, names are documented, faults are found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import public_names  # noqa: E402
import reference_pages  # noqa: E402
from mxlite import metric, nd, npx  # noqa: E402
from mxlite import np as np_functions  # noqa: E402
from mxlite._dev import gen_examples, schema  # noqa: E402
from mxlite.gluon import rnn  # noqa: E402
from mxlite.ndarray.signatures import read_examples  # noqa: E402

NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]\d+)?")


def test_documented_names_do_not_decrease():
    assert public_names.faults() == []


def test_a_name_without_description_is_named_with_its_line(monkeypatch):
    monkeypatch.setattr(metric.Accuracy, "__doc__", None)
    (fault,) = [f for f in public_names.faults() if "lacks description" in f]
    assert fault.startswith("python/mxlite/metric/classification.py:")
    assert "mxlite.metric.Accuracy" in fault


def test_every_operator_has_a_page_with_shapes_and_an_example():
    rows = reference_pages.rows_by_operator(ROOT / "tests" / "python" / "unit")
    for path, op in schema.documented_ops().items():
        page = reference_pages.operator_page(op, rows[op["name"]])
        assert page.startswith(f"# {path}\n")
        assert "\n- Shapes: " in page
        assert page.count(">>> ") > 1 or "needs several processes" in page


def test_examples_of_operators_are_up_to_date():
    lines = {name: text.splitlines() for name, text in read_examples().items()}
    made = gen_examples.examples(ROOT / "tests" / "python" / "unit")
    assert set(lines) == set(made)
    for name, expected in made.items():
        assert [x for x in lines[name] if ">>>" in x] == [x for x in expected if ">>>" in x]
        shown, computed = (NUMBER.findall(" ".join(text)) for text in (lines[name], expected))
        np.testing.assert_allclose(np.float64(shown), np.float64(computed), atol=2e-4, err_msg=name)


def test_listed_parameters_exist():
    known: dict[str, set[str]] = {}
    for path, found in public_names.public_names().items():
        for name in found:
            parameters = public_names._parameters(name.value)
            module = path
            while module:
                keys = {*parameters, *(f"{name.name}.{key}" for key in parameters), name.name}
                known.setdefault(module, set()).update(keys)
                module = module.rpartition(".")[0]
    for module, section in public_names.SECTIONS.items():
        listed = {*section.parameters, *section.likes, *section.results}
        assert listed <= known[module], module


def test_added_sections_read_as_docstrings():
    lines = public_names.added_sections("mxlite.numpy", "swapaxes", np_functions.swapaxes)
    assert lines[:4] == ["", "Parameters", "----------", "a : ndarray"]
    assert lines[-2] == "axis2 : int"
    gru = public_names.added_sections("mxlite.gluon.rnn", "GRU", rnn.GRU)
    assert "hidden_size : int" in gru  # from the docstring of RNN
    assert public_names.added_sections("mxlite.numpy", "add", np_functions.add) == []


def test_help_shows_examples():
    assert ">>> result = mx.nd.contrib.box_nms(" in nd.contrib.box_nms.__doc__
    assert ">>> result = mx.npx.relu(" in npx.relu.__doc__
    assert ">>> data = mx.np." in npx.softmax.__doc__


def test_a_method_without_description_is_named_with_its_line(monkeypatch):
    monkeypatch.setattr(metric.Accuracy.update, "__doc__", None)
    (fault,) = [f for f in public_names.faults() if "lacks description" in f]
    assert "mxlite.metric.Accuracy.update lacks description" in fault


def test_examples_of_the_reference_run():
    shown = reference_pages.shown_examples()
    assert shown["mxlite.numpy.sqrt"][0].startswith(">>> ")
    names = {name.full for found in public_names.public_names().values() for name in found}
    assert set(shown) <= names


def test_an_example_that_raises_names_its_line(monkeypatch):
    monkeypatch.setitem(public_names.EXAMPLES, "mxlite.waitall", (7, ["1 / 0"]))
    with pytest.raises(ValueError, match=r"examples.txt:7: the example of mxlite.waitall raises"):
        reference_pages.shown_examples()


@pytest.mark.parametrize(
    "body, problem",
    [
        ('<a href="missing.html">x</a>', "missing.html: there is no such file"),
        ('<a href="#nowhere">x</a>', "#nowhere: the page has no such anchor"),
        ('<script src="https://example.org/x.js"></script>', "from another host"),
        ('<a href="https://example.org" id="here">x</a><a href="#here">y</a>', ""),
    ],
)
def test_the_link_checker_finds_faults(tmp_path, body, problem):
    (tmp_path / "index.html").write_text(f"<html>\n<body>{body}</body></html>")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "check_site.py", tmp_path], capture_output=True, text=True
    )
    assert done.returncode == (1 if problem else 0)
    assert problem in done.stdout
    assert not problem or f"{tmp_path.resolve()}/index.html:2: " in done.stdout
