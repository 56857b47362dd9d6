"""Heavy kernels on subnormal numbers, in turns with normal ones; a ratio of 1 means no loss.

python benchmarks/ops/subnormals.py --json out.json
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from command_line import add_options  # noqa: E402
from common import Timing, report, result, table, time_each, write_json  # noqa: E402

SIZES = {"normal": 1e-3, "subnormal": 1e-40}


def cases() -> dict[str, Callable[[str], Callable[[], None]]]:
    """Return for each case a function that gives the call on numbers of a kind of `SIZES`."""
    import mxlite as mx
    import numpy as np
    from mxlite import nd

    def array(kind: str, *shape: int) -> Any:
        signs = np.random.RandomState(0).uniform(-1, 1, shape)
        return nd.array((signs * SIZES[kind]).astype(np.float32))

    def product(kind: str) -> Callable[[], None]:
        a, b = array(kind, 512, 512), array("normal", 512, 512)
        return lambda: nd.dot(a, b).wait_to_read()

    def convolution(kind: str) -> Callable[[], None]:
        block = mx.gluon.nn.Conv2D(64, 3, padding=1, in_channels=64)
        block.initialize()
        block.hybridize()
        data = array(kind, 8, 64, 56, 56)
        return lambda: block(data).wait_to_read()

    def gradients(kind: str) -> Callable[[], None]:
        block = mx.gluon.nn.Conv2D(64, 3, padding=1, in_channels=64)
        block.initialize()
        block.hybridize()
        data, head = array("normal", 8, 64, 56, 56), array(kind, 8, 64, 56, 56)
        data.attach_grad()

        def call() -> None:
            with mx.autograd.record():
                out = block(data)
            out.backward(head)
            data.grad.wait_to_read()

        return call

    def update(kind: str) -> Callable[[], None]:
        weight, grad = array("normal", 1 << 20), array(kind, 1 << 20)
        mean, variance = array(kind, 1 << 20), nd.abs(array(kind, 1 << 20))
        return lambda: nd.adam_update(
            weight, grad, mean, variance, lr=0.0, out=weight
        ).wait_to_read()

    return {
        "product 512 x 512 x 512": product,
        "convolution 3 x 3, 8 x 64 x 56 x 56": convolution,
        "its training step": gradients,
        "adam_update of 2^20 weights": update,
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, "json", "threads", rounds=15)
    args = parser.parse_args()
    os.environ["MXLITE_CPU_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(args.threads)

    rows, results = [], []
    for name, case in cases().items():
        calls = {kind: case(kind) for kind in SIZES}
        turns: dict[str, list[float]] = {kind: [] for kind in SIZES}
        for call in calls.values():
            call()
        for _ in range(args.rounds):
            for kind, call in calls.items():
                turns[kind] += time_each(call, 1).seconds
        ratio = Timing([b / a for a, b in zip(*turns.values())])
        rows.append([name, *(f"{1e3 * Timing(t).median:.2f}" for t in turns.values())])
        rows[-1].append(f"{ratio.median:.2f}")
        for kind, seconds in turns.items():
            results.append(result(f"{name}, {kind}", Timing(seconds), unit="ms", amount=1e3))
        results.append(result(f"{name}, ratio", ratio, unit="subnormal / normal"))
    print(table(["case", "normal ms", "subnormal ms", "ratio"], rows))
    if args.json:
        settings = {k: v for k, v in vars(args).items() if k != "json"}
        write_json(args.json, report("subnormals", settings, results))


if __name__ == "__main__":
    main()
