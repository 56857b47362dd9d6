"""Jobs on Ray actors, on this machine; needs the package ray, which CI does not install."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from processes import run_python

pytest.importorskip("ray")
EXAMPLE = Path(__file__).resolve().parents[3] / "examples/distributed/ray_digits.py"


def results(*args: object) -> list[dict]:
    done = run_python(EXAMPLE, *args, RAY_AUTH_MODE="disabled", timeout=400)
    return [ast.literal_eval(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("workers", [2, 4])
def test_every_actor_is_a_rank(workers: int) -> None:
    found = results("--workers", workers, "--epochs", 3, "--cpus-per-worker", 0.25)
    assert [(r["rank"], r["size"]) for r in found] == [(i, workers) for i in range(workers)]
    assert all(r["epochs"] == [1, 2, 3] and r["accuracy"] > 0.8 for r in found)


def test_a_lost_rank_costs_what_came_after_the_last_commit(tmp_path: Path) -> None:
    found = results("--lose-a-rank", tmp_path / "lost", "--cpus-per-worker", 0.25)
    assert [r["epochs"] for r in found] == [[3, 4, 5], [3, 4, 5]]
    assert found[0]["accuracy"] == found[1]["accuracy"] > 0.85
