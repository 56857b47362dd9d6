"""Compares a multilayer perceptron that ranks divide with the whole perceptron on one rank.

    python benchmarks/bandwidth/tensor_parallel.py --json result.json

The network has dense layers 1024-4096-1024 with relu between them. If it is divided, its first
layer is column-parallel and its second layer row-parallel. Each rank has one core. The same ranks
run the network in three ways, which take turns in another order in each round, always with the same
batch:

- one: rank 0 computes the whole network; the other ranks sleep, so that rank 0 has the memory and
  the caches of the machine for itself;
- each: every rank computes the whole network by itself, all at the same time;
- divided: the ranks compute one network together.

A training step is forward, backward with the gradient of the data, and SGD; inference is forward.
The results are medians and quartiles over the rounds: the time of a step on rank 0 (on the slowest
rank, if several ranks compute), and the speedups ``one / divided`` and ``each / divided``, which
are quotients of such times. Before anything is timed, the outputs of both networks and their
gradients of the data are compared.
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

WAYS = ("one", "each", "divided")
TASKS = ("training", "inference")
UNITS, HIDDEN = 1024, 4096


class Network:
    """A network of one rank and its steps."""

    def __init__(self, batch: int, group: Any = None) -> None:
        import mxlite as mx
        from mxlite.gluon import Trainer, nn
        from mxlite.gluon.contrib import parallel

        self.mx = mx
        mx.random.seed(1)
        self.net = nn.HybridSequential()
        if group is None:
            self.net.add(nn.Dense(HIDDEN, in_units=UNITS, activation="relu", flatten=False))
            self.net.add(nn.Dense(UNITS, in_units=HIDDEN, flatten=False))
        else:
            column = parallel.ColumnParallelDense(
                HIDDEN, group, in_units=UNITS, activation="relu", flatten=False
            )
            self.net.add(column)
            self.net.add(parallel.RowParallelDense(UNITS, group, in_units=HIDDEN, flatten=False))
        self.net.initialize(mx.init.Xavier())
        self.net.hybridize(static_alloc=True, static_shape=True)
        mx.random.seed(2)
        self.data = mx.nd.random.normal(shape=(batch, UNITS))
        self.head = mx.nd.random.normal(shape=(batch, UNITS))
        self.data.attach_grad()
        self.batch = batch
        options = {"learning_rate": 1e-6}
        # Needs no store, because all ranks compute on the same data, so no gradient must be summed.
        self.trainer = Trainer(self.net.collect_params(), "sgd", options, kvstore=None)

    def training(self) -> Any:
        """Queue a step and return its output."""
        with self.mx.autograd.record():
            output = self.net(self.data)
        output.backward(self.head)
        self.trainer.step(self.batch)
        return output

    def inference(self) -> Any:
        """Queue a forward pass and return its output."""
        return self.net(self.data)


def timed(step: Callable[[], Any], wait: Callable[[], None], count: int) -> float:
    """Return the seconds of a step; each ends before the next one begins."""
    wait()
    begin = time.perf_counter()
    for _ in range(count):
        step().wait_to_read()
    wait()
    return (time.perf_counter() - begin) / count


def compare(whole: Network, divided: Network) -> dict[str, float]:
    """Return the largest relative differences; exit if they are not small."""
    found = {}
    pairs = {"output": (whole.training(), divided.training())}
    pairs["gradient"] = (whole.data.grad, divided.data.grad)
    for name, (wanted, given) in pairs.items():
        scale = float(wanted.abs().max().asscalar())
        found[name] = float((wanted - given).abs().max().asscalar()) / scale
        # Sums of 4096 float32 products differ by their order.
        if not found[name] < 1e-5:
            raise SystemExit(f"{name} of the divided network differs by {found[name]:.2g}")
    return found


def work(args: argparse.Namespace) -> None:
    """Compute in all ways as one of the ranks."""
    rank = take_core()
    import mxlite as mx
    import mxlite.horovod as hvd

    mesh = mx.parallel.mesh(tensor=-1)
    rounds = []
    result: dict[str, Any] = {"rounds": rounds, "differences": {}}
    for batch in args.batches:
        whole, divided = Network(batch), Network(batch, mesh.group("tensor"))
        result["differences"][batch] = compare(whole, divided)
        networks = {"one": whole, "each": whole, "divided": divided}

        def slowest(seconds: float) -> float:
            array = mx.nd.array([seconds], dtype="float64")
            return float(hvd.allreduce(array, op=hvd.Max, name="slowest").asscalar())

        def block(
            way: str, task: str, count: int, networks: dict[str, Network] = networks
        ) -> float:
            slowest(0)  # all ranks begin
            computes = rank == 0 or way != "one"
            step = getattr(networks[way], task)
            return slowest(timed(step, mx.nd.waitall, count) if computes else 0)

        for task in TASKS:
            for way in WAYS:
                block(way, task, 5)
            count = max(3, round(args.turn / block("each", task, 5)))
            for number in range(args.rounds):
                order = [WAYS[(number + place) % len(WAYS)] for place in range(len(WAYS))]
                seconds = {way: block(way, task, count) for way in order}
                rounds.append({"batch": batch, "task": task, "steps": count, "seconds": seconds})
    if rank == 0:
        Path(args.output).write_text(json.dumps(result))
    slowest(0)


def run_job(args: argparse.Namespace) -> dict[str, Any]:
    """Run the ranks and return what they measured."""
    with tempfile.TemporaryDirectory() as folder:
        output = str(Path(folder) / "result.json")
        options = ["--batches", *map(str, args.batches)]
        options += ["--turn", str(args.turn), "--rounds", str(args.rounds)]
        run_ranks(__file__, args.np, output, options)
        return json.loads(Path(output).read_text())


def entries(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return medians and quartiles of each batch and task."""
    found = []
    for batch, task in dict.fromkeys((r["batch"], r["task"]) for r in rounds):
        mine = [r["seconds"] for r in rounds if (r["batch"], r["task"]) == (batch, task)]
        entry: dict[str, Any] = {"batch": batch, "task": task, "ways": {}, "speedups": {}}
        for way in WAYS:
            timing = common.Timing([seconds[way] for seconds in mine])
            entry["ways"][way] = {"median": timing.median, "quartiles": timing.quartiles}
        for way in WAYS[:2]:
            timing = common.Timing([seconds[way] / seconds["divided"] for seconds in mine])
            entry["speedups"][way] = {"median": timing.median, "quartiles": timing.quartiles}
        found.append(entry)
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, "json", "np", rounds=12, turn=1.0)
    parser.add_argument("--batches", nargs="+", type=int, default=[32, 256], help="rows of data")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args)
        return
    result = run_job(args)
    found = entries(result["rounds"])
    head = ["batch, task", *(f"{way} ms" for way in WAYS), "one / divided", "each / divided"]
    rows = []
    for entry in found:
        ways = [f"{entry['ways'][way]['median'] * 1e3:.2f}" for way in WAYS]
        speedups = []
        for way in WAYS[:2]:
            speedup = entry["speedups"][way]
            low, high = speedup["quartiles"]
            speedups.append(f"{speedup['median']:.2f} ({low:.2f} to {high:.2f})")
        rows.append([f"{entry['batch']}, {entry['task']}", *ways, *speedups])
    print(f"dense {UNITS}-{HIDDEN}-{UNITS} on {args.np} ranks of one core each\n")
    print(common.table(head, rows))
    if args.json:
        settings = {name: getattr(args, name) for name in ("np", "batches", "turn", "rounds")}
        content = common.report("tensor_parallel", settings, found, **result)
        common.write_json(args.json, content)


if __name__ == "__main__":
    main()
