"""Measures how long mxlite and its peers take from the start of a process to the first results.

    python benchmarks/first/first_result.py --rounds 7 --json out.json

Every measurement runs in a process of its own, which imports the system, builds the network from
files and calls it twice on one input. The processes of all systems take turns in random order. CPU
time is reported beside the time of the wall clock, because other programs of the machine disturb it
less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
import mxlite
import numpy as np
from cell import TOLERANCE, ratio_of_turns
from command_line import add_options
from common import Timing, progress, report, result, table, write_json

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NETWORKS = ("resnetv1-50", "bert-base", "lstm")
SYSTEMS = ("mxlite", "mxlite:C++", "mxnet", "onnxruntime", "openvino", "torch:eager",
           "torch:compile")  # fmt: skip
PARTS = ("import", "build", "first call", "second call")
FIRST_RESULT = PARTS[:3]  # their sum is the time to the first result


def pythons(options: argparse.Namespace) -> dict[str, str]:
    """Return the interpreter of each system."""
    given = {"mxlite": sys.executable, "mxnet": options.mxnet_python}
    return {name: given.get(name.partition(":")[0], options.peers_python) for name in SYSTEMS}


def write_files(network: str, folder: Path, options: argparse.Namespace) -> None:
    """Write what each system reads."""
    folder.mkdir()
    for kind, python in (("mxlite", sys.executable), ("torch", options.peers_python)):
        subprocess.run([python, str(HERE / "files.py"), kind, network, str(folder)], check=True)


def compile_predictor(folder: Path) -> Path:
    """Compile the C++ program against the library of the installed package."""
    library = Path(mxlite.__file__).parent
    program = folder / "predictor"
    command = ["c++", "-std=c++20", "-O2", f"-I{ROOT / 'include'}", str(HERE / "predictor.cc")]
    command += [f"-L{library}", f"-Wl,-rpath,{library}", "-lmxlite", "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def command_of(system: str, folder: Path, options: argparse.Namespace) -> list[str]:
    """Return the command of one process."""
    begin = repr(time.time())
    if system == "mxlite:C++":
        data = np.load(folder / "data.npy", mmap_mode="r")
        code = {"float32": "0", "int32": "4"}[data.dtype.name]
        return [str(folder.parent / "predictor"), str(folder), begin, code, *map(str, data.shape)]
    python = pythons(options)[system]
    return [python, str(HERE / "worker.py"), system, str(folder), begin, str(options.threads)]


def measure(system: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run one process and return its answer."""
    cache = folder / "cache"  # a compiled network must not be found by the next process
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache / str(time.time_ns()))}
    environment |= {name: str(options.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    # PYTHONPATH names mxlite, and modules of PyTorch's pickle are beside the benchmarks.
    if system.startswith("torch"):
        environment["PYTHONPATH"] = f"{HERE}:{HERE.parent / 'peers'}"
    elif not system.startswith("mxlite"):
        environment.pop("PYTHONPATH", None)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as in an installed package
    done = subprocess.run(
        command_of(system, folder, options), env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{system}: ended with {done.returncode}: {done.stderr[-800:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def check_outputs(network: str, answers: dict[str, dict[str, Any]]) -> None:
    """Raise SystemExit if a system computes something else."""
    ours = np.array(answers["mxlite"]["output"])
    for system, answer in answers.items():
        distance = np.abs(np.array(answer["output"]) - ours).max() / np.abs(ours).max()
        if not distance < TOLERANCE["float32"]:
            raise SystemExit(f"{network}: {system} differs by {distance:.3g}")


def seconds_of(answer: dict[str, Any], clock: str) -> dict[str, float]:
    """Return the seconds of each part and of all before the first result."""
    parts = {part: answer[part][clock] for part in PARTS}
    return {**parts, "first result": sum(parts[part] for part in FIRST_RESULT)}


def measure_network(
    network: str, folder: Path, options: argparse.Namespace
) -> dict[str, list[dict[str, Any]]]:
    """Return the answers of every system, one for each turn."""
    write_files(network, folder, options)
    answers: dict[str, list[dict[str, Any]]] = {system: [] for system in options.systems}
    for turn in progress(range(options.rounds), options.rounds, network):
        # A process gets memory that the previous one has left, so no system always follows another.
        for system in random.Random(turn).sample(options.systems, len(options.systems)):
            if not system.startswith("torch") or turn < options.torch_rounds:
                answers[system].append(measure(system, folder, options))
        if turn == 0:
            check_outputs(network, {system: given[0] for system, given in answers.items()})
    return answers


def entries_of(network: str, answers: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return an entry for each system and clock."""
    entries = []
    for system, given in answers.items():
        for clock in ("cpu", "wall"):
            ours, turns = (
                [seconds_of(a, clock) for a in some] for some in (answers["mxlite"], given)
            )
            seconds = [turn["first result"] for turn in turns]
            middle, low, high = ratio_of_turns(seconds, [turn["first result"] for turn in ours])
            parts = {p: round(statistics.median(t[p] for t in turns), 4) for p in turns[0]}
            entry = result(f"{network} {system} {clock}", Timing(seconds), unit="s")
            entry |= {"network": network, "system": system, "clock": clock, "parts": parts}
            entries.append(entry | {"ratio": {"median": middle, "q1": low, "q3": high}})
    return entries


def main() -> None:
    """Measure, print a table for each network, and write the file."""
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument("--networks", nargs="+", default=NETWORKS, choices=NETWORKS)
    line.add_argument("--systems", nargs="+", default=SYSTEMS, choices=SYSTEMS)
    line.add_argument("--torch-rounds", type=int, default=2, help="of PyTorch: %(default)s")
    add_options(line, "json", "mxnet-python", "peers-python", "threads", rounds=7)
    options = line.parse_args()
    options.systems = list(dict.fromkeys(["mxlite", *options.systems]))
    settings = {
        name: getattr(options, name)
        for name in ("networks", "systems", "rounds", "torch_rounds", "threads")
    }
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        if "mxlite:C++" in options.systems:
            compile_predictor(Path(temporary))
        for network in options.networks:
            answers = measure_network(network, Path(temporary) / network, options)
            entries = entries_of(network, answers)
            results += entries
            rows = [
                [e["system"], e["clock"], *(f"{value:.2f}" for value in e["parts"].values()),
                 f"{e['ratio']['median']:.2f}"]
                for e in entries
            ]  # fmt: skip
            head = ["system", "seconds", *PARTS, "first result", "mxlite / system"]
            print(f"{network}\n{table(head, rows)}\n", flush=True)
            if options.json:  # also after each network, because all of them take long
                write_json(options.json, report("first_result", settings, results))


if __name__ == "__main__":
    main()
