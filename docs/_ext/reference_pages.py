"""Writes the reference pages of the site, when Sphinx starts.

``docs/reference/ops`` gets a page for each operator, from its schema and its rows in
``tests/python/unit/op_cases``; ``docs/reference/api`` a page for each public module, which Sphinx
fills from the docstrings. Git ignores both folders.
"""

from __future__ import annotations

import inspect
import math
import os
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import mxlite
import public_names
from mxlite import _core, ndarray
from mxlite._dev import schema
from mxlite._dev.gen_examples import rows_by_operator
from mxlite.ndarray.signatures import read_examples

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
SCOPE = (
    "import mxlite as mx; from mxlite import autograd, gluon, nd, np, npx\n"
    "from mxlite.gluon import nn, rnn; import numpy as onp; import mxlite.test_utils, mxlite.config"
)
OPERATORS = """\
# Operators

`mx.nd.<name>(inputs..., parameters...)` computes at once, `mx.sym.<name>` makes a node of a symbol,
and `F.<name>` in `hybrid_forward` is one or the other. Inputs and parameters may be given by
position, in the order of the page, or by keyword. Every operator of `mx.nd` also takes `out`, the
array or arrays that receive the result.

Shapes read *inputs -> output*: N is the batch, C the channels, D, H and W are depth, height and
width (oH: of the output), `...` stands for further axes, `[D, H,]` for axes that may be absent.
Functions of `mx.np` are [in the reference of numpy mode](../api/mxlite.numpy.rst).

| operator | |
| --- | --- |
"""
# Operators say their shapes where they are declared; element-wise ones and updates need not.
_UPDATE = "all of one shape -> shape of weight; states are changed in place"
_UPDATES = "weights, gradients and states of one weight behind one another -> one array per weight"
_DRAWN = "no inputs -> `shape`"
_RESULTS = {"one": "an array", "many": "a list of arrays", "any": "an array or a list of arrays"}
_SHOWN_ERRORS = 3
_NEEDS_A_JOB = (
    "The operator needs several processes. [Collective operators]"
    "(../../howto/distributed.md#collective-operators) has programs."
)
_NAMES_OF_A_PAGE = 60
_NAMES_OF_A_PART = 25


def _runs_to(op: dict[str, Any], *inputs: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape of the result for arrays of ones; None for errors and several results."""
    try:
        result = _core.op(op["name"])(*(ndarray.ones(shape) for shape in inputs))
        return None if isinstance(result, list) else tuple(result.shape)
    except Exception:  # every error means: not element-wise
        return None


def shapes(op: dict[str, Any]) -> str:
    """Return "inputs -> output" for an operator of ``_core.list_ops()``."""
    name, count = op["name"], len(op["inputs"])
    if op["shapes"]:
        return str(op["shapes"])
    if name.startswith("random_"):
        return _DRAWN
    if name.startswith(("multi_", "preloaded_multi_")):
        return _UPDATES
    if "update" in name:
        return _UPDATE
    if count == 1 and _runs_to(op, (2, 3, 4)) == (2, 3, 4):
        return "any shape -> the same shape"
    if count == 2 and _runs_to(op, (2, 1, 4), (1, 3, 4)) == (2, 3, 4):
        return "shapes that broadcast as in NumPy -> the broadcast shape"
    if count > 1 and _runs_to(op, *[(2, 3, 4)] * count) == (2, 3, 4):
        return "equal shapes -> the same shape"
    raise ValueError(f"{name}: neither element-wise nor declared with OpBuilder::shapes")


def _cell(text: str) -> str:
    """Return text as one cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def errors(op: schema.Op, rows: list[Any]) -> list[str]:
    """Return list items of errors that calls with bad input raise; the tests have the calls."""
    found = {}
    for case in rows:
        if case.error is None or len(found) == _SHOWN_ERRORS:
            continue
        try:
            result = _core.op(case.name)(*map(ndarray.array, case.inputs), **case.params)
            for array in result if isinstance(result, list) else [result]:
                array.wait_to_read()
        except case.error as error:
            text = str(error).splitlines()[0].replace("`", "'")
            found[f"- `{type(error).__name__}`, for example: `{text}`"] = None
        except Exception:  # depends on the dtype of the row
            continue
    return list(found)


def operator_page(op: schema.Op, rows: list[Any]) -> str:
    """Return the page of one operator."""
    inputs = ", ".join(f"`{'*' if op['variadic'] else ''}{name}`" for name in op["inputs"])
    path = schema.path_of(op)
    signature = f"{path}{schema.stub_signature(op)}"
    lines = [f"# {path}", "", f"```{{py:function}} mxlite.ndarray.{signature}", "```", ""]
    lines += [op["doc"], ""]
    if inputs:
        lines.append(f"- Inputs: {inputs}")
    shape_text = shapes(op).replace("*", "\\*")
    lines += [f"- Shapes: {shape_text}", f"- Returns: {_RESULTS[op['outputs']]}"]
    aliases = [f"`{alias}`" for alias in op["aliases"] if not alias.startswith("_")]
    if aliases:
        lines.append(f"- Also called: {', '.join(aliases)}")
    lines.append(f"- Gradient: {'yes' if op['differentiable'] else 'none'}")
    if op["mutated"]:
        written = [f"`{op['inputs'][i]}`" for i in op["mutated"] if i < len(op["inputs"])]
        lines.append(f"- Writes its inputs: {', '.join(written) or 'yes'}")
    if op["params"]:
        lines += ["", "## Parameters", ""]
        lines += ["| parameter | type | default | |", "| --- | --- | --- | --- |"]
    for p in op["params"]:
        default = "" if p["required"] else f"`{_cell(p['default'] or repr(''))}`"
        doc = f"{p['doc']} Range: {p['range']}." if p["range"] else p["doc"]
        lines.append(f"| `{p['name']}` | `{_cell(p['python_type'])}` | {default} | {_cell(doc)} |")
    raised = errors(op, rows)
    if raised:
        lines += ["", "## Errors", "", *raised]
    example = read_examples().get(op["name"])
    lines += ["", "## Example", ""]
    lines += ["```python", example, "```"] if example else [_NEEDS_A_JOB]
    return "\n".join(lines) + "\n"


def shown_examples() -> dict[str, list[str]]:
    """Return the lines of each example with its result, by the full name.

    Raises
    ------
    ValueError
        An example raises; the message has its line.
    """
    shown: dict[str, list[str]] = {}
    here = os.getcwd()
    for name, (line, statements) in public_names.EXAMPLES.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                result = _evaluate(statements)
            except Exception as error:
                place = f"docs/_ext/examples.txt:{line}"
                raise ValueError(f"{place}: the example of {name} raises {error!r}") from error
            finally:
                os.chdir(here)
        shown[name] = [*(f">>> {statement}" for statement in statements), *result]
    return shown


def _evaluate(statements: list[str]) -> list[str]:
    """Run statements and return the lines that Python would print for the last one."""
    scope: dict[str, Any] = {}
    exec(SCOPE, scope)
    mxlite.random.seed(0)
    exec("\n".join(statements[:-1]), scope)
    try:
        last = compile(statements[-1], "example", "eval")
    except SyntaxError:
        exec(statements[-1], scope)
        return []
    result = eval(last, scope)
    return [] if result is None else repr(result).splitlines()


def _rst_heading(text: str, mark: str) -> list[str]:
    text = text.replace("_", "\\_")
    return [text, mark * len(text), ""]


def module_pages(
    path: str, names: list[public_names.Name], shown: dict[str, list[str]]
) -> dict[str, str]:
    """Return the pages of a public module by file name; Sphinx fills them from the docstrings.

    ``shown`` has the lines of the examples by full name. The names of a large module are on pages
    of their own, one for each file that defines them, or several if the file has many names.
    """
    lines = _rst_heading(path, "=") + [f".. automodule:: {path}", ""]
    if names:
        lines += [".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name.name}" for name in names] + [""]
    if len(names) <= _NAMES_OF_A_PAGE:
        return {f"{path}.rst": "\n".join([*lines, *entries(names, shown)])}
    by_file: dict[str, list[public_names.Name]] = defaultdict(list)
    for name in names:
        by_file[name.value.__module__.rpartition(".")[2]].append(name)
    parts: dict[str, list[public_names.Name]] = {}
    for file, found in by_file.items():
        pages = math.ceil(len(found) / _NAMES_OF_A_PART)
        size = math.ceil(len(found) / pages)
        for i in range(pages):
            title = file if pages == 1 else f"{file}-{i + 1}"
            parts[title] = found[i * size : (i + 1) * size]
    files = {part: f"{path}-{part}" for part in sorted(parts)}
    lines += [".. toctree::", "   :maxdepth: 1", "", *(f"   {file}" for file in files.values())]
    texts = {f"{path}.rst": "\n".join([*lines, ""])}
    for part, file in files.items():
        span = f"{parts[part][0].name} to {parts[part][-1].name}"
        title = f"{path}: {f'{part[:-2]}, {span}' if part[-2:-1] == '-' else part}"
        head = [*_rst_heading(title, "="), f".. currentmodule:: {path}", ""]
        texts[f"{file}.rst"] = "\n".join([*head, *entries(parts[part], shown)])
    return texts


def entries(names: list[public_names.Name], shown: dict[str, list[str]]) -> list[str]:
    """Return the entries of names, with their examples."""
    lines = []
    for name in names:
        kind = "class" if inspect.isclass(name.value) else "function"
        if kind == "class" and issubclass(name.value, BaseException):
            kind = "exception"
        lines += [*_rst_heading(name.name, "-"), f".. auto{kind}:: {name.full}"]
        lines += ["   :members:"] * (kind == "class") + [""]
        if name.full in shown:
            lines += ["Example:", "", ".. code-block:: python", ""]
            lines += [f"   {line}".rstrip() for line in shown[name.full]] + [""]
        if name.also:
            lines += [f"Also published as {', '.join(f'``{other}``' for other in name.also)}.", ""]
    return lines


def modules_index() -> str:
    """Return the page that lists the public modules in groups."""
    lines = _rst_heading("Modules", "=")
    for title, text in {"Package": "", **public_names.MODULES}.items():
        group = [f"mxlite.{path}" for path in text.split()] if text else ["mxlite"]
        lines += [*_rst_heading(title, "-"), ".. toctree::", "   :maxdepth: 1", ""]
        lines += [f"   {path}" for path in group] + [""]
    return "\n".join(lines)


def _write(folder: Path, pages: dict[str, str]) -> None:
    """Write exactly these pages to a folder; unchanged files keep their modification times."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in pages:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def write_pages() -> None:
    """Write the pages of all operators and modules."""
    operators, rows = schema.documented_ops(), rows_by_operator(ROOT / "tests" / "python" / "unit")
    pages = {f"{path}.md": operator_page(op, rows[op["name"]]) for path, op in operators.items()}
    table = [f"| [{path}]({path}.md) | {_cell(op['doc'])} |" for path, op in operators.items()]
    listed = ["", "```{toctree}", ":hidden:", "", *operators, "```", ""]
    _write(FOLDER / "ops", {**pages, "index.md": OPERATORS + "\n".join([*table, *listed])})
    api, shown = {"index.rst": modules_index()}, shown_examples()
    for path, names in public_names.public_names().items():
        api |= module_pages(path, names, shown)
    _write(FOLDER / "api", api)
