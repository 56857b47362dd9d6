"""Counts and times of events by name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from .record import MEMORY, Entry

_OPENERS = {"B": "E", "b": "e", "(": ")"}
_CLOSERS = {end: begin for begin, end in _OPENERS.items()}
_NS_PER_MS = 1e6
_BYTES_PER_KB = 1e3


@dataclass(frozen=True)
class Row:
    """Totals of one name; times in ms, memory in kB, counters unchanged."""

    count: int
    total: float
    min: float
    max: float

    @property
    def avg(self) -> float:
        """Average of the values."""
        return self.total / self.count if self.count else 0.0


def durations(events: Iterable[Entry]) -> list[tuple[str, str, int, int, int]]:
    """Return spans from pairs of begin and end events."""
    opened: dict[tuple[int, str, str, str], list[int]] = {}
    done = []
    for e in events:
        if e.phase in _OPENERS:
            opened.setdefault((e.thread, e.category, e.name, e.phase), []).append(e.nanoseconds)
        elif e.phase in _CLOSERS:
            begins = opened.get((e.thread, e.category, e.name, _CLOSERS[e.phase]))
            if begins:
                done.append((e.category, e.name, e.thread, begins.pop(), e.nanoseconds))
    return done


def aggregate(events: list[Entry]) -> dict[str, dict[str, Row]]:
    """Return the totals of events by category and name."""
    values: dict[tuple[str, str], list[float]] = {}
    for category, name, _, begin, end in durations(events):
        values.setdefault((category, name), []).append((end - begin) / _NS_PER_MS)
    for e in events:
        if e.phase == "C" and e.value is not None:
            unit = _BYTES_PER_KB if e.category == MEMORY else 1.0
            values.setdefault((e.category, e.name), []).append(e.value / unit)
    tables: dict[str, dict[str, Row]] = {}
    for (category, name), numbers in sorted(values.items()):
        row = Row(len(numbers), sum(numbers), min(numbers), max(numbers))
        tables.setdefault(category, {})[name] = row
    return tables


def _sorted(rows: dict[str, Row], sort_by: str, ascending: bool) -> list[tuple[str, Row]]:
    return sorted(
        rows.items(), key=lambda item: float(getattr(item[1], sort_by)), reverse=not ascending
    )


def aggregate_table(events: list[Entry], sort_by: str, ascending: bool) -> str:
    """Return the tables in 1.x's format."""
    lines = ["", "Profile Statistics:", "\tNote the difference in units for different entries."]
    for category, rows in aggregate(events).items():
        if category == MEMORY:
            head = ["Min Use  (kB)", "Max Use  (kB)", "Avg Use  (kB)"]
        else:
            head = ["Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)"]
        titles = ["Total Count", *head]
        lines += [category, "================="]
        lines.append(f"{'Name':<25}{titles[0]:>16}" + "".join(f" {t:>16}" for t in head))
        dashes = ["-" * len(t) for t in titles]
        lines.append(f"{'----':<25}{dashes[0]:>16}" + "".join(f" {d:>16}" for d in dashes[1:]))
        for name, row in _sorted(rows, sort_by, ascending):
            numbers = [row.min, row.max, row.avg]
            if category != MEMORY:
                numbers.insert(0, row.total)
            lines.append(f"{name:<25}{row.count:>16}" + "".join(f" {n:>16.4f}" for n in numbers))
        lines.append("")
    return "\n".join(lines) + "\n"


def aggregate_json(events: list[Entry], sort_by: str, ascending: bool) -> str:
    """Return the tables as a JSON object."""
    content: dict[str, dict[str, object]] = {"Time": {}, "Memory": {}}
    for category, rows in aggregate(events).items():
        part: dict[str, object] = {}
        for name, row in _sorted(rows, sort_by, ascending):
            values: dict[str, float] = {"Count": row.count}
            if category != MEMORY:
                values["Total"] = row.total
            part[name] = {**values, "Min": row.min, "Max": row.max, "Avg": row.avg}
        content["Memory" if category == MEMORY else "Time"][category] = part
    content["Unit"] = {"Time": "ms", "Memory": "kB"}
    return json.dumps(content, indent=4)
