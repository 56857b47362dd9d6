"""Memory and time of input shapes that a compiled network has not seen before.

    python benchmarks/shapes/new_shapes.py --json out.json

ResNet-18 as a hybridized block, as a SymbolBlock and as a Module runs on 40 image sizes and 16
batch sizes, each in a process of its own, with mxlite and, where ``benchmarks/peers/setup`` has
made its environment, with MXNet 1.9.1. The largest input comes first: growth is what the other
shapes add to the resident memory. Times are those of whole calls, the computation included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import add_options
from common import Timing, report, result, table, write_json

ROOT = Path(__file__).resolve().parents[2]
USES = ("block", "symbol_block", "module")


def measure(python: str, package: str, use: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run the worker and return its line.

    Parameters
    ----------
    python : str
        Interpreter that has the package.
    package : str
        ``"mxlite"`` or ``"mxnet"``.
    use : str
        One of ``USES``.
    args : argparse.Namespace
        Sizes, batches and threads.

    Returns
    -------
    dict
        Seconds of the first and second call by shape, and the growth in MiB after each.
    """
    threads = str(args.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MXLITE_CPU_THREADS": threads}
    if package != "mxlite":
        environment.pop("PYTHONPATH", None)
    run = subprocess.run(
        [
            *(python, str(Path(__file__).with_name("worker.py"))),
            *("--package", package, "--use", use),
            *("--sizes", *map(str, args.sizes), "--batches", str(args.batches)),
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if package != "mxlite" else None,
        text=True,
        check=True,
    )
    line: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return line


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--sizes", type=int, nargs=3, default=(64, 384, 8))
    parser.add_argument("--batches", type=int, default=16)
    add_options(parser, "json", "threads")
    parser.add_argument("--mxnet", default=str(ROOT / ".venv-mxnet/bin/python"))
    parser.add_argument("--uses", nargs="+", choices=USES, default=USES)
    args = parser.parse_args()
    packages = {"mxlite": sys.executable}
    if Path(args.mxnet).exists():
        packages["mxnet"] = args.mxnet
    results, rows = [], []
    for use in args.uses:
        for package, python in packages.items():
            line = measure(python, package, use, args)
            names = {"first": "first call", "second": "second call"}
            for key, name in names.items():
                entry = result(
                    f"{package} {use} {name}", Timing(line[key]), unit="ms", amount=1000.0
                )
                if key == "first":
                    entry["growth_mib"] = round(line["growth"][-1], 1)
                    entry["most_growth_mib"] = round(max(line["growth"]), 1)
                    entry["start_mib"] = round(line["start"], 1)
                results.append(entry)
            first, second = results[-2:]
            rows.append(
                [
                    package,
                    use,
                    f"{first['median']:.1f}",
                    f"{second['median']:.1f}",
                    f"{first['growth_mib']:.0f}",
                    f"{first['most_growth_mib']:.0f}",
                ]
            )
    print(
        table(
            ["package", "use", "new shape ms", "again ms", "growth MiB", "most growth MiB"],
            rows,
        )
    )
    settings = {
        "network": "resnet18_v1",
        "sizes": list(range(*args.sizes)),
        "batches": args.batches,
        "threads": args.threads,
    }
    if args.json:
        write_json(args.json, report("new_shapes", settings, results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
