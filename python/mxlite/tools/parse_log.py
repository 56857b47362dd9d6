"""Table of accuracies and times from a training log.

    python -m mxlite.tools.parse_log train.log
    python -m mxlite.tools.parse_log train.log --format none --metric-names accuracy cross-entropy

MXNet 1.x: ``tools/parse_log.py``. Logs of several workers are averaged; missing values
stay empty.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

_NUMBER = r"=(nan|-?inf|[-+.\deE]+)"
Column = tuple[str, str]


def _columns(metrics: Sequence[str]) -> list[Column]:
    """Return titles and patterns; the groups of a pattern are epoch and value."""
    columns = []
    for short, long in (("train", "Train"), ("val", "Validation")):
        for name in metrics:
            pattern = rf"Epoch\[(\d+)\] {long}-{re.escape(name)}.*?{_NUMBER}"
            columns.append((f"{short}-{name}", pattern))
    return [*columns, ("time", rf"Epoch\[(\d+)\] Time.*?{_NUMBER}")]


def parse(lines: Iterable[str], metrics: Sequence[str]) -> dict[int, dict[str, float]]:
    """Return the values in a log by epoch and column."""
    columns = [(title, re.compile(pattern)) for title, pattern in _columns(metrics)]
    found: defaultdict[int, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        for title, pattern in columns:
            match = pattern.search(line)
            if match:
                with contextlib.suppress(ValueError):  # int() rejects superscripts
                    epoch, value = int(match[1]), float(match[2])
                    found[epoch][title].append(value)
                break
    return {
        epoch: {title: sum(values) / len(values) for title, values in found[epoch].items()}
        for epoch in sorted(found)
    }


def table(
    epochs: dict[int, dict[str, float]], metrics: Sequence[str], style: str = "markdown"
) -> str:
    """Write a table."""
    titles = [title for title, _ in _columns(metrics)]
    rows = []
    for epoch, values in epochs.items():
        cells = [f"{epoch + 1:2d}"]
        for title in titles:
            if title in values:
                cells.append(f"{values[title]:.1f}" if title == "time" else f"{values[title]:f}")
            else:
                cells.append("" if style == "markdown" else "nan")
        rows.append(cells)
    if style == "none":
        return "\n".join("\t".join(cells) for cells in [["epoch", *titles], *rows])
    rule = "| --- " * (len(titles) + 1) + "|"
    head = "| " + " | ".join(["epoch", *titles]) + " |"
    return "\n".join([head, rule, *("| " + " | ".join(cells) + " |" for cells in rows)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="parse_log", description="Table of accuracies and times from a training log."
    )
    parser.add_argument("logfile", help="the log")
    parser.add_argument("--format", default="markdown", choices=["markdown", "none"])
    parser.add_argument("--metric-names", nargs="+", default=["accuracy"])
    options = parser.parse_args(arguments)
    lines = Path(options.logfile).read_text(encoding="utf-8", errors="replace").splitlines()
    epochs = parse(lines, options.metric_names)
    print(table(epochs, options.metric_names, options.format))
    if not epochs:
        print(f"parse_log: {options.logfile}: no line of an epoch's end", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
