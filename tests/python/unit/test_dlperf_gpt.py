"""benchmarks/dlperf/gpt: presets, work, training on meshes, sampling."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS / name) for name in (".", "peers", "io")]
from cell import System
from dlperf import cases, measure
from test_dlperf import ask, run, worker_command

GPT = "gpt_1_32_2_128"


def test_presets_and_work_of_gpt() -> None:
    """DLPerf's 1 GPU rows have 49.43 and 37.98 TFLOP/s, with recomputation."""
    published = cases.cases("gpt", "full", "gpu", [1])
    rates = {}
    for case in published:
        if case.mode.endswith("recompute"):
            ms = {2: 406.16, 8: 525.21}[case.batch]
            rates[case.network] = cases.step_flops(case) / ms / 1e9
            assert cases.model_flops(case) == pytest.approx(cases.step_flops(case) * 3 / 4)
    assert rates == {
        "gpt_16_1536_16_51200": pytest.approx(49.43, rel=1e-3),
        "gpt_12_768_12_51200": pytest.approx(37.98, rel=1e-3),
    }
    every = cases.cases("gpt", "full", "gpu", [1, 8, 16, 32])
    divided = [case for case in every if case.mode.endswith("recompute")]
    assert len(divided) == 18
    (pipeline,) = (case for case in divided if case.mode == "2x4x4_m8_recompute")
    assert (pipeline.ranks, pipeline.batch, pipeline.samples) == (32, 256, 512)
    smoke = cases.cases("gpt", "smoke", "cpu", [1, 2])
    assert [(case.ranks, case.mode) for case in smoke if case.data == "resident"] == [
        *((1, ""), (2, ""), (2, "1x2x1"), (1, "sampling"))
    ]


@pytest.mark.parametrize(
    ("system", "mode", "dtype", "reason"),
    [
        ("mxlite", "1x2x1", "float32", ""),
        ("torch", "", "float32", ""),
        ("torch", "1x2x1", "float32", "torch's script trains data-parallel copies only"),
        ("mxnet", "", "float32", "benchmarks/dlperf/gpt has no on_mxnet.py"),
        ("torch", "", "bfloat16", "not measured in bfloat16"),
    ],
)
def test_systems_without_a_script_for_a_case_say_so(
    system: str, mode: str, dtype: str, reason: str
) -> None:
    case = cases.Case("gpt", dtype, 2, 2, "resident", 16, network=GPT, mode=mode)
    found = run.unmeasured(case, System(system, "x", ("float32",)))
    assert reason in found and bool(found) == bool(reason)


@pytest.mark.parametrize(
    ("mode", "data"), [("", "resident"), ("", "real"), ("sampling", "resident")]
)
def test_a_worker_trains_gpt_and_samples_from_it(
    tmp_path: Path, mode: str, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run.tempfile, "gettempdir", lambda: str(tmp_path))
    case = cases.Case("gpt", "float32", 2, 1, data, 16, network=GPT, mode=mode)
    options = run.checked_options(["gpt", "--ranks", "1"])
    file = run._files(options, [case], tmp_path).get(("gpt", GPT, 16))
    assert (file is None) == (data == "resident")
    spec = run.write_case(case, options, file, tmp_path)
    # Sampling starts again after 128 of its 5 + 1 + 127 tokens.
    timed = {"do": "time", "warm_up": 1, "count": 127 if mode else 3}
    prepared, timed = ask(worker_command(spec, tmp_path), {"do": "prepare"}, timed)
    first, fifth = prepared["losses"]
    if mode:
        assert 0 < first < np.log(128) - 0.1 and 0 < fifth < np.log(128) - 0.1
        assert timed["loss"] == pytest.approx(fifth)  # the fifth after the restart
    else:
        assert first == pytest.approx(np.log(128), rel=0.02)
        assert fifth < first - 0.001
        assert np.isfinite(timed["loss"])


@pytest.mark.dist
def test_two_tensor_ranks_train_gpt_as_one_does(tmp_path: Path) -> None:
    losses = []
    for ranks, mode in ((1, ""), (2, "1x2x1"), (2, "1x1x2_m1_recompute")):
        measure.DlperfWorker.ranks = ranks
        case = cases.Case(
            *("gpt", "float32", 2, ranks, "resident", 16, 1, 2), "gpt_2_32_2_128", mode
        )
        options = run.checked_options(["gpt", "--ranks", str(ranks)])
        cell = measure.DlperfCell(case)
        spec = run.write_case(case, options, None, tmp_path)
        cell.run([System("mxlite", "hybrid", ("float32",))], spec, ranks, 1, 0.0)
        assert cell.reasons == {}
        losses.append(cell.record("mxlite:hybrid", None)["systems"]["mxlite:hybrid"]["losses"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    np.testing.assert_allclose(losses[2], losses[0], rtol=1e-5)
    measure.DlperfWorker.ranks = 1
