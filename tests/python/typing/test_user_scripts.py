"""mypy and pyright accept correct user scripts, and find the mistake in each wrong script."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import mxlite as mx
import pytest
from mistakes import BEGIN, MISTAKES

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
CACHE = Path(__file__).resolve().parents[3] / ".mypy_cache" / "user_scripts"


class Error(NamedTuple):
    """One error that a checker reports."""

    script: str
    line: int
    text: str


@pytest.fixture(scope="module")
def scripts(tmp_path_factory) -> list[Path]:
    """Return the correct scripts, and one script for each mistake."""
    folder = tmp_path_factory.mktemp("mistakes")
    files = []
    for name, (code, _) in MISTAKES.items():
        files.append(folder / f"wrong_{name}.py")
        files[-1].write_text(f"{BEGIN}{code}\n")
    assert len(SCRIPTS) >= 10 and len(files) >= 20
    return [*SCRIPTS, *files]


def run_checker(*command: str, folder: Path) -> str:
    """Return what a checker prints if mxlite is an installed package."""
    done = subprocess.run(
        command,
        cwd=folder,
        # A package on PYTHONPATH counts as installed: checkers read its annotations only if it has
        # py.typed.
        env={**os.environ, "PYTHONPATH": str(Path(mx.__file__).resolve().parents[1])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def of_mypy(scripts: list[Path]) -> list[Error]:
    """Return the errors of ``mypy --strict``."""
    pytest.importorskip("mypy", reason="the checker is a tool of developers")
    options = ["--strict", "--config-file=", f"--cache-dir={CACHE}", "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *options, *map(str, scripts)]
    found = []
    for line in run_checker(*command, folder=scripts[-1].parent).splitlines():
        file, number, *text = line.split(":", 2)
        if ": error: " in line:
            found.append(Error(Path(file).stem, int(number), "".join(text)))
    return found


def of_pyright(scripts: list[Path]) -> list[Error]:
    """Return the errors of pyright with its default settings."""
    pytest.importorskip("pyright", reason="the checker is a tool of developers")
    folder = scripts[-1].parent
    (folder / "pyrightconfig.json").write_text(
        json.dumps({"extraPaths": [str(Path(mx.__file__).resolve().parents[1])]})
    )
    python = ["--pythonpath", sys.executable, "--outputjson", "--project", str(folder)]
    for script in SCRIPTS:  # pyright takes files or settings, not both
        shutil.copy(script, folder)
    report = json.loads(run_checker(sys.executable, "-m", "pyright", *python, folder=folder))
    return [
        Error(Path(one["file"]).stem, one["range"]["start"]["line"] + 1, one["message"])
        for one in report["generalDiagnostics"]
        if one["severity"] == "error"
    ]


@pytest.fixture(scope="module", params=[of_mypy, of_pyright], ids=["mypy", "pyright"])
def errors(request, scripts) -> tuple[str, dict[str, list[Error]]]:
    """The checker's name, and its errors by script; each script is checked once."""
    found: dict[str, list[Error]] = {script.stem: [] for script in scripts}
    for error in request.param(scripts):
        found[error.script].append(error)
    return request.param.__name__, found


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_good_script_is_accepted(errors, script):
    assert errors[1][script.stem] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found_and_nothing_else(errors, name):
    checker, by_script = errors
    found = by_script[f"wrong_{name}"]
    assert found and len({error.line for error in found}) == 1, found
    assert found[0].line > len(BEGIN.splitlines())
    if checker == "of_mypy":
        assert len(found) == 1 and MISTAKES[name][1] in found[0].text, found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_good_script_runs(script, capsys):
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
