"""Tables and plot of speed: every cell of a result file appears in them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
import speed_tables  # noqa: E402
from ratio_plot import LEFT, WIDTH, Cell, draw, position  # noqa: E402


def write(path: Path, names: list[str], unit: str = "ms") -> Path:
    """Write a result file with measurements of 1, 2, ..."""
    results = [
        {"name": name, "unit": unit, "median": i + 1.0, "q1": i + 0.5, "q3": i + 1.5}
        for i, name in enumerate(names)
    ]
    path.write_text(json.dumps({"commit": "abc", "date": "2026-01-01", "results": results}))
    return path


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        (["a, ours", "a, peer", "b, ours", "b, peer"],
         ["| case | ours, ms | peer, ms |", "| --- | --- | --- |",
          "| a | 1 (0.5 to 1.5) | 2 (1.5 to 2.5) |", "| b | 3 (2.5 to 3.5) | 4 (3.5 to 4.5) |"]),
        (["a ours", "a peer", "b ours"],
         ["| case | median (quartiles) | unit |", "| --- | --- | --- |",
          "| a ours | 1 (0.5 to 1.5) | ms |", "| a peer | 2 (1.5 to 2.5) | ms |",
          "| b ours | 3 (2.5 to 3.5) | ms |"]),
    ],
)  # fmt: skip
def test_table_has_every_measurement(tmp_path, names, rows):
    lines = speed_tables.measurements(write(tmp_path / "r.json", names), "x.py --n 1")
    assert lines == ["`python benchmarks/x.py --n 1` at commit abc, 2026-01-01:", "", *rows]


def test_rates_of_arithmetic_are_in_gflops(tmp_path):
    path = write(tmp_path / "r.json", ["loop"], "FLOP/s")
    assert "| loop | 1e-09 (5e-10 to 1.5e-09) | GFLOP/s |" in speed_tables.measurements(path, "x")


def test_plot_shows_won_and_lost_cells():
    picture = draw([Cell("m & n", "lost", 0.4, 0.9, 0.95), Cell("m & n", "won", 1.0, 1.5, 9.0)])
    assert picture.count("<circle") == 2
    assert "m &amp; n" in picture
    assert picture.index(">won<") < picture.index(">lost<")
    assert position(0.1) == LEFT
    assert position(99) == LEFT + WIDTH


def test_plot_has_the_ratios_of_the_tables():
    page = (speed_tables.ROOT / "docs" / "reference" / "results.md").read_text()
    for cell in speed_tables.plotted_cells():
        assert f"{cell.median:.2f} ({cell.q1:.2f} to {cell.q3:.2f})" in page, cell.label
