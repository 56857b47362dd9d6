"""benchmarks/dlperf: command line, cases, loss gate, workers, turns, continued runs."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
BENCHMARKS = ROOT / "benchmarks"
sys.path[:0] = [str(BENCHMARKS / name) for name in (".", "peers", "io")]
from cell import System
from dlperf import cases, extract, measure, peak
from dlperf.bert import recipe
from test_dlperf_tables import figures
from worker_process import WorkerError, WorkerProcess


def load(name: str) -> ModuleType:
    """Return a script of dlperf/ whose name another folder uses, too."""
    path = BENCHMARKS / "dlperf" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"dlperf_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run, worker = load("run"), load("worker")
SMALL = cases.Case("resnet50", "float32", 4, 1, "resident", 64, warm_up=1, steps=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["alexnet"], r"no model 'alexnet'; there are resnet50, bert, gpt.* and all"),
        (["bert", "--samples", "/none.npz"], r"--samples /none.npz does not exist; examples/bert"),
        (["resnet50", "--ranks", "1", "0"], r"--ranks must be at least 1, got 0"),
        (["resnet50", "--rounds", "0"], r"--rounds must be at least 1, got 0"),
        (["resnet50", "--record", "/none/train.rec"], r"--record /none/train.rec does not exist"),
        (["resnet50", "--record", __file__], r"test_dlperf.idx does not exist; make it with"),
        (["resnet50", "--deadline", "nan"], r"--deadline must be seconds above 0, got nan"),
        (["bert", "--cells", "tf32:4x64"], r"--device must be gpu for --cells tf32, got cpu"),
        (
            ["bert", "--cells", "float32:1x64", "float32:4x513"],
            "sizes of --cells must be 8 to 512 with bert, got 64 to 513",
        ),
        (
            ["bert", "--cells", "float32:4x7"],
            r"sizes of --cells must be 8 to 512 with bert, got 7 to 7",
        ),
        (
            ["bert", "--json", str(BENCHMARKS)],
            r"--json must be a file, got the folder .*benchmarks",
        ),
        (["bert", "--steps", "0", "5"], "--steps must be at least 1, got 0"),
        (["all", "--cells", "float32:8x128"], "--cells belongs to one model"),
        (["gpt", "--cells", "float32:1x32:split"], "has no mode 'split', but '', '1x2x1', 'sampl"),
        *(
            (
                ["bert", "--cells", cell],
                f"dlperf: cell must be DTYPE:BATCHxSIZE or .*, got '{cell}'",
            )
            for cell in ("float32:8", "float31:8x128", "float32:0x128", "float32:8x128x1")
        ),
        (["bert", "--json", f"{__file__}/x.json"], r"x.json cannot be written: "),
        (["resnet50", "--systems", "caffe:cpu"], r"no system 'caffe:cpu'; there are mxlite:hybrid"),
    ],
)
def test_wrong_options_end_with_what_was_expected(arguments: list[str], words: str) -> None:
    with pytest.raises(SystemExit, match=words):
        run.main(arguments)


def test_what_is_given_twice_is_measured_once() -> None:
    cells = ["float32:2x32", "float32:2x32"]
    command = ["bert", "--ranks", "2", "1", "2", "--data", "real", "real", "--cells", *cells]
    options = run.checked_options(command)
    assert (options.ranks, options.data, options.cells) == ([2, 1], ["real"], cells[:1])


def test_presets_have_both_kinds_of_data_and_all_ranks() -> None:
    smoke = cases.cases("resnet50", "smoke", "cpu", [1, 2])
    kinds = itertools.product((1, 2), ("resident", "real"))
    assert [(case.ranks, case.data) for case in smoke] == list(kinds)
    full = cases.cases("resnet50", "full", "gpu", [1])
    floats = {(dtype, 128) for dtype in ("float32", "tf32")}
    halves = {(dtype, 256) for dtype in ("float16", "bfloat16")}
    assert {(case.dtype, case.batch) for case in full} == floats | halves
    assert {(case.warm_up, case.steps, case.size) for case in full} == {(20, 100, 224)}
    assert len({case.name for case in smoke + full}) == len(smoke + full)


def test_work_and_peaks_are_those_of_the_definition() -> None:
    case = cases.Case("resnet50", "float16", 256, 2, "real", 224)
    assert cases.step_flops(case) == pytest.approx(3 * 8.2e9 * 512)
    half = cases.Case("resnet50", "float16", 256, 2, "real", 112)
    assert cases.step_flops(half) == pytest.approx(3 * 8.2e9 * 512 / 4)
    v100 = {"tflops": 125.0, "source": "data sheet of V100"}
    assert peak.gpu_peak("Tesla V100-SXM2-16GB", "float16") == v100
    assert peak.gpu_peak("Tesla V100-SXM2-16GB", "bfloat16") is None
    assert peak.gpu_peak("a new one", "float32") is None
    assert 0 < peak.cpu_peak("float32")["tflops"] < 1000


def test_presets_and_work_of_bert() -> None:
    base = cases.cases("bert", "full", "gpu", [1])
    assert {(case.dtype, case.batch, case.size) for case in base} == {
        ("float32", 32, 128),
        ("tf32", 32, 128),
        *((dtype, batch, 128) for dtype in ("float16", "bfloat16") for batch in (64, 128)),
    }
    assert len({case.name for case in base}) == len(base)
    assert all(case.name.startswith("bert_12_768_12 ") for case in base)
    (one,) = {cases.step_flops(case) / case.samples for case in base}
    assert one == pytest.approx(69.9e9, rel=2e-3)
    long = cases.Case("bert", "float32", 2, 2, "real", 512, network="bert_24_1024_16")
    assert cases.step_flops(long) == pytest.approx(4 * 1020.5e9, rel=1e-3)
    (small,) = {case.network for case in cases.cases("bert", "smoke", "cpu", [1, 2])}
    assert small == "bert_2_128_2"


def test_systems_with_other_losses_are_not_timed() -> None:
    cell = measure.DlperfCell(SMALL)
    cell._check({"losses": [7.0, 5.0]}, {"losses": [7.01, 5.009]})
    for losses, words in [
        ([7.05, 5.0], "first loss is 7.00000, the first system's 7.05000"),
        ([7.0, 5.02], "fifth loss is 5.00000, the first system's 5.02000"),
    ]:
        with pytest.raises(WorkerError, match=words):
            cell._check({"losses": [7.0, 5.0]}, {"losses": losses})
    with pytest.raises(WorkerError, match="fifth loss must be a number, got nan"):
        cell._check({"losses": [7.0, float("nan")]}, {"losses": [7.0, 5.0]})


def test_a_system_without_a_loss_is_no_reference_for_the_others(tmp_path: Path) -> None:
    losses = {"mxlite": float("nan"), "mxnet": 7.0, "torch": 7.001}

    class Answers:
        def __init__(self, system: System, *_: Any) -> None:
            self.name = system.name

        def ask(self, *, do: str, **_: Any) -> dict[str, Any]:
            loss = losses[self.name]
            answer = {"seconds": [0.1], "loss": loss, "losses": [loss, loss], "steps": [0.1]}
            return {**answer, "version": "1", "build_seconds": 1.0, "mib": 1.0, "warm": []}

        def close(self) -> None:
            pass

    cell = measure.DlperfCell(SMALL)
    cell.WORKER = Answers
    cell.run([System(name, "x", ("float32",)) for name in losses], tmp_path, 1, 1, 0.0)
    assert list(cell.record("mxlite:x", None)["systems"]) == ["mxnet:x", "torch:x"]
    assert cell.reasons == {"mxlite:x": "first loss must be a number, got nan"}


@pytest.mark.parametrize(("seconds", "window"), [((0.5, 1.9), (20, 100)), ((0.5, 2.1), (4, 20))])
def test_slow_steps_shorten_the_turns_of_all_systems(
    seconds: tuple[float, float], window: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    cell = measure.DlperfCell(cases.Case("resnet50", "float32", 16, 1, "real", 224))
    cell._ready = dict(zip(("mxlite:hybrid", "mxnet:hybrid", "dropped"), (*seconds, 99.0)))
    cell.medians = {"mxlite:hybrid": [], "mxnet:hybrid": []}
    cell._decide()
    assert cell.window == window
    assert ("instead of 100 after 20" in capsys.readouterr().out) == (window != (20, 100))


@pytest.mark.parametrize(
    ("model", "network", "mode", "short", "warm_up", "system"),
    [
        ("resnet50", "", "", "rn50", 20, "mxnet-resnet50"),
        ("bert", "bert_2_128_2", "", "bert", 100, "mxnet-bert"),
        ("gpt", "gpt_2_128_2_512", "2x1x1", "gpt", 20, "megatron-gpt"),
        ("wide_deep", "wdl_16_2", "", "wdl", 20, "oneflow-wide-deep-2021"),
        ("insightface", "r100_85742", "data", "r100", 20, "mxnet-arcface"),
        ("insightface", "y1_85742", "partial_0.1", "y1", 20, "mxnet-partial-fc"),
    ],
)
def test_logs_of_turns_have_the_lines_that_extract_reads(
    tmp_path: Path, model: str, network: str, mode: str, short: str, warm_up: int, system: str
) -> None:
    case = cases.Case(model, "float16", 256, 2, "real", 224, network=network, mode=mode)
    answer = {"warm": [9.0] * warm_up, "steps": [0.5] * 100}
    path = measure.write_log(tmp_path, case, "torch:eager", 3, answer)
    folder = "/".join(filter(None, ("real/torch-eager", model, network, mode, "bz256/1n2g")))
    assert path == tmp_path / folder / f"{short}_b256_fp16_3.log"
    found = extract.read_log(path, None)
    value = 1024.0 if found.unit == "samples/s" else 500.0
    if system in ("oneflow-wide-deep-2021", "mxnet-partial-fc"):  # parts of the warm-up count
        assert (found.system, found.value) != (system, pytest.approx(value))
        found = extract.read_log(path, system, warm_up=20, batches=120)
    assert (found.system, found.value) == (system, pytest.approx(value))
    job = found.job
    assert (job.model, job.batch, job.ranks, job.run) == (short, 256, 2, 3)


PREPARE_AND_TIME = {"do": "prepare"}, {"do": "time", "warm_up": 1, "count": 3}


def worker_command(spec: Path, exchange: Path, system: str = "mxlite") -> list[str]:
    script = str(BENCHMARKS / "dlperf" / "worker.py")
    command = [sys.executable, script, "--system", system, "--spec", str(spec)]
    return [*command, "--exchange", str(exchange), "--parent", str(os.getpid())]


def write_case(folder: Path, case: cases.Case) -> Path:
    """Write the file of a worker that trains ResNet-18."""
    content = {"network": "resnet18_v1b", "random": False, "layers": [], "record": "none"}
    content.update(device="cpu", threads=1, case=vars(case))
    path = folder / "case.json"
    path.write_text(json.dumps(content))
    return path


def ask(command: list[str], *asked: dict[str, Any], **variables: str) -> list[dict[str, Any]]:
    """Run a worker and return its answers."""
    done = subprocess.run(
        command,
        input="".join(json.dumps(one) + "\n" for one in asked),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
    )
    assert done.returncode == 0, done.stderr
    exchange = Path(command[command.index("--exchange") + 1])
    files = [json.loads(line)["file"] for line in done.stdout.splitlines()]
    return [json.loads((exchange / file).read_text()) for file in files]


class Steps:
    """Steps of 30 ms, computed when they are called or by the time that the next one returns."""

    def __init__(self, synchronous: bool) -> None:
        self.synchronous = synchronous
        self.count = 0
        self.ready = 0.0

    def step(self) -> float:
        self.count += 1
        self.ready = max(self.ready, time.perf_counter()) + 0.03
        if self.synchronous:
            self.wait()
        return self.ready

    def fetch(self, ready: float) -> float:
        time.sleep(max(0.0, ready - time.perf_counter()))
        return float(self.count)

    def wait(self) -> None:
        self.fetch(self.ready)


@pytest.mark.parametrize("synchronous", [True, False])
def test_every_step_has_its_time(synchronous: bool) -> None:
    seconds, loss = worker.run_steps(Steps(synchronous), 6)
    assert len(seconds) == 6
    assert loss == 6.0
    assert min(seconds) > 0.015


def test_a_worker_learns_and_answers_with_times_losses_and_memory(tmp_path: Path) -> None:
    command = worker_command(write_case(tmp_path, SMALL), tmp_path)
    prepared, timed = ask(command, *PREPARE_AND_TIME)
    first, fifth = prepared["losses"]
    assert fifth < first - 0.01
    assert timed["loss"] < fifth
    assert (len(timed["warm"]), len(timed["steps"])) == (1, 3)
    assert timed["seconds"][0] == pytest.approx(sum(timed["steps"]) / 3, rel=0.2)
    assert timed["mib"] >= prepared["mib"] > 50


@pytest.mark.parametrize("data", ["resident", "real"])
def test_a_worker_pretrains_bert(
    tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run.tempfile, "gettempdir", lambda: str(tmp_path))
    case = cases.Case("bert", "float32", 4, 1, data, 64, warm_up=1, steps=2, network="bert_1_32_2")
    options = run.checked_options(["bert", "--ranks", "1"])
    samples = run._files(options, [case], tmp_path).get(("bert", "bert_1_32_2", 64))
    assert (samples is None) == (data == "resident")
    assert samples is None or samples.parent == tmp_path
    spec = run.write_case(case, options, samples, tmp_path)
    prepared, timed = ask(worker_command(spec, tmp_path), *PREPARE_AND_TIME)
    first, fifth = prepared["losses"]
    assert first == pytest.approx(np.log(30522) + np.log(2), rel=0.03)
    assert fifth < first - 0.01  # the same batch, no dropout
    assert np.isfinite(timed["loss"])
    assert timed["mib"] >= prepared["mib"] > 50


def test_given_samples_are_written_for_workers_without_mxlite(tmp_path: Path) -> None:
    samples, _ = recipe.example_modules()
    made = samples.synthetic_samples(6, recipe.VOCABULARY, 64, 8, seed=0)
    samples.write_samples(tmp_path / "given.npz", made)
    options = run.checked_options(["bert", "--samples", str(tmp_path / "given.npz")])
    case = cases.Case("bert", "float32", 2, 1, "real", 64, network="bert_1_32_2")
    path = run._files(options, [case], tmp_path)["bert", "bert_1_32_2", 64]
    read = recipe._read_number_arrays(path)
    for key in samples.KEYS:
        for row, expected in zip(getattr(read, key), getattr(made, key), strict=True):
            np.testing.assert_array_equal(row, expected)


def test_cells_replace_those_of_the_preset() -> None:
    options = run.checked_options(
        ["bert", "--preset", "full", "--ranks", "1", "--data", "resident"]
        + ["--cells", "float32:1x128", "bfloat16:4x512", "--steps", "2", "5"]
    )
    found = [(c.dtype, c.batch, c.size, c.data, c.network) for c in run._cases(options, "bert")]
    assert found == [
        ("float32", 1, 128, "resident", "bert_12_768_12"),
        ("bfloat16", 4, 512, "resident", "bert_12_768_12"),
    ]
    assert {(c.warm_up, c.steps) for c in run._cases(options, "bert")} == {(2, 5)}


def test_the_steps_of_the_loss_gate_have_no_dropout() -> None:
    assert worker.GATE_STEPS == recipe.STEPS_WITHOUT_DROPOUT


def second_rank(spec: Path, exchange: Path, system: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        worker_command(spec, exchange, system),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "RANK": "1", "WORLD_SIZE": "2"},
        text=True,
    )


def test_other_ranks_get_the_requests_of_the_first(tmp_path: Path) -> None:
    spec = write_case(tmp_path, SMALL)
    # The second rank fails to load its system and ends, so nothing waits for it.
    second = second_rank(spec, tmp_path, "absent")
    command = worker_command(spec, tmp_path, "absent")
    (failed,) = ask(command, {"do": "prepare"}, RANK="0", WORLD_SIZE="2")
    assert "absent is not in" in failed["error"]
    assert "benchmarks/peers/setup installs it" in failed["error"]
    _, errors = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "absent is not in" in errors


def test_ranks_end_with_the_folder_that_they_share(tmp_path: Path) -> None:
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    process = second_rank(write_case(tmp_path, SMALL), exchange, "mxlite")
    assert process.poll() is None
    exchange.rmdir()
    process.communicate(timeout=60)
    assert process.returncode == 3


def test_a_failing_peer_leaves_its_reason_and_the_first_system_its_figures(
    tmp_path: Path,
) -> None:
    spec = write_case(tmp_path, SMALL)
    systems = [
        System("mxlite", "hybrid", ("float32",)),
        System("mxnet", "hybrid", ("float32",)),  # in a Python without it
    ]
    cell = measure.DlperfCell(SMALL, tmp_path / "logs")
    measure.DlperfWorker.ranks = 1
    cell.run(systems, spec, 1, 2, 0.0)
    record = cell.record("mxlite:hybrid", 0.5)
    assert list(record["systems"]) == ["mxlite:hybrid"]
    figures = record["systems"]["mxlite:hybrid"]
    assert figures["measurements"] == 2
    assert figures["unit"] == "images/s"
    assert figures["q1"] <= figures["median"] <= figures["q3"]
    assert figures["tflops"] == pytest.approx(
        cases.step_flops(SMALL) / 1e12 * figures["median"] / SMALL.samples, rel=0.2
    )
    assert figures["mfu"] == pytest.approx(figures["tflops"] / 0.5)
    assert "mxnet is not in" in record["reasons"]["mxnet:hybrid"]
    logs = sorted((tmp_path / "logs").rglob("*.log"))
    assert [log.name for log in logs] == ["rn50_b4_fp32_1.log", "rn50_b4_fp32_2.log"]


@pytest.mark.dist
def test_two_ranks_average_their_gradients(tmp_path: Path) -> None:
    losses = []
    # The ranks of the job have halves of the batch; mean losses of rank 0 differ from the whole's.
    for ranks in (1, 2):
        measure.DlperfWorker.ranks = ranks
        case = cases.Case("resnet50", "float32", 4, ranks, "resident", 64, warm_up=1, steps=2)
        cell = measure.DlperfCell(case)
        systems = [System("mxlite", "hybrid", ("float32",))]
        cell.run(systems, write_case(tmp_path, case), ranks, 1, 0.0)
        assert cell.reasons == {}
        record = cell.record("mxlite:hybrid", None)["systems"]["mxlite:hybrid"]
        assert record["median"] == pytest.approx(4 * ranks / record["turn_seconds"][0])
        losses.append(record["losses"])
    assert losses[0][0] != losses[1][0]
    assert all(last < first for first, _, last in losses)
    measure.DlperfWorker.ranks = 1


def test_lines_that_are_no_answers_are_errors() -> None:
    program = "import sys\nfor line in sys.stdin: print(sys.argv['first' in line], flush=True)"
    tagged = '[1,0]<stdout>: {"a": 1}'
    process = WorkerProcess([sys.executable, "-c", program, tagged], 1, own_path=False)
    try:
        assert process.ask(do="first") == {"a": 1}
        with pytest.raises(WorkerError, match="the answer must be JSON, got '-c'"):
            process.ask(do="second")
    finally:
        process.close()


def test_absent_environments_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = run.checked_options(["resnet50", "--mxnet-python", str(tmp_path / "python")])
    options.systems = ["mxlite:hybrid", "mxnet:hybrid"]
    chosen = run.chosen_systems(options, measure.SYSTEMS)
    assert "run benchmarks/peers/setup" in capsys.readouterr().err
    assert run.absent_systems(options, chosen) == {
        "mxnet:hybrid": "not installed: benchmarks/peers/setup makes its environment"
    }


def test_a_call_that_was_ended_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = []

    def run_case(case: cases.Case, *_: Any) -> dict[str, Any]:
        measured.append(case.name)
        if len(measured) == 2:
            raise KeyboardInterrupt
        systems = {"mxlite:hybrid": figures(10.0)}
        found = {"name": case.name, "case": vars(case), "math": "fp32", "systems": systems}
        return {**found, "ratios": {}, "reasons": {}}

    monkeypatch.setattr(run, "run_case", run_case)
    monkeypatch.setattr(run, "write_case", lambda *_: tmp_path)
    monkeypatch.setattr(run, "_peak", lambda *_: {"tflops": 1.0, "source": "given"})
    monkeypatch.setattr(run, "_files", lambda options, plan, folder: dict.fromkeys(plan, tmp_path))
    path = tmp_path / "out" / "results.json"
    command = ["all", "--systems", "mxlite:hybrid", "--ranks", "1", "--json", str(path)]
    with pytest.raises(KeyboardInterrupt):
        run.main(command)
    resident, real = measured
    assert [cell["name"] for cell in json.loads(path.read_text())["cells"]] == [resident]
    assert run.main(command) == 0
    interrupted, *others = measured[2:]
    assert interrupted == real
    counts = {"bert_2_128_2": 2, "gpt_2_128_2_512": 3, "wdl_16_2": 4, "y1_10000": 6}
    networks = [name for name, count in counts.items() for _ in range(count)]
    assert [name.split()[0] for name in others] == networks
    assert "1 cases are there already" in capsys.readouterr().out
    found = json.loads(path.read_text())
    assert [cell["name"] for cell in found["cells"]] == [resident, real, *others]
    assert found["command"] == " ".join(["benchmarks/dlperf/run.py", *command])
    assert run.main(command) == 0
    assert len(measured) == 3 + len(networks)
    with pytest.raises(SystemExit, match=r"rounds: 2 there, 5 here"):
        run.main([*command, "--rounds", "5"])
    path.write_text(path.read_text()[:-200])
    with pytest.raises(SystemExit, match=r"results.json is not JSON"):
        run.main(command)
    for damaged, words in (
        ({**found, "cells": [{"name": "x"}]}, r"no cells\[0\].case, .*cells\[0\].reasons; remove"),
        ({**found, "peaks": None}, "is damaged: no peaks; remove it"),
    ):
        path.write_text(json.dumps(damaged))
        with pytest.raises(SystemExit, match=words):
            run.main(command)
