"""The benchmark scripts: options, lines, files; not their figures."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import mxlite as mx
import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS / name) for name in (".", "first", "peers", "training")]
import benchmark_score
import common
import compare
import first_result
import numpy as np
import peer_values
import run as peers_run
import train_step
from bert import Bert
from layers import layer_list
from neighbours import neighbours
from network_symbols import network_symbol
from scoring import networks
from worker_process import WorkerError


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--network", "resnet50"], "did you mean 'resnet-50'"),
        (["--batch-size", "0"], "argument --batch-size: '0': expected a whole number of at leas"),
        (["--batch-size", "1,two"], "'two': expected a whole number of at least 1"),
        (["--dtype", "float8"], "'float8': expected float32 or float16 or bfloat16"),
        (["--ctx", "tpu"], "'tpu': expected cpu, gpu or gpu(number)"),
        (["--iterations", "0"], "argument --iterations: '0': expected a whole number"),
    ],
)
def test_wrong_options_end_with_what_was_expected(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        benchmark_score.main(arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_unknown_network_and_empty_batch_are_value_errors() -> None:
    with pytest.raises(ValueError, match="no network 'vgg-17'; did you mean 'vgg-16'") as error:
        networks.build("vgg-17")
    assert isinstance(error.value, mx.base.MXNetError)
    with pytest.raises(ValueError, match="batch size must be at least 1, got 0") as error:
        benchmark_score.Scorer("squeezenet1.1").score(0)
    assert isinstance(error.value, mx.base.MXNetError)


def test_defaults_are_those_of_the_performance_page() -> None:
    options = benchmark_score.parser().parse_args([])
    assert options.network == networks.DEFAULT
    assert options.batch_size is None
    assert benchmark_score.BATCH_SIZES == [1, 2, 4, 8, 16, 32]


def test_result_lines_are_those_of_mxnet(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for old in (True, False):
            benchmark_score.log_result(2, "float32", 12.5, old)
    assert caplog.messages == [
        "batch size  2, image/sec: 12.500000",
        "batch size  2, dtype float32, images/sec: 12.500000",
    ]


def test_scoring_writes_table_plot_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    figures, plot = tmp_path / "score.json", tmp_path / "score.png"
    arguments = ["--network", "squeezenet1.1", "--batch-size", "1,2", "--iterations", "3"]
    with caplog.at_level(logging.INFO):
        benchmark_score.main([*arguments, "--json", str(figures), "--plot", str(plot)])
    assert "network: squeezenet1.1" in caplog.messages
    assert "device: cpu(0)" in caplog.messages
    assert sum(text.startswith("batch size") for text in caplog.messages) == 2
    output = capsys.readouterr().out
    assert "squeezenet1.1" in output
    assert "26+0" in output  # convolutions and dense layers
    content = json.loads(figures.read_text())
    assert [entry["batch"] for entry in content["results"]] == [1, 2]
    assert content["machine"]["cores"] >= 1
    assert content["networks"]["squeezenet1.1"]["parameters"] == 1235496
    if "no plot" not in output:
        assert plot.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def result_file(path: Path, medians: dict[str, float], better: str = "higher") -> str:
    entries = [
        dict(name=n, unit="images/s", median=m, q1=0.99 * m, q3=1.01 * m, better=better)
        for n, m in medians.items()
    ]
    common.write_json(path, {"results": entries})
    return str(path)


def test_compare_prints_ratio_noise_and_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = result_file(tmp_path / "a.json", {"same": 100.0, "fast": 50.0, "only": 1.0})
    second = result_file(tmp_path / "b.json", {"same": 101.0, "fast": 100.0})
    assert compare.main([first, second]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[4:] for line in lines[2:4]] == [
        ["1.010", "2.0%", "="],
        ["2.000", "2.0%", "better"],
    ]
    assert "geometric mean of 2 ratios: 1.421" in lines[4]
    assert lines[5] == "1 results are in one file only"
    durations = [
        result_file(tmp_path / f"{n}.json", {"call": float(n)}, better="lower") for n in (2, 4)
    ]
    compare.main(durations)
    assert "0.500" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot read"), ("{", "is not JSON"), ("[1]", "is no result file")],
)
def test_compare_names_the_file_that_is_wrong(
    tmp_path: Path, content: str | None, words: str
) -> None:
    path = tmp_path / "wrong.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit, match=words) as end:
        compare.main([str(path), str(path)])
    assert str(path) in str(end.value)


def test_rates_and_durations_have_their_quartiles_in_order() -> None:
    timing = common.Timing([1.0, 2.0, 4.0, 3.0, 5.0])
    rate = common.result("rate", timing, unit="images/s", amount=6)
    duration = common.result("duration", timing, unit="ms", amount=1e3)
    assert (rate["q1"], rate["median"], rate["q3"]) == (1.5, 2.0, 3.0)
    assert (duration["q1"], duration["median"], duration["q3"]) == (2e3, 3e3, 4e3)


def test_a_result_file_is_replaced_only_by_a_complete_one(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    common.write_json(path, {"results": []})
    with pytest.raises(TypeError):
        common.write_json(path, {"results": [object()]})
    assert json.loads(path.read_text()) == {"results": []}
    assert [entry.name for entry in tmp_path.iterdir()] == ["figures.json"]


@pytest.mark.parametrize(
    "network", ["squeezenet1.1", "resnet-50", "resnet18_v1b", "mobilenetv2_0.25", "inception-bn"]
)
def test_layer_lists_of_the_peers_use_every_parameter(network: str) -> None:
    net, size = networks.build(network), networks.image_size(network)
    net.infer_shape(mx.nd.zeros((1, 3, size, size)))
    layers: list[dict[str, Any]] = layer_list(net)
    used = {name: tuple(shape) for layer in layers for name, shape in layer["params"].values()}
    parameters = net._collect_params_with_prefix()
    assert used == {name: tuple(value.shape) for name, value in parameters.items()}
    assert all(index < place for place, layer in enumerate(layers) for index in layer["inputs"])


@pytest.mark.parametrize("length", [128, 24])
def test_the_neutral_form_of_bert_computes_what_the_block_does(length: int) -> None:
    net = Bert(layers=2, units=32, heads=4, length=length)
    net.initialize(mx.init.Normal(0.02))
    spec = {"size": length, "layers": layer_list(net)}
    parameters = net._collect_params_with_prefix()
    shapes = {name: shape for layer in spec["layers"] for name, shape in layer["params"].values()}
    assert shapes == {name: list(value.shape) for name, value in parameters.items()}
    given = {
        name: mx.nd.array(peer_values.parameter(name, shape)) for name, shape in shapes.items()
    }
    for name, parameter in parameters.items():
        parameter.set_data(given[name])
    tokens = mx.nd.array(peer_values.inputs(spec, 3), dtype=np.int32)
    assert tokens.shape == (3, length)
    (output,) = network_symbol(mx, spec).eval(data=tokens, **given)
    assert output.shape == (3, 32)
    np.testing.assert_allclose(net(tokens).asnumpy(), output.asnumpy(), rtol=1e-5, atol=1e-6)


def test_the_name_of_bert_says_how_long_its_sequences_are() -> None:
    lengths = {
        name: peer_values.bert_length(name) for name in ("bert-base", "bert-base-512", "vgg")
    }
    assert lengths == {"bert-base": 128, "bert-base-512": 512, "vgg": None}
    for name in ("bert-base-", "bert-base-0", "bert-base-large"):
        with pytest.raises(
            SystemExit, match=f"peers: network must be bert-base-<tokens>, .*, got '{name}'"
        ):
            peers_run.main(["--networks", name])


def test_projections_are_cut_into_queries_keys_and_values_of_all_heads() -> None:
    # Two heads of three rows: q0 of 3 rows, k0, v0, q1, k1, v1.
    parts = peer_values.queries_keys_values(np.arange(18), heads=2)
    assert [list(part) for part in parts] == [
        [first, first + 1, first + 2, first + 9, first + 10, first + 11] for first in (0, 3, 6)
    ]


def children() -> set[str]:
    """Return the process ids of this process's children."""
    found: set[str] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        found.update(file.read_text().split())
    return found


def test_neighbours_run_as_long_as_the_block() -> None:
    before = children()
    with pytest.raises(RuntimeError, match="in the middle"), neighbours(2):
        assert len(children() - before) == 2
        raise RuntimeError("in the middle")
    assert children() - before == set()
    with pytest.raises(SystemExit, match="--neighbours must be at least 0, got -1"):
        peers_run.main(["--neighbours", "-1", "--networks", "bert-base"])


def test_dropout_is_a_layer_of_training_only() -> None:
    net = networks.build("alexnet")
    net.infer_shape(mx.nd.zeros((1, 3, 224, 224)))
    kinds = [layer["op"] for layer in layer_list(net, training=True)]
    assert kinds.count("dropout") == 2
    assert [kind for kind in kinds if kind != "dropout"] == [
        layer["op"] for layer in layer_list(net)
    ]


def ask_training_worker(spec: Path, *requests: dict[str, Any], **options: str) -> list[Any]:
    """Run training/worker.py on mxlite and return its answers."""
    command = [sys.executable, str(BENCHMARKS / "training" / "worker.py"), "--system", "mxlite"]
    for name, value in {"spec": str(spec), "batch": "2", **options}.items():
        command += ["--" + name, value]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_losses_of_networks_with_dropout_are_compared_without_drops(tmp_path: Path) -> None:
    net = networks.build("squeezenet1.1")
    net.infer_shape(mx.nd.zeros((1, 3, 224, 224)))
    layers = layer_list(net, training=True)
    content = {"network": "squeezenet1.1", "size": 224, "random": False, "layers": layers}
    spec = tmp_path / "squeezenet.json"
    spec.write_text(json.dumps(content))
    kept = train_step.without_drops(spec)
    assert kept is not None
    requests = {"do": "prepare"}, {"do": "time", "count": 1}, {"do": "memory"}
    losses = []
    for variant in ("hybrid", "module"):
        built, timed, memory = ask_training_worker(kept, *requests, variant=variant, clock="cpu")
        assert len(built["losses"]) == 2
        assert timed["seconds"][0] > 0
        assert memory["mib"] > 50
        losses.append(built["losses"])
    assert losses[0] == pytest.approx(losses[1], rel=train_step.TOLERANCE["float32"])
    (failed,) = ask_training_worker(spec, {"do": "prepare"}, variant="hybrid", dtype="float8")
    assert "float8" in failed["error"]

    content["layers"] = [layer for layer in layers if layer["op"] != "dropout"]
    spec.write_text(json.dumps(content))
    assert train_step.without_drops(spec) is None


def test_systems_with_another_loss_are_not_timed() -> None:
    cell = train_step.TrainCell("alexnet", "float32", 2)
    cell._check({"losses": [7.0, 6.9]}, {"losses": [7.003, 6.9]})
    with pytest.raises(WorkerError, match=r"first loss is 7.00000, the first system's 7.05000"):
        cell._check({"losses": [7.0, 6.9]}, {"losses": [7.05, 6.9]})


def test_first_results_are_compared_turn_by_turn():
    def answer(seconds: float) -> dict[str, Any]:
        return {part: {"wall": 2 * seconds, "cpu": seconds} for part in first_result.PARTS}

    answers = {"mxlite": [answer(1), answer(2)], "torch:eager": [answer(4)]}
    ours, ours_wall, theirs, _ = first_result.entries_of("lstm", answers)
    assert ours["median"] == 4.5 and ours_wall["median"] == 9.0
    assert theirs["parts"] == {**{part: 4 for part in first_result.PARTS}, "first result": 12}
    assert theirs["ratio"]["median"] == 0.25  # the second turn of mxlite has no counterpart


@pytest.mark.parametrize(("output", "differs"), [([1.0, 2.001], False), ([1.0, 2.1], True)])
def test_first_results_that_differ_end_the_benchmark(output, differs):
    answers = {"mxlite": {"output": [1.0, 2.0]}, "mxnet": {"output": output}}
    if not differs:
        first_result.check_outputs("lstm", answers)
        return
    with pytest.raises(SystemExit, match="lstm: mxnet differs by 0.05"):
        first_result.check_outputs("lstm", answers)
