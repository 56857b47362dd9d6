"""The benchmarks of several processes: that they run, and that their figures belong together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import run_python

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "bandwidth"


def run(script: str, file: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Return the result file and the table."""
    done = run_python(str(FOLDER / script), "--json", str(file), *options, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(file.read_text()), done.stdout


def test_collectives_have_rates_and_shares_of_the_limit(tmp_path: Path) -> None:
    sizes = ("--sizes", "4096", str(2 << 20), "--seconds", "0.02")
    content, table = run(
        "collectives.py", tmp_path / "c.json", "--libraries", "mxlite", *sizes, "--rounds", "2"
    )
    found = {(entry["operation"], entry["bytes"]): entry for entry in content["results"]}
    operations = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
    assert list(found) == [(name, size) for size in (4096, 2 << 20) for name in operations]
    for entry in found.values():
        low, high = entry["quartiles"]
        assert 0 < low <= high and len(entry["rounds"]) == 2
    # A rank reads 2 MB and writes 1 MB: as much as a copy of 1.5 MB.
    entry = found["reduce_scatter", 2 << 20]
    copied = entry["of_limit"] * entry["seconds"] * content["copy_rate"]
    assert copied == pytest.approx(1.5 * 2**20)
    assert all(name in table for name in operations)


def test_speedups_of_a_divided_network_are_ratios_of_the_same_rounds(tmp_path: Path) -> None:
    options = ("--batches", "8", "--rounds", "3", "--turn", "0.02")
    content, table = run("tensor_parallel.py", tmp_path / "t.json", *options)
    assert [entry["task"] for entry in content["results"]] == ["training", "inference"]
    for entry in content["results"]:
        rounds = [r["seconds"] for r in content["rounds"] if r["task"] == entry["task"]]
        assert len(rounds) == 3
        ratios = sorted(seconds["one"] / seconds["divided"] for seconds in rounds)
        assert entry["speedups"]["one"]["median"] == pytest.approx(ratios[1])
    assert content["differences"]["8"]["output"] < 1e-5
    assert "8, training" in table and "8, inference" in table


def test_the_time_of_operators_is_what_the_graphs_differ_by(tmp_path: Path) -> None:
    options = ("--length", "8", "--rounds", "3", "--turn", "0.01")
    content, table = run("operator_time.py", tmp_path / "o.json", *options)
    found = {entry["name"]: entry["median"] for entry in content["results"]}
    differences = sorted(one["with"] - one["without"] for one in content["each"])
    assert found["operator, with"] == pytest.approx(differences[1])
    assert found["communicator"] > 0
    assert "over the communicator, with" in table


@pytest.mark.slow
def test_overlap_leaves_out_ways_and_has_quartiles(tmp_path: Path) -> None:
    options = ("--batch", "1", "--side", "32", "--classes", "10", "--seconds", "0.2")
    content, table = run(
        "overlap.py", tmp_path / "v.json", *options, "--rounds", "2", "--ways", "independent", "job"
    )
    assert list(content["shares"]) == ["job / independent"]
    low, high = content["share_quartiles"]["job / independent"]
    assert 0 < low <= content["shares"]["job / independent"] <= high
    assert set(content["each"]) == {"independent", "job"}
    assert "in step" not in table


def test_overlap_needs_a_job() -> None:
    done = run_python(str(FOLDER / "overlap.py"), "--ways", "independent", "store")
    assert done.returncode == 2
    assert "must have each way once and 'job' among them, got" in done.stderr
