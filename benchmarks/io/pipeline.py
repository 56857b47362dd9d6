"""Images per second from a record file to float32 batches: mxlite and its peers, in turns.

    python benchmarks/io/pipeline.py --mxnet-python .venv-mxnet/bin/python --dali-python PYTHON \
        --torch-python PYTHON --json out.json

JPEG pictures of 500 x 375 pixels, quality 90: shorter side to 256, random crop of 224, random
mirror, normalized, float32 NCHW. `decode` is libjpeg-turbo alone on whole pictures. A system
without a given Python is left out. Ratios are taken turn by turn: above 1 mxlite is faster.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS.parent / "python")]
from command_line import add_options  # noqa: E402
from common import Timing, progress, report, result, table, write_json  # noqa: E402
from photos import make_photos  # noqa: E402
from worker_process import WorkerError, WorkerProcess  # noqa: E402


def start(options: argparse.Namespace, record: Path) -> dict[str, WorkerProcess]:
    """Start the systems whose Python is known."""
    pythons = {
        "mxlite": sys.executable,
        "decode": sys.executable,
        "mxnet": options.mxnet_python,
        "dali": options.dali_python,
        "torch": options.torch_python,
    }
    workers = {}
    for system, python in pythons.items():
        if not python:
            print(f"{system}: left out, no Python given", file=sys.stderr)
            continue
        command = [python, str(Path(__file__).with_name("worker.py")), "--system", system]
        for name, value in (
            ("record", record),
            ("images", options.images),
            ("batch", options.batch_size),
            ("threads", options.threads),
        ):
            command += [f"--{name}", str(value)]
        workers[system] = WorkerProcess(command, options.threads, system in ("mxlite", "decode"))
    return workers


def prepare(workers: dict[str, WorkerProcess]) -> dict[str, str]:
    """Run each system once; report and leave out one that fails. Return the versions."""
    versions = {}
    for system in list(workers):
        try:
            answer = workers[system].ask(do="prepare")
        except WorkerError as error:
            print(f"{system}: left out: {error}", file=sys.stderr)
            workers.pop(system).close()
            continue
        versions[system] = answer["version"]
        print(
            f"{system} {answer['version']}: batch {answer['shape']}, mean {answer['mean']:.3f}",
            file=sys.stderr,
        )
    return versions


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=64)
    add_options(parser, "json", "threads")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where the pictures are kept")
    parser.add_argument("--mxnet-python")
    parser.add_argument("--dali-python")
    parser.add_argument("--torch-python")
    options = parser.parse_args(arguments)
    folder = options.folder or Path(tempfile.gettempdir()) / "mxlite-photos"
    record = make_photos(folder, options.images)
    workers = start(options, record)
    try:
        versions = prepare(workers)
        rates: dict[str, list[float]] = {system: [] for system in workers}
        for _ in progress(range(options.turns), options.turns, "pipelines"):
            for system, worker in workers.items():
                answer = worker.ask(do="time")
                rates[system].append(answer["images"] / answer["seconds"])
    finally:
        for worker in workers.values():
            worker.close()
    ours = rates["mxlite"]
    rows, results, ratios = [], [], {}
    for system, values in rates.items():
        turns = sorted(mine / other for mine, other in zip(ours, values))
        ratios[system] = statistics.median(turns)
        timing = Timing([1 / value for value in values])
        entry: dict[str, Any] = result(f"pipeline {system}", timing, unit="images/s")
        entry["ratio"] = ratios[system]
        results.append(entry)
        rows.append(
            [
                system,
                f"{entry['median']:.0f}",
                f"{entry['q1']:.0f} - {entry['q3']:.0f}",
                f"{ratios[system]:.2f}",
            ]
        )
    print(table(["system", "images/s", "quartiles", "mxlite / it"], rows))
    if options.json:
        settings = {
            "images": options.images,
            "batch": options.batch_size,
            "threads": options.threads,
            "turns": options.turns,
            "bytes_per_image": record.stat().st_size // options.images,
            "load_before": os.getloadavg()[2],
        }
        write_json(
            options.json, report("io pipeline", settings, results, peers=versions, ratios=ratios)
        )


if __name__ == "__main__":
    main()
