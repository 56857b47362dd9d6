"""Sweeps of DLPerf's Wide & Deep tables on the CPU, mxlite beside PyTorch, in turns.

    python -m dlperf.wide_deep.sweep vocabulary --batch 16384 --torch /path/to/python
    python -m dlperf.wide_deep.sweep batch --layers 2

Run it in ``benchmarks``. The vocabulary sweep doubles the deep table from 3.2 M rows while a system
has memory for it; the batch sweep doubles the batch from 512. Input is synthetic: uniform ids,
resident. Milliseconds are medians of all steps of all turns. If the first losses of the systems
differ, nothing is timed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from dlperf.cases import Case, step_flops

WORKER = Path(__file__).resolve().parents[1] / "worker.py"
FIRST_ROWS, FIRST_BATCH = 3_200_000, 512
LOSS_TOLERANCE = 1e-3


class System:
    """A worker process that has built one case."""

    def __init__(self, python: str, name: str, variant: str, spec: dict[str, Any]) -> None:
        self.name = name
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "spec.json"
        file.write_text(json.dumps(spec))
        command = [python, str(WORKER), "--system", name, "--variant", variant, "--spec", str(file)]
        command += ["--exchange", self._folder.name, "--parent", str(os.getpid())]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and return the answer, which has ``error`` if it failed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the answer is missing, too
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            return {"error": f"the worker ended with {self._process.wait()}"}
        answer: dict[str, Any] = json.loads(
            (Path(self._folder.name) / json.loads(line)["file"]).read_text()
        )
        return answer

    def close(self) -> None:
        """End the worker."""
        self._process.communicate()
        self._folder.cleanup()


def measure(spec: dict[str, Any], systems: list[tuple[str, str, str]], args: Any) -> dict[str, Any]:
    """Return the figures of each system for one case."""
    found: dict[str, Any] = {}
    workers = []
    for python, name, variant in systems:
        worker = System(python, name, variant, spec)
        found[name] = worker.ask(do="prepare")
        if "error" in found[name]:
            worker.close()
        else:
            found[name]["steps"] = []
            workers.append(worker)
    losses = [found[worker.name]["losses"] for worker in workers]
    if losses and any(abs(a - b) > LOSS_TOLERANCE for a, b in zip(losses[0], losses[-1])):
        raise SystemExit(f"dlperf: the systems have different losses: {losses}")
    for _ in range(args.turns):
        for worker in workers:
            answer = worker.ask(do="time", warm_up=args.warm_up, count=args.steps)
            if "error" in answer:
                raise SystemExit(f"dlperf: {worker.name}: {answer['error']}")
            found[worker.name]["steps"] += answer["steps"]
            found[worker.name]["mib"] = answer["mib"]
    for worker in workers:
        worker.close()
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
    systems = [(sys.executable, "mxlite", "hybrid")]
    if args.torch:
        systems.append((args.torch, "torch", args.torch_variant))
    by_rows = args.sweep == "vocabulary"
    value = FIRST_ROWS if by_rows else FIRST_BATCH
    report = []
    print("| rows | batch |" + "".join(f" {n} ms | {n} rows/s | {n} MiB |" for _, n, _ in systems))
    print("|" + " --- |" * (2 + 3 * len(systems)))
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
        for _, name, _ in systems:
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
