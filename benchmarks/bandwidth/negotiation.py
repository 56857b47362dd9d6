"""Measures the cost of the ranks' agreement on what to reduce, with fusion and cache on and off.

    python benchmarks/bandwidth/negotiation.py -np 2 --tensors 160 --json result.json

Each step submits all-reduces of ``--tensors`` tensors of ``--elements`` float32 values, all at once
as a list ("together"), or one call after the other ("singly"), and waits for them. The results are
these times:

- negotiation: the time that the negotiating thread takes from reading its queue to the list of
operations. It finds names in the cache, makes frames, reads the frames of all ranks, matches and
fuses. This time does not include waiting for other ranks and transfers;
- transfers: the time of reducing, of copies into and out of the fusion buffer, and of waiting for
slower ranks;
- step: the time of the calling thread from the first call until all results are available.

Each time is the median over the steps on the slowest rank, and then the median over ``--rounds``
fresh jobs of each setting. Means over the steps, which include disturbances by the machine, are in
brackets.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common  # noqa: E402
from command_line import add_options  # noqa: E402
from ranks import run_ranks  # noqa: E402

SETTINGS: dict[str, dict[str, str]] = {
    "fusion and cache": {},
    "no fusion": {"HOROVOD_FUSION_THRESHOLD": "0"},
    "no cache": {"HOROVOD_CACHE_CAPACITY": "0"},
    "neither": {"HOROVOD_FUSION_THRESHOLD": "0", "HOROVOD_CACHE_CAPACITY": "0"},
}


def work(args: argparse.Namespace) -> None:
    """Measure one setting, as one rank."""
    import mxlite as mx
    import mxlite.horovod as hvd

    hvd.init()
    names = [f"stage{i // 40 + 1}_conv{i}_weight" for i in range(args.tensors)]
    grads = [mx.nd.ones((args.elements,)) for _ in names]
    mx.nd.waitall()
    terms = {"op": "sum"}

    def together() -> None:
        mx._core.comm_submit("allreduce", names, grads, grads, terms)

    def singly() -> None:
        for name, grad in zip(names, grads):
            hvd.allreduce_(grad, name=name, op=hvd.Sum)

    found: dict[str, Any] = {}
    for how, submit in (("together", together), ("singly", singly)):
        for _ in range(args.warm_up):
            submit()
            mx.nd.waitall()
        hvd.allreduce(mx.nd.zeros((1,)), name="meet").wait_to_read()
        first = before = mx._core.comm_stats()
        steps: list[tuple[float, float, float]] = []
        for _ in range(args.steps):
            begin = time.perf_counter()
            submit()
            mx.nd.waitall()
            seconds = time.perf_counter() - begin
            after = mx._core.comm_stats()
            negotiation = after["negotiation_ns"] - before["negotiation_ns"]
            transfers = after["collective_ns"] - before["collective_ns"]
            steps.append((negotiation / 1e3, transfers / 1e3, seconds * 1e6))
            before = after
        columns = list(zip(*steps))
        mine = [statistics.median(c) for c in columns] + [statistics.fmean(c) for c in columns]
        worst = hvd.allreduce(mx.nd.array(mine, dtype="float64"), op=hvd.Max).asnumpy().tolist()
        keys = ("negotiation_us", "transfers_us", "step_us")
        found[how] = {
            **dict(zip(keys, worst[:3])),
            **dict(zip((f"mean_{key}" for key in keys), worst[3:])),
            "rounds": (before["rounds"] - first["rounds"]) / args.steps,
            "responses": (before["responses"] - first["responses"]) / args.steps,
            "cached": (before["cache_hits"] - first["cache_hits"])
            / (args.steps * args.tensors * hvd.size()),
        }
    if hvd.rank() == 0:
        Path(args.output).write_text(json.dumps(found))


def run_job(args: argparse.Namespace, setting: str) -> dict[str, Any]:
    """Run one job and return what it measured."""
    with tempfile.TemporaryDirectory() as folder:
        output = str(Path(folder) / "found.json")
        options = ["--tensors", str(args.tensors), "--elements", str(args.elements)]
        options += ["--steps", str(args.steps)]
        environment = {"MXLITE_CPU_THREADS": "1", **SETTINGS[setting]}
        run_ranks(__file__, args.np, output, options, environment, timeout=300, what=f"{setting}: ")
        found: dict[str, Any] = json.loads(Path(output).read_text())
        return found


def medians(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of each figure over jobs."""
    return {
        how: {key: statistics.median(job[how][key] for job in jobs) for key in jobs[0][how]}
        for how in jobs[0]
    }


def main() -> int:
    """Run the command line; 1 if negotiation in steady state takes longer than the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, "json", "np", rounds=3)
    parser.add_argument("--tensors", type=int, default=160)
    parser.add_argument("--elements", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--limit", type=float, default=50.0, help="microseconds per step")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args)
        return 0
    jobs: dict[str, list[dict[str, Any]]] = {setting: [] for setting in SETTINGS}
    for _ in range(args.rounds):
        for setting in SETTINGS:
            jobs[setting].append(run_job(args, setting))
    found = {setting: medians(each) for setting, each in jobs.items()}
    print(f"{args.np} processes, {args.tensors} tensors of {4 * args.elements} bytes, per step\n")
    print(f"{'':>18}{'':>10}{'negotiation':>18}{'transfers':>18}{'step':>18}{'rounds':>8}"
          f"{'operations':>12}{'by number':>11}")  # fmt: skip
    for setting, each in found.items():
        for how, f in each.items():
            line = f"{setting:>18}{how:>10}"
            for key in ("negotiation_us", "transfers_us", "step_us"):
                both = f"{f[key]:.1f} ({f[f'mean_{key}']:.0f}) us"
                line += f"{both:>18}"
            print(f"{line}{f['rounds']:>8.1f}{f['responses']:>12.1f}{f['cached']:>11.0%}")
    steady = found["fusion and cache"]["together"]["negotiation_us"]
    good = steady <= args.limit
    print(f"\nsteady state: {steady:.1f} us per step, limit {args.limit:.0f} us")
    if args.json:
        result = {
            "benchmark": "negotiation",
            "machine": common.machine(),
            "options": {k: getattr(args, k) for k in ("np", "tensors", "elements", "steps")},
            "within_limit": good,
            "limit_us": args.limit,
            "settings": found,
            "each": jobs,
        }
        common.write_json(args.json, result)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
