"""benchmarks/dlperf: DLPerf's arguments, logs that its extractor reads, batches for all systems."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import run_command, run_python
from test_bert_scripts import synthetic_samples, write_samples, write_vocabulary
from test_imagenet_script import write_records

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from dlperf import extract
from dlperf.bert import recipe


def run_script(
    folder: Path,
    model: str,
    *arguments: str,
    script: str = "runner.sh",
    status: int | None = 0,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    path = BENCHMARKS / "dlperf" / model / script
    one = {"OMP_NUM_THREADS": "1", **variables}
    return run_command("bash", path, *arguments, cwd=folder, status=status, environment=one)


@pytest.mark.dist
def test_the_runner_of_dlperf_writes_logs_that_its_extractor_reads(
    tmp_path: Path,
) -> None:
    write_records(tmp_path, "train", 22)
    run_script(
        *(tmp_path, "resnet50", "2", "0,1", "1", "fp32", "3", "--max-batches", "4"),
        *("--input-size", "32"),
        **{"DEVICE": "cpu", "PYTHON": sys.executable, "DATA_DIR": str(tmp_path)},
    )
    log = tmp_path / "logs" / "mxlite" / "resnet50" / "bz2" / "1n2g" / "rn50_b2_fp32_3.log"
    lines = [line for line in log.read_text().splitlines() if "Epoch[0] Batch[" in line]
    assert len(lines) == 4  # only rank 0 writes
    numbers = [re.search(r"Speed: (\d+.\d+) samples/sec", line) for line in lines]
    speeds = [float(found.group(1)) for found in numbers if found]
    run = extract.read_log(log, None, warm_up=1, batches=4)
    assert run.system == "mxnet-resnet50"
    assert (run.job.ranks, run.job.batch, run.job.dtype, run.job.run) == (2, 2, "fp32", 3)
    assert run.value == pytest.approx(np.mean(speeds[1:]))


@pytest.mark.parametrize(
    ("model", "arguments", "variables", "words"),
    [
        ("resnet50", "", {}, "DATA_DIR is not set, expected the folder of train.rec"),
        ("resnet50", "2 0 1 fp8", {}, "dtype 'fp8' given, fp32, fp16 or bf16"),
        (
            *("resnet50", "2 0 2 fp32", {"NODE1": "a"}),
            "NODE2 is not set, the address of node 2 expected",
        ),
        ("resnet50", "0", {}, "batch is '0', a number from 1 expected"),
        ("resnet50", "2 0,", {}, "gpus is '0,', numbers with commas between"),
        ("resnet50", "2 0 two", {}, "nodes is 'two', a number from 1 expected"),
        ("bert", "base -2", {}, "batch is '-2', a number from 1 expected"),
        ("bert", "base 2 0", {}, "steps is '0', a number from 1 expected"),
        ("bert", "base 2 3 all", {}, "gpus is 'all', numbers with commas between"),
        ("bert", "huge", {}, "model 'huge' given, base, large or bert_L_U_H expected"),
        ("bert", "base 2 3 0 1 fp8", {}, "dtype 'fp8' given, fp32, fp16 or bf16 expected"),
        ("bert", "base 2 3 0 2", {}, "NODE1 is not set, the address of node 1 expected"),
    ],
)
def test_the_runners_say_what_they_expect(
    tmp_path: Path, model: str, arguments: str, variables: dict[str, str], words: str
) -> None:
    if arguments:
        variables = {"DATA_DIR": "x", **variables}
    done = run_script(tmp_path, model, *arguments.split(), status=None, **variables)
    assert done.returncode in (1, 2) and words in done.stderr


def test_all_cases_run_as_often_as_dlperf_runs_them(tmp_path: Path) -> None:
    # The command lines are printed instead of run.
    variables = {"PYTHON": "echo", "CASES": "1n1g 2n8g", "RUNS": "2", "PAUSE": "0"}
    variables |= {"DATA_DIR": "data", "NODE1": "a", "NODE2": "b"}
    run_script(tmp_path, "resnet50", "64", "fp16", script="run_test.sh", **variables)
    folder = tmp_path / "logs" / "mxlite" / "resnet50" / "bz64"
    logs = sorted(path.relative_to(folder) for path in folder.rglob("*.log"))
    assert [str(log) for log in logs] == [
        f"{case}/rn50_b64_fp16_{run}.log" for case in ("1n1g", "2n8g") for run in (1, 2)
    ]
    line = (folder / logs[-1]).read_text()
    assert "-m mxlite.run -np 16 -H a:8,b:8 echo" in line
    published = "--mode=hybrid --model=resnet50_v1b --use-rec --rec-train data/train.rec"
    assert published in line
    assert "--batch-size 64 --dtype float16 --log-interval=1 --save-frequency=10000" in line
    assert "--lr=0.001 --momentum=0.875 --wd=0.000030518 --num-epochs=1 --warmup-epochs=1" in line


@pytest.mark.parametrize("model", ["resnet50", "bert"])
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"CASES": "1n1g 8g"}, "case '8g' in CASES, NnGg such as 1n8g expected"),
        ({"CASES": "0n1g"}, "case '0n1g' in CASES"),
        ({"RUNS": "0"}, "RUNS is '0', a number from 1 expected"),
    ],
)
def test_the_grid_is_checked_before_anything_runs(
    tmp_path: Path, model: str, variables: dict[str, str], words: str
) -> None:
    variables = {"PYTHON": "echo", "PAUSE": "0", "DATA_DIR": "data", **variables}
    done = run_script(tmp_path, model, script="run_test.sh", status=2, **variables)
    assert done.stdout == "" and words in done.stderr


@pytest.mark.dist
def test_the_runner_of_bert_writes_logs_that_the_extractor_reads(tmp_path: Path) -> None:
    write_samples(tmp_path / "train.npz", synthetic_samples(12, 64, 24, 4, seed=0))
    write_vocabulary(tmp_path, 64)
    run_script(
        *(tmp_path, "bert", "bert_1_16_2", "2", "6", "0,1", "1", "fp32", "3"),
        *("--max_seq_length", "24"),
        **{"DEVICE": "cpu", "PYTHON": sys.executable, "DATA_DIR": str(tmp_path)},
    )
    log = tmp_path / "logs" / "mxlite" / "bert" / "bz2" / "1n2g" / "bert_b2_fp32_3.log"
    assert len(re.findall(r"\[step \d\]\tmlm_loss=", log.read_text())) == 12  # both ranks write
    # The published extractor knows no other unit.
    assert len(re.findall(r"throughput=.*latency=\d+\.\d+ ms/batch$", log.read_text(), re.M)) == 12
    found = extract.read_log(log, None, warm_up=2, batches=6)
    assert found.system == "mxnet-bert"
    assert (found.job.ranks, found.job.batch, found.job.dtype, found.job.run) == (2, 2, "fp32", 3)
    assert found.value > 0


# Environments of other frameworks have no mxlite; None makes its import fail.
WORKER = """
import json, sys
sys.modules["mxlite"] = None
sys.path.insert(0, sys.argv[1])
from dlperf.bert import recipe
spec = json.loads(sys.argv[2])
batches = [recipe.resident_batch(spec), next(recipe.file_batches(spec))]
print(json.dumps([{key: rows.tolist() for key, rows in batch.items()} for batch in batches]))
"""


def test_workers_make_the_batches_without_mxlite(tmp_path: Path) -> None:
    samples, _ = recipe.example_modules()
    made = recipe.make_samples(3, 24, 1)
    checked = samples.checked("random tokens", made, recipe.VOCABULARY, 24)
    recipe.write_number_arrays(checked, tmp_path / "numbers.npz")
    spec = {"case": {"batch": 3, "size": 24}, "rank": 0, "ranks": 1}
    spec["record"] = str(tmp_path / "numbers.npz")
    resident, read = json.loads(run_python("-c", WORKER, BENCHMARKS, json.dumps(spec)).stdout)
    assert np.array(resident["input_ids"]).shape == (3, 24)
    pairs = zip(read["input_ids"], read["valid_lengths"], strict=True)
    rows = {tuple(tokens[:length]) for tokens, length in pairs}
    assert rows == {tuple(tokens) for tokens in checked.input_ids}
    for key in samples.MASK_KEYS:
        expected = sum(np.count_nonzero(row) for row in getattr(checked, key))
        assert np.count_nonzero(read[key]) == expected
