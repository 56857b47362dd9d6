"""benchmarks/dlperf/extract.py: the lines of every system, windows, speed-ups, errors."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from dlperf import cases, extract, logs
from dlperf.log_styles import LogError
from dlperf.styles import STYLES


def seconds(step: int) -> float:
    """Time of a step's line: 0.5 s a step until step 20, then 0.25 s a step."""
    return 0.5 * min(step, 20) + 0.25 * max(0, step - 20)


def stamp(step: int) -> str:
    minutes, rest = divmod(seconds(step), 60)
    return f"2020-10-26 03:{int(minutes):02d}:{int(rest):02d},{round(rest % 1 * 1000):03d}"


def clock(step: int) -> str:
    total = seconds(step) + 86390  # ten seconds before midnight
    hours, rest = divmod(total % 86400, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{int(hours):02d}:{int(minutes):02d}:{int(rest):02d}.{round(rest % 1 * 1e6):06d}"


EPOCH = 1_600_000_000
TENTHS, TWENTIETHS = range(10, 131, 10), range(20, 121, 20)


class Sample(NamedTuple):
    """The lines that a system writes in a step of a job of 2 ranks with batch 32."""

    text: str  # {kept} is 1 in the steps that count and 9 in those that are dropped
    rate: float  # 64 where 64 samples take a second
    steps: range = range(1, 131)  # those with lines
    first: int = 21  # that counts

    def lines(self) -> list[str]:
        found = []
        for n in self.steps:
            fields = {"n": n, "before": n - 1, "kept": 9 if n < self.first else 1}
            times = {"stamp": stamp(n), "early": stamp(n - 5), "clock": clock(n)}
            times["epoch"] = str(EPOCH + (seconds(n) if self.first else 0.25 * n))
            last = 9 if n == self.steps[-1] else fields["kept"]
            found += self.text.format(**fields, **times, last=last).split("\n")
        return found


SAMPLES = {
    "mxnet-resnet50": Sample(
        "Epoch[0] Batch[{before}]\tSpeed: {kept}00.25 samples/sec\tlr=1", 100.25
    ),
    "mxnet-arcface": Sample(  # two nodes have twice the rate
        "INFO:root:Iter[0] Batch [{n}]\tSpeed: {kept}00.50 samples/sec", 201.0, TWENTIETHS
    ),
    "mxnet-partial-fc": Sample(
        "INFO 12:00:00-Iter:{n} Rank:50.00 it/sec Total:{kept}00.00 it/sec", 100.0, first=20
    ),
    "ngc-mxnet-resnet50": Sample(
        "[{stamp}] INFO rank 0 Epoch[0] Batch [{n}] x\n"
        "[{stamp}] INFO rank 1 Epoch[0] Batch [{n}] x",
        256.0,
    ),
    "pytorch-nvidia-resnet50": Sample("DLL {early} - Iteration: {n}  train.loss : 6.9 ", 256.0),
    "pytorch-nvidia-bert": Sample(
        "DLL {early} - Training Iteration: {n}  average_loss : 6.9 ", 256.0
    ),
    "pytorch-examples-resnet50": Sample(
        "Epoch: [0][{n:4d}/5004]\tTime {kept}.250 ( 0.300)\tLoss 6.9", 51.2, first=26
    ),
    "tf1-resnet50": Sample("DLL 2020 - (0, {n}) imgs_per_sec : {kept}00.5 loss : 7", 100.5),
    "tf1-bert": Sample(
        "DLL - Iteration: {n} throughput_train : {kept}00.5 seq/s", 100.5, TENTHS, first=11
    ),
    "tf2-resnet50": Sample(
        "TimeHistory: 9.9 seconds, {kept}00.5 examples/second between steps", 100.5, TWENTIETHS
    ),
    "tf2-bert": Sample("I1026 {clock} 1 x.py:9] Train Step: {n}/130", 256.0),
    "paddle-resnet50": Sample("[Pass 0, train batch {n}] loss 7, elapse {kept}.25 sec", 51.2),
    "paddle-bert": Sample("current_step: {n}, speed: {kept}.0 steps/s, x", 64.0),
    "mindspore": Sample(
        "epoch: 1 step: {n}, loss is 7\nepoch time: {kept}250.0, per step\n"
        "epoch: 1 step: {n}, loss is 7\nepoch time: {kept}250.0, per step",
        51.2,
    ),
    "oneflow-resnet50": Sample(
        "train: epoch 0, iter {n}, loss: 7.1, top_1: 0.0, top_k: 0.0, samples/s: 9.9 {epoch}", 256.0
    ),
    "oneflow-bert": Sample(
        "step: {before}, total_loss: 11.1, mlm_loss: 10.4, nsp_loss: 0.7, throughput: 9.9 {epoch}",
        256.0,
    ),
    "oneflow-faces": Sample("train: iter {n}, loss 40.1, throughput: {kept}00.5", 100.5, first=26),
    "oneflow-wide-deep-2020": Sample("{n} time {epoch} loss 0.5", 250.0, range(8, 1048), first=0),
    "oneflow-wide-deep-2021": Sample(
        "[rank:0] iter: {n}/130, loss: 0.5, latency(ms): {last}.5 | 2021", 1.5, first=2
    ),
    "hugectr-wide-deep": Sample(
        "[INFO][RANK0]: Iter: {n}00 Time(100 iters): {kept}.5s Loss: 1 lr:1", 15.0, first=2
    ),
    "megatron-gpt": Sample(
        " iteration {n:8d}/ 130 | elapsed time per iteration (ms): {kept}00.5 | lm loss: 7 |",
        *(100.5, TENTHS, 100),
    ),
    "oneflow-gpt": Sample(
        "step={n},micro_batches=1,samples=2,throughput=9,latency={kept}.5,loss=9,",
        1500.0,
        first=100,
    ),
}


def write(folder: Path, name: str, lines: list[str], case: str = "2n1g", run: int = 1) -> Path:
    path = folder / case / f"my_model_b32_fp32_{run}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["some other line", *lines, "the end"]) + "\n")
    return path


def sample(name: str) -> list[str]:
    return SAMPLES[name].lines()


@pytest.mark.parametrize("name", list(SAMPLES))
def test_the_lines_of_a_log_tell_its_system_and_the_rate_of_the_steps_that_count(
    name: str, tmp_path: Path
) -> None:
    run = extract.read_log(write(tmp_path, name, sample(name)), None)
    assert (run.system, run.value) == (name, pytest.approx(SAMPLES[name].rate, rel=1e-9))
    assert run.unit == ("ms" if "wide" in name or "gpt" in name else "samples/s")


def test_bert_takes_the_median_of_the_ranks(tmp_path: Path) -> None:
    # Steps 101 to 200 of rank 0 take 200 ms, of rank 1 400 ms: 320 and 160 sequences/s.
    lines = [
        f"[step {n}]\tmlm_loss=7.0\tthroughput=4.1K tks/s\tlr=0.1 time=9, latency={ms} ms/batch"
        for n in range(1, 201)
        for ms in ((200.0, 400.0) if n > 100 else (999.0, 999.0))
    ]
    path = write(tmp_path, "mxnet-bert", lines)
    assert extract.read_log(path, "mxnet-bert").value == pytest.approx(240.0)
    in_steps = [line.replace("ms/batch", "ms/step") for line in lines]
    assert extract.read_log(write(tmp_path, "", in_steps), None).value == pytest.approx(240.0)


def test_every_style_has_a_sample() -> None:
    assert set(STYLES) == {*SAMPLES, "mxnet-bert"}


@pytest.mark.parametrize("name", list(SAMPLES))
def test_too_short_a_log_names_file_and_line(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, sample(name)[:1])
    with pytest.raises(LogError) as error:
        extract.read_log(path, name)
    assert str(path) in str(error.value)
    assert "expected" in str(error.value)
    assert STYLES[name].example in str(error.value)


def test_a_line_without_its_number_is_named(tmp_path: Path) -> None:
    lines = ["Epoch[0] Batch[0] Loss[7.1]", *sample("mxnet-resnet50")]
    path = write(tmp_path, "mxnet-resnet50", lines)
    with pytest.raises(LogError, match=r"1\.log:2: 'Epoch\[0\] Batch\[0\] Loss.*Speed: x samples"):
        extract.read_log(path, "mxnet-resnet50")


def test_a_log_of_no_known_system_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"no style fits its lines; give one with --system"):
        extract.read_log(write(tmp_path, "", ["nothing"]), None)


def test_names_and_heads_give_the_job(tmp_path: Path) -> None:
    path = write(tmp_path, "", sample("mxnet-resnet50"), case="12n8g")
    job = extract.describe(path, [])
    assert (job.model, job.batch, job.dtype, job.run) == ("my_model", 32, "fp32", 1)
    assert (job.nodes, job.devices, job.ranks, job.case) == (12, 8, 96, "12n8g")
    head = ["num_nodes = 1", "gpu_num_per_node = 4", "batch_size_per_device = 16"]
    job = extract.describe(path, head)
    assert (job.nodes, job.devices, job.batch) == (1, 4, 16)
    other = tmp_path / "train.log"
    assert extract.describe(other, head).ranks == 4
    words = r"train\.log: no number above 0 for batch, nodes, devices; "
    with pytest.raises(LogError, match=words):
        extract.describe(other, [])


def test_medians_speed_ups_and_files_of_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bz32"
    for case, rates in {"1n1g": (100, 110, 400), "1n2g": (210, 220, 230)}.items():
        for run, rate in enumerate(rates, 1):
            lines = [f"Epoch[0] Batch[{n}]\tSpeed: {rate}.00 samples/sec" for n in range(120)]
            write(folder, "", lines, case, run)
    (folder / "1n1g" / "my_model_b32_fp32_1.mem").write_text(
        "max device0 memory usage is: 2097152\n"
    )
    extract.main(["--log_dir", str(folder), "--output_dir", str(tmp_path / "result")])
    output = capsys.readouterr().out
    assert f"{folder}/1n1g/my_model_b32_fp32_1.log {{1: 100.0}}" in output
    content = json.loads((tmp_path / "result" / "bz32_result.json").read_text())
    found = {
        case: (row["average_speed"], row["median_speed"], row["speedup"])
        for case, row in content["my_model"].items()
    }
    assert found == {"1n1g": (203.33, 110.0, 1.0), "1n2g": (220.0, 220.0, 2.0)}
    assert {row["batch_size_per_device"] for row in content["my_model"].values()} == {32}
    extract.main([str(folder), "--style", "table"])
    rows = capsys.readouterr().out.splitlines()
    assert rows[2].endswith("| 1 | 1 | 32 | 110.00 | samples/s | 3 | 1.00 | 2 |")
    assert rows[3].endswith("| 1 | 2 | 32 | 220.00 | samples/s | 3 | 2.00 |  |")


def test_a_missing_single_device_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "", sample("mxnet-resnet50"), "1n8g")
    extract.main([str(tmp_path), "--style", "table"])
    assert "| no 1n1g |" in capsys.readouterr().out


def test_the_window_can_be_shortened(tmp_path: Path) -> None:
    lines = [f"Epoch[0] Batch[{n}]\tSpeed: {100 + n}.00 samples/sec" for n in range(8)]
    path = write(tmp_path, "", lines)
    assert extract.read_log(path, None, warm_up=2, batches=8).value == pytest.approx(104.5)
    with pytest.raises(LogError, match="no line is kept between 8 and 8"):
        extract.read_log(path, None, warm_up=8, batches=8)


# Texts that the published extractor looks for, its pattern, lines that it needs from 120 steps of
# each of 2 ranks; BERT's needs 200 steps.
PUBLISHED = {
    "resnet50": (["Epoch[0] Batch["], r"Speed: (\d+.\d+) samples/sec", 120),
    "bert": (["throughput="], r"latency=(\d+.\d+) ms/batch", 400),
    "insightface:data": (["INFO:root:Iter[0] Batch"], r"Speed: (\d+\.\d+) samples/sec", 6),
    "insightface:partial_0.1": (["Rank:", "Total:"], r"Total:(\d+\.\d+) it/sec", 120),
}


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_the_published_extractors_find_what_they_look_for_in_our_logs(
    name: str, tmp_path: Path
) -> None:
    """An extractor fails if a line has its texts without the number, or if lines are missing."""
    texts, pattern, count = PUBLISHED[name]
    model, _, mode = name.partition(":")
    network = "r100_85742" if mode else ""
    case = cases.Case(model, "float16", 32, 2, "real", 112, network=network, mode=mode)
    answer = {"warm": [9.0] * (100 if model == "bert" else 20), "steps": [0.25] * 100}
    path = logs.write_log(tmp_path, case, "mxlite:hybrid", 1, answer)
    short, batch, dtype, run = path.stem.split("_")
    assert (batch, dtype, run, path.parent.name) == ("b32", "fp16", "1", "1n2g")
    assert short in ("rn50", "bert", "r100")
    lines = [line for line in path.read_text().splitlines() if all(text in line for text in texts)]
    numbers = [float(re.findall(pattern, line)[0]) for line in lines]
    assert len(numbers) == count
    assert numbers[-1] == pytest.approx(250 if model == "bert" else 256)


def test_the_window_of_gpt_counts_steps_by_their_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, "megatron-gpt", sample("megatron-gpt"))  # a line every 10 steps
    assert extract.read_log(path, None, warm_up=60, batches=90).value == pytest.approx(900.5)
    with pytest.raises(LogError, match="0 lines like 'iteration n/ N"):
        extract.read_log(path, None, warm_up=90, batches=99)


def test_a_folder_without_logs_ends_the_command(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"extract: no \*\.log in"):
        extract.main([str(tmp_path)])


def test_every_bad_log_of_a_folder_is_named(tmp_path: Path) -> None:
    write(tmp_path, "", sample("mxnet-resnet50"))
    for run in (2, 3):
        write(tmp_path, "", ["Epoch[0] Batch[0]\tSpeed: 1.00 samples/sec"], run=run)
    with pytest.raises(SystemExit, match=r"extract: .*: 1 lines like") as error:
        extract.main([str(tmp_path)])
    named = [Path(line.split(": ")[1]).name for line in str(error.value).splitlines()]
    assert named == ["my_model_b32_fp32_2.log", "my_model_b32_fp32_3.log"]


@pytest.mark.parametrize("name", ["ngc-mxnet-resnet50", "pytorch-nvidia-resnet50", "tf2-bert"])
def test_lost_lines_of_steps_do_not_change_a_rate_between_times(name: str, tmp_path: Path) -> None:
    whole = sample(name)
    lost = [line for number, line in enumerate(whole) if number % 7 != 3]
    assert extract.read_log(write(tmp_path, name, lost), name).value == pytest.approx(256.0)
    glued = whole[:80] + ["".join(whole[80:83])] + whole[83:]
    assert extract.read_log(write(tmp_path, name, glued), name).value == pytest.approx(256.0)


@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_decimal_comma_never_cuts_a_number(name: str, tmp_path: Path) -> None:
    lines = [re.sub(r"(?<=\d)\.(?=\d)", ",", line) for line in sample(name)]
    path = write(tmp_path, name, lines)
    if name in ("ngc-mxnet-resnet50", "pytorch-nvidia-resnet50", "pytorch-nvidia-bert", "tf2-bert"):
        assert extract.read_log(path, name).value == pytest.approx(SAMPLES[name].rate)
        return  # a comma before fractions of a second is usual
    if lines == sample(name):
        return  # whole numbers
    with pytest.raises(LogError, match="expected"):
        extract.read_log(path, name)


@pytest.mark.parametrize("name", ["paddle-resnet50", "mindspore", "mxnet-resnet50"])
def test_a_zero_is_no_rate(name: str, tmp_path: Path) -> None:
    number = re.compile(r"((?:elapse|epoch time:|Speed:) )[\d.]+")
    lines = [number.sub(r"\g<1>0.0", line) for line in sample(name)]
    with pytest.raises(LogError, match=r"_1\.log:\d+: .* given, a line like .*above 0"):
        extract.read_log(write(tmp_path, name, lines), name)


def test_a_damaged_time_names_its_line(tmp_path: Path) -> None:
    lines = sample("ngc-mxnet-resnet50")
    lines[40] = lines[40].replace(" 03:", " 93:")
    path = write(tmp_path, "", lines)
    with pytest.raises(LogError, match=r"_1\.log:42: .*93:.* given, a line like"):
        extract.read_log(path, "ngc-mxnet-resnet50")


@pytest.mark.parametrize(
    ("case", "name", "head"),
    [
        ("0n1g", "rn50_b32_fp32_1.log", ""),
        ("1n0g", "rn50_b32_fp32_1.log", ""),
        ("1n1g", "rn50_b0_fp32_1.log", ""),
        ("1n1g", "rn50_b32_fp32_1.log", "batch_size_per_device = \u00b2"),
        ("1n1g", "rn50_b32_fp32_1.log", "num_nodes = -1"),
        ("1n1g", "rn50_b32_fp32_1.log", f"gpu_num_per_node = {10**30}"),
    ],
)
def test_jobs_have_counts_above_0(case: str, name: str, head: str, tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no number above 0 for (nodes|devices|batch)"):
        extract.describe(tmp_path / case / name, [head])


@pytest.mark.parametrize("name", list(SAMPLES))
def test_colors_and_tags_of_launchers_are_no_part_of_a_line(name: str, tmp_path: Path) -> None:
    lines = [f"[1,0]<stdout>:\x1b[1;32m{line}\x1b[0m" for line in sample(name)]
    path = write(tmp_path, name, lines)
    assert extract.read_log(path, name).value == pytest.approx(SAMPLES[name].rate)


def test_a_single_log_and_windows_below_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "", sample("mxnet-resnet50"))
    assert extract.main([str(path)]) == 0
    assert f"{path} {{1: 100.25}}" in capsys.readouterr().out
    for options, text in (
        (["--warmup_batches", "-5"], "--warmup_batches must be at least 0, got -5"),
        (["--warmup_batches", "9", "--train_batches", "9"], "expected more than the warm-up of 9"),
        (["--train_batches", "0"], "--train_batches 0, expected more than"),
    ):
        with pytest.raises(SystemExit):
            extract.main([str(path), *options])
        assert text in capsys.readouterr().err
