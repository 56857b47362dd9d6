"""Training steps of transformer layers with a pass and without it, in turns.

    python benchmarks/ops/layer_pass.py --skip join-gelu --json out.json

Two layers of BERT-base's size (768 units, 3,072 inside, 12 heads, GELU, dropout of 0.1) in one
hybridized block: forward and backward, no optimizer. Each side runs in a process of its own,
because MXLITE_SKIP_PASSES is read once. Without dropout both must give the same gradient before
they are timed. Ratios are taken turn by turn, each side's fastest step of a turn: above 1 the pass
is faster. ``--threads 1 --clock cpu`` compares CPU seconds, which other work disturbs less.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCHMARKS), str(Path(__file__).resolve().parent)]
from attention_pass import step_memory, timed  # noqa: E402

UNITS, HEADS, LAYERS = 768, 12, 2
CASES = ("8x128", "4x512")  # batch x length
DTYPES = ("float32", "bfloat16")
SIDES = ("with", "without")
# Largest difference of gradients as a share of the largest gradient.
TOLERANCE = {"float32": 1e-5, "bfloat16": 3e-2}


def build(batch: int, length: int, dtype: str) -> dict[str, Any]:
    """Return the training step, and a gradient without dropout as a list of numbers."""
    import mxlite as mx
    from mxlite import autograd, nd
    from mxlite.gluon import nn
    from mxlite.gluon.contrib.nn.transformer import TransformerEncoderCell

    def make(dropout: float) -> Any:
        mx.random.seed(0)
        net = nn.HybridSequential()
        for _ in range(LAYERS):
            net.add(TransformerEncoderCell(UNITS, 4 * UNITS, HEADS, dropout))
        net.initialize()
        if dtype != "float32":
            net.cast(dtype)
        net.hybridize()
        return net

    rng = np.random.RandomState(0)
    data, head = (
        nd.array(rng.uniform(-1, 1, (batch, length, UNITS))).astype(dtype) for _ in range(2)
    )
    data.attach_grad()

    def step_of(net: Any) -> Any:
        def step() -> float:
            with autograd.record():
                y = net(data)
            y.backward(head)
            return float(data.grad.reshape(-1)[:1].astype("float32").asscalar())

        return step

    step_of(make(0.0))()
    gradient = data.grad.astype("float32").asnumpy().reshape(-1)[::97].tolist()
    return {"step": step_of(make(0.1)), "gradient": gradient}


def serve() -> None:
    """Answer requests: build a case (the answer has memory and gradient), or time it."""
    built: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "build":
            built = build(*request["case"])
            answer: Any = {"mib": step_memory(built["step"]), "gradient": built["gradient"]}
        else:
            answer = {"seconds": timed(built["step"], request["seconds"], request["clock"])}
        print(json.dumps(answer), flush=True)


def main() -> None:
    """Run all cases, print the table, write the file."""
    from command_line import add_options
    from common import Timing, progress, report, result, table, write_json
    from worker_process import WorkerProcess

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skip", default="join-gelu", help="passes to leave out: %(default)s")
    parser.add_argument("--cases", nargs="+", default=CASES, metavar="BATCHxLENGTH")
    parser.add_argument("--dtypes", nargs="+", default=DTYPES, choices=DTYPES)
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    add_options(parser, "threads", "json", rounds=9, turn=1.0)
    args = parser.parse_args()

    sizes = [tuple(map(int, case.split("x"))) for case in args.cases]
    cases = [(*size, dtype) for dtype in args.dtypes for size in sizes]
    rows, results = [], []
    for batch, length, dtype in progress(cases, len(cases), "cases"):
        sides = {
            name: WorkerProcess(
                ["env", f"MXLITE_SKIP_PASSES={skipped}", sys.executable, __file__, "--serve"],
                args.threads,
                own_path=True,
            )
            for name, skipped in zip(SIDES, ("", args.skip))
        }
        label = f"{dtype} b{batch} s{length}"
        built = {
            name: side.ask(do="build", case=(batch, length, dtype)) for name, side in sides.items()
        }
        ours, theirs = (np.array(built[name]["gradient"]) for name in SIDES)
        apart = float(abs(ours - theirs).max() / abs(theirs).max())
        if not apart <= TOLERANCE[dtype]:
            raise SystemExit(f"layer_pass: {label}: gradients differ by {apart:.1e}")
        turns: dict[str, list[float]] = {name: [] for name in SIDES}
        for number in range(args.rounds):
            for name in SIDES if number % 2 == 0 else SIDES[::-1]:
                found = sides[name].ask(do="time", seconds=args.turn, clock=args.clock)
                turns[name].append(min(found["seconds"]))
        for side in sides.values():
            side.close()
        ratio = Timing([b / a for a, b in zip(turns["with"], turns["without"])])
        low, high = ratio.quartiles
        row = [label]
        for name in SIDES:
            timing = Timing([seconds / LAYERS for seconds in turns[name]])
            extra = {"step_mib": built[name]["mib"]}
            results.append(result(f"{label} {name}", timing, unit="ms", amount=1e3, **extra))
            row.append(f"{1e3 * timing.median:.2f}")
        row += [f"{ratio.median:.3f}", f"{low:.3f}-{high:.3f}", f"{apart:.0e}"]
        rows.append([*row, *(f"{built[name]['mib']:.0f}" for name in SIDES)])
        extra = {"better": "higher", "gradient_difference": apart}
        results.append(result(f"{label} ratio", ratio, unit="without / with", **extra))
    head = ["case", "with, ms a layer", "without", "ratio", "quartiles", "gradients apart"]
    print(table([*head, "with MiB", "without MiB"], rows))
    if args.json:
        settings = {k: v for k, v in vars(args).items() if k != "json"}
        settings["load_at_end"] = os.getloadavg()[0]
        write_json(args.json, report("layer_pass", settings, results))


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
