"""Options of ``tests/fuzz/run.py``: the seed, and folders of regressions."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = ROOT / "tests" / "fuzz"
    monkeypatch.syspath_prepend(str(folder))
    # The name `run` may be that of a script of the benchmarks in this process.
    spec = importlib.util.spec_from_file_location("fuzz_run", folder / "run.py")
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
    run.check_regressions(ROOT / "tests" / "fuzz" / "regressions")
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
