"""The fuzzer of graphs: programs repeat by seed, all ways to run agree, and faults are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "fuzz"


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
