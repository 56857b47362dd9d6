"""benchmarks/bandwidth/transformer_model.py: formulas; transformer_scaling.py: DLPerf's tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "bandwidth"
sys.path.insert(0, str(FOLDER))

import transformer_model as model_
import transformer_scaling as scaling
from transformer_model import Job, Model, Nodes, Rates

# All rates are so high that only the part under test takes time.
FREE = 1e30


@pytest.mark.parametrize(
    ("hidden", "layers", "heads", "millions"),
    [(768, 12, 12, 126), (1536, 16, 16, 535), (2304, 24, 24, 1652), (3072, 16, 32, 1976)],
)
def test_parameters_are_those_of_the_published_cases(
    hidden: int, layers: int, heads: int, millions: int
) -> None:
    assert Model(hidden, layers, heads).parameters() / 1e6 == pytest.approx(millions, abs=0.6)


def stages(model: Model, job: Job) -> list[model_.Work]:
    last = job.pipeline - 1
    return [model_.stage_work(model, job, last=stage == last) for stage in range(last + 1)]


@pytest.mark.parametrize("tensor", [1, 4])
@pytest.mark.parametrize("pipeline", [1, 2])
def test_flops_are_those_of_dlperf(tensor: int, pipeline: int) -> None:
    model, job = Model(1536, 16, 16), Job(1, tensor, pipeline, 2)
    b, s, h, layers, v = 2, 2048, 1536, 16, 51200
    expected = 96 * b * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))
    assert tensor * sum(work.flops for work in stages(model, job)) == pytest.approx(expected)
    kept = model_.stage_work(model, Job(1, 1, 1, 2, recompute=False), last=False)
    assert kept.flops == pytest.approx(72 * b * s * layers * h**2 * (1 + s / (6 * h)))


def test_element_wise_bytes_of_one_layer() -> None:
    model = Model(hidden=64, layers=1, heads=4, length=32)
    tokens = 2 * 32
    whole, divided, weights = tokens * 64, tokens * 64, 4 * tokens * 32
    work = model_.stage_work(model, Job(1, 2, 1, 2, recompute=False), last=False)
    # Forward and backward once: 68 bytes, 54 and 20, the last two halved by two tensor ranks.
    assert work.bytes_ == whole * 68 + (divided * 54 + weights * 20) / 2
    again = model_.stage_work(model, Job(1, 2, 1, 2), last=False)
    assert again.bytes_ - work.bytes_ == whole * 22 + (divided * 16 + weights * 9) / 2


def test_rings_inside_a_node_and_between_nodes() -> None:
    cluster = Nodes(8, 0.0, 120e9, 0.0, 10e9)
    assert model_.ring(cluster, 1, 1e9) == 0
    assert model_.ring(cluster, 8, 120e9) == pytest.approx(2 * 7 / 8)
    assert model_.ring(cluster, 4, 120e9) == pytest.approx(2 * 3 / 4 * 6 / 4)
    assert model_.ring(cluster, 2, 120e9) == pytest.approx(6)
    cluster.mesh = False
    assert model_.ring(cluster, 2, 120e9) == pytest.approx(1)
    assert model_.ring(cluster, 16, 10e9, nodes=2, sharing=8) == pytest.approx(8 * 2 * 15 / 16)
    cluster.net_latency = 1.0
    assert model_.ring(cluster, 3, 0.0, nodes=3) == 4


def test_all_reduces_of_tensor_parallel_layers() -> None:
    cluster = Nodes(8, 0.0, 120e9, 0.0, 10e9)
    model = Model(hidden=64, layers=4, heads=8, length=32)
    one = model_.ring(cluster, 8, 2 * 3 * 32 * 64)
    job = Job(1, 8, 1, 3)
    assert model_.tensor_seconds(model, job, cluster, last=False) == pytest.approx(24 * one)
    assert model_.tensor_seconds(model, job, cluster, last=True) == pytest.approx(25 * one)
    job.recompute = False
    assert model_.tensor_seconds(model, job, cluster, last=False) == pytest.approx(16 * one)


def schedule_seconds(stages: list[float], micro_batches: int) -> float:
    """Return when 1F1B ends that is played step by step, without time for messages.

    A third of a stage's time is forward.
    """
    count = len(stages)
    orders = []
    for stage in range(count):
        ahead = min(count - stage - 1, micro_batches)
        order = [("forward", i) for i in range(ahead)]
        for i in range(micro_batches - ahead):
            order += [("forward", ahead + i), ("backward", i)]
        order += [("backward", i) for i in range(micro_batches - ahead, micro_batches)]
        orders.append(order)
    done: dict[tuple[int, str, int], float] = {}
    free, position = [0.0] * count, [0] * count
    while any(p < len(o) for p, o in zip(position, orders)):
        for stage in range(count):
            if position[stage] == len(orders[stage]):
                continue
            kind, i = orders[stage][position[stage]]
            needs = (stage - 1, "forward", i) if kind == "forward" else (stage + 1, "backward", i)
            outside = needs[0] < 0 or needs[0] == count
            if not outside and needs not in done:
                continue
            begin = max(free[stage], 0.0 if outside else done[needs])
            free[stage] = begin + stages[stage] * (1 / 3 if kind == "forward" else 2 / 3)
            done[stage, kind, i] = free[stage]
            position[stage] += 1
    return max(free)


@pytest.mark.parametrize(("pipeline", "micro_batches"), [(2, 4), (4, 4), (4, 32), (8, 16)])
@pytest.mark.parametrize("vocabulary", [0, 51200])
def test_the_bubble_is_that_of_a_schedule_played_step_by_step(
    pipeline: int, micro_batches: int, vocabulary: int
) -> None:
    model, rates = Model(1536, 16, 16, vocabulary=vocabulary), Rates(50e12, FREE)
    job = Job(1, 1, pipeline, 2, micro_batches)
    cluster = Nodes(8, 0.0, FREE, 0.0, FREE)
    seconds = [work.seconds(rates) for work in stages(model, job)]
    found = model_.predict(model, job, cluster, rates)
    assert found.total == pytest.approx(schedule_seconds(seconds, micro_batches), rel=1e-9)
    if vocabulary == 0:
        share = found.bubble / (micro_batches * seconds[0])
        assert share == pytest.approx((pipeline - 1) / micro_batches)


def test_messages_of_stages_are_hidden_or_added() -> None:
    model, rates = Model(1536, 16, 16, vocabulary=0), Rates(50e12, FREE)
    cluster = Nodes(8, 0.0, FREE, 0.0, 10e9)
    job = Job(8, 1, 4, 2, 32, hide_messages=True)
    hidden = model_.predict(model, job, cluster, rates)
    assert hidden.messages == pytest.approx(0)
    job.hide_messages = False
    added = model_.predict(model, job, cluster, rates)
    # 8 GPUs send 2-byte arrays; a stage in the middle has two neighbours.
    once = 8 * 2 * 2 * 2048 * 1536 / 10e9
    assert added.messages == pytest.approx(32 * 2 * once)
    assert added.bubble - hidden.bubble == pytest.approx(once * (1 + 2 + 1))


def test_gradients_of_data_ranks() -> None:
    model, cluster = Model(1536, 16, 16), Nodes(8, 0.0, FREE, 0.0, 10e9)
    rates = Rates(1e12, FREE)
    per_gpu = (16 * model.layer_parameters() + 51200 * 1536) // 8 + 2048 * 1536
    job = Job(4, 8, 1, 8, hide_gradients=False)
    assert model_.stage_parameters(model, job) == per_gpu
    # Eight rings of four GPUs share each adapter.
    seconds = 8 * 2 * 3 / 4 * 2 * per_gpu / 10e9
    assert model_.predict(model, job, cluster, rates).gradients == pytest.approx(seconds)
    job.hide_gradients = True
    table = 51200 * 1536 / 8 / per_gpu
    assert model_.predict(model, job, cluster, rates).gradients == pytest.approx(seconds * table)


def test_memory_of_states_and_activations() -> None:
    model, tokens = Model(1536, 16, 16), 2 * 2048
    states = 20 * (model.parameters() - 2 * 1536)
    scores = 4 * tokens * 51200
    layer = tokens * 1536 * (34 + 5 * 16 * 2048 / 1536)
    kept = model_.memory_bytes(model, Job(1, 1, 1, 2, recompute=False))
    assert kept == pytest.approx(states + 16 * layer + scores)
    again = model_.memory_bytes(model, Job(1, 1, 1, 2))
    assert again == pytest.approx(states + 16 * 2 * tokens * 1536 + layer + scores)
    # Four stages keep the inputs of four micro-batches on the first.
    job = Job(1, 1, 4, 2, 32)
    piped = model_.memory_bytes(model, job) - 20 * model_.stage_parameters(model, job)
    assert piped == pytest.approx(4 * 4 * 2 * tokens * 1536 + layer)


def test_rates_that_two_times_determine() -> None:
    works = [model_.Work(2e12, 3e9), model_.Work(1e12, 9e9)]
    rates = Rates(60e12, 700e9)
    found = model_.fitted_rates([(work, work.seconds(rates)) for work in works])
    assert (found.flops, found.bandwidth) == pytest.approx((60e12, 700e9))
    for times in ([(works[0], 1.0), (works[0], 2.0)], [(works[0], 1.0), (works[1], 10.0)]):
        with pytest.raises(ValueError, match="no rates of flops and bytes give"):
            model_.fitted_rates(times)


def test_heads_and_layers_must_divide() -> None:
    for what, job in (("heads", Job(1, 8, 1, 1)), ("layers", Job(1, 1, 8, 1))):
        with pytest.raises(ValueError, match=f"12 {what} cannot be divided among 8 GPUs"):
            model_.predict(Model(768, 12, 12), job, Nodes(), Rates(1, 1))


def test_the_published_tables_are_predicted() -> None:
    result = scaling.check(Nodes())
    assert len(result["rows"]) == 18
    fitted = {
        framework: [row["name"] for row in result["rows"] if row[framework]["fitted"]]
        for framework in scaling.FRAMEWORKS
    }
    ones = ["DP_1x1x1_2_1536x16", "MP_1x1x1_8_768x12"]
    assert fitted == {"OneFlow": [*ones, "2D_2x8x1_16_2304x24"], "Megatron-LM": ones}
    for row in result["rows"]:
        for framework in scaling.FRAMEWORKS:
            if row["name"] in ones:
                assert row[framework]["error"] == pytest.approx(0, abs=1e-6)
    summary = result["summary"]
    assert summary["OneFlow"]["mean_absolute_error"] < 0.085
    assert summary["Megatron-LM"]["mean_absolute_error"] < 0.07
    assert result["memory_mean_absolute_error"]["one_stage"] < 0.09
    # The rates are below what a V100 has.
    for found in summary.values():
        assert 0.4 * 125 < found["tflops"] < 125
        assert 0.6 * 900 < found["gb_per_second"] < 900


def test_slower_adapters_slow_only_what_crosses_nodes() -> None:
    cluster = Nodes()
    cluster.net_bandwidth /= 2
    before, after = scaling.check(Nodes()), scaling.check(cluster)
    published = json.loads(scaling.PUBLISHED.read_text())["rows"]
    for row, old, new in zip(published, before["rows"], after["rows"]):
        gpus = row["data"] * row["tensor"] * row["pipeline"]
        times = [found["Megatron-LM"]["predicted_ms"] for found in (old, new)]
        assert (times[1] > times[0]) == (gpus > 8)


def test_divisions_are_listed_with_the_fastest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    command = ["transformer_scaling.py", "predict", "--gpus", "8", "--hidden", "1536"]
    command += ["--layers", "16", "--heads", "16", "--batch", "16", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", command)
    assert scaling.main() == 0
    rows = json.loads(out.read_text())["rows"]
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)
    assert all(row["data"] * row["tensor"] * row["pipeline"] == 8 for row in rows)
    assert all(row["data"] * row["micro_batch"] * row["micro_batches"] == 16 for row in rows)
    assert all(row["memory_gib"] <= 16 for row in rows)
    assert "535 million parameters" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*command, "--memory", "1"])
    with pytest.raises(SystemExit, match=r"among 8 GPUs fits into 1 GiB each"):
        scaling.main()
