"""benchmarks/gluonnlp/losses.py: logs, differences, and runs that must not be compared."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mxlite as mx
import pytest

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "gluonnlp"
sys.path.insert(0, str(FOLDER))

import losses  # noqa: E402

LINES = """INFO:root:Training started
INFO:root:[step 2]\tmlm_loss=7.60080\tmlm_acc=0.00\tnsp_loss= 0.69\tnsp_acc=62.50\tthroughput=1.3K tks/s\tlr=0.0004000 time=0.39, latency=393.7 ms/step
INFO:root:[step 3]\tmlm_loss=7.55001\tmlm_acc=1.20\tnsp_loss= 0.70\tnsp_acc=50.00\tthroughput=9.0K tks/s\tlr=0.0006000 time=0.05, latency=53.7 ms/step
INFO:root:Eval mlm_loss=7.100\tmlm_acc=3.5\tnsp_loss=0.690\tnsp_acc=52.1\t
"""  # noqa: E501


def _note(loss: float, training: bool = True, batch: float = 1.0) -> dict[str, Any]:
    return {"training": training, "mlm_loss": loss, "nsp_loss": 0.5, "batch": [batch]}


class _Runner:
    """Notes that are given in place of runs."""

    def __init__(self, folder: Path, notes: dict[str, list[dict[str, Any]]]) -> None:
        self.folder, self.notes = folder, notes

    def run(self, side: str, name: str, options: list[str], start: Path) -> Any:
        folder = self.folder / side
        folder.mkdir()
        changed = "7.55001" if side == "mxnet" else "7.55002"
        (folder / "phase1_log.0").write_text(LINES.replace("7.55001", changed))
        weight = 2.0 if side == "mxnet" else 2.5
        mx.nd.save(str(folder / "0000003.params"), {"w": mx.nd.full((3,), weight)})
        return self.notes[side], folder


def _compare(folder: Path, mxnet: list[Any], mxlite: list[Any]) -> dict[str, Any]:
    start = folder / "start"
    start.mkdir()
    mx.nd.save(str(start / "0000001.params"), {"w": mx.nd.ones((3,))})
    runner = _Runner(folder, {"mxnet": mxnet, "mxlite": mxlite})
    return losses.compare("npz", runner, folder, start, 2)  # type: ignore[arg-type]


def test_lines_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "phase1_log.0").write_text(LINES)
    step, values, rate = losses.read_log(tmp_path)[1]
    assert (step, rate) == ("3", "lr=0.0006000")
    assert values == "mlm_loss=7.55001\tmlm_acc=1.20\tnsp_loss= 0.70\tnsp_acc=50.00"


def test_differences_are_shares_of_the_larger_number() -> None:
    assert losses.relative(0.0, 0.0) == 0
    assert losses.relative(2.0, 1.5) == losses.relative(1.5, 2.0) == 0.25


def test_what_is_reported(tmp_path: Path) -> None:
    evaluation = _note(4.0, training=False)
    found = _compare(tmp_path, [_note(8), _note(4), evaluation], [_note(8), _note(5), evaluation])
    assert [row["step"] for row in found["steps"]] == [2, 3]
    assert found["steps"][1]["mlm_loss"] == {
        "mxnet": 4,
        "mxlite": 5,
        "relative_difference": pytest.approx(0.2),
    }
    assert found["largest_relative_difference"] == {"mlm_loss": pytest.approx(0.2), "nsp_loss": 0}
    assert found["evaluation"]["batches"] == 1
    assert found["log_lines"] == {"each": 2, "alike": 1}
    assert found["parameters"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("mxlite", "message"),
    [
        ([_note(8), _note(4, batch=2.0)], "read the same samples in call 1"),
        ([_note(8)], "numbers of batches must be equal"),
        ([_note(8), _note(float("nan"))], "losses of call 1 must be finite, got"),
        ([_note(8), _note(4), _note(4, training=False)], "numbers of batches must be equal"),
    ],
)
def test_runs_on_other_samples_are_refused(tmp_path: Path, mxlite: Any, message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        _compare(tmp_path, [_note(8), _note(4)], mxlite)


def test_what_is_missing_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["losses.py", "--packages", str(tmp_path)])
    with pytest.raises(SystemExit, match="scripts does not exist: run benchmarks/gluonnlp/setup"):
        losses.main()
