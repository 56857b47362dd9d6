"""Every operator on mxlite and on PyTorch eager, in turns: ratios of their times.

    python benchmarks/opperf/against_torch.py --torch-python PYTHON --json FILE

A ratio above 1 means that mxlite is faster. The mean over all rows is that of large arrays.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from cases import ALL, Case
from command_line import add_options
from common import Timing, progress, report, result, table, write_json
from worker_process import WorkerError, WorkerProcess

HERE = Path(__file__).resolve().parent
LARGE_BYTES = 1_000_000
WHAT = ("forward", "forward+backward")


def label(case: Case) -> str:
    """Return a row's title: operator, shapes, parameters."""
    shapes = " ".join("x".join(map(str, a.shape)) for a in case.arrays.values())
    params = " ".join(f"{key}={value}" for key, value in case.params.items())
    return " ".join(part for part in (case.op, shapes, params) if part)


def turns(
    workers: list[WorkerProcess], counts: list[int], which: int, rounds: int
) -> list[list[float]]:
    """Let the systems take turns.

    Parameters
    ----------
    workers : list of WorkerProcess
        Worker that is ready.
    counts : list of int
        Calls of each in a turn.
    which : int
        0 for forward, 1 for forward and backward.
    rounds : int
        Turns of each.

    Returns
    -------
    list of list of float
        The fastest call of every turn, in seconds, for each worker. Slower calls were disturbed.
    """
    best: list[list[float]] = [[] for _ in workers]
    for index in range(rounds):
        order = range(len(workers)) if index % 2 == 0 else reversed(range(len(workers)))
        for i in order:
            seconds = workers[i].ask(do="time", which=which, count=counts[i])["seconds"]
            best[i].append(min(seconds))
    return best


def measure(
    workers: list[WorkerProcess], number: int, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Measure one case on both systems.

    Parameters
    ----------
    workers : list of WorkerProcess
        mxlite, then PyTorch.
    number : int
        Number of the case.
    options : Namespace
        ``dtype``, ``rounds``, ``turn``.

    Returns
    -------
    list of dict
        One entry for forward and one with backward: ``mxlite``, ``torch`` (lists of seconds).
    """
    ready = [w.ask(do="prepare", case=number, dtype=options.dtype)["seconds"] for w in workers]
    found = []
    for which, what in enumerate(WHAT):
        if any(seconds[which] is None for seconds in ready):
            continue
        counts = [max(2, min(500, int(options.turn / seconds[which]))) for seconds in ready]
        ours, theirs = turns(workers, counts, which, options.rounds)
        found.append({"case": number, "what": what, "mxlite": ours, "torch": theirs})
    return found


def ratio(row: dict[str, Any]) -> float:
    """Return how many times as fast mxlite is: median over the rounds."""
    return statistics.median(b / a for a, b in zip(row["mxlite"], row["torch"]))


def geometric_mean(rows: list[dict[str, Any]]) -> float:
    """Return the geometric mean of the ratios; nan without rows."""
    return math.exp(statistics.fmean(math.log(ratio(r)) for r in rows)) if rows else math.nan


def summary(rows: list[dict[str, Any]]) -> str:
    """Return the table of all rows, slowest first, and the means."""
    large = [r for r in rows if ALL[r["case"]].bytes >= LARGE_BYTES]
    lines = [
        [
            label(ALL[r["case"]]),
            r["what"],
            f"{1e3 * statistics.median(r['mxlite']):.3f}",
            f"{1e3 * statistics.median(r['torch']):.3f}",
            f"{ratio(r):.2f}",
        ]
        for r in sorted(rows, key=ratio)
    ]
    text = table(["operator", "what", "mxlite ms", "torch ms", "ratio"], lines)
    for what in WHAT:
        part = [r for r in large if r["what"] == what]
        text += f"\n{what}: {len(part)} rows of 1 MB and more, geometric mean "
        text += f"{geometric_mean(part):.3f}"
    return text + f"\nall of 1 MB and more: geometric mean {geometric_mean(large):.3f}"


def entries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the result file's entries."""
    return [
        result(
            f"{label(ALL[r['case']])} {r['what']} {system}",
            Timing(r[system]),
            unit="ms",
            amount=1e3,
            category=ALL[r["case"]].category,
            system=system,
            **({"ratio": ratio(r)} if system == "mxlite" else {}),
        )
        for r in rows
        for system in ("mxlite", "torch")
    ]


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("--torch-python", required=True, help="Python that has PyTorch and NumPy")
    p.add_argument("--ops", nargs="*", default=[], help="only these operators or categories")
    p.add_argument("--dtype", default="float32")
    add_options(p, "json", "threads", rounds=3, turn=0.1)
    return p


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; returns 1 when a case failed."""
    options = parser().parse_args(arguments)
    pythons = {"mxlite": sys.executable, "torch": options.torch_python}
    workers = [
        WorkerProcess(
            [python, str(HERE / "worker.py"), name], options.threads, own_path=name == "mxlite"
        )
        for name, python in pythons.items()
    ]
    chosen = [
        i
        for i, case in enumerate(ALL)
        if case.torch and (not options.ops or {case.op, case.category} & set(options.ops))
    ]
    if not chosen:
        raise SystemExit(f"opperf: no case for {options.ops}")
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    try:
        versions = {n: w.ask(do="version")["version"] for n, w in zip(pythons, workers)}
        for number in progress(chosen, len(chosen), "opperf"):
            try:
                rows += measure(workers, number, options)
            except WorkerError as error:
                failures.append(f"{label(ALL[number])}: {error}")
    finally:
        for worker in workers:
            worker.close()
    print(summary(rows))
    skipped = [f"{label(case)}: {case.note}" for case in ALL if not case.torch]
    print("not compared:\n  " + "\n  ".join(skipped))
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    if options.json:
        settings = {k: v for k, v in vars(options).items() if k not in ("json", "torch_python")}
        content = report(
            "opperf", {**settings, **versions}, entries(rows), failures=failures, skipped=skipped
        )
        write_json(options.json, content)
        print(f"figures: {options.json}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
