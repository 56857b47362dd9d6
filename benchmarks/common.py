"""Timing, machine description, JSON and progress for all benchmarks.

A result file has one entry per measurement; ``compare.py`` compares two files.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Callable, TypeVar

Item = TypeVar("Item")

# progress() logs at level DEBUG; a benchmark that shows these lines sets this logger's level.
progress_log = logging.getLogger("benchmarks.progress")

# Instruction sets by which CPU libraries choose kernels.
_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8")


@dataclasses.dataclass
class Timing:
    """Seconds of repeated measurements.

    Attributes
    ----------
    seconds : list of float
        One entry for each measurement.
    per_measurement : int
        Number of calls in one measurement; ``seconds`` are per call.
    """

    seconds: list[float]
    per_measurement: int = 1

    @property
    def median(self) -> float:
        """Middle of the measurements."""
        return statistics.median(self.seconds)

    @property
    def mean(self) -> float:
        """Average of the measurements."""
        return statistics.fmean(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third quartile; both are the only measurement when there is one."""
        if len(self.seconds) < 2:
            return self.seconds[0], self.seconds[0]
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return low, high


def result(
    name: str, timing: Timing, *, unit: str, amount: float | None = None, **extra: Any
) -> dict[str, Any]:
    """Return one entry of a result file.

    Parameters
    ----------
    name : str
        Name of the measurement, by which ``compare.py`` matches entries.
    timing : Timing
        The measurements, which are ratios instead of seconds for a ratio.
    unit : str
        ``"s"`` or another unit of time for a duration (``amount`` then converts seconds to it),
        ``"<things>/s"`` for a rate, or ``"<system> / <system>"`` for a ratio.
    amount : float, optional
        Things per call for a rate, units per second for a duration; 1 by default.
    **extra
        Further fields; ``better="higher"`` for a ratio of which that is true.

    Returns
    -------
    dict
        ``median``, ``q1`` and ``q3`` in ``unit``, ``better`` (``"higher"`` or ``"lower"``) and the
        number of measurements.
    """
    factor = 1.0 if amount is None else amount
    low, high = timing.quartiles
    if unit.endswith("/s"):
        values = {
            "median": factor / timing.median,
            "q1": factor / high,
            "q3": factor / low,
            "better": "higher",
        }
    else:
        values = {
            "median": factor * timing.median,
            "q1": factor * low,
            "q3": factor * high,
            "better": "lower",
        }
    return {
        "name": name,
        "unit": unit,
        **values,
        "measurements": len(timing.seconds),
        "calls_per_measurement": timing.per_measurement,
        **extra,
    }


def time_each(call: Callable[[], Any], count: int) -> Timing:
    """Measure ``count`` calls one by one.

    Parameters
    ----------
    call : callable
        Function to time; must return when its work is done.
    count : int
        Number of measurements.

    Returns
    -------
    Timing
        One measurement for each call.
    """
    seconds = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return Timing(seconds)


def time_blocks(
    call: Callable[[], Any],
    calls: int,
    blocks: int,
    after: Callable[[], Any] | None = None,
) -> Timing:
    """Measure blocks of short calls.

    Parameters
    ----------
    call : callable
        Function to time.
    calls : int
        Calls in a block.
    blocks : int
        Number of measurements.
    after : callable, optional
        Called after each block, outside the measured time (a wait, for example).

    Returns
    -------
    Timing
        Seconds for one call, one measurement for each block.
    """
    seconds = []
    for _ in range(blocks):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        seconds.append((time.perf_counter() - begin) / calls)
        if after is not None:
            after()
    return Timing(seconds, calls)


def usable_cores() -> int:
    """Return the number of cores that affinity mask and cgroup quota allow this process.

    Returns
    -------
    int
        At least 1.
    """
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return cores


def machine() -> dict[str, Any]:
    """Return a description of the machine: CPU, instruction sets, cores, memory, system.

    Returns
    -------
    dict
        Plain values, ready for JSON.
    """
    model, flags = platform.processor() or platform.machine(), []
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        info = ""
    for line in info.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            model = value.strip()
        elif key.strip() == "flags":
            present = set(value.split())
            flags = [flag for flag in _FLAGS if flag in present]
            break
    fields = dict(line.partition(":")[::2] for line in info.split("\n\n")[0].splitlines())
    stripped = {key.strip(): value.strip() for key, value in fields.items()}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": model,
        "cpu_family": stripped.get("cpu family", ""),
        "cpu_model": stripped.get("model", ""),
        "cores": usable_cores(),
        "flags": flags,
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def commit() -> str:
    """Return the commit of this checkout, with ``+changes`` if files differ from it.

    Returns
    -------
    str
        Empty outside a checkout.
    """
    folder = Path(__file__).parent
    try:
        head = subprocess.run(
            ["git", "rev-parse", "--short=10", "HEAD"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head + ("+changes" if changed else "")


def versions() -> dict[str, str]:
    """Return the versions of Python, NumPy and mxlite.

    Returns
    -------
    dict
        Name to version.
    """
    import mxlite
    import numpy

    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "mxlite": mxlite.__version__,
    }


def peak_memory_mib() -> float:
    """Return the peak resident set of this process so far.

    Returns
    -------
    float
        MiB.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(
    benchmark: str, settings: dict[str, Any], results: list[dict[str, Any]], **extra: Any
) -> dict[str, Any]:
    """Return the content of a result file.

    Parameters
    ----------
    benchmark : str
        Name of the benchmark.
    settings : dict
        Options of the benchmark.
    results : list of dict
        Entries made by :func:`result`.
    **extra
        Further fields.

    Returns
    -------
    dict
        With machine, commit, versions, threads and the date.
    """
    return {
        "benchmark": benchmark,
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(),
        "settings": settings,
        "results": results,
        **extra,
    }


def json_text(value: Any, indent: str = "") -> str:
    """Return JSON text in which a row of 240 characters or of plain numbers is one line.

    Parameters
    ----------
    value : object
        Value that ``json.dumps`` accepts.
    indent : str
        Spaces before the lines of the value.

    Returns
    -------
    str
    """
    line = json.dumps(value)
    nested = [*value.values()] if isinstance(value, dict) else value
    if not isinstance(nested, (list, tuple)) or len(indent) + len(line) <= 240:
        return line
    if not isinstance(value, dict) and not any(isinstance(i, (dict, list, tuple)) for i in value):
        return line
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {json_text(item, inner)}" for key, item in value.items()]
    else:
        parts = [json_text(item, inner) for item in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return begin + "\n" + inner + f",\n{inner}".join(parts) + "\n" + indent + end


def write_json(path: str | Path, content: dict[str, Any]) -> None:
    """Write a result file; an existing one is replaced only by a complete new one.

    Parameters
    ----------
    path : path
        The file.
    content : dict
        Result of :func:`report`.
    """
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    try:
        partial.write_text(json_text(content) + "\n", encoding="utf-8")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def progress(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """Yield ``items`` with a progress bar on a terminal, else with log lines.

    Parameters
    ----------
    items : iterable
        Items of work, in order.
    total : int
        Their number.
    what : str
        Title of the bar.

    Yields
    ------
    object
        Each item.
    """
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm
            from tqdm.contrib.logging import logging_redirect_tqdm
        except ImportError:
            pass
        else:
            with logging_redirect_tqdm():
                yield from tqdm(items, total=total, desc=what, leave=False, dynamic_ncols=True)
            return
    begin = time.monotonic()
    for done, item in enumerate(items):
        yield item
        progress_log.debug(
            "%s: %d of %d done after %.0f s", what, done + 1, total, time.monotonic() - begin
        )


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return rows with aligned columns: the first to the left, the others to the right.

    Parameters
    ----------
    head : list of str
        Titles.
    rows : list of list of str
        Cells.

    Returns
    -------
    str
        Lines without a line end after the last.
    """
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, ["-" * width for width in widths], *rows]:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
