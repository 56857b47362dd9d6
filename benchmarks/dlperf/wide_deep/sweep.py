"""Sweeps of DLPerf's Wide & Deep tables on the CPU, mxlite beside PyTorch, in turns.

    python -m dlperf.wide_deep.sweep vocabulary --batch 16384 --torch /path/to/python
    python -m dlperf.wide_deep.sweep batch --layers 2

Run it in ``benchmarks``. The vocabulary sweep doubles the deep table from 3.2 M rows while a system
has memory for it; the batch sweep doubles the batch from 512. Input is synthetic: uniform ids that
stay in memory. Milliseconds are medians of all steps of all turns. If the first losses of the
systems differ, nothing is timed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "peers"))
from cell import System
from common import usable_cores
from worker_process import WorkerError

from dlperf.cases import Case, step_flops
from dlperf.measure import DlperfWorker

FIRST_ROWS, FIRST_BATCH = 3_200_000, 512
LOSS_TOLERANCE = 1e-3


def measure(spec: dict[str, Any], systems: list[System], args: Any) -> dict[str, Any]:
    """Return the figures of each system for one case."""
    found: dict[str, Any] = {}
    workers: dict[str, DlperfWorker] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as started:
        file = Path(folder) / "spec.json"
        file.write_text(json.dumps(spec))
        for system in systems:
            worker = DlperfWorker(system, file, args.batch, args.dtype, usable_cores())
            try:
                found[system.name] = {**worker.ask(do="prepare"), "steps": []}
            except WorkerError as error:
                found[system.name] = {"error": str(error)}
                worker.close()
            else:
                workers[system.name] = worker
                started.callback(worker.close)
        losses = [found[name]["losses"] for name in workers]
        if losses and any(abs(a - b) > LOSS_TOLERANCE for a, b in zip(losses[0], losses[-1])):
            raise SystemExit(f"dlperf: the systems have different losses: {losses}")
        for _ in range(args.turns):
            for name, worker in workers.items():
                try:
                    answer = worker.ask(do="time", warm_up=args.warm_up, count=args.steps)
                except WorkerError as error:
                    raise SystemExit(f"dlperf: {name}: {error}") from error
                found[name]["steps"] += answer["steps"]
                found[name]["mib"] = answer["mib"]
    return found


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("sweep", choices=["vocabulary", "batch"])
    add("--batch", type=int, default=16384, help="of the vocabulary sweep")
    add("--rows", type=int, default=FIRST_ROWS, help="of the deep table in the batch sweep")
    add("--most", type=int, help="largest number of rows, or batch; default 102.4 M, 131072")
    add("--dim", type=int, default=16)
    add("--layers", type=int, default=7)
    add("--dtype", default="float32", choices=["float32", "bfloat16"])
    add("--torch", help="Python with PyTorch; without it mxlite alone")
    add("--torch-variant", default="compile", choices=["compile", "eager"])
    add("--warm-up", type=int, default=2)
    add("--steps", type=int, default=6)
    add("--turns", type=int, default=3)
    add("--json", type=Path, help="file for all figures")
    args = parser.parse_args()
    systems = [System("mxlite", "hybrid", (args.dtype,))]
    if args.torch:
        systems.append(System("torch", args.torch_variant, (args.dtype,), args.torch))
    by_rows = args.sweep == "vocabulary"
    value = FIRST_ROWS if by_rows else FIRST_BATCH
    report = []
    names = [system.name for system in systems]
    print("| rows | batch |" + "".join(f" {n} ms | {n} rows/s | {n} MiB |" for n in names))
    print("|" + " --- |" * (2 + 3 * len(names)))
    while value <= (args.most or (102_400_000 if by_rows else 131_072)):
        case = Case(
            "wide_deep",
            args.dtype,
            args.batch if by_rows else value,
            1,
            "resident",
            value if by_rows else args.rows,
            args.warm_up,
            args.steps,
            f"wdl_{args.dim}_{args.layers}",
        )
        spec = {"case": dataclasses.asdict(case), "device": "cpu"}
        found = measure(spec, systems, args)
        line = f"| {case.size} | {case.batch} |"
        for name in names:
            answer = found[name]
            if "error" in answer:
                line += f" {answer['error'].splitlines()[0][:60]} | | |"
                continue
            seconds = statistics.median(answer["steps"])
            line += f" {1000 * seconds:.1f} | {case.batch / seconds:.0f} | {answer['mib']:.0f} |"
        print(line, flush=True)
        report.append({"spec": spec, "flops": step_flops(case), "found": found})
        if args.json:
            args.json.write_text(json.dumps(report) + "\n")
        if all("error" in answer for answer in found.values()):
            break
        value *= 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
