"""Training speed at several batch sizes: the training tables of MXNet's performance page.

    python benchmarks/run_vary_batch.py                             # three networks, 1 to 32 images
    python benchmarks/run_vary_batch.py --networks resnet-50 --batch-sizes 16 32 --dtype bfloat16

Each cell is a run of ``examples/image_classification/train_imagenet.py --benchmark 1`` in a
process of its own: forward, backward, update and metric on one synthetic batch. ``alexnet`` has
eight times the batch size, as in those tables. Figures come from the script's Speed lines.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from command_line import add_options
from common import Timing, progress, report, result, table, usable_cores, write_json

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parent / "examples" / "image_classification" / "train_imagenet.py"
PUBLISHED = HERE / "published" / "mxnet_perf.json"
SPEED = re.compile(r"Batch \[\d+-\d+\]\tSpeed: ([\d.]+) samples/sec")


class Network(NamedTuple):
    """Options of the script for a network, and the factor of its batch sizes."""

    options: tuple
    image: int
    factor: int = 1


NETWORKS = {
    "alexnet": Network(("--network", "alexnet"), 224, 8),
    "inception-v3": Network(("--network", "inception-v3"), 299),
    "resnet-50": Network(("--network", "resnet", "--num-layers", "50"), 224),
    "resnet-152": Network(("--network", "resnet", "--num-layers", "152"), 224),
    "inception-bn": Network(("--network", "inception-bn"), 224),
    "vgg": Network(("--network", "vgg", "--num-layers", "11"), 224),
    "vgg-16": Network(("--network", "vgg", "--num-layers", "16"), 224),
    "mobilenet": Network(("--network", "mobilenet"), 224),
}
DEFAULT = ["alexnet", "inception-v3", "resnet-50"]


class Run(NamedTuple):
    """Results of a run of the script: seconds of each timed batch, peak memory."""

    seconds: list
    peak_mib: float


def train(network: str, batch: int, dtype: str, batches: int, warm_up: int, python: str) -> Run:
    """Run the training script and time its batches.

    Parameters
    ----------
    network : str
        One of `NETWORKS`.
    batch : int
        Images of a batch.
    dtype : str
        Type in which the network computes.
    batches, warm_up : int
        Number of timed batches, and of batches before them.
    python : str
        Interpreter.

    Returns
    -------
    Run

    Raises
    ------
    RuntimeError
        If the script fails; the message has the end of its log.
    """
    image = NETWORKS[network].image
    # The first line follows the second batch, which is the first one that is timed.
    total = 1 + warm_up + batches
    command = [
        python,
        str(SCRIPT),
        *NETWORKS[network].options,
        *("--benchmark", "1", "--num-epochs", "1", "--disp-batches", "1"),
        *("--image-shape", f"3,{image},{image}", "--batch-size", str(batch)),
        *("--num-examples", str(total * batch), "--dtype", dtype, "--kv-store", "local"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        log = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    speeds = [float(speed) for speed in SPEED.findall(log)]
    if process.returncode or len(speeds) != total - 1:
        raise RuntimeError(f"{' '.join(command)} failed:\n{log[-2000:]}")
    return Run([batch / speed for speed in speeds[warm_up:]], usage.ru_maxrss / 1024)


def published() -> dict:
    """Return machine to batch size (text) to network to images/s of the published tables."""
    tables = json.loads(PUBLISHED.read_text(encoding="utf-8"))["training"]
    return {
        machine: {
            batch: {name.partition(" ")[0]: speed for name, speed in cells.items()}
            for batch, cells in entry.items()
        }
        for machine, entry in tables.items()
    }


def text(results: list, others: dict) -> str:
    """Return the table of results beside the published figures."""
    head = ["network", "batch", "dtype", "images/s", "quartiles", "peak MiB", *others]
    rows = []
    for entry in results:
        row = str(entry["batch"] // NETWORKS[entry["network"]].factor)
        rows.append(
            [
                entry["network"],
                str(entry["batch"]),
                entry["dtype"],
                f"{entry['median']:.2f}",
                f"{entry['q1']:.2f}-{entry['q3']:.2f}",
                f"{entry['peak_mib']:.0f}",
                *(str(cells.get(row, {}).get(entry["network"], "")) for cells in others.values()),
            ]
        )
    note = f"images/s of training on {usable_cores()} core(s); right: published for one GPU, MXNet."
    return f"{table(head, rows)}\n{note}"


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument("--networks", nargs="+", default=DEFAULT, choices=list(NETWORKS))
    line.add_argument("--batch-sizes", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32])
    line.add_argument("--dtype", nargs="+", default=["float32"], choices=["float32", "bfloat16"])
    line.add_argument("--batches", type=int, default=8, help="timed batches: %(default)s")
    line.add_argument("--warm-up", type=int, default=2, help="batches before: %(default)s")
    line.add_argument("--python", default=sys.executable, help="interpreter of the runs")
    add_options(line, "json")
    return line


def main(arguments: list | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    arguments : list of str, optional
        Command line; that of the process by default.

    Returns
    -------
    int
        0.
    """
    options = parser().parse_args(arguments)
    cells = [
        (network, size * NETWORKS[network].factor, dtype)
        for network in options.networks
        for dtype in options.dtype
        for size in options.batch_sizes
    ]
    results: list[dict[str, Any]] = []
    for network, batch, dtype in progress(cells, len(cells), "training"):
        run = train(network, batch, dtype, options.batches, options.warm_up, options.python)
        speed = batch / statistics.median(run.seconds)
        print(f"{network} batch {batch} {dtype}: {speed:.2f} images/s", file=sys.stderr)
        entry = result(
            f"train {network} batch {batch} {dtype}",
            Timing(run.seconds),
            unit="images/s",
            amount=batch,
            network=network,
            batch=batch,
            dtype=dtype,
            peak_mib=run.peak_mib,
        )
        results.append(entry)
    print(text(results, published()))
    if options.json:
        settings = {
            "batches": options.batches,
            "warm_up": options.warm_up,
            "threads": usable_cores(),
        }
        write_json(options.json, report("run_vary_batch", settings, results))
        print(f"figures: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
