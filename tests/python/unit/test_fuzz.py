"""Short runs of the fuzzers of tests/fuzz: their options, operators and graphs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "tests" / "fuzz"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    # The name `run` may be that of a script of the benchmarks in this process.
    spec = importlib.util.spec_from_file_location("fuzz_run", FOLDER / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_seeds_are_numbers_or_drawn(run: Any) -> None:
    assert run.seed_number("7") == 7
    drawn = {run.seed_number("random") for _ in range(20)}
    assert len(drawn) > 1
    assert all(0 < seed < 2**31 for seed in drawn)
    for text in ("0", "-1", str(2**31), "x"):
        with pytest.raises(ValueError, match=text):
            run.seed_number(text)


def test_make_fuzz_draws_a_seed_unless_one_is_given() -> None:
    for given, expected in (([], "--seed random"), (["SEED=5"], "--seed 5")):
        command = ["make", "-n", "-s", "-o", "build", "fuzz", *given]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert expected in done.stdout


def test_regressions_of_no_target_are_an_error(run: Any, tmp_path: Path) -> None:
    run.check_regressions(FOLDER / "regressions")
    (tmp_path / "python_idx").mkdir()
    (tmp_path / "python_modle").mkdir()
    with pytest.raises(
        SystemExit, match="has python_modle; expected names of targets: .*python_idx"
    ):
        run.check_regressions(tmp_path)


def test_loaders_run_with_one_thread(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    def started(*args: Any, env: dict[str, str], **kwargs: Any) -> Any:
        seen.append(env)
        return subprocess.CompletedProcess(args, 0, '{"findings": {}}', "")

    monkeypatch.setattr(subprocess, "run", started)
    assert run.run_loader("idx", 1, 1) == {"findings": {}}
    assert seen[0]["OMP_NUM_THREADS"] == "1"
    assert "PATH" in seen[0]


def test_random_calls_of_operators_end_well(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    result = subprocess.run(
        [
            sys.executable,
            str(FOLDER / "operators.py"),
            "--calls",
            "500",
            "--seed",
            "14",
            "--json",
            str(figures),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    summary = json.loads(figures.read_text())
    assert summary["calls"] == 500
    assert summary["findings"] == []
    assert summary["operators"] > 0.55 * summary["operators in the registry"]
    assert summary["results"]["ran"] > 100
    assert summary["results"]["values"] > 20


@pytest.fixture
def numpy_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    import numpy_calls as module

    yield module


def test_random_calls_of_numpy_functions_agree(numpy_calls: Any) -> None:
    figures = numpy_calls.run(300, seed=5)
    assert figures.differences == []
    assert figures.calls.total() == 300
    assert len(figures.calls) > 50
    assert figures.kinds["hybridized"] > 50
    assert figures.kinds["gradient"] > 10 and figures.kinds["out"] > 10


def test_a_wrong_function_of_numpy_is_found(
    numpy_calls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = numpy_calls.np.floor
    monkeypatch.setattr(numpy_calls.np, "ceil", wrong)
    figures = numpy_calls.run(60, seed=1, only="ceil")
    assert len(figures.differences) == 1
    assert "ceil" in figures.differences[0]


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    import graphs as module

    yield module


def test_programs_repeat_by_seed(graphs: Any) -> None:
    texts = [str(graphs.make_call(3, number)) for number in range(5)]
    assert texts == [str(graphs.make_call(3, number)) for number in range(5)]
    assert len(set(texts)) == 5
    program = graphs.make_call(3, 0).program
    assert 3 <= len(program.steps) <= 15
    assert program.heads


def test_random_graphs_agree(graphs: Any) -> None:
    kinds = [graphs.run_call(graphs.make_call(3, number)) for number in range(40)]
    assert kinds == [("same", "")] * 40


@pytest.mark.parametrize("what", ["output", "gradient"])
def test_a_small_error_is_found_and_shortened(
    graphs: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(program: Any) -> Any:
        results = graphs._run_symbol(program)
        name = next(name for name in results if name.startswith(what))
        results[name] = results[name] * np.float32(1.001) + np.float32(1e-4)
        return results

    monkeypatch.setattr(graphs, "_MODES", {"planted": run})
    call = graphs.make_call(3, 0)
    kind, text = graphs.run_call(call)
    assert kind == "wrong value"
    assert text.startswith(f"planted: {what}")
    steps = [line for line in text.splitlines() if line.startswith("v") and " = F." in line]
    assert len(steps) < len(call.program.steps) / 2
