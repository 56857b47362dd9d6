"""A short run of the operator fuzzer: no signal, no hang, no wrong value, no undocumented error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FUZZER = Path(__file__).resolve().parents[2] / "fuzz" / "operators.py"


def test_random_calls_of_operators_end_well(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    result = subprocess.run(
        [sys.executable, str(FUZZER), "--calls", "500", "--seed", "14", "--json", str(figures)],
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
