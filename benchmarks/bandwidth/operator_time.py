"""Compares the time of a collective operator inside a hybridized graph with the communicator alone.

    python benchmarks/bandwidth/operator_time.py --json result.json

Each rank has one core. Two hybridized graphs take turns with direct calls of the communicator:

- with: a chain of ``--length`` all-reduces of 4 KB, each of which needs the last one's result, with
  an element-wise operator between them;
- without: the same chain without the all-reduces;
- apart: as many all-reduces that do not need each other, whose results are added up;
- communicator: all-reduces of 4 KB in place, called by the thread that waits for them.

An operator's time is (with - without) / length; it includes what the graph does to begin and end
the collective. The time of independent operators is apart / length, with their multiplications and
the sum. The results are this time and its difference from the communicator's time, in microseconds:
medians and quartiles of rounds, the slowest rank of each round.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common  # noqa: E402
from command_line import add_options  # noqa: E402
from ranks import run_ranks, take_core  # noqa: E402

WAYS = ("communicator", "without", "with", "apart")


def graphs(length: int) -> dict[str, Any]:
    """Return the hybridized blocks."""
    from mxlite.gluon import HybridBlock

    class Chain(HybridBlock):
        def __init__(self, collectives: bool) -> None:
            super().__init__()
            self.collectives = collectives

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            for _ in range(length):
                x = x * 0.5
                if self.collectives:
                    x = F.contrib.all_reduce(x)
            return x

    class Apart(HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            # The factors differ, because equal calls of other operators would be merged.
            return F.add_n(*(F.contrib.all_reduce(x * (0.5 + i)) for i in range(length)))

    found = {"without": Chain(False), "with": Chain(True), "apart": Apart()}
    for block in found.values():
        block.initialize()
        block.hybridize(static_alloc=True, static_shape=True)
    return found


def work(args: argparse.Namespace) -> None:
    """Measure as one of the ranks."""
    if args.pin:
        take_core()
    import mxlite as mx
    import mxlite.horovod as hvd

    hvd.init()
    group = mx._core.make_communicator()
    data = mx.nd.full((args.bytes // 4,), 1.0)
    calls: dict[str, Callable[[], Any]] = {
        name: (lambda block=block: block(data)) for name, block in graphs(args.length).items()
    }
    own = mx.nd.zeros((args.bytes // 4,))

    def communicate() -> Any:
        for _ in range(args.length):
            group.all_reduce(own, own)
        return own

    calls["communicator"] = communicate

    def slowest(seconds: float) -> float:
        array = mx.nd.array([seconds], dtype="float64")
        group.all_reduce(array, array, "max")
        return float(array.asscalar())

    def block(way: str, count: int) -> float:
        mx.nd.waitall()
        group.barrier()
        begin = time.perf_counter()
        for _ in range(count):
            calls[way]().wait_to_read()
        return slowest(time.perf_counter() - begin) / count / args.length * 1e6

    ranks = group.size
    values = {way: float(calls[way]()[0].asscalar()) for way in ("with", "apart")}
    wanted = {
        "with": (0.5 * ranks) ** args.length,
        "apart": sum(ranks * (0.5 + i) for i in range(args.length)),
    }
    for way, value in wanted.items():
        if abs(values[way] - value) > 1e-5 * value:
            raise SystemExit(f"{way}: the result must be {value}, got {values[way]}")
    counts = {}
    for way in WAYS:
        block(way, 10)
        counts[way] = max(1, round(args.turn / (block(way, 10) * args.length * 1e-6)))
    rounds = []
    for number in range(args.rounds):
        order = [WAYS[(number + place) % len(WAYS)] for place in range(len(WAYS))]
        rounds.append({way: block(way, counts[way]) for way in order})
    if group.rank == 0:
        Path(args.output).write_text(json.dumps(rounds))
    group.barrier()


def run_job(args: argparse.Namespace) -> list[dict[str, float]]:
    """Run the ranks and return the microseconds of each way, by round."""
    with tempfile.TemporaryDirectory() as folder:
        output = str(Path(folder) / "result.json")
        options = ["--pin" if args.pin else "--no-pin"]
        for name in ("bytes", "length", "turn", "rounds"):
            options += [f"--{name}", str(getattr(args, name))]
        run_ranks(__file__, args.np, output, options)
        return json.loads(Path(output).read_text())


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, "json", "np", rounds=15, turn=0.3)
    parser.add_argument("--bytes", type=int, default=4096, help="of the array: %(default)s")
    parser.add_argument("--length", type=int, default=64, help="all-reduces of a graph")
    parser.add_argument(
        "--pin",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="give each rank one core (default), or let all ranks use all cores",
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args)
        return
    rounds = run_job(args)
    measured = {way: [one[way] for one in rounds] for way in WAYS}
    for way in ("with", "apart"):
        measured[f"operator, {way}"] = [
            one[way] - (one["without"] if way == "with" else 0) for one in rounds
        ]
        measured[f"over the communicator, {way}"] = [
            value - one["communicator"] for value, one in zip(measured[f"operator, {way}"], rounds)
        ]
    found, rows = [], []
    for name, values in measured.items():
        timing = common.Timing(values)
        low, high = timing.quartiles
        entry = {"name": name, "unit": "us", "median": timing.median, "q1": low, "q3": high}
        found.append(entry)
        rows.append([name, f"{timing.median:.2f}", f"{low:.2f} to {high:.2f}"])
    print(f"all-reduce of {args.bytes} B on {args.np} ranks, us for each of {args.length}\n")
    print(common.table(["", "median", "quartiles"], rows))
    if args.json:
        names = ("np", "bytes", "length", "pin", "turn", "rounds")
        settings = {name: getattr(args, name) for name in names}
        common.write_json(args.json, common.report("operator_time", settings, found, each=rounds))


if __name__ == "__main__":
    main()
