"""The operator benchmark: its cases run, its files have 1.x's columns; not its figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mxlite as mx
import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "opperf")]
import opperf
from cases import ALL
from cases.case import case, index
from performance import run_performance_test
from processes import run_python

# Every operator of the table once, on arrays of a size that takes no time.
_SMALL = [
    case("relu", "unary", "torch.relu(data)", grad="data", data=(4, 5)),
    case("add_n", "binary", "a + b", grad="a b", a=(4, 5), b=(4, 5)),
    case("take", "indexing", "", a=(6, 2), indices=index((3,), 6, "int64")),
]


@pytest.mark.parametrize("profiler", ["native", "python"])
@pytest.mark.parametrize("output", ["json", "md"])
def test_files(profiler: str, output: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(opperf, "ALL", _SMALL)
    path = tmp_path / f"out.{output}"
    arguments = ["-p", profiler, "-f", output, "-o", str(path), "-w", "1", "-r", "2"]
    assert opperf.main(arguments) == 0
    text = path.read_text()
    if output == "md":
        assert text.startswith("# Runtime Features\n")
        last = "Avg. Backward Time (ms) |" if profiler == "native" else "P99 Time (ms) | Inputs |"
        assert last in text
        assert "| relu |" in text
    else:
        (row,) = json.loads(text)["relu"]
        key = "avg_time_forward_relu" if profiler == "native" else "p90_time_relu"
        assert row[key] > 0
        assert row["inputs"] == {"data": [4, 5]}
    assert "0. " in capsys.readouterr().out
    with pytest.raises(SystemExit, match="exists"):
        opperf.main(arguments)


def test_run_performance_test_as_1x_scripts_call_it() -> None:
    (found,) = run_performance_test(
        mx.nd.add, inputs=[{"lhs": (8, 8), "rhs": (8, 8)}], warmup=1, runs=2
    )
    (row,) = found["add"]
    assert row["avg_time_forward_add"] > 0 and row["avg_time_backward_add"] > 0
    assert "max_storage_mem_alloc_cpu/0" in row
    with pytest.raises(ValueError, match="profiler must be 'native' or 'python', got 'fast'"):
        run_performance_test(mx.nd.relu, {"data": (2,)}, profiler="fast")


def test_every_case_names_an_operator_and_its_inputs() -> None:
    schemas = {n: op for op in mx._core.list_ops() for n in (op["name"], *op["aliases"])}
    for row in ALL:
        name = row.op.rpartition(".")[2]
        found = schemas.get(name) or schemas.get(f"_contrib_{name}") or schemas[f"linalg_{name}"]
        if not found["variadic"]:
            assert list(row.arrays) == found["inputs"][: len(row.arrays)], row.op
        assert set(row.grad) <= set(row.arrays), row.op
        assert row.torch or row.note, row.op


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--ctx", "tpu"], "cpu, gpu"), (["--runs", "0"], "at least 1"), (["--ctx", "gpu(7)"], "gpu")],
)
def test_bad_options(arguments: list[str], words: str, tmp_path: Path) -> None:
    if arguments[-1] == "gpu(7)" and mx.num_gpus() > 7:
        pytest.skip("has eight GPUs")
    with pytest.raises(SystemExit, match=words):
        opperf.main([*arguments, "-o", str(tmp_path / "x.json")])


def test_worker_answers(tmp_path: Path) -> None:
    number = next(i for i, row in enumerate(ALL) if row.op == "diag")
    requests = [
        {"do": "version"},
        {"do": "prepare", "case": number, "dtype": "float32"},
        {"do": "time", "which": 0, "count": 2},
        {"do": "prepare", "case": 10**6, "dtype": "float32"},
    ]
    text = "\n".join(map(json.dumps, requests))
    done = run_python(BENCHMARKS / "opperf" / "worker.py", "mxlite", input=text, OMP_NUM_THREADS=1)
    version, ready, timed, failed = map(json.loads, done.stdout.splitlines())
    assert version == {"version": mx.__version__}
    assert ready["seconds"][1] is None and ready["seconds"][0] > 0
    assert len(timed["seconds"]) == 2
    assert failed["error"].startswith("IndexError")
