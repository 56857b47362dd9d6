"""``mypy --strict`` accepts good scripts of users and finds the mistake in each other one."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import mxlite as mx
import pytest
from mistakes import BEGIN, MISTAKES

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
CACHE = Path(__file__).resolve().parents[3] / ".mypy_cache" / "user_scripts"


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> dict[str, list[str]]:
    """Lines of one run of mypy over all scripts, by file."""
    pytest.importorskip("mypy", reason="the checker is a tool of developers")
    folder = tmp_path_factory.mktemp("mistakes")
    files = []
    for name, (code, _) in MISTAKES.items():
        files.append(folder / f"wrong_{name}.py")
        files[-1].write_text(f"{BEGIN}{code}\n")
    assert len(SCRIPTS) >= 10 and len(files) >= 20
    options = ["--strict", "--config-file=", f"--cache-dir={CACHE}", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *map(str, [*SCRIPTS, *files])],
        cwd=folder,
        # As installed: mypy then reads mxlite's annotations because of py.typed only.
        env={**os.environ, "PYTHONPATH": str(Path(mx.__file__).resolve().parents[1])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    lines: dict[str, list[str]] = {file.stem: [] for file in [*SCRIPTS, *files]}
    for line in done.stdout.splitlines():
        stem = Path(line.partition(":")[0]).stem
        if ": error: " in line:
            lines[stem].append(line)
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_good_script_is_accepted(report, script):
    assert report[script.stem] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found_and_nothing_else(report, name):
    begin, expected = len(BEGIN.splitlines()), MISTAKES[name][1]
    assert len(report[f"wrong_{name}"]) == 1, report[f"wrong_{name}"]
    assert expected in report[f"wrong_{name}"][0]
    assert int(report[f"wrong_{name}"][0].split(":")[1]) > begin


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_good_script_runs(script, capsys):
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
