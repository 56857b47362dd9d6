"""Compares the peak memory of loops that never wait with MXNet 1.9.1.

    python benchmarks/overhead/run_ahead.py --mxnet-python PYTHON --json out.json

Each measurement is a fresh process: the peak of its resident memory after the loop less that after
two steps (`run_ahead_loops.py`). The systems take turns.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import add_options
from common import Timing, progress, report, result, table, write_json
from run_ahead_loops import LOOPS

PROGRAM = Path(__file__).with_name("run_ahead_loops.py")


def growth(python: str, package: str, loop: str) -> float:
    """Return by how many MiB a loop raises the peak of a fresh process.

    Parameters
    ----------
    python : str
        The interpreter.
    package : str
        ``"mxlite"`` or ``"mxnet"``.
    loop : str
        A key of LOOPS.

    Returns
    -------
    float
        MiB.
    """
    command = [python, str(PROGRAM), package, loop]
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, "json", "mxnet-python", rounds=5)
    options = parser.parse_args()
    pythons = {"mxlite": sys.executable}
    if Path(options.mxnet_python).exists():
        pythons["mxnet"] = options.mxnet_python
    cells = [(loop, package) for loop in LOOPS for package in pythons]
    found: dict[tuple[str, str], list[float]] = {cell: [] for cell in cells}
    turns = [cell for _ in range(options.rounds) for cell in cells]
    for loop, package in progress(turns, len(turns), "run_ahead"):
        found[loop, package].append(growth(pythons[package], package, loop))
    rows = [
        [loop, str(steps), *(f"{statistics.median(found[loop, p]):.1f}" for p in pythons)]
        for loop, (_, steps) in LOOPS.items()
    ]
    print(table(["MiB above the peak of two steps", "steps", *pythons], rows))
    if options.json:
        results = [
            result(f"{loop}, {package}", Timing(values), unit="MiB")
            for (loop, package), values in found.items()
        ]
        settings = {
            "rounds": options.rounds,
            "steps": {k: steps for k, (_, steps) in LOOPS.items()},
        }
        write_json(options.json, report("run_ahead", settings, results))


if __name__ == "__main__":
    main()
