"""Tables in Markdown, made of result files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Lines = list[str]


def markdown(head: Lines, rows: list[Lines]) -> Lines:
    """Return a table."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def digits(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rescaled(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a measurement in GFLOP/s if it is in FLOP/s."""
    if entry["unit"] != "FLOP/s":
        return entry
    values = {name: entry[name] / 1e9 for name in ("median", "q1", "q3")}
    return {**entry, **values, "unit": "GFLOP/s"}


def middle(entry: dict[str, Any]) -> str:
    """Return the median of a measurement with its quartiles, if it has them."""
    text = digits(entry["median"])
    spread = [digits(entry[name]) for name in ("q1", "q3") if name in entry]
    return f"{text} ({' to '.join(spread)})" if len(set(spread)) == 2 else text


def measurements(path: Path, script: str) -> Lines:
    """Return the table of all measurements of a result file.

    Where each case was measured in the same systems, these are the columns. They are the ends of
    the names.
    """
    content = json.loads(path.read_text())
    cases: dict[str, dict[str, Any]] = {}
    results = [rescaled(entry) for entry in content["results"]]
    for entry in results:
        case, _, last = entry["name"].rpartition(" ")
        cases.setdefault(case.rstrip(","), {})[last] = entry
    columns = list(next(iter(cases.values())))
    units = {name: entry["unit"] for name, entry in next(iter(cases.values())).items()}
    if len(columns) > 1 and all(list(found) == columns for found in cases.values()):
        head = ["case", *(f"{name}, {units[name]}" for name in columns)]
        rows = [[case, *map(middle, found.values())] for case, found in cases.items()]
    else:
        head = ["case", "median (quartiles)", "unit"]
        rows = [[entry["name"], middle(entry), entry["unit"]] for entry in results]
    command = f"`python benchmarks/{script}` at commit {content['commit']}, {content['date']}:"
    return [command, "", *markdown(head, rows)]
