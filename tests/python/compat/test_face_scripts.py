"""Programs that make the calls of InsightFace's MXNet scripts run through the import alias."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from alias_runner import run
from processes import run_python

FACES = Path(__file__).resolve().parent / "faces"


def test_a_module_with_a_margin_learns(tmp_path):
    done = run(str(FACES / "margin_module.py"), cwd=tmp_path)
    (found,) = re.findall(r"epochs (\[.*\]) accuracy (\S+) loss (\S+)", done.stdout)
    assert found[0] == "[0, 1, 2, 3, 4, 5]" and float(found[1]) > 0.7
    assert "Speed: " in done.stderr and "lossvalue=" in done.stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_centres_with_own_collectives_learn(tmp_path, ranks):
    launch = ["-m", "mxlite.run", "-np", ranks]
    script = ["python", "-m", "mxlite.compat", FACES / "sampled_module.py"]
    done = run_python(*launch, *script, cwd=tmp_path, OMP_NUM_THREADS="1", timeout=100)
    found = re.findall(r"rank (\d) losses (\S+) (\S+)", done.stdout)
    assert sorted(rank for rank, _, _ in found) == [str(rank) for rank in range(ranks)]
    for _, first, last in found:
        assert float(last) < 0.3 * float(first)
    assert len({first for _, first, _ in found}) == 1  # all ranks have the loss of all samples
