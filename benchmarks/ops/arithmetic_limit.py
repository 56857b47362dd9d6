r"""Compares float32 networks with the limit of the processor's multiply-adds.

    python benchmarks/ops/arithmetic_limit.py --inference bert_inference_128.json \
        --training bert_training.json --json result.json

Runs a loop of multiply-adds in registers (``arithmetic_limit.cc``) on all cores in turns with the
products of BERT-base. For every float32 cell of result files of ``peers/run.py`` and
``dlperf/run.py`` it then prints what share of that loop the best peer reaches, and what share twice
its speed would be: more than 100 % cannot be reached by any program.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common  # noqa: E402
import mxlite as mx  # noqa: E402
from command_line import add_options  # noqa: E402
from dlperf.models import encoder_flops  # noqa: E402

SOURCE = Path(__file__).with_suffix(".cc")
# Outputs and inputs of the products of a layer, and the rows of 1 and 8 texts of 128 tokens.
PRODUCTS = ((2304, 768), (768, 768), (3072, 768), (768, 3072))
ROWS = (128, 1024)
LAYERS, UNITS = 12, 768
TOKENS = {"bert-base": 128, "bert-base-512": 512}


def product_seconds(rows: int, outputs: int, inputs: int) -> float:
    """Return the seconds of a product with weights as FullyConnected has them: best of three."""
    data = mx.nd.random.uniform(shape=(rows, inputs))
    weight = mx.nd.random.uniform(shape=(outputs, inputs))
    found = []
    for _ in range(4):  # the first one prepares the kernel
        mx.nd.waitall()
        begin = time.perf_counter()
        mx.nd.FullyConnected(data, weight, num_hidden=outputs, no_bias=True).wait_to_read()
        found.append(time.perf_counter() - begin)
    return min(found[1:])


def peer_rates(inference: list[Path], training: list[Path]) -> list[tuple[str, str, float]]:
    """Return each float32 cell, its best peer and that peer's FLOP/s."""
    found = []
    for path in inference:
        for entry in _cells(json.loads(path.read_text())):
            flop = encoder_flops(LAYERS, UNITS, TOKENS[entry["network"]])
            name = f"inference, {entry['batch']} x {TOKENS[entry['network']]}"
            found.append((name, entry["system"], entry["median"] * flop))
    for path in training:
        for cell in json.loads(path.read_text())["cells"]:
            case = cell["case"]
            peers = [one for one in cell["ratios"] if one in cell["systems"]]
            if case["dtype"] != "float32" or not peers:
                continue
            best = max(peers, key=lambda one: cell["systems"][one]["median"])
            name = f"training step, {case['batch']} x {case['size']}"
            found.append((name, best, cell["systems"][best]["tflops"] * 1e12))
    return found


def _cells(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fastest peer's entry of every float32 cell."""
    best: dict[tuple[str, int], dict[str, Any]] = {}
    for entry in content["results"]:
        if entry["system"].startswith("mxlite") or entry["dtype"] != "float32":
            continue
        key = (entry["network"], entry["batch"])
        if key not in best or entry["median"] > best[key]["median"]:
            best[key] = entry
    return list(best.values())


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--inference", type=Path, nargs="*", default=[], help="result files of peers/run.py (BERT)"
    )
    parser.add_argument(
        "--training", type=Path, nargs="*", default=[], help="result files of dlperf/run.py bert"
    )
    add_options(parser, "json", "threads", rounds=7)
    args = parser.parse_args()
    limits: list[dict[str, float]] = []
    cases = [(rows, *product) for rows in ROWS for product in PRODUCTS]
    seconds: dict[tuple[int, int, int], list[float]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "arithmetic_limit")
        compiler = os.environ.get("CXX", "g++")
        flags = ["-O3", "-march=native", "-std=c++20", "-pthread"]
        subprocess.run([compiler, *flags, str(SOURCE), "-o", program], check=True)
        for _ in common.progress(range(args.rounds), args.rounds, "rounds"):
            limits.append(json.loads(subprocess.check_output([program, str(args.threads)])))
            for case in cases:
                seconds[case].append(product_seconds(*case))
    flop = limits[0]["flop"]
    timing = common.Timing([one["seconds"] for one in limits], 1)
    name = f"multiply-adds in registers of {limits[0]['lanes']} floats"
    results = [common.result(name, timing, unit="FLOP/s", amount=flop)]
    # Other work can only slow the loop down, so its best round is the limit.
    limit = flop / min(one["seconds"] for one in limits)
    table = [[name, f"{results[0]['median'] / 1e9:.0f}", f"{results[0]['median'] / limit:.0%}"]]
    for rows, outputs, inputs in cases:
        name = f"product {rows} x {inputs} x {outputs}"
        timing = common.Timing(seconds[rows, outputs, inputs], 1)
        entry = common.result(
            name, timing, unit="FLOP/s", amount=2.0 * rows * outputs * inputs, rows=rows
        )
        results.append(entry)
        table.append([name, f"{entry['median'] / 1e9:.0f}", f"{entry['median'] / limit:.0%}"])
    print(common.table(["", "GFLOP/s", "of the best loop"], table))
    peers = [
        {"cell": cell, "system": system, "flops": rate, "twice_of_limit": 2 * rate / limit}
        for cell, system, rate in peer_rates(args.inference, args.training)
    ]
    if peers:
        head = ["best peer", "system", "GFLOP/s", "twice of the best loop"]
        lines = [
            [
                one["cell"],
                one["system"],
                f"{one['flops'] / 1e9:.0f}",
                f"{one['twice_of_limit']:.0%}",
            ]
            for one in peers
        ]
        print("\n" + common.table(head, lines))
    if args.json:
        settings = {"rounds": args.rounds, "threads": args.threads}
        content = common.report(
            "arithmetic_limit", settings, results, limit_flops=limit, peers=peers
        )
        common.write_json(args.json, content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
