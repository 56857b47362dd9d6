"""Every convolution implementation on the layers of the scored networks, into one result file.

    cmake --build build/dev --target conv_bench
    python benchmarks/ops/conv_bench.py build/dev/benchmarks/conv_bench --json onednn_conv.json

Prints for each network what oneDNN's first choice costs in sum and what the best candidate of every
layer costs. Our own Winograd kernels are candidates beside oneDNN's implementations.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import add_options
from common import progress, report, table, write_json

RUNS = (
    ("resnet50", 1, "f32"),
    ("vgg16", 1, "f32"),
    ("alexnet", 1, "f32"),
    ("inceptionv3", 1, "f32"),
    ("resnet50", 8, "f32"),
    ("vgg16", 4, "f32"),
    ("resnet50", 1, "bf16"),
    ("resnet50", 8, "bf16"),
)


def run(binary: str, network: str, batch: int, dtype: str, seconds: float) -> dict[str, Any]:
    """Run the C++ benchmark once.

    Parameters
    ----------
    binary : str
        Path of ``conv_bench``.
    network, batch, dtype
        Its first three arguments.
    seconds : float
        How long each candidate is repeated.

    Returns
    -------
    dict
        Output of the program.
    """
    command = [binary, network, str(batch), dtype, str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def main() -> None:
    """Run all, print the table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="the compiled conv_bench")
    parser.add_argument("--seconds", type=float, default=0.1, help="time per candidate")
    add_options(parser, "json")
    args = parser.parse_args()
    runs = [run(args.binary, *case, args.seconds) for case in progress(RUNS, len(RUNS), "networks")]
    rows = [
        [
            f"{r['network']} {r['batch']} {r['dtype']}",
            f"{r['ms_default']:.2f}",
            f"{r['ms_best_of_all']:.2f}",
            f"{r['ms_default'] / r['ms_best_of_all']:.2f}",
        ]
        for r in runs
    ]
    print(table(["network, batch, dtype", "oneDNN's choice ms", "best of all ms", "ratio"], rows))
    if args.json:
        settings = {"seconds": args.seconds, "threads": runs[0]["threads"]}
        write_json(args.json, report("conv_bench", settings, [], runs=runs))


if __name__ == "__main__":
    main()
