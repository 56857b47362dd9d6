"""benchmarks/dlperf/resnet50/runner.sh: DLPerf's arguments, logs that its extractor reads."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_imagenet_script import environment, write_records

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
RUNNER = BENCHMARKS / "dlperf" / "resnet50" / "runner.sh"
sys.path.insert(0, str(BENCHMARKS))
from dlperf import extract


def run_runner(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(RUNNER), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(DEVICE="cpu", PYTHON=sys.executable, **variables),
    )


@pytest.mark.dist
def test_the_runner_of_dlperf_writes_logs_that_its_extractor_reads(
    tmp_path: Path,
) -> None:
    write_records(tmp_path, "train", 22)
    done = run_runner(
        *(tmp_path, "2", "0,1", "1", "fp32", "3", "--max-batches", "4", "--input-size", "32"),
        DATA_DIR=str(tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
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
    ("arguments", "variables", "words"),
    [
        ([], {}, "DATA_DIR is not set, expected the folder of train.rec"),
        (["2", "0", "1", "fp8"], {"DATA_DIR": "x"}, "dtype 'fp8' given, fp32, fp16 or bf16"),
        (
            ["2", "0", "2", "fp32"],
            {"DATA_DIR": "x", "NODE1": "a"},
            "NODE2 is not set, the address of node 2 expected",
        ),
        (["0"], {"DATA_DIR": "x"}, "batch is '0', a number from 1 expected"),
        (["2", "0,"], {"DATA_DIR": "x"}, "gpus is '0,', numbers with commas between"),
        (["2", "0", "two"], {"DATA_DIR": "x"}, "nodes is 'two', a number from 1 expected"),
    ],
)
def test_the_runner_says_what_it_expects(
    tmp_path: Path, arguments: list[str], variables: dict[str, str], words: str
) -> None:
    done = run_runner(tmp_path, *arguments, **variables)
    assert done.returncode != 0
    assert words in done.stderr


def test_all_cases_run_as_often_as_dlperf_runs_them(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", str(RUNNER.parent / "run_test.sh"), "64", "fp16"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        # The command lines are printed instead of run.
        env=environment(
            PYTHON="echo",
            CASES="1n1g 2n8g",
            RUNS="2",
            PAUSE="0",
            DATA_DIR="data",
            NODE1="a",
            NODE2="b",
        ),
    )
    assert done.returncode == 0, done.stderr
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
    done = subprocess.run(
        ["bash", str(BENCHMARKS / "dlperf" / model / "run_test.sh")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(PYTHON="echo", PAUSE="0", DATA_DIR="data", **variables),
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


@pytest.mark.dist
def test_the_runner_of_bert_writes_logs_that_the_extractor_reads(tmp_path: Path) -> None:
    examples = Path(__file__).resolve().parents[3] / "examples" / "bert"
    sys.path.append(str(examples))
    from pretraining_samples import synthetic_samples, write_samples

    write_samples(tmp_path / "train.npz", synthetic_samples(12, 64, 24, 4, seed=0))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(59))]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n")
    done = subprocess.run(
        ["bash", str(BENCHMARKS / "dlperf" / "bert" / "runner.sh")]
        + ["bert_1_16_2", "2", "6", "0,1", "1", "fp32", "3", "--max_seq_length", "24"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(DEVICE="cpu", PYTHON=sys.executable, DATA_DIR=str(tmp_path)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    log = tmp_path / "logs" / "mxlite" / "bert" / "bz2" / "1n2g" / "bert_b2_fp32_3.log"
    assert len(re.findall(r"\[step \d\]\tmlm_loss=", log.read_text())) == 12  # both ranks write
    # The published extractor knows no other unit.
    assert len(re.findall(r"throughput=.*latency=\d+\.\d+ ms/batch$", log.read_text(), re.M)) == 12
    found = extract.read_log(log, None, warm_up=2, batches=6)
    assert found.system == "mxnet-bert"
    assert (found.job.ranks, found.job.batch, found.job.dtype, found.job.run) == (2, 2, "fp32", 3)
    assert found.value > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["base", "-2"], "batch is '-2', a number from 1 expected"),
        (["base", "2", "0"], "steps is '0', a number from 1 expected"),
        (["base", "2", "3", "all"], "gpus is 'all', numbers with commas between"),
        (["huge"], "model 'huge' given, base, large or bert_L_U_H expected"),
        (["base", "2", "3", "0", "1", "fp8"], "dtype 'fp8' given, fp32, fp16 or bf16 expected"),
        (["base", "2", "3", "0", "2"], "NODE1 is not set, the address of node 1 expected"),
    ],
)
def test_the_runner_of_bert_says_what_it_expects(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = subprocess.run(
        ["bash", str(BENCHMARKS / "dlperf" / "bert" / "runner.sh"), *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(DATA_DIR="x"),
    )
    assert done.returncode == 2
    assert words in done.stderr
