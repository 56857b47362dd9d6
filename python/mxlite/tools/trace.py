"""Prints how the time of a profile was spent: ``python -m mxlite.tools.trace profile.json``.

Reads the trace that ``mx.profiler.dump`` (or MXNet 1.x) wrote, prints the operators that took most
time and how the time is divided into computing, communication, waiting for input and idling, and
draws it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .._files.whole import read_file

SHARES = ("compute", "communication", "IO wait", "idle")
_COLORS = ("#4477aa", "#aa3377", "#ccbb44", "#dddddd")
_BINS = 200


class TraceError(ValueError):
    """A file is not a trace."""


class Interval(NamedTuple):
    """A span of time on a thread; times in microseconds."""

    name: str
    category: str
    begin: float
    end: float
    thread: Any

    @property
    def kind(self) -> int | None:
        """Position in SHARES, or None if the interval is not in any of them."""
        if self.category == "operator":
            return 0
        if self.category == "communication":
            return 1
        if self.category == "IO" and (self.name.endswith("wait") or self.name == _OWN_BATCH):
            return 2
        return None


_OWN_BATCH = "DataLoader: batch"  # prepared by the thread that is waiting for it


class Trace(NamedTuple):
    """Contents of a trace file."""

    intervals: list[Interval]
    counters: dict[str, list[tuple[float, float]]]


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace file."""
    raw = read_file(path)
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{os.fspath(path)!r} is not JSON text: {error}") from error
    events = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(events, list):
        raise TraceError(f"{os.fspath(path)!r} has no list 'traceEvents'")
    try:
        return _paired(events)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise TraceError(f"{os.fspath(path)!r} holds an event that is damaged: {error}") from error


def _microseconds(value: Any) -> float:
    """Return a time of an event; raise if it is not a finite number."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"value must be a finite number, got {value!r}")
    return number


def _paired(events: list[Any]) -> Trace:
    """Return intervals from pairs of begin and end events; drop unpaired events."""
    intervals: list[Interval] = []
    counters: dict[str, list[tuple[float, float]]] = {}
    opened: dict[Any, list[tuple[str, float]]] = {}
    for event in sorted((e for e in events if "ts" in e), key=lambda e: _microseconds(e["ts"])):
        phase, at = event.get("ph"), float(event["ts"])
        name, category = str(event.get("name")), str(event.get("cat", ""))
        place = (event.get("pid"), event.get("tid"), category)
        if phase in ("B", "b"):
            opened.setdefault((place, phase == "B"), []).append((name, at))
        elif phase in ("E", "e"):
            stack = opened.get((place, phase == "E"), [])
            matching = [i for i, (label, _) in enumerate(stack) if label == name]
            if matching:
                _, begin = stack.pop(matching[-1])
                intervals.append(Interval(name, category, begin, at, event.get("tid")))
        elif phase == "X":
            end = at + _microseconds(event.get("dur", 0))
            intervals.append(Interval(name, category, at, end, event.get("tid")))
        elif phase == "C":
            for label, value in (event.get("args") or {}).items():
                counters.setdefault(label, []).append((at, _microseconds(value)))
    return Trace(intervals, counters)


def top_operators(intervals: Iterable[Interval]) -> list[tuple[str, int, float]]:
    """Return (name, count, microseconds) of the operators, largest total first.

    Time is counted for the innermost operator only, so a hybridized block has the time that it
    spends outside of its operators.
    """
    found: dict[str, tuple[int, float]] = {}
    around: dict[Any, list[Interval]] = {}  # open intervals of each thread
    operators = (entry for entry in intervals if entry.category == "operator")
    for entry in sorted(operators, key=lambda entry: (entry.begin, -entry.end)):
        length = entry.end - entry.begin
        count, total = found.get(entry.name, (0, 0.0))
        found[entry.name] = count + 1, total + length
        stack = around.setdefault(entry.thread, [])
        while stack and stack[-1].end < entry.end:
            stack.pop()
        if stack:
            count, total = found[stack[-1].name]
            found[stack[-1].name] = count, total - length
        stack.append(entry)
    rows = [(name, count, total) for name, (count, total) in found.items()]
    return sorted(rows, key=lambda row: -row[2])


def pieces(intervals: Iterable[Interval]) -> Iterator[tuple[int, float, float]]:
    """Yield (position in SHARES, begin, end) for the time from the first interval to the last.

    Time in which several kinds run counts for the first of these kinds in the order of SHARES.
    """
    changes: list[tuple[float, int, int]] = []
    for entry in intervals:
        kind = len(SHARES) - 1 if entry.kind is None else entry.kind
        changes += [(entry.begin, kind, 1), (entry.end, kind, -1)]
    running = [0] * len(SHARES)
    at = None
    for moment, kind, change in sorted(changes):
        if at is not None and moment > at:
            yield _first(running), at, moment
        at = moment
        running[kind] += change


def divide(intervals: Iterable[Interval]) -> list[float]:
    """Return the total microseconds of each kind in SHARES."""
    shares = [0.0] * len(SHARES)
    for kind, begin, end in pieces(intervals):
        shares[kind] += end - begin
    return shares


def _first(running: Sequence[int]) -> int:
    return next((kind for kind, count in enumerate(running) if count), len(SHARES) - 1)


def report(trace: Trace, rows: int) -> str:
    """Return the text that `main` prints."""
    lines = []
    operators = top_operators(trace.intervals)
    shares = divide(trace.intervals)
    whole = sum(shares)
    lines.append(f"{whole / 1000:.3f} ms from the first event to the last")
    for label, share in zip(SHARES, shares):
        lines.append(f"  {label:<14}{share / 1000:>12.3f} ms {_percent(share, whole):>7}")
    total = sum(row[2] for row in operators)
    lines += ["", f"{'operator':<40}{'count':>8}{'total ms':>12}{'mean us':>12}{'share':>8}"]
    for name, count, time in operators[:rows]:
        lines.append(
            f"{name:<40}{count:>8}{time / 1000:>12.3f}{time / count:>12.1f}"
            f"{_percent(time, total):>8}"
        )
    if len(operators) > rows:
        rest = sum(row[2] for row in operators[rows:])
        lines.append(
            f"{f'({len(operators) - rows} more)':<60}{rest / 1000:>0.3f} ms {_percent(rest, total)}"
        )
    for name, values in sorted(trace.counters.items()):
        largest = max(value for _, value in values)
        unit = f"{largest / 2**20:.1f} MiB" if name.startswith("Memory") else f"{largest:g}"
        lines.append(f"largest {name}: {unit}")
    return "\n".join(lines)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def draw(trace: Trace, path: str, rows: int) -> None:
    """Draw shares over time, and the longest operators."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    parts = list(pieces(trace.intervals))
    begin = parts[0][1] if parts else 0.0
    width = ((parts[-1][2] - begin) / _BINS if parts else 0.0) or 1.0
    columns = [[0.0] * len(SHARES) for _ in range(_BINS)]
    for kind, start, stop in parts:
        last = min(int((stop - begin) / width), _BINS - 1)
        for i in range(int((start - begin) / width), last + 1):
            low = begin + i * width
            columns[i][kind] += max(min(stop, low + width) - max(start, low), 0.0) / width
    figure, (over_time, bars) = pyplot.subplots(2, 1, figsize=(10, 8))
    times = [(i + 0.5) * width / 1000 for i in range(_BINS)]
    over_time.stackplot(times, *zip(*columns), labels=SHARES, colors=_COLORS)
    over_time.set(xlabel="ms", ylabel="share of time", ylim=(0, 1), xlim=(times[0], times[-1]))
    over_time.legend(loc="upper right", ncols=len(SHARES))
    longest = top_operators(trace.intervals)[:rows][::-1]
    bars.barh([row[0] for row in longest], [row[2] / 1000 for row in longest], color=_COLORS[0])
    bars.set(xlabel="ms in all")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m mxlite.tools.trace", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("file", help="the trace, such as profile.json")
    parser.add_argument("--top", type=int, default=15, help="operators to list (15)")
    parser.add_argument("--picture", help="file of the drawing (FILE.png)")
    parser.add_argument("--no-picture", action="store_true", help="only print")
    args = parser.parse_args(argv)
    try:
        trace = read_trace(args.file)
    except (TraceError, OSError) as error:
        print(f"trace: {error}", file=sys.stderr)
        return 1
    if not trace.intervals:
        print(f"trace: {args.file!r} has no events with begin and end", file=sys.stderr)
        return 1
    print(report(trace, args.top))
    if args.no_picture:
        return 0
    picture = args.picture or os.path.splitext(args.file)[0] + ".png"
    try:
        draw(trace, picture, args.top)
    except ImportError:
        print("no drawing: matplotlib is not installed (pip install matplotlib)")
        return 0
    print(f"drawing: {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
