"""Writes the trace file: Chrome's JSON, always complete and valid."""

from __future__ import annotations

import json
from typing import Any

from .._files.saving import replacing_file
from .record import CATEGORIES, OPERATOR, Entry

_DEVICE = "cpu/0"  # device name of operators
_ASYNC = ("b", "e")


def _process_names(events: list[Entry]) -> dict[str, int]:
    # Operators come first, so that their row is at the top.
    names = {CATEGORIES[OPERATOR]: 0}
    for e in events:
        names.setdefault(e.category, len(names))
    return names


def _convert(e: Entry, process: int) -> dict[str, Any]:
    phase = e.phase
    if e.category == "MXNET_C_API":  # asynchronous events, because API calls overlap operators
        phase = phase.lower()
    event: dict[str, Any] = {
        "name": e.name,
        "cat": e.category,
        "ph": phase,
        "ts": e.nanoseconds / 1000,
        "pid": process,
        "tid": e.thread,
    }
    if phase in _ASYNC:
        event["id"] = e.thread
    elif phase == "C":
        event["args"] = {e.name: e.value}
    elif phase == "n":
        event["s"] = e.scope
        event["id"] = e.thread
    return event


def write_trace(path: str, events: list[Entry]) -> None:
    """Write ``events`` to ``path``."""
    processes = _process_names(events)
    content: list[dict[str, Any]] = [
        {
            "ph": "M",
            "name": "process_name",
            "pid": number,
            "args": {"name": _DEVICE if number == 0 else category},
        }
        for category, number in processes.items()
    ]
    ordered = sorted(events, key=lambda e: e.nanoseconds)
    content += [_convert(e, processes[e.category]) for e in ordered]
    text = json.dumps({"traceEvents": content, "displayTimeUnit": "ms"})
    with replacing_file(path) as stream:
        stream.write(text.encode())
