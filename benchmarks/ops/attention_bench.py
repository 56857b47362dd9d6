"""Times fused attention, its composite of ordinary operators, and PyTorch's attention, in turns.

    benchmarks/peers/setup                                 # once: environments from PyPI
    python benchmarks/ops/attention_bench.py --json out.json

All sides get the same arrays and must give the same output and gradients before they are timed: the
composite is batch_dot, softmax, batch_dot in mxlite, PyTorch's is scaled_dot_product_attention.
Ratios are taken turn by turn, each side's fastest call of a turn: above 1 the fused operator is
faster. PyTorch runs in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Callable

import numpy as np

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCHMARKS / "ops"))

from rnn_bench import Peer, serve_side, timed  # noqa: E402

SIZES = [(8, 12, 128, 64), (4, 12, 512, 64), (1, 12, 2048, 64)]  # batch, heads, length, head size
PHASES = ("inference", "training")
Side = dict[str, Callable[[], float]]


def arrays(size: tuple[int, ...]) -> list[np.ndarray]:
    """Return query, key, value and the output's gradient, the same in every process."""
    rng = np.random.RandomState(0)
    return [rng.uniform(-1, 1, size).astype(np.float32) for _ in range(4)]


def mxlite_side(size: tuple[int, ...], dtype: str, fused: bool) -> Side:
    """Build the calls of the fused operator, or of the composite."""
    from mxlite import autograd, nd

    batch, heads, length, d = size
    inputs = [nd.array(a, dtype=dtype) for a in arrays(size)]
    *qkv, grad = inputs if fused else [a.reshape((batch * heads, length, d)) for a in inputs]
    for a in qkv:
        a.attach_grad()

    def composite(q: Any, k: Any, v: Any) -> Any:
        scores = nd.batch_dot(q, k, transpose_b=True) * d**-0.5
        return nd.batch_dot(nd.softmax(scores, axis=-1), v)

    call = nd.contrib.dot_product_attention if fused else composite

    def number(a: Any) -> float:
        return float(a.reshape(-1)[:1].astype("float32").asscalar())

    def inference() -> float:
        return number(call(*qkv))

    def training() -> float:
        with autograd.record():
            output = call(*qkv)
        output.backward(grad)
        return number(qkv[0].grad)

    return {"inference": inference, "training": training}


def torch_side(size: tuple[int, ...], dtype: str) -> Side:
    """Build the same in PyTorch."""
    import torch

    *qkv, grad = (torch.from_numpy(a).to(getattr(torch, dtype)) for a in arrays(size))
    for a in qkv:
        a.requires_grad_(True)
    call = torch.nn.functional.scaled_dot_product_attention

    def inference() -> float:
        with torch.no_grad():
            return float(call(*qkv).flatten()[0])

    def training() -> float:
        for a in qkv:
            a.grad = None
        call(*qkv).backward(grad)
        return float(qkv[0].grad.flatten()[0])

    return {"inference": inference, "training": training}


def main() -> None:
    """Run all cases, print the table, write the file."""
    sys.path.insert(0, str(BENCHMARKS))
    from command_line import add_options
    from common import Timing, progress, report, result, table, write_json

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtypes", nargs="+", default=["float32"], choices=["float32", "bfloat16"])
    add_options(parser, "json", "peers-python", "threads", rounds=7, turn=0.3)
    args = parser.parse_args()
    os.environ["MXLITE_CPU_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(args.threads)

    peer = Peer(args.peers_python, __file__)
    rows, results, version = [], [], ""
    cases = [(dtype, size) for dtype in args.dtypes for size in SIZES]
    for dtype, size in progress(cases, len(cases), "sizes"):
        other = peer.ask(do="build", case=(size, dtype), threads=args.threads)
        version = other.pop("version")
        ours = {name: mxlite_side(size, dtype, name == "fused") for name in ("fused", "composite")}
        for phase in PHASES:
            numbers = {name: side[phase]() for name, side in ours.items()}
            numbers["torch"] = other[phase]
            near = 1e-4 if dtype == "float32" else 3e-2
            if max(numbers.values()) - min(numbers.values()) > near * abs(numbers["torch"]) + 1e-5:
                raise SystemExit(
                    f"attention_bench: {dtype} {size} {phase}: results must agree, got {numbers}"
                )
            turns: dict[str, list[float]] = {name: [] for name in ("fused", "composite", "torch")}
            for _ in range(args.rounds):
                for name, side in ours.items():
                    turns[name].append(min(timed(side[phase], args.turn)))
                found = peer.ask(do="time", phase=phase, seconds=args.turn)
                turns["torch"].append(min(found))
            label = f"b{size[0]} h{size[1]} s{size[2]} d{size[3]} {dtype} {phase}"
            row = [label]
            for name, seconds in turns.items():
                timing = Timing(seconds)
                results.append(result(f"{label} {name}", timing, unit="ms", amount=1e3))
                row.append(f"{1e3 * timing.median:.2f}")
            for name in ("composite", "torch"):
                ratio = Timing([b / a for a, b in zip(turns["fused"], turns[name])])
                low, high = ratio.quartiles
                row += [f"{ratio.median:.2f}", f"{low:.2f}-{high:.2f}"]
                entry = f"{label} ratio to {name}"
                results.append(result(entry, ratio, unit=f"{name} / fused", better="higher"))
            rows.append(row)
    head = ["case", "fused ms", "composite ms", "PyTorch ms"]
    head += ["to composite", "quartiles", "to PyTorch", "quartiles"]
    print(table(head, rows))
    if args.json:
        settings = {k: v for k, v in vars(args).items() if k not in ("json", "peers_python")}
        settings["load_at_end"] = os.getloadavg()[0]
        write_json(args.json, report("attention_bench", settings, results, torch=version))


if __name__ == "__main__":
    serve_side(torch_side) if sys.argv[1:] == ["--serve"] else main()
