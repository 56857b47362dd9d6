r"""Find how many classes partial FC can have in a given memory, by training with that many.

    python benchmarks/dlperf/insightface/max_classes.py --memory-gb 4 --ratio 0.1 --batch 64

Runs steps with more and more classes in separate processes, measures the peak memory of each, and
bisects until the number is within 1 percent. Prints the bytes per class.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

UNITS, STEPS = 512, 2


def train(classes: int, ratio: float, batch: int) -> None:
    """Make some steps and print the peak of mxlite's memory."""
    import numpy as np
    from mxlite import autograd, nd, runtime
    from mxlite.gluon.contrib import parallel

    head = parallel.PartialFC(classes, UNITS, sample_ratio=ratio)
    random = np.random.RandomState(0)
    for _ in range(STEPS):
        x = nd.array(random.randn(batch, UNITS))
        x.attach_grad()
        with autograd.record():
            losses = head(x, nd.array(random.randint(0, classes, batch), dtype="int64"))
        losses.backward()
        head.step(batch)
    nd.waitall()
    print(json.dumps({"peak": runtime.memory_stats()["peak"]}))


def peak(classes: int, ratio: float, batch: int) -> int | None:
    """Return the peak in bytes; None if the process ran out of memory."""
    sizes = ["--classes", str(classes), "--ratio", str(ratio), "--batch", str(batch)]
    command = [sys.executable, str(Path(__file__)), *sizes]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{classes} classes: {done.stderr.strip().splitlines()[-1][:200]}", flush=True)
        return None
    return int(json.loads(done.stdout.splitlines()[-1])["peak"])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--memory-gb", type=float, default=1.0, help="memory of a rank, in 1e9 bytes")
    add("--ratio", type=float, default=0.1)
    add("--batch", type=int, default=64)
    add("--classes", type=int, help="only train with this many and print the peak")
    args = parser.parse_args()
    if args.classes:
        train(args.classes, args.ratio, args.batch)
        return
    limit = args.memory_gb * 1e9
    low, high = 0, int(limit / (8 * UNITS)) + 1  # a centre and its momentum
    used = 0
    while high - low > max(1, high // 100):
        middle = (low + high + 1) // 2 if low else high * 15 // 16
        found = peak(middle, args.ratio, args.batch)
        fits = found is not None and found <= limit
        low, high, used = (middle, high, found or 0) if fits else (low, middle, used)
        print(f"{middle} classes: peak {found} bytes, {'fits' if fits else 'too many'}", flush=True)
    if not low:
        raise SystemExit(f"max_classes: not one class fits in {args.memory_gb} GB")
    print(f"largest: {low} classes in {args.memory_gb} GB, {used / low:.0f} bytes a class")


if __name__ == "__main__":
    main()
