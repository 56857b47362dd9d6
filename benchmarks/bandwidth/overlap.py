"""What processes of one core each keep of independent runs, and how much communication is hidden.

    python benchmarks/bandwidth/overlap.py --network resnet18_v1 --batch 8 --json result.json

Jobs of four kinds take turns, all with the same network, batch and cores:

- independent: processes that train by themselves at the same time;
- in step: they wait for each other with 4 bytes after each step. What that costs is the machine's
  unevenness: no job whose ranks need each other's gradients can do better;
- job: the same processes average their gradients (DistributedTrainer);
- job, late: as before, but gradients are exchanged after backward has ended.

Reported are the images per second of all processes together, the job's share of the independent
runs' sum and of those in step, and from a profile of some steps how much of the communication ran
while an operator did (its time includes waiting for the other ranks). ``--trace`` writes the
profiles of all ranks as one Chrome trace, ``--measured`` a step's seconds and when each gradient
was there: for scaling_model.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

KINDS = ("independent", "in step", "job", "job, late")
JOBS = KINDS[2:]  # that exchange gradients


def covered(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the union of intervals, in order."""
    union: list[tuple[float, float]] = []
    for begin, end in sorted(intervals):
        if union and begin <= union[-1][1]:
            union[-1] = union[-1][0], max(union[-1][1], end)
        else:
            union.append((begin, end))
    return union


def common_length(a: list[tuple[float, float]], b: list[tuple[float, float]]) -> float:
    """Return the length of what lies in both unions."""
    total, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def hidden_share(path: str) -> dict[str, float]:
    """Return communication of a trace in microseconds, and the share that runs beside operators."""
    from mxlite.tools.trace import read_trace

    intervals = read_trace(path).intervals
    work = covered([(i.begin, i.end) for i in intervals if i.category == "operator"])
    talk = covered([(i.begin, i.end) for i in intervals if i.category == "communication"])
    talked = sum(end - begin for begin, end in talk)
    return {"communication_us": talked, "hidden": common_length(talk, work) / talked}


class Training:
    """One process's network and steps."""

    def __init__(self, args: argparse.Namespace, distributed: bool) -> None:
        import mxlite as mx
        import mxlite.horovod as hvd

        self.mx, self.batch = mx, args.batch
        mx.random.seed(1)
        self.net = mx.gluon.model_zoo.vision.get_model(args.network, classes=args.classes)
        self.net.initialize(mx.init.Xavier())
        self.net.hybridize(static_alloc=True, static_shape=True)
        shape = (args.batch, 3, args.side, args.side)
        self.data = mx.nd.random.uniform(shape=shape)
        self.label = mx.nd.zeros((args.batch,))
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        options = {"learning_rate": 0.001, "momentum": 0.9, "wd": 1e-4}
        self.net(self.data)
        params = self.net.collect_params()
        if distributed:
            hvd.broadcast_parameters(params, root_rank=0)
            self.trainer = hvd.DistributedTrainer(params, "sgd", options)
        else:
            self.trainer = mx.gluon.Trainer(params, "sgd", options, kvstore=None)

    def backward(self) -> Any:
        """Queue forward and backward."""
        with self.mx.autograd.record():
            loss = self.loss(self.net(self.data), self.label)
        loss.backward()
        return loss

    def step(self, late: bool) -> None:
        """Queue one step; late: gradients travel when all are there."""
        loss = self.backward()
        if late:
            self.mx.nd.waitall()
        self.trainer.step(self.batch)
        loss.wait_to_read()

    def ready_times(self) -> dict[str, Any]:
        """Return a step's seconds, and for each gradient the share of backward behind it, bytes."""
        mx = self.mx
        mx.nd.waitall()
        begin = time.perf_counter()
        with mx.autograd.record():
            loss = self.loss(self.net(self.data), self.label)
        loss.wait_to_read()
        forward = time.perf_counter() - begin
        begin = time.perf_counter()
        loss.backward()
        found = []
        params = [p for p in self.net.collect_params().values() if p.grad_req != "null"]
        for param in reversed(params):
            grad = param.grad()
            grad.wait_to_read()
            found.append((time.perf_counter() - begin, grad.size * 4))
        backward = time.perf_counter() - begin
        begin = time.perf_counter()
        self.trainer.step(self.batch)
        mx.nd.waitall()
        return {
            "batch": self.batch,
            "forward": forward,
            "backward": backward,
            "update": time.perf_counter() - begin,
            "gradients": [(at / backward, size) for at, size in found],
        }


def timed(
    run: Callable[[], None],
    wait: Callable[[], None],
    seconds: float,
    agree: Callable[[int], int],
) -> tuple[int, float]:
    """Return how many calls were made in about ``seconds``, and the seconds they took.

    ``agree`` makes one number of those of all ranks that must call equally often.
    """
    begin = time.perf_counter()
    run()
    wait()
    once = time.perf_counter() - begin
    count = agree(max(3, int(seconds / once)))
    begin = time.perf_counter()
    for _ in range(count):
        run()
    wait()
    return count, time.perf_counter() - begin


def work(args: argparse.Namespace) -> None:
    """Train as one process of a job of one kind."""
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    import mxlite as mx
    import mxlite.horovod as hvd

    hvd.init()

    def meet() -> None:
        hvd.allreduce(mx.nd.zeros((1,)), name="meet").wait_to_read()

    late = args.kind.endswith("late")
    training = Training(args, args.kind in JOBS)
    for _ in range(3):
        training.step(late)
    mx.nd.waitall()
    meet()
    if args.kind == "independent":
        hvd.shutdown()  # all begin together and know nothing of each other from here on

    def agree(count: int) -> int:
        if args.kind == "independent":
            return count
        return int(hvd.broadcast_object(count, root_rank=0, name="count"))

    def step() -> None:
        training.step(late)
        if args.kind == "in step":
            meet()

    count, seconds = timed(step, mx.nd.waitall, args.seconds, agree)
    result: dict[str, Any] = {"rate": count * args.batch / seconds, "steps": count}
    if args.kind in JOBS:
        trace = str(Path(args.output) / f"trace.{rank}")
        mx.profiler.set_config(profile_all=True, filename=trace)
        meet()
        mx.profiler.set_state("run")
        for _ in range(3):
            training.step(late)
        mx.nd.waitall()
        mx.profiler.set_state("stop")
        mx.profiler.dump()
        result.update(hidden_share(trace))
        meet()
        result["measured"] = training.ready_times()
    (Path(args.output) / f"rank.{rank}").write_text(json.dumps(result))


def run_job(args: argparse.Namespace, kind: str, folder: str) -> list[dict[str, Any]]:
    """Run one job and return what its ranks measured."""
    command = [sys.executable, "-m", "mxlite.run", "-np", str(args.np), sys.executable, __file__]
    command += ["--worker", "--kind", kind, "--output", folder, "--network", args.network]
    for name in ("batch", "side", "classes", "seconds"):
        command += [f"--{name}", str(getattr(args, name))]
    environment = dict(os.environ, MXLITE_CPU_THREADS="1", OMP_NUM_THREADS="1")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise SystemExit(f"{kind}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return [json.loads((Path(folder) / f"rank.{r}").read_text()) for r in range(args.np)]


def merged(folder: str, ranks: int) -> dict[str, Any]:
    """Return the traces of all ranks as one; the processes of a host share a clock."""
    events = []
    for rank in range(ranks):
        content = json.loads((Path(folder) / f"trace.{rank}").read_text())
        for event in content["traceEvents"]:
            event["pid"] = 100 * rank + event["pid"]
            if event["ph"] == "M":
                event["args"] = {"name": f"rank {rank}: {event['args']['name']}"}
            events.append(event)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-np", type=int, default=2, help="processes")
    parser.add_argument("--network", default="resnet18_v1", help="of the model zoo")
    parser.add_argument("--batch", type=int, default=8, help="images per process")
    parser.add_argument("--side", type=int, default=112, help="of an image")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each job")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--trace", help="all ranks' profiles of a job, one Chrome trace")
    parser.add_argument("--measured", help="for scaling_model.py")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args)
        return 0
    found: dict[str, list[list[dict[str, Any]]]] = {kind: [] for kind in KINDS}
    for _ in range(args.rounds):
        for kind in KINDS:
            with tempfile.TemporaryDirectory() as folder:
                found[kind].append(run_job(args, kind, folder))
                if kind == "job" and args.trace:
                    Path(args.trace).write_text(json.dumps(merged(folder, args.np)))
    rates = {
        kind: statistics.median(sum(rank["rate"] for rank in job) for job in jobs)
        for kind, jobs in found.items()
    }
    shares = {
        kind: [
            sum(r["rate"] for r in job) / sum(r["rate"] for r in other)
            for job, other in zip(found["job"], found[kind])
        ]
        for kind in KINDS[:2]
    }
    hidden = {
        kind: statistics.median(rank["hidden"] for job in found[kind] for rank in job)
        for kind in JOBS
    }
    print(
        f"{args.network}, {args.np} processes, {args.batch} images of {args.side} each per step\n"
    )
    for kind, rate in rates.items():
        line = f"{kind:>12}{rate:>10.2f} images/s{rate / rates['independent']:>9.1%}"
        print(
            line + (f", {hidden[kind]:.0%} of the communication hidden" if kind in hidden else "")
        )
    print()
    for kind, values in shares.items():
        text = ", ".join(f"{value:.1%}" for value in values)
        print(f"job / {kind}: {statistics.median(values):.1%} (rounds: {text})")
    summary = {
        "images_per_second": rates,
        "share_of_independent": statistics.median(shares["independent"]),
        "share_of_in_step": statistics.median(shares["in step"]),
        "shares_by_round": shares,
        "hidden": hidden,
    }
    if args.measured:
        Path(args.measured).write_text(json.dumps(found["job"][0][0]["measured"]) + "\n")
    if args.json:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        import common

        for jobs in found.values():
            for job in jobs:
                for rank in job:
                    rank.pop("measured", None)
        options = {k: getattr(args, k) for k in ("np", "network", "batch", "side", "seconds")}
        result = {
            "benchmark": "overlap",
            "machine": common.machine(),
            "options": options,
            **summary,
            "each": found,
        }
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
