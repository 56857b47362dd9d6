"""benchmarks/dlperf: result files, tables with the published rows, plots."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from dlperf import cases, plots, results, tables


def figures(rate: float, **extra: Any) -> dict[str, Any]:
    return {
        "median": rate,
        "q1": 0.9 * rate,
        "q3": 1.1 * rate,
        "tflops": rate / 100,
        "mfu": 0.25,
        "losses": [7.0, 6.5, 6.0],
        "memory": {"mib": 500.0},
        **extra,
    }


def content(device: str = "cpu") -> dict[str, Any]:
    """Return a result file of two systems, 1 and 2 ranks, both kinds of data."""
    cells = []
    for ranks in (1, 2):
        for data, rate in (("resident", 400.0), ("real", 300.0)):
            case = cases.Case("resnet50", "float32", 128, ranks, data, 224)
            rate *= ranks * (0.8 if ranks == 2 else 1)
            found = {"name": case.name, "case": vars(case), "math": "fp32", "ratios": {}}
            found.update(systems={"mxlite:hybrid": figures(rate)}, reasons={})
            if ranks == 1:
                found["systems"]["torch:eager"] = figures(rate / 2)
                found["ratios"]["torch:eager"] = {"median": 2.0, "q1": 1.9, "q3": 2.1}
            else:
                found["reasons"]["torch:eager"] = "ended with 1: no gloo"
            cells.append(found)
    return {
        "benchmark": "dlperf",
        "commit": "abc",
        "machine": {"cpu": "A CPU", "cores": 2},
        "settings": {"device": device, "device_name": ""},
        "cells": cells,
        "peaks": {"float32": {"tflops": 0.5, "source": "measured"}},
        "missing": {"gpt": "not yet supported: no script"},
        "results": [],
    }


def rows(text: str, begin: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.startswith(begin)]


def test_the_table_of_cases_has_figures_or_reasons() -> None:
    text = tables.case_table(content())
    name = "resnet50 fp32 b128 size 224 1 rank resident"
    assert rows(text, name) == [
        f"{name} mxlite:hybrid 400.00 360.00-440.00 500 4.000 25.0% fp32 7.0000 6.5000 "
        "MXNet (gluon-cv) 384, NGC MXNet 392",
        f"{name} torch:eager 200.00 180.00-220.00 2.000 (1.900-2.100) 500 2.000 25.0% fp32 "
        "7.0000 6.5000 MXNet (gluon-cv) 384, NGC MXNet 392",
    ]
    name = "resnet50 fp32 b128 size 224 2 ranks real"
    assert rows(text, name)[1] == f"{name} torch:eager none"
    assert f"no figures of torch:eager in {name}: ended with 1: no gloo" in text.splitlines()
    assert text.splitlines()[-1] == "gpt: not yet supported: no script"


def test_the_main_table_has_published_rows_beside_and_predictions() -> None:
    text = tables.main_table(content(), "resnet50")
    assert "A CPU, 2 cores; published: V100-SXM2-16GB" in text
    (row,) = rows(text, "mxlite:hybrid real")
    assert row.startswith("mxlite:hybrid real fp32 here, size 224 b128 300.00 (1.00) 480.00 (1.60)")
    assert row.count(" predicted") == 3
    assert rows(text, "MXNet (gluon-cv)")[0] == (
        "MXNet (gluon-cv) published b128 384.19 (1.00) 749.04 (1.95) 2556.03 (6.65) "
        "4855.34 (12.64) 9579.74 (24.93)"
    )
    assert len(rows(text, "NGC PyTorch 1.5")) == 2
    assert "predicted: nodes of 8 devices, 120 GB/s inside, 10.6 GB/s between" in text
    assert not any("predicted" in row for row in rows(text, "torch"))


def test_rates_of_more_gpus_are_marked_as_predictions() -> None:
    given = content("gpu")
    given["cells"] = given["cells"][:1]
    (row,) = [row for row in tables.own_rows(given, "resnet50") if "mxlite" in row["framework"]]
    assert row["predicted"] == [8, 16, 32]
    rates = [row["rates"][str(count)] for count in (1, 8, 16, 32)]
    assert rates[0] == 400.0
    assert all(0.6 * 400 * n < rate < 400 * n for n, rate in zip((8, 16, 32), rates[1:]))
    lines = tables.framework_table(row).splitlines()
    assert [line.split()[-1] == "predicted" for line in lines[3:]] == [False, True, True, True]
    assert lines[3].split() == ["1", "1", "400.00", "1.00", "100.0%"]
    (peer,) = [row for row in tables.own_rows(given, "resnet50") if "torch" in row["framework"]]
    assert list(peer["rates"]) == ["1"]


def bert_content(network: str, dtype: str = "float32") -> dict[str, Any]:
    given = content("gpu")
    case = cases.Case("bert", dtype, 32, 1, "real", 128, network=network)
    cell = {"name": case.name, "case": vars(case), "math": cases.MATH[dtype], "ratios": {}}
    given["cells"] = [{**cell, "systems": {"mxlite:hybrid": figures(150.0)}, "reasons": {}}]
    return given


def test_a_smaller_network_stands_under_its_name_without_published_figures() -> None:
    base = bert_content("bert_12_768_12")
    assert "MXNet 150" in tables.case_table(base)
    assert tables.own_rows(base, "bert")[0]["predicted"] == [8, 16, 32]
    small = bert_content("bert_2_128_2")
    assert "MXNet 150" not in tables.case_table(small)
    (row,) = tables.own_rows(small, "bert")
    assert row["framework"] == "mxlite:hybrid real fp32 bert_2_128_2"
    assert row["predicted"] == [8, 16, 32]
    assert 16 * 150 < row["rates"]["32"] < 32 * 150
    # TF32 is another arithmetic than that of the published rows.
    assert "MXNet 150" not in tables.case_table(bert_content("bert_12_768_12", "tf32"))


def test_devices_of_a_part_of_a_node_count_as_a_node_and_speed_ups_need_one_device() -> None:
    row = {"framework": "x", "batch": 1, "rates": {"1": 1.0, "8": 8.0, "12": 12.0}}
    lines = tables.framework_table(row).splitlines()[3:]
    assert [line.split()[:2] for line in lines] == [["1", "1"], ["1", "8"], ["2", "12"]]
    row["rates"] = {"8": 100.0}
    assert tables.framework_table(row).splitlines()[-1].split() == "1 8 100.00 no 1n1g".split()


def test_the_tables_of_a_file_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content()))
    assert tables.main([str(path)]) == 0
    output = capsys.readouterr().out
    assert "lost to input" in output
    name = "resnet50 fp32 b128 size 224 1 rank"
    assert f"{name} mxlite:hybrid 300.00 400.00 25.0%" in rows(output, name + " ")
    assert "peak of float32: 0.500 TFLOP/s (measured)" in output
    path.write_text(json.dumps({"benchmark": "peers", "results": []}))
    with pytest.raises(SystemExit, match=r"results.json is no result file of dlperf/run.py"):
        tables.main([str(path)])


def test_plots_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = plots.plot(content(), tmp_path / "plots", "all")
    names = ["all_throughput.png", "all_memory.png", "all_efficiency.png"]
    assert [path.name for path in written] == names
    assert all(path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for path in written)
    alone = content()
    alone["cells"] = alone["cells"][:2]
    for cell in alone["cells"]:
        del cell["systems"]["mxlite:hybrid"]  # which has predictions
    assert len(plots.plot(alone, tmp_path, "alone")) == 2


def test_saved_results_are_continued(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    wanted = results.configuration({"preset": "smoke", "ranks": [1]})
    assert results.load(path, wanted) is None
    cell = content()["cells"][0]
    saved = {"configuration": wanted, "cells": [cell], "peaks": {}, "missing": {}, "command": "x"}
    results.save(path, {"preset": "smoke"}, saved)
    found = results.load(path, wanted)
    assert found is not None
    assert found["cells"] == [cell]
    assert [entry["system"] for entry in found["results"]] == ["mxlite:hybrid", "torch:eager"]


def test_published_rows_are_complete() -> None:
    for model in ("resnet50", "bert"):
        found = tables.published(model)
        assert {row["math"] for row in found} == {"fp32", "AMP"}
        assert len({(row["framework"], row["math"], row["batch"]) for row in found}) == len(found)
        assert all(set(row["rates"]) >= {"8", "16", "32"} for row in found)
