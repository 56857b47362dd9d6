"""Runs the examples of this folder with 1, 2 and 4 processes, and with lost processes.

    python examples/distributed/real_runs.py --output examples/results

Writes distributed_*.log, distributed.json and distributed.png. Ends with an error if a loss curve
differs from that of one process by more than the tolerance, or if the bits of N processes are not
those of one process that computes N ranks' parts in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-3  # relative, of a step's or an epoch's loss: sums of floats in another order
COUNTS = (1, 2, 4)


class Runs:
    """Starts jobs, each with a log file."""

    def __init__(self, output: Path, folder: Path) -> None:
        self.output, self.folder = output, folder
        # Sums within a process must not depend on how many cores it has.
        self.environment = dict(os.environ, MXLITE_CPU_THREADS="1", PYTHONUNBUFFERED="1")

    def command(self, processes: int, script: str, *arguments: str, launcher: tuple = ()) -> list:
        """Return the command line of a job."""
        start = [sys.executable, "-m", "mxlite.run", "-np", str(processes), *launcher]
        return [*start, sys.executable, str(HERE / script), *arguments]

    def losses(self, name: str, processes: int, script: str, *arguments: str) -> dict:
        """Run a job to its end and return what it wrote as JSON."""
        file = self.folder / f"{name}.json"
        command = self.command(processes, script, *arguments, "--json", str(file))
        with (self.output / f"distributed_{name}.log").open("w") as log:
            subprocess.run(
                command,
                check=True,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
                timeout=900,
            )
        print(f"{name}: done", flush=True)
        return json.loads(file.read_text())

    def elastic(self, name: str, steps: int, kills: int) -> tuple[list[dict], list[dict]]:
        """Train while ranks are killed; return the log entries and the kills."""
        record = self.folder / f"{name}.jsonl"
        launcher = ("--max-np", "3")
        arguments = ("--steps", str(steps), "--log", str(record), "--pause", "0.02")
        command = self.command(3, "elastic.py", *arguments, launcher=launcher)
        environment = dict(self.environment, MXLITE_COMM_TIMEOUT="3")
        events: list[dict] = []
        rng = np.random.default_rng(0)
        with (self.output / f"distributed_{name}.log").open("w") as log:
            job = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=self.folder
            )
            while job.poll() is None:
                time.sleep(0.05)
                entries = read_lines(record)
                due = (len(events) + 1) * steps // (kills + 1)
                newest = entries[-1] if entries else None
                if not newest or len(events) == kills or newest["step"] < due:
                    continue
                alive = {e["pid"]: e for e in entries[-3:] if e["ranks"] == 3}
                if len(alive) < 3:
                    continue
                victim = alive[sorted(alive)[rng.integers(3)]]
                how = "stop" if len(events) % 3 == 2 else "kill"
                os.kill(victim["pid"], signal.SIGSTOP if how == "stop" else signal.SIGKILL)
                events.append({"step": newest["step"], "rank": victim["rank"], "how": how})
        if job.returncode != 0 or len(events) < kills:
            raise SystemExit(f"{name}: exit code {job.returncode} after {len(events)} losses")
        print(f"{name}: done", flush=True)
        return read_lines(record), events


def read_lines(path: Path) -> list[dict]:
    """Return the complete JSON lines of a file to which other processes write."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def by_step(entries: list[dict]) -> list[float]:
    """Return the loss of each step, or the last one if the step was repeated."""
    last = {entry["step"]: entry["loss"] for entry in entries}
    return [last[step] for step in range(max(last) + 1)]


def difference(losses: list[float], reference: list[float]) -> float:
    """Return the largest relative difference."""
    return float(np.max(np.abs(np.array(losses) / np.array(reference) - 1)))


def plot(result: dict, path: Path) -> None:
    """Draw the three comparisons side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.5))
    for axes, name, unit in ((left, "digits", "epoch"), (middle, "records", "step")):
        for (count, run), style in zip(result[name]["runs"].items(), ("-", "--", ":")):
            axes.semilogy(run["losses"], style, label=f"{count} processes")
        worst = max(result[name]["difference_from_one_process"].values())
        axes.set_title(f"{name}: same global batch, differences <= {worst:.0e}")
        axes.set_xlabel(unit)
        axes.set_ylabel("loss")
        axes.legend()
    elastic = result["elastic"]
    right.semilogy(elastic["losses"], color="tab:orange", linewidth=2, label="3 ranks, with losses")
    right.semilogy(elastic["uninterrupted"], color="black", linewidth=0.7, label="uninterrupted")
    for event in elastic["events"]:
        colour = "tab:red" if event["how"] == "kill" else "tab:blue"
        right.axvline(event["step"], color=colour, linestyle=":", linewidth=1)
    right.set_title("elastic: ranks killed (red) and stopped (blue)")
    right.set_xlabel("step")
    right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE.parent / "results")
    parser.add_argument("--epochs", type=int, default=8, help="records: three quarters")
    parser.add_argument("--steps", type=int, default=300, help="of the elastic training")
    parser.add_argument("--kills", type=int, default=6)
    args = parser.parse_args()
    args.output = args.output.resolve()
    result: dict = {"tolerance": TOLERANCE}
    with tempfile.TemporaryDirectory() as name:
        runs = Runs(args.output, Path(name))
        epochs = {"digits": args.epochs, "records": max(1, args.epochs * 3 // 4)}
        for example, count in epochs.items():
            more = ("--epochs", str(count))
            done = {n: runs.losses(f"{example}_{n}", n, f"{example}.py", *more) for n in COUNTS}
            result[example] = {
                "runs": done,
                "difference_from_one_process": {
                    n: difference(done[n]["losses"], done[1]["losses"]) for n in COUNTS[1:]
                },
            }
        equal = {}
        for n in COUNTS[1:]:
            more = ("--epochs", str(epochs["records"]), "--in-turn", str(n))
            alone = runs.losses(f"records_{n}_in_turn", 1, "records.py", *more)
            equal[n] = alone["losses"] == result["records"]["runs"][n]["losses"]
        result["records"]["bits_of_ranks_in_turn"] = equal
        entries, events = runs.elastic("elastic", args.steps, args.kills)
        reference, _ = runs.elastic("elastic_uninterrupted", args.steps, 0)
        losses, uninterrupted = by_step(entries), by_step(reference)
        result["elastic"] = {
            "events": events,
            "losses": losses,
            "uninterrupted": uninterrupted,
            "same_bits": losses == uninterrupted,
            "difference": difference(losses, uninterrupted),
        }
    (args.output / "distributed.json").write_text(json.dumps(result, indent=1) + "\n")
    plot(result, args.output / "distributed.png")
    worst = [result["elastic"]["difference"]]
    for example in ("digits", "records"):
        worst += result[example]["difference_from_one_process"].values()
    print(f"largest difference {max(worst):.1e}, same bits in turn: {equal}", flush=True)
    return 0 if max(worst) <= TOLERANCE and all(equal.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
