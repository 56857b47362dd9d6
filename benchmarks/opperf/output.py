"""The result files of opperf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
from common import write_json

Results = dict[str, list[dict[str, Any]]]

_NATIVE = (
    ("Operator", ""),
    ("Inputs", "inputs"),
    ("Max Mem Usage (Storage) (Bytes)", "max_storage_mem_alloc_"),
    ("Avg Forward Time (ms)", "avg_time_forward_"),
    ("Avg. Backward Time (ms)", "avg_time_backward_"),
)
_PYTHON = (
    ("Operator", ""),
    ("Avg Time (ms)", "avg_time_"),
    ("P50 Time (ms)", "p50_time_"),
    ("P90 Time (ms)", "p90_time_"),
    ("P99 Time (ms)", "p99_time_"),
    ("Inputs", "inputs"),
)


def to_json(path: Path, results: Results, profiler: str) -> None:
    """Write ``{operator: [row, ...]}``."""
    write_json(path, results)


def _cell(row: dict[str, Any], prefix: str) -> str:
    for key, value in row.items():
        if key.startswith(prefix):
            return f"{value:.4f}" if isinstance(value, float) else str(value)
    return "---"


def to_markdown(path: Path, results: Results, profiler: str) -> None:
    """Write a list of the build's features and a table with a row for each measurement."""
    columns = _NATIVE if profiler == "native" else _PYTHON
    lines = ["# Runtime Features"]
    lines += [f"{i}. {feature}" for i, feature in enumerate(mx.runtime.feature_list())]
    lines += ["", "# Benchmark Results"]
    lines.append("| " + " | ".join(title for title, _ in columns) + " |")
    lines.append("|" + " --- |" * len(columns))
    for name, rows in sorted(results.items()):
        for row in rows:
            cells = [_cell(row, prefix) if prefix else name for _, prefix in columns]
            lines.append("| " + " | ".join(cells) + " |")
    partial = path.with_name(path.name + ".partial")
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.replace(path)
