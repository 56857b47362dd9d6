"""gluon-nlp's attention in hybridized blocks with the pass fuse-attention and without it, in turns.

    python benchmarks/ops/attention_pass.py --json out.json

One block: the products of BERT-base's self-attention on an interleaved projection, 12 heads of size
64, softmax with lengths, dropout of 0.1. Each side runs in a process of its own, because
MXLITE_SKIP_PASSES is read once. Both must give the same output without dropout before they are
timed. Ratios are taken turn by turn, each side's fastest call of a turn: above 1 the pass is
faster. ``--clock cpu`` compares CPU seconds, which other work on the machine disturbs less. Memory
is the peak of the resident set in the first training step above that before the step.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCHMARKS))

HEADS, SIZE = 12, 64
CASES = [(8, 128), (4, 512), (1, 2048)]  # batch, length
PHASES = ("training", "inference")
SIDES = {"fused": "", "separate": "fuse-attention"}  # MXLITE_SKIP_PASSES


def build(batch: int, length: int) -> dict[str, Any]:
    """Return the calls of both phases; each returns a number of its result."""
    import mxlite as mx
    from mxlite import autograd, gluon, nd

    class Attention(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = gluon.nn.Dropout(0.1)

        def hybrid_forward(self, F: Any, qkv: Any, valid: Any) -> Any:
            zeros = F.zeros_like(F.contrib.arange_like(qkv, axis=0))
            rows = F.broadcast_add(valid.reshape((-1, 1)), zeros.reshape((1, -1)))
            rows = F.broadcast_axis(F.expand_dims(F.cast(rows, "int32"), 1), axis=1, size=HEADS)
            scores = F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=HEADS)
            weights = F.softmax(scores, length=rows.reshape((-1, length)), use_length=True)
            weights = self.dropout(weights)
            return F.contrib.interleaved_matmul_selfatt_valatt(qkv, weights, heads=HEADS)

    net = Attention()
    net.hybridize()
    rng = np.random.RandomState(0)
    qkv = nd.array(rng.uniform(-1, 1, (length, batch, HEADS * 3 * SIZE)))
    grad = nd.array(rng.uniform(-1, 1, (length, batch, HEADS * SIZE)))
    valid = nd.array(rng.randint(length // 2, length + 1, batch))
    qkv.attach_grad()
    mx.nd.waitall()

    def number(a: Any) -> float:
        return float(a.reshape(-1)[:1].asscalar())

    def training() -> float:
        with autograd.record():
            y = net(qkv, valid)
        y.backward(grad)
        return number(qkv.grad)

    def inference() -> float:
        return number(net(qkv, valid))

    return {"training": training, "inference": inference}


def timed(call: Callable[[], float], seconds: float, clock: str) -> list[float]:
    """Call repeatedly for about the given time, at least twice; return the seconds of each call."""
    now = time.process_time if clock == "cpu" else time.perf_counter
    call()
    found: list[float] = []
    while len(found) < 2 or sum(found) < seconds:
        begin = now()
        call()
        found.append(now() - begin)
    return found


def resident_mib(key: str) -> float:
    """Return a figure of this process's resident set: VmRSS now, VmHWM at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"attention_pass: /proc/self/status has no {key}")


def step_memory(call: Callable[[], float]) -> float:
    """Return how far the resident set grows in a call, in MiB."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = resident_mib("VmRSS")
    call()
    return resident_mib("VmHWM") - before


def serve() -> None:
    """Answer requests: build a case (the answer has its memory), or time a phase of it."""
    calls: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "build":
            calls = build(*request["case"])
            answer: Any = {"mib": step_memory(calls["training"]), "value": calls["inference"]()}
        else:
            times = timed(calls[request["phase"]], request["seconds"], request["clock"])
            answer = {"seconds": times}
        print(json.dumps(answer), flush=True)


def main() -> None:
    """Run all cases, print the table, write the file."""
    from common import Timing, progress, report, result, table, usable_cores, write_json
    from worker_process import WorkerProcess

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side: %(default)s")
    parser.add_argument("--turn", type=float, default=0.3, help="seconds of a turn: %(default)s")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    parser.add_argument("--json", metavar="FILE", help="write the result here")
    args = parser.parse_args()

    rows, results = [], []
    for batch, length in progress(CASES, len(CASES), "sizes"):
        sides = {
            name: WorkerProcess(
                ["env", f"MXLITE_SKIP_PASSES={skipped}", sys.executable, __file__, "--serve"],
                args.threads,
                own_path=True,
            )
            for name, skipped in SIDES.items()
        }
        label = f"b{batch} h{HEADS} s{length} d{SIZE}"
        built = {name: side.ask(do="build", case=(batch, length)) for name, side in sides.items()}
        values = [answer["value"] for answer in built.values()]
        if abs(values[0] - values[1]) > 1e-5 * abs(values[1]) + 1e-6:
            raise SystemExit(f"attention_pass: {label}: results must agree, got {built}")
        for name, answer in built.items():
            entry = {"name": f"{label} training memory {name}", "unit": "MiB", "better": "lower"}
            results.append({**entry, "median": answer["mib"], "measurements": 1})
        for phase in PHASES:
            turns: dict[str, list[float]] = {name: [] for name in SIDES}
            for _ in range(args.rounds):
                for name, side in sides.items():
                    found = side.ask(do="time", phase=phase, seconds=args.turn, clock=args.clock)
                    turns[name].append(min(found["seconds"]))
            row = [f"{label} {phase}"]
            for name, seconds in turns.items():
                timing = Timing(seconds)
                results.append(result(f"{label} {phase} {name}", timing, unit="ms", amount=1e3))
                row.append(f"{1e3 * timing.median:.2f}")
            ratio = Timing([b / a for a, b in zip(turns["fused"], turns["separate"])])
            low, high = ratio.quartiles
            memory = [f"{built[n]['mib']:.0f}" if phase == "training" else "" for n in SIDES]
            rows.append([*row, f"{ratio.median:.2f}", f"{low:.2f}-{high:.2f}", *memory])
            name = f"{label} {phase} ratio"
            results.append(result(name, ratio, unit="separate / fused", better="higher"))
        for side in sides.values():
            side.close()
    head = ["case", "fused ms", "separate ms", "ratio", "quartiles", "fused MiB", "separate MiB"]
    print(table(head, rows))
    if args.json:
        settings = {k: v for k, v in vars(args).items() if k != "json"}
        settings["load_at_end"] = os.getloadavg()[0]
        write_json(args.json, report("attention_pass", settings, results))


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
