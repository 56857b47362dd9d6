"""The kit of the first run on a GPU: time of steps, compiling _core, results of ended tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[3]


def run_all(folder: Path, *arguments: str, second: int = 1) -> subprocess.CompletedProcess[str]:
    """Run all.sh beside three steps: each says its seconds, and the second one fails."""
    shutil.copy(ROOT / "tools/gpu/all.sh", folder)
    for name in ("1_first", "2_second", "3_third"):
        status = second if name == "2_second" else 0
        (folder / f"{name}.sh").write_text(f"echo {name} has $STEP_SECONDS\nexit {status}\n")
    command = ["bash", str(folder / "all.sh"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_steps_share_the_seconds_and_go_on_after_a_failure(tmp_path: Path) -> None:
    done = run_all(tmp_path, "110", "1_first:1", "2_second:3", "3_third:6")
    assert done.returncode == 1
    seconds = [int(line.split()[-1]) for line in done.stdout.splitlines() if " has " in line]
    # 10 of the 110 s are kept, and what a step does not use goes to the others.
    assert len(seconds) == 3
    for found, expected in zip(seconds, (10, 33, 100)):
        assert expected - 3 <= found <= expected
    assert done.stdout.splitlines()[-1] == "not passed: 2_second"


def test_steps_without_time_are_named_and_none_run_where_the_kit_is_broken(tmp_path: Path) -> None:
    done = run_all(tmp_path, "25", "1_first:1", "3_third:1")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "not passed: 1_first"
    assert "3_third has" in done.stdout  # the first one has left its time
    done = run_all(tmp_path, "100", "2_second:1", "3_third:1", second=2)
    assert done.returncode == 2
    assert "3_third has" not in done.stdout


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    for arguments, text in (
        ((), "seconds expected"),
        (("ten",), "seconds expected"),
        (("100", "9_none:1"), "no step 9_none"),
        (("100", "1_first"), "STEP:SHARE expected"),
        (("100", "1_first:0"), "STEP:SHARE expected"),
    ):
        done = run_all(tmp_path, *arguments)
        assert done.returncode == 2
        assert text in done.stderr


COMPILER = """#!/bin/sh
echo "$*" >>calls
case "$*" in *broken*) [ -e mended ] || { echo "no such thing" >&2; exit 1; } ;; esac
while [ "$1" != -o ]; do shift; done
echo made >"$2"
"""


def test_a_compilation_of_core_continues(tmp_path: Path) -> None:
    sources, package = tmp_path / "cpp/python", tmp_path / "kit/python/mxlite"
    for folder in (sources, package):
        folder.mkdir(parents=True)
    for name in ("array", "broken", "gil"):
        (sources / f"{name}.cc").write_text("")
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    command = [sys.executable, str(ROOT / "tools/gpu/compile_core.py"), ".", "kit"]

    def run() -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "CXX": str(compiler)}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    first = run()
    assert first.returncode == 1
    assert "no such thing" in first.stderr
    (tmp_path / "mended").touch()
    assert run().returncode == 0
    assert [path.suffix for path in package.glob("_core*")] == [".so"]
    compiled = [c for c in (tmp_path / "calls").read_text().splitlines() if " -c " in c]
    assert sum("broken" in call for call in compiled) == 2
    assert len(compiled) == 4  # the other two were compiled once


def test_a_run_that_is_ended_writes_its_junit_file(tmp_path: Path) -> None:
    """Parts that boot.sh cuts short have results: the conftest of the GPU's tests sees to it."""
    source = (ROOT / "tests/python/gpu/conftest.py").read_text()
    begin, end = source.index("def interrupt("), source.index("def pytest_collection_modifyitems")
    (tmp_path / "conftest.py").write_text(f"import signal, threading\n\n{source[begin:end]}")
    (tmp_path / "test_slow.py").write_text(
        "import os, signal, time\n"
        "def test_fast(): pass\n"
        "def test_ended():\n"
        "    for _ in range(2):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(60)\n"
        "def test_later(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--junitxml", "junit.xml", "."], cwd=tmp_path, timeout=50, check=False
    )
    assert done.returncode == 2  # interrupted
    cases = ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    assert "test_fast" in {case.get("name") for case in cases}


def test_a_step_reports_the_figures_of_parts_that_were_cut_short(tmp_path: Path) -> None:
    (tmp_path / ".4_x.parts").write_text("profile\t124\t9\ntable\t137\t3\n")
    (tmp_path / ".4_x.profile.json").write_text('{"first_loss": 7.5}')
    (tmp_path / ".4_x.table.json").write_text('[{"name"')  # ended while it wrote
    command = [sys.executable, str(ROOT / "tools/gpu/finish.py"), "4_x", str(tmp_path), "12"]
    subprocess.run(command, check=True)
    profile, table = json.loads((tmp_path / "4_x.json").read_text())["parts"]
    figures = {"first_loss": 7.5}
    assert profile == {"name": "profile", "exit_status": 124, "seconds": 9, "figures": figures}
    assert "figures" not in table and table["figures_error"]
    assert [path.name for path in tmp_path.glob(".4_x.*.json")] == [".4_x.table.json"]
