"""Compares data-parallel processes with independent runs, and measures hidden communication.

    python benchmarks/bandwidth/overlap.py --network resnet18_v1 --batch 8 --json result.json
    python benchmarks/bandwidth/overlap.py --network bert --batch 8 --json result.json

The same processes train in five ways, all with the same network, batch and cores:

- independent: each process trains by itself, at the same time;
- in step: as independent, but the processes average one small gradient of the first layer, which
backward computes last. So each step ends when the slower rank has ended it, and no job whose ranks
need each other's gradients can be faster;
- job: the processes average their gradients (DistributedTrainer);
- store: the processes add their gradients (Trainer with `dist_sync`, without servers);
- job, late: as job, but gradients are exchanged after backward has ended.

The network is one of the model zoo on random images, or ``bert``: an encoder of BERT's base size
with 2 layers and a vocabulary of 8192 words on random texts of 128 words, which predicts each word.

The ways take turns every few seconds, in another order in each round, so that changes of the
machine's speed, as in virtual machines, affect all of them. The results are the images or texts per
second of all processes together; the speeds of job and store as shares of the speeds of independent
and in step; the speed of store as a share of that of job (medians and quartiles of rounds); the
processor time of a step; and, from a profile of some steps, how much of the communication ran at
the same time as an operator (waiting for other ranks counts as communication). ``--ways`` names the
ways to run. ``--trace`` writes the profiles of all ranks as one Chrome trace. ``--measured`` writes
the seconds of a step and the time at which each gradient was computed, for scaling_model.py.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common  # noqa: E402
from command_line import add_options  # noqa: E402
from ranks import ONE_CORE, run_ranks, take_core  # noqa: E402

KINDS = ("independent", "in step", "job", "store", "job, late")
JOBS = KINDS[2:]  # ways that exchange gradients
LAYERS, WORDS, LENGTH = 2, 8192, 128  # BERT's size


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
    """Return the length of the intersection of two unions."""
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

    def __init__(self, args: argparse.Namespace, way: str) -> None:
        import mxlite as mx
        import mxlite.horovod as hvd

        self.mx, self.average, self.batch = mx, hvd.allreduce_, args.batch
        # A store adds gradients, so it divides by the batch of all ranks.
        self.step_batch = args.batch * (hvd.size() if way == "store" else 1)
        mx.random.seed(1)
        if args.network == "bert":
            self.net, self.data, self.label = self._bert()
        else:
            self.net = mx.gluon.model_zoo.vision.get_model(args.network, classes=args.classes)
            shape = (args.batch, 3, args.side, args.side)
            self.data = mx.nd.random.uniform(shape=shape)
            self.label = mx.nd.zeros((args.batch,))
        self.net.initialize(mx.init.Xavier())
        self.net.hybridize(static_alloc=True, static_shape=True)
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        options = {"learning_rate": 0.001, "momentum": 0.9, "wd": 1e-4}
        self.net(self.data)
        params = self.net.collect_params()
        learned = [p for p in params.values() if p.grad_req != "null"]
        self.last = next((p for p in learned if p.data().size < 1000), learned[0])
        if way == "job":
            hvd.broadcast_parameters(params, root_rank=0)
            self.trainer = hvd.DistributedTrainer(params, "sgd", options)
        elif way == "store":
            store = mx.kv.create("dist_sync")
            self.trainer = mx.gluon.Trainer(params, "sgd", options, kvstore=store)
        else:
            self.trainer = mx.gluon.Trainer(params, "sgd", options, kvstore=None)

    def _bert(self) -> tuple[Any, Any, Any]:
        """Return a network that predicts words, random texts, and the words themselves."""
        gluon = self.mx.gluon

        class Words(gluon.HybridBlock):
            def __init__(self) -> None:
                super().__init__()
                with self.name_scope():
                    self.encoder = gluon.contrib.nn.transformer.BERTModel(
                        vocab_size=WORDS, num_layers=LAYERS, use_pooler=False
                    )
                    self.decoder = gluon.nn.Dense(WORDS, flatten=False, in_units=768)

            def hybrid_forward(self, F: Any, words: Any) -> Any:
                return self.decoder(self.encoder(words))

        words = self.mx.nd.random.randint(0, WORDS, shape=(self.batch, LENGTH)).astype("float32")
        return Words(), words, words

    def backward(self) -> Any:
        """Queue forward and backward."""
        with self.mx.autograd.record():
            loss = self.loss(self.net(self.data), self.label)
        loss.backward()
        return loss

    def step(self, kind: str) -> None:
        """Queue one step."""
        loss = self.backward()
        if kind == "in step":
            self.average(self.last.grad(), name="last")
        elif kind == "job, late":
            self.mx.nd.waitall()
        self.trainer.step(self.step_batch)
        loss.wait_to_read()

    def ready_times(self) -> dict[str, Any]:
        """Return a step's seconds, and for each gradient the share of backward after it, bytes."""
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


def timed(run: Callable[[], None], wait: Callable[[], None], count: int) -> tuple[float, float]:
    """Return the seconds and the processor's seconds that calls take."""
    begin, processor = time.perf_counter(), time.process_time()
    for _ in range(count):
        run()
    wait()
    return time.perf_counter() - begin, time.process_time() - processor


def work(args: argparse.Namespace) -> None:
    """Train in all ways as one of the processes."""
    rank = take_core()
    import mxlite as mx
    import mxlite.horovod as hvd

    hvd.init()

    def meet() -> None:
        hvd.allreduce(mx.nd.zeros((1,)), name="meet").wait_to_read()

    alone, together, store = (Training(args, way) for way in ("alone", "job", "store"))
    trainings = {"job": together, "job, late": together, "store": store}

    def step(kind: str) -> None:
        trainings.get(kind, alone).step(kind)

    def block(kind: str, count: int) -> tuple[float, float]:
        meet()
        return timed(lambda: step(kind), mx.nd.waitall, count)

    # Runs more steps first if bucket sizes are tuned, because tuning takes some steps.
    tuned = not args.bucket_mb
    for kind in args.ways:
        block(kind, 45 if tuned and kind in JOBS[:2] else 3)
    mine = max(2, round(3 * args.seconds / block("job", 3)[0]))
    count = int(hvd.broadcast_object(mine, root_rank=0, name="count"))
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in args.ways}
    for number in range(args.rounds):
        for place in range(len(args.ways)):
            kind = args.ways[(number + place) % len(args.ways)]
            seconds, processor = block(kind, count)
            found[kind].append(
                {
                    "rate": count * args.batch / seconds,
                    "steps": count,
                    "processor_ms_per_step": processor / count * 1e3,
                }
            )
    result: dict[str, Any] = {"rounds": found, "hidden": {}}
    for kind in (kind for kind in args.ways if kind in JOBS):
        trace = str(Path(args.output) / f"trace.{kind}.{rank}")
        mx.profiler.set_config(profile_all=True, filename=trace)
        meet()
        mx.profiler.set_state("run")
        for _ in range(5):
            step(kind)
        mx.nd.waitall()
        mx.profiler.set_state("stop")
        mx.profiler.dump()
        result["hidden"][kind] = hidden_share(trace)
    meet()
    result["measured"] = together.ready_times()
    (Path(args.output) / f"rank.{rank}").write_text(json.dumps(result))


def run_job(args: argparse.Namespace, folder: str) -> list[dict[str, Any]]:
    """Run the processes and return what each has measured."""
    options = ["--network", args.network]
    for name in ("batch", "side", "classes", "seconds", "rounds"):
        options += [f"--{name}", str(getattr(args, name))]
    options += ["--ways", *args.ways]
    environment = dict(ONE_CORE)
    if args.bucket_mb:
        environment["MXLITE_BUCKET_MB"] = str(args.bucket_mb)
        options += ["--bucket-mb", str(args.bucket_mb)]
    run_ranks(__file__, args.np, folder, options, environment)
    return [json.loads((Path(folder) / f"rank.{r}").read_text()) for r in range(args.np)]


def merged(folder: str, ranks: int) -> dict[str, Any]:
    """Return the traces of all ranks as one; the processes of a host share a clock."""
    events = []
    for rank in range(ranks):
        content = json.loads((Path(folder) / f"trace.job.{rank}").read_text())
        for event in content["traceEvents"]:
            event["pid"] = 100 * rank + event["pid"]
            if event["ph"] == "M":
                event["args"] = {"name": f"rank {rank}: {event['args']['name']}"}
            events.append(event)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, "json", "np", rounds=12)
    parser.add_argument("--network", default="resnet18_v1", help="of the model zoo, or bert")
    parser.add_argument("--batch", type=int, default=8, help="images per process")
    parser.add_argument("--side", type=int, default=112, help="of an image")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3.0, help="for a way at a time")
    parser.add_argument("--ways", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--bucket-mb", type=int, help="of gradients; default: tuned in 90 steps")
    parser.add_argument("--trace", help="all ranks' profiles of a job, one Chrome trace")
    parser.add_argument("--measured", help="for scaling_model.py")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if "job" not in args.ways or len(set(args.ways)) < len(args.ways):
        parser.error(f"--ways must have each way once and 'job' among them, got {args.ways}")
    if args.worker:
        work(args)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        ranks = run_job(args, folder)
        if args.trace:
            Path(args.trace).write_text(json.dumps(merged(folder, args.np)))
    # The measurements of each rank, by kind and round.
    found = {kind: list(zip(*(rank["rounds"][kind] for rank in ranks))) for kind in args.ways}
    sums = {kind: [sum(r["rate"] for r in block) for block in found[kind]] for kind in args.ways}
    rates = {kind: statistics.median(values) for kind, values in sums.items()}
    pairs = [(job, kind) for job in JOBS[:2] for kind in KINDS[:2]] + [("store", "job")]
    shares = {
        f"{job} / {kind}": [a / b for a, b in zip(sums[job], sums[kind])]
        for job, kind in pairs
        if job in sums and kind in sums
    }
    processor = {
        kind: statistics.median(r["processor_ms_per_step"] for block in found[kind] for r in block)
        for kind in args.ways
    }
    hidden = {
        kind: statistics.median(rank["hidden"][kind]["hidden"] for rank in ranks)
        for kind in ranks[0]["hidden"]
    }
    unit = "texts" if args.network == "bert" else "images"
    size = f"{LENGTH} words" if args.network == "bert" else f"{args.side}"
    print(f"{args.network}, {args.np} processes, {args.batch} {unit} of {size} each per step\n")
    for kind, rate in rates.items():
        line = f"{kind:>12}{rate:>10.2f} {unit}/s{processor[kind]:>9.1f} ms of a core per step"
        print(
            line + (f", {hidden[kind]:.0%} of the communication hidden" if kind in hidden else "")
        )
    print()
    for kind, values in shares.items():
        text = ", ".join(f"{value:.1%}" for value in values)
        low, high = common.Timing(values).quartiles
        print(f"{kind}: {statistics.median(values):.1%} ({low:.1%} to {high:.1%}; rounds: {text})")
    summary = {
        f"{unit}_per_second": rates,
        "shares": {kind: statistics.median(values) for kind, values in shares.items()},
        "share_quartiles": {
            kind: common.Timing(values).quartiles for kind, values in shares.items()
        },
        "shares_by_round": shares,
        "processor_ms_per_step": processor,
        "hidden": hidden,
    }
    if args.measured:
        Path(args.measured).write_text(json.dumps(ranks[0]["measured"]) + "\n")
    if args.json:
        names = ("np", "network", "batch", "side", "seconds", "rounds", "ways", "bucket_mb")
        settings = {name: getattr(args, name) for name in names}
        result = common.report("overlap", settings, [], **summary, each=found)
        common.write_json(args.json, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
