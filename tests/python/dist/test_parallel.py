"""Meshes, parallel layers, pipelines and checkpoints on several processes of this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "distributed"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_layers_equal_those_of_one_process(start, ranks: int) -> None:
    result = start("parallel_layers.py", ranks, timeout=120)
    # Where the processor has no bfloat16 kernels, a line about them comes first.
    assert [text.split("\n")[-2] for _, text in sorted(result.output.items())] == [
        f"done {r}" for r in range(ranks)
    ]


def test_exported_layers_run_where_they_are_right(start, tmp_path: Path) -> None:
    # The second job also runs what the first one, of a single process, has exported.
    for ranks in (1, 2):
        result = start("exported_layers.py", ranks, str(tmp_path), timeout=120)
        assert [text.strip() for _, text in sorted(result.output.items())] == [
            f"done {r}" for r in range(ranks)
        ]


def test_meshes_and_mistakes(start) -> None:
    result = start("parallel_mesh.py", 4, timeout=120)
    assert all("done" in text for text in result.output.values()) and len(result.output) == 4


def test_one_script_runs_with_any_mesh(start) -> None:
    losses = set()
    for data, tensor in ((1, 1), (1, 2), (2, 1), (2, 2)):
        result = start("mesh_axes.py", data * tensor, str(data), str(tensor), timeout=120)
        losses |= {float(re.findall(r"loss (.*)", text)[0]) for text in result.output.values()}
    assert max(losses) - min(losses) < 1e-4 and max(losses) < 1.6, losses


_KILLED = """
import os, signal
import mxlite as mx
from mxlite.gluon import nn
from mxlite.gluon.contrib import parallel

mesh = mx.parallel.mesh(data=2, tensor=2)
group = mesh.group("tensor")
net = nn.HybridSequential()
net.add(
    parallel.ColumnParallelDense(16, group, in_units=8, activation="relu"),
    parallel.RowParallelDense(8, group, in_units=16),
)
net.initialize()
net.hybridize()
trainer = mx.horovod.DistributedTrainer(
    net.collect_params(), "sgd", {"learning_rate": 1e-3}, process_set=mesh.group("data")
)
x = mx.nd.ones((4, 8))
try:
    for step in range(1000000):
        if step == 20 and mesh.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        with mx.autograd.record():
            y = net(x)
            loss = (y * y).mean()
        loss.backward()
        trainer.step(4)
        loss.wait_to_read()
except mx.MXNetError as error:
    print("error", str(error).replace(chr(10), " "), flush=True)
os._exit(0)
"""


def test_survivors_of_a_tensor_parallel_job_name_a_killed_rank(start) -> None:
    options = ("--mca", "orte_abort_on_non_zero_status", "0", "--enable-recovery")
    program = _KILLED.replace("import mxlite as mx", "import mxlite as mx, mxlite.horovod", 1)
    result = start(program, 4, ok=False, timeout=60, options=options)
    for rank in (0, 1, 3):
        assert re.search(r"error .*rank 2", result.output.get(rank, "")), result.text


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


@pytest.mark.parametrize(("data", "stages"), [(1, 1), (1, 3), (2, 2)])
def test_a_pipeline_equals_one_process(start, data: int, stages: int) -> None:
    result = start("parallel_pipeline.py", data * stages, str(data), str(stages), timeout=120)
    assert all("done" in text for text in result.output.values()), result.text
    assert len(result.output) == data * stages


@pytest.mark.parametrize("stages", [2, 3])
def test_stages_without_gradients_learn_that_a_later_one_has_failed(start, stages: int) -> None:
    result = start("pipeline_integers.py", stages, timeout=120)
    assert all("done" in text for text in result.output.values()), result.text
    assert len(result.output) == stages


def test_a_pipeline_runs_with_the_naive_engine(start) -> None:
    naive = {"MXLITE_ENGINE": "naive"}
    result = start("parallel_pipeline.py", 3, "1", "3", env=naive, timeout=120)
    assert all("done" in text for text in result.output.values()), result.text
    assert len(result.output) == 3


@pytest.mark.parametrize("ranks", [2, 4])
def test_gradients_of_all_stages_are_clipped_together(start, ranks: int) -> None:
    result = start("pipeline_norm.py", ranks, timeout=120)
    assert [text.strip() for _, text in sorted(result.output.items())] == [
        f"done {r}" for r in range(ranks)
    ]


@pytest.mark.parametrize(("data", "tensor"), [(2, 2), (1, 3)])
def test_a_mesh_trains_a_language_model_like_one_process(start, data: int, tensor: int) -> None:
    sizes = (str(data), str(tensor))
    result = start("parallel_language_model.py", data * tensor, *sizes, timeout=120)
    assert all("done" in text for text in result.output.values()), result.text
    assert len(result.output) == data * tensor
