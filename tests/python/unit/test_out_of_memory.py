"""An allocation that fails anywhere raises MemoryError and leaves the process usable."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from processes import run_python

FAULTS = Path(__file__).resolve().parents[3] / "tests" / "faults"
sys.path.insert(0, str(FAULTS))
import fault_jobs  # noqa: E402
import out_of_memory  # noqa: E402


@pytest.mark.skipif(
    fault_jobs.find_library(out_of_memory.INTERPOSER) is None, reason="needs target cpp_tests"
)
@pytest.mark.parametrize(
    ("program", "step"), [("arrays", 7), ("training", 61), ("hybrid", 61), ("custom", 17)]
)
def test_failing_allocations(program: str, step: int) -> None:
    """A sample of what tests/faults/out_of_memory.py does for every allocation."""
    words = [f"--program={program}", f"--first={step // 2 + 1}", f"--step={step}", "--last=1500"]
    result = run_python(FAULTS / "out_of_memory.py", *words, timeout=600)
    assert "MemoryError': 0" not in result.stdout, "no allocation was refused"
