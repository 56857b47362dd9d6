"""Meshes, parallel layers, pipelines and checkpoints on several processes of this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "distributed"


@pytest.mark.parametrize(
    ("script", "ranks"),
    [
        *(("parallel_layers.py", ranks) for ranks in (1, 2, 3, 4)),
        ("parallel_mesh.py", 4),
        ("parallel_pipeline.py 1 1", 1),
        ("parallel_pipeline.py 1 3", 3),
        ("parallel_pipeline.py 2 2", 4),
        ("pipeline_tied.py 1 2", 2),
        ("pipeline_tied.py 1 3", 3),
        ("pipeline_tied.py 2 2", 4),
        ("pipeline_tied.py 1 2", 4),
        *(("pipeline_norm.py", ranks) for ranks in (2, 4)),
        ("parallel_language_model.py 2 2", 4),
        ("parallel_language_model.py 1 3", 3),
    ],
)
def test_ranks_compute_what_one_process_does(start, script: str, ranks: int) -> None:
    name, *arguments = script.split()
    start(name, ranks, *arguments)


def test_partial_fc_has_one_result_for_any_number_of_ranks(start, tmp_path: Path) -> None:
    for ranks in (1, 2, 4):  # the first job writes what the others compare with
        start("partial_fc.py", ranks, str(tmp_path / "one.npz"))


def test_a_pipeline_runs_with_the_naive_engine(start) -> None:
    start("parallel_pipeline.py", 3, "1", "3", env={"MXLITE_ENGINE": "naive"})


def test_exported_layers_run_where_they_are_right(start, tmp_path: Path) -> None:
    # The second job also runs what the first one, of a single process, has exported.
    for ranks in (1, 2):
        start("exported_layers.py", ranks, str(tmp_path))


def test_one_script_runs_with_any_mesh(start) -> None:
    losses = set()
    for data, tensor in ((1, 1), (1, 2), (2, 1), (2, 2)):
        result = start("mesh_axes.py", data * tensor, str(data), str(tensor), timeout=120)
        losses |= {float(re.findall(r"loss (.*)", text)[0]) for text in result.output.values()}
    assert max(losses) - min(losses) < 1e-4 and max(losses) < 1.6, losses


def test_a_mesh_trains_digits_like_one_process(start, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    example = str(EXAMPLES / "mesh_digits.py")
    runs = {}
    for data, tensor in ((1, 1), (2, 2), (1, 3)):
        file = tmp_path / f"{data}x{tensor}.json"
        sizes = ("--data", str(data), "--tensor", str(tensor))
        start(example, data * tensor, *sizes, "--epochs", "4", "--json", str(file), timeout=120)
        runs[data, tensor] = json.loads(file.read_text())
    wanted = runs.pop((1, 1))
    assert wanted["losses"][-1] < 0.5
    for sizes, run in runs.items():
        np.testing.assert_allclose(run["losses"], wanted["losses"], rtol=1e-3, err_msg=str(sizes))
        assert abs(run["accuracy"] - wanted["accuracy"]) <= 0.01
