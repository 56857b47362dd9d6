"""Two builds of mxlite in turns: scoring, training, first calls, overhead of calls.

    git worktree add --detach ../before COMMIT     # and build it there
    python benchmarks/builds/two_builds.py --before ../before/python --json out.json

Ratios above 1 mean that the build of this work tree is faster than the one before. Networks run in
two processes that take turns; first calls and overhead are measured in fresh processes, one build
after the other in every round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "training"))
from cell import System, ratio_of_turns
from command_line import add_options
from common import Timing, progress, report, result, table, usable_cores, write_json
from run import entries, write_spec
from train_step import TrainCell, TrainWorker
from waiting import SettingCell, SettingWorker

BENCHMARKS = Path(__file__).resolve().parents[1]
SCORING = [
    ("alexnet", "float32", 1),
    ("inception-bn", "float32", 1),
    ("resnet-50", "float32", 1),
    ("resnet-50", "float32", 32),
    ("resnet-50", "bfloat16", 32),
    ("bert-base", "float32", 8),
]
TRAINING = [("alexnet", "float32", 16), ("resnet-50", "float32", 16)]


class TrainingBuild(SettingWorker, TrainWorker):
    """Training in an environment with the setting that the system's variant names."""


class TrainingCell(TrainCell):
    """Training of one network with both builds."""

    WORKER = TrainingBuild


def fresh_processes(
    paths: dict[str, str], script: list[str], rounds: int, name: str
) -> dict[str, dict[str, list[float]]]:
    """Run a script that writes a JSON object of seconds in fresh processes of both builds.

    Parameters
    ----------
    paths : dict
        Build to the folder that holds its mxlite.
    script : list of str
        Script and arguments; it writes one JSON object as its last line.
    rounds : int
        Processes of each build.
    name : str
        Text of the progress line.

    Returns
    -------
    dict
        Seconds by measurement and build, one for each round.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for index in progress(range(rounds), rounds, name):
        for build in list(paths) if index % 2 == 0 else reversed(paths):
            lines = subprocess.run(
                [sys.executable, *script],
                env={**os.environ, "PYTHONPATH": paths[build]},
                stdout=subprocess.PIPE,
                check=True,
                text=True,
            ).stdout.splitlines()
            for measurement, seconds in json.loads(lines[-1]).items():
                turns = found.setdefault(measurement, {}).setdefault(build, [])
                turns.append(seconds)
    return found


def ratio_row(name: str, before: list[float], after: list[float]) -> dict[str, Any]:
    """Return median and quartiles of the rounds' ratios."""
    middle, low, high = ratio_of_turns(after, before)
    return {"name": name, "median": middle, "q1": low, "q3": high, "rounds": len(after)}


def main() -> None:
    """Measure what the command line names."""
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument("--before", required=True, help="folder that holds the other build's mxlite")
    line.add_argument("--after", default=str(BENCHMARKS.parent / "python"))
    line.add_argument("--parts", nargs="+", default=["scoring", "training", "first", "overhead"])
    add_options(line, "json", rounds=9, turn=1.0)
    options = line.parse_args()
    for path in (options.before, options.after):
        if not list(Path(path, "mxlite").glob("_core.*.so")):
            raise SystemExit(f"builds: {path} holds no built mxlite")
    dtypes = ("float32", "float16", "bfloat16")
    paths = {name: str(Path(getattr(options, name)).resolve()) for name in ("after", "before")}
    # The name of a system is also that of the module that worker.py loads for it.
    after, before = (System("mxlite", f"PYTHONPATH={path}", dtypes) for path in paths.values())
    results: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        plan = [("scoring", *cell) for cell in SCORING if "scoring" in options.parts]
        plan += [("training", *cell) for cell in TRAINING if "training" in options.parts]
        for part, network, dtype, batch in progress(plan, len(plan), "networks"):
            training = part == "training"
            spec = write_spec(network, Path(folder), random=False, training=training)
            cell = (TrainingCell if training else SettingCell)(network, dtype, batch)
            cell.run([after, before], spec, usable_cores(), options.rounds, options.turn)
            if cell.failures:
                raise SystemExit("\n".join(cell.failures))
            results += [{**entry, "name": f"{part} {entry['name']}"} for entry in entries([cell])]
            turns = cell.medians
            name = f"{part} {network} batch {batch} {dtype}"
            rows.append(ratio_row(name, turns[str(before)], turns[str(after)]))
            print(f"{name}: {rows[-1]['median']:.3f}", flush=True)
    scripts = {
        "first": [str(Path(__file__).with_name("first_calls.py"))],
        "overhead": [str(BENCHMARKS / "overhead" / "overhead.py"), "--only-calls"],
    }
    for part, script in scripts.items():
        if part not in options.parts:
            continue
        for name, seconds in fresh_processes(paths, script, options.rounds, part).items():
            for build, turns in seconds.items():
                results.append(result(f"{name}, {build}", Timing(turns), unit="s"))
            rows.append(ratio_row(name, seconds["before"], seconds["after"]))
    cells = [
        [row["name"], f"{row['median']:.3f}", f"{row['q1']:.3f}-{row['q3']:.3f}"] for row in rows
    ]
    print(table(["measurement", "before / after", "quartiles"], cells))
    if options.json:
        settings = {"rounds": options.rounds, "turn": options.turn, "parts": options.parts}
        settings["before"] = commit_of(paths["before"])
        for entry in results:
            entry["name"] = entry["name"].replace(before.variant, "before")
            entry["name"] = entry["name"].replace(after.variant, "after")
            if "system" in entry:
                entry["system"] = "before" if before.variant in entry["system"] else "after"
        write_json(options.json, report("builds", settings, results, ratios=rows))


def commit_of(path: str) -> str:
    """Return the commit that is checked out around a folder."""
    command = ["git", "-C", path, "rev-parse", "--short=10", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
