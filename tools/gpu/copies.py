"""Measure copies between host and GPU and within the GPU in GB/s.

python3 tools/gpu/copies.py --json FILE
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import mxlite as mx
import numpy as np
from mxlite import nd


def best(run: Callable[[], object], repeats: int = 5) -> float:
    """Return the seconds of the fastest of some runs after a warm-up run."""
    times = []
    for _ in range(repeats + 1):
        nd.waitall()
        begin = time.perf_counter()
        run()
        nd.waitall()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def main() -> None:
    """Measure the copies and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    figures = []
    for mebibytes in (1, 16, 256):
        count = mebibytes << 18
        host = np.ones(count, "float32")
        on_cpu = nd.array(host, ctx=mx.cpu())
        there = on_cpu.as_in_context(mx.gpu(0))
        other = nd.zeros((count,), ctx=mx.gpu(0))
        assert float(there.sum().asscalar()) == count
        runs: dict[str, Callable[[], object]] = {
            "numpy to GPU": lambda host=host: nd.array(host, ctx=mx.gpu(0)),
            "CPU to GPU": lambda a=on_cpu: a.as_in_context(mx.gpu(0)),
            "GPU to numpy": there.asnumpy,
            "within the GPU": lambda a=there, b=other: a.copyto(b),
        }
        for name, run in runs.items():
            rate = count * 4 / best(run) / 1e9
            figures.append({"copy": name, "mebibytes": mebibytes, "gb_per_second": round(rate, 3)})
            Path(options.json).write_text(json.dumps(figures))  # now, in case the run is cut short
            print(f"{name:<16} {mebibytes:>4} MiB {rate:9.2f} GB/s", flush=True)


if __name__ == "__main__":
    main()
