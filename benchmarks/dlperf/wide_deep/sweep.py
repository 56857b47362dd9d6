"""Sweeps of DLPerf's Wide & Deep tables on the CPU, mxlite beside PyTorch, in turns.

    python benchmarks/dlperf/wide_deep/sweep.py vocabulary --torch /path/to/python
    python benchmarks/dlperf/wide_deep/sweep.py batch --layers 2 --torch /path/to/python

The vocabulary sweep doubles the deep table from 3.2 M rows, and mxlite's training on the first
table takes turns with those on larger ones; the batch sweep doubles the batch from 512. Input is
synthetic: uniform ids that stay in memory. If the first losses of the systems differ, nothing is
timed. Milliseconds are those of a step; ratios are taken turn by turn. The file of --json is
complete after each case.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "peers"))
from cell import SETTLE_SECONDS, System
from command_line import add_options
from common import Timing, report, result, table, write_json
from worker_process import WorkerError

from dlperf.cases import Case
from dlperf.measure import DlperfWorker

FIRST_ROWS, FIRST_BATCH = 3_200_000, 512
LOSS_TOLERANCE = 1e-3
_FIRST = "first-table"


class Trainings:
    """Trainings that take turns.

    Parameters
    ----------
    threads : int
        Threads of each.
    clock : str
        ``"wall"``, or ``"cpu"`` for processor time.
    """

    def __init__(self, threads: int, clock: str) -> None:
        self._threads, self._clock = threads, clock
        self._folder = tempfile.TemporaryDirectory()
        self._workers: dict[str, DlperfWorker] = {}
        self.answers: dict[str, dict[str, Any]] = {}

    def start(self, name: str, system: System, spec: dict[str, Any]) -> None:
        """Build a training; if that fails, its answer is the error."""
        file = Path(self._folder.name) / f"{name}.json"
        file.write_text(json.dumps(spec))
        case = spec["case"]
        worker = DlperfWorker(system, file, case["batch"], case["dtype"], self._threads)
        try:
            self.answers[name] = worker.ask(do="prepare")
        except WorkerError as error:
            worker.close()
            self.answers[name] = {"error": str(error)}
        else:
            self._workers[name] = worker

    def times(self, turns: int, warm_up: int, steps: int) -> dict[str, list[float]]:
        """Return seconds of a step by training, one entry for each turn."""
        found: dict[str, list[float]] = {name: [] for name in self._workers}
        names = list(self._workers)
        for turn in range(turns):
            shift = turn % max(1, len(names))  # no training always follows the same one
            for name in names[shift:] + names[:shift]:
                time.sleep(SETTLE_SECONDS)
                worker = self._workers[name]
                answer = worker.ask(do="time", warm_up=warm_up, count=steps, clock=self._clock)
                found[name].append(statistics.median(answer["steps"]))
                self.answers[name]["mib"] = answer["mib"]
        return found

    def stop(self, name: str) -> None:
        """End a training and forget its answer."""
        self.answers.pop(name)
        if name in self._workers:
            self._workers.pop(name).close()

    def close(self) -> None:
        """End all trainings."""
        for name in list(self.answers):
            self.stop(name)
        self._folder.cleanup()


def check_losses(answers: dict[str, dict[str, Any]]) -> None:
    """Refuse trainings of one case whose first losses differ."""
    losses = {name: answer["losses"] for name, answer in answers.items() if "losses" in answer}
    first = next(iter(losses.values()), [])
    if any(abs(a - b) > LOSS_TOLERANCE for own in losses.values() for a, b in zip(first, own)):
        raise SystemExit(f"dlperf: the systems must have the same losses, got {losses}")


def entries(
    label: str, seconds: dict[str, list[float]], answers: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the results of one case: times, then ratios to mxlite's."""
    found = []
    for name, turns in seconds.items():
        if name != _FIRST:
            memory = {"mib": round(answers[name]["mib"]), "losses": answers[name]["losses"]}
            timing = Timing(turns)
            found.append(result(f"{label}, {name}", timing, unit="ms", amount=1000, **memory))
    for name, turns in seconds.items():
        if name != "mxlite" and "mxlite" in seconds:
            ratios = Timing([theirs / ours for ours, theirs in zip(seconds["mxlite"], turns)])
            unit = f"{name} / mxlite"
            found.append(result(f"{label}, {name}/mxlite", ratios, unit=unit, better="higher"))
    return found


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("sweep", choices=["vocabulary", "batch"])
    add("--batch", type=int, default=16384, help="of the vocabulary sweep")
    add("--rows", type=int, default=FIRST_ROWS, help="of the deep table in the batch sweep")
    add("--least", type=int, help="first number of rows, or batch; default 3.2 M, 512")
    add("--most", type=int, help="largest number of rows, or batch; default 102.4 M, 131072")
    add("--dim", type=int, default=16)
    add("--layers", type=int, default=7)
    add("--dtype", default="float32", choices=["float32", "bfloat16"])
    add("--table-optimizer", default="adam", choices=["adam", "sgd"], help="sgd: mxlite only")
    add("--torch", help="Python with PyTorch; without it mxlite alone")
    add("--torch-variants", nargs="+", default=["eager", "compile"], choices=["eager", "compile"])
    add("--warm-up", type=int, default=1, help="steps of a turn before it is measured")
    add("--steps", type=int, default=2)
    add_options(parser, "json", "threads", "clock", rounds=5)
    args = parser.parse_args()
    if args.torch and args.table_optimizer != "adam":
        parser.error("--torch: the table optimizer must be adam, got sgd")
    systems = {"mxlite": System("mxlite", "hybrid", (args.dtype,))}
    for variant in args.torch_variants if args.torch else []:
        systems[f"torch:{variant}"] = System("torch", variant, (args.dtype,), args.torch)
    by_rows = args.sweep == "vocabulary"
    first, most = (FIRST_ROWS, 102_400_000) if by_rows else (FIRST_BATCH, 131_072)

    def spec_of(value: int) -> dict[str, Any]:
        batch, rows = (args.batch, value) if by_rows else (value, args.rows)
        network = f"wdl_{args.dim}_{args.layers}"
        counts = (args.warm_up, args.steps)
        case = Case("wide_deep", args.dtype, batch, 1, "resident", rows, *counts, network)
        options = {"device": "cpu", "table_optimizer": args.table_optimizer}
        return {"case": dataclasses.asdict(case), **options}

    results: list[dict[str, Any]] = []
    failures: list[str] = []
    settings = {key: value for key, value in vars(args).items() if key not in ("json", "torch")}
    settings["load_before"] = os.getloadavg()[2]
    value, last = args.least or first, args.most or most
    with contextlib.closing(Trainings(args.threads, args.clock)) as trainings:
        if by_rows and value > first:
            trainings.start(_FIRST, systems["mxlite"], spec_of(first))
        while value <= last:
            for name, system in systems.items():
                trainings.start(name, system, spec_of(value))
            answers = trainings.answers
            check_losses({name: answers[name] for name in systems})
            label = f"{value:,} rows" if by_rows else f"batch {value:,}"
            seconds = trainings.times(args.rounds, args.warm_up, args.steps)
            found = entries(label, seconds, answers)
            results += found
            failures += [
                f"{label}, {name}: {answer['error'].splitlines()[-1]}"
                for name, answer in answers.items()
                if "error" in answer
            ]
            rows = [
                [entry["name"], *(f"{entry[key]:.4g}" for key in ("median", "q1", "q3"))]
                + [str(entry.get("mib", ""))]
                for entry in found
            ]
            print(table(["case", "median", "quartile", "quartile", "MiB"], rows), flush=True)
            if args.json:
                name = f"wide_deep {args.sweep}"
                write_json(args.json, report(name, settings, results, failures=failures))
            if "error" in answers["mxlite"]:
                break
            for name in systems:
                trainings.stop(name)
            if by_rows and value == first < last:
                trainings.start(_FIRST, systems["mxlite"], spec_of(first))
            value *= 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
