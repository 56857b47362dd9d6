"""Measures which share of the rate of copies sums reach, which limits reduce-scatter on two cores.

    python benchmarks/bandwidth/memory_rates.py --json result.json

Compiles ``memory_rates.cc``, which copies and sums private arrays in huge pages on two cores at
once without any communication, and runs it ``--rounds`` times. Rates count the bytes that each core
reads and writes; the share of a round is that of the best copy of the same round.
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
import common  # noqa: E402
from command_line import add_options  # noqa: E402

SOURCE = Path(__file__).with_suffix(".cc")


def measure(rounds: int) -> list[dict[str, Any]]:
    """Return what each of some runs of the program prints."""
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "memory_rates")
        command = [os.environ.get("CXX", "g++"), "-O3", "-mavx512f", "-std=c++20", "-pthread"]
        subprocess.run([*command, str(SOURCE), "-o", program], check=True)
        numbers = common.progress(range(rounds), rounds, "runs")
        return [json.loads(subprocess.check_output([program])) for _ in numbers]


def main() -> int:
    """Run the command line; 2 if the processor lacks AVX-512 or a second core."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, "json", rounds=7)
    args = parser.parse_args()
    if "avx512f" not in common.machine()["flags"] or common.usable_cores() < 2:
        print("memory_rates: AVX-512 and two cores are needed", file=sys.stderr)
        return 2
    runs = measure(args.rounds)
    results, rows = [], []
    for cases in zip(*(run["results"] for run in runs)):
        terms = {key: cases[0][key] for key in ("kernel", "pages_in_turn", "bytes_ahead")}
        name = "{kernel}, {pages_in_turn} pages in turn, {bytes_ahead} bytes ahead".format(**terms)
        size = runs[0]["bytes_of_an_array"]
        timing = common.Timing([size / case["bytes_per_second"] for case in cases], 1)
        shares = common.Timing([case["of_copy"] for case in cases], 1)
        entry = common.result(name, timing, unit="bytes/s", amount=size, **terms)
        low, high = shares.quartiles
        entry["of_copy"] = {"median": shares.median, "q1": low, "q3": high}
        results.append(entry)
        rows.append([name, f"{entry['median'] / 1e9:.1f}", f"{shares.median:.3f}"])
    print(common.table(["each core", "GB/s", "share of the best copy"], rows))
    best = [max(c["of_copy"] for c in run["results"] if c["kernel"] == "sum") for run in runs]
    print("\nbest sum of each run:", ", ".join(f"{share:.3f}" for share in best))
    if args.json:
        settings = {"rounds": args.rounds, "bytes_of_an_array": runs[0]["bytes_of_an_array"]}
        common.write_json(args.json, common.report("memory_rates", settings, results, best=best))
    return 0


if __name__ == "__main__":
    sys.exit(main())
