"""Kills or stops random ranks of elastic trainings, many times, and compares the losses.

    python tests/faults/elastic.py --kills 50 --json result.json

Each job has 2 to 4 ranks; every lost one is replaced by a new process. A recovery counts if the
survivors have trained on within the limit. At the end the loss of every step must have the bits
of an uninterrupted run: one process that computes each rank's part in turn and adds the gradients
in the order of ranks, from the first step on. An uninterrupted run with one process and the whole
batch must give the same curve within the tolerance.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fault_jobs import start_job, tail, write

BATCH = 60  # samples of all ranks: 2, 3 or 4 of them
SAMPLES = 1500
TOLERANCE = 1e-3  # relative, of a loss: sums of floats in another order

# The training, and its replay: argv is the folder, or "replay" and a file with ranks by step.
TRAINING = """
import json, os, random, sys
import numpy as np
import mxlite as mx
import mxlite.horovod as hvd
from mxlite import autograd, gluon
from mxlite.gluon import nn

BATCH, SAMPLES, COMMIT = {batch}, {samples}, 4
rng = np.random.default_rng(0)
data = rng.standard_normal((SAMPLES, 1, 8, 8)).astype("float32")
label = (data.reshape(SAMPLES, 64) @ rng.standard_normal((64, 10))).argmax(1).astype("float32")

def network():
    mx.random.seed(1)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, activation="tanh"), nn.Flatten(), nn.Dense(32, activation="tanh"),
                nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 1, 8, 8)))
    net.hybridize()
    return net

loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
OPTIONS = dict(learning_rate=0.004, momentum=0.9)

def gradients(net, chosen):
    with autograd.record():
        loss = loss_of(net(mx.nd.array(data[chosen])), mx.nd.array(label[chosen])).sum()
    loss.backward()
    return loss.detach()

def replay(file):
    ranks_by_step = json.load(open(file))
    net = network()
    params = [p for p in net.collect_params().values() if p.grad_req != "null"]
    trainer = gluon.Trainer(net.collect_params(), "sgd", OPTIONS)
    losses = []
    for step, ranks in enumerate(ranks_by_step):
        epoch, number = divmod(step, SAMPLES // BATCH)
        order = list(range(SAMPLES))
        random.Random(f"3 {{epoch}}").shuffle(order)
        block = order[number * BATCH : (number + 1) * BATCH]
        total, sums = np.float32(0), None
        for rank in range(ranks):
            total = total + gradients(net, block[rank::ranks]).asnumpy()[0]
            grads = [p.grad().asnumpy() for p in params]
            sums = grads if sums is None else [a + b for a, b in zip(sums, grads)]
        for p, value in zip(params, sums):
            p.grad()[:] = value
        trainer._scale = 1.0 / ranks
        trainer.step(BATCH // ranks)
        losses.append(float(total) / BATCH)
    print(json.dumps(losses))

def train(folder):
    hvd.init()
    net = network()
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", OPTIONS)
    sampler = hvd.elastic.ElasticSampler(SAMPLES, seed=3)
    state = hvd.elastic.TrainState(net, trainer, sampler=sampler, step=0)

    def arrived():
        with open(f"{{folder}}/here.tmp{{os.getpid()}}", "w") as file:
            json.dump({{"rank": hvd.rank(), "size": hvd.size(), "pid": os.getpid()}}, file)
        os.rename(f"{{folder}}/here.tmp{{os.getpid()}}", f"{{folder}}/here.{{os.getpid()}}")

    state.register_reset_callbacks([arrived])
    arrived()

    @hvd.elastic.run
    def steps(state):
        while True:
            mine = BATCH // hvd.size()
            indices = list(state.sampler)
            for begin in range(0, len(indices), mine):
                loss = gradients(net, indices[begin : begin + mine])
                trainer.step(mine)
                flag = mx.nd.array([float(os.path.exists(f"{{folder}}/finish"))])
                total = hvd.allreduce(mx.nd.concat(loss, flag, dim=0), op=hvd.Sum, name="loss")
                total = total.asnumpy()
                with open(f"{{folder}}/log.{{os.getpid()}}", "a") as file:
                    entry = (state.step, float(total[0]) / BATCH, hvd.rank(), hvd.size())
                    file.write(json.dumps(entry) + "\\n")
                state.step += 1
                state.sampler.record_batch(begin // mine, mine)
                if state.step % COMMIT == 0:
                    state.commit()
                if total[1]:
                    return
            state.sampler.set_epoch(state.sampler.epoch + 1)
            state.commit()

    steps(state)

replay(sys.argv[2]) if sys.argv[1] == "replay" else train(sys.argv[1])
"""


class Job:
    """A running training."""

    def __init__(self, folder: Path, ranks: int, timeout: float) -> None:
        self.folder, self.ranks = folder, ranks
        text = TRAINING.format(batch=BATCH, samples=SAMPLES)
        options = ("--max-np", str(ranks))
        self.process = start_job(
            folder, text, ranks, str(folder), options=options, MXLITE_COMM_TIMEOUT=timeout
        )

    def processes(self) -> list[dict[str, int]]:
        """Return ranks, sizes and numbers of the processes that live."""
        entries = [json.loads(file.read_text()) for file in self.folder.glob("here.[0-9]*")]
        return [e for e in entries if Path(f"/proc/{e['pid']}").exists()]

    def log(self) -> list[tuple[float, int, float, int, int]]:
        """Return (process, step, loss, rank, size) of all steps, sorted by process."""
        lines = []
        for file in self.folder.glob("log.*"):
            for line in file.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    lines.append((int(file.suffix[1:]), *json.loads(line)))
        return lines

    def wait(self, reached, limit: float) -> bool:
        """Wait until a condition holds; False after the limit, or when the job ends before."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if reached():
                return True
            if self.process.poll() is not None:
                return reached()
            time.sleep(0.02)
        return False

    def full(self) -> bool:
        """Return whether all ranks have written that they have joined."""
        here = self.processes()
        return sorted(e["rank"] for e in here if e["size"] == self.ranks) == list(range(self.ranks))

    def trained(self, since: dict[int, int], victim: int) -> bool:
        """Return whether every process except the victim has made further steps in a full job."""
        counts = self.steps()
        alive = [e["pid"] for e in self.processes() if e["pid"] != victim]
        return len(alive) == self.ranks and all(
            counts.get(pid, 0) > since.get(pid, 0) + 2 for pid in alive
        )

    def steps(self) -> dict[int, int]:
        """Return how many steps each process has done."""
        counts: dict[int, int] = {}
        for pid, *_ in self.log():
            counts[pid] = counts.get(pid, 0) + 1
        return counts

    def end(self) -> None:
        """End the remaining processes."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
        for entry in self.processes():
            os.kill(entry["pid"], signal.SIGKILL)


def effective(log: list[tuple[float, int, float, int, int]]) -> tuple[list[float], list[int]]:
    """Return each step's last loss and number of ranks; ranks must agree on them."""
    last: dict[int, dict[int, tuple[float, int]]] = {}
    for pid, step, loss, _rank, size in log:  # the lines of a process are in order
        last.setdefault(step, {})[pid] = (loss, size)
    losses, ranks = [], []
    for step in range(max(last) + 1):
        # A lost rank's steps may have been repeated: the survivors' lines are used.
        votes = list(last[step].values())
        best = max(set(votes), key=votes.count)
        losses.append(best[0])
        ranks.append(best[1])
    return losses, ranks


def replayed(job: Job, ranks: list[int]) -> list[float]:
    """Return the losses of an uninterrupted run with the given number of ranks at each step."""
    file = job.folder / "ranks.json"
    file.write_text(json.dumps(ranks))
    answer = subprocess.run(
        [sys.executable, str(job.folder / "rank.py"), "replay", str(file)],
        env=dict(os.environ, MXLITE_CPU_THREADS="1"),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(answer.stdout.splitlines()[-1])


def one_job(args: argparse.Namespace, seed: int, kills: int, folder: Path) -> dict[str, Any]:
    """Run a job that loses a number of ranks."""
    rng = random.Random(seed)
    ranks = rng.randint(2, 4)
    job = Job(folder, ranks, args.timeout)
    events: list[dict[str, object]] = []
    result: dict[str, Any] = {"seed": seed, "ranks": ranks, "events": events}

    def failed(outcome: str) -> dict[str, Any]:
        return {**result, "outcome": outcome, "output": tail(folder)}

    try:
        if not job.wait(lambda: job.full() and job.trained({}, -1), 90):
            return failed("did not start")
        for number in range(kills):
            time.sleep(rng.random() * 0.5)
            victim = rng.choice(job.processes())
            how = "stop" if (number + seed) % args.stop_every == 0 else "kill"
            before = job.steps()
            begin = time.monotonic()
            os.kill(victim["pid"], signal.SIGSTOP if how == "stop" else signal.SIGKILL)
            limit = args.limit + (args.timeout if how == "stop" else 0)
            good = job.wait(lambda pid=victim["pid"], since=before: job.trained(since, pid), limit)
            seconds = time.monotonic() - begin
            events.append(
                {"how": how, "rank": victim["rank"], "seconds": round(seconds, 3), "ok": good}
            )
            if not good:
                return failed("hang")
        (folder / "finish").touch()
        if not job.wait(lambda: job.process.poll() is not None, 60):
            return failed("no end")
        if job.process.returncode != 0:
            return failed(f"exit code {job.process.returncode}")
    finally:
        job.end()
    losses, by_step = effective(job.log())
    reference, alone = replayed(job, by_step), replayed(job, [1] * len(by_step))
    differ = sum(a != b for a, b in zip(losses, reference))
    drift = max(abs(a / b - 1) for a, b in zip(losses, alone))
    done_twice = sum(rank == 0 for _, _, _, rank, _ in job.log()) - len(losses)
    ok = differ == 0 and drift <= TOLERANCE
    return {
        **result,
        "steps": len(losses),
        "steps_done_again": done_twice,
        "steps_that_differ": differ,
        "drift_from_one_process": drift,
        "outcome": "ok" if ok else "other losses",
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--kills-per-job", type=int, default=5)
    parser.add_argument("--stop-every", type=int, default=5, help="one of so many is a SIGSTOP")
    parser.add_argument("--timeout", type=float, default=3.0, help="MXLITE_COMM_TIMEOUT")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for a recovery")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json")
    args = parser.parse_args()
    begin = time.monotonic()
    runs, left = [], args.kills
    while left > 0:
        kills = min(left, args.kills_per_job)
        left -= kills
        with tempfile.TemporaryDirectory() as folder:
            runs.append(one_job(args, args.seed + len(runs), kills, Path(folder)))
        print(json.dumps(runs[-1]), flush=True)
    events = [event for run in runs for event in run["events"]]
    recovered = sum(bool(event["ok"]) for event in events)
    killed = sorted(e["seconds"] for e in events if e["how"] == "kill" and e["ok"])
    good = all(run["outcome"] == "ok" for run in runs)
    summary = {
        "kills": args.kills,
        "recoveries": recovered,
        "stops_among_them": sum(event["how"] == "stop" for event in events),
        "jobs": len(runs),
        "jobs_with_equal_losses": sum(run["outcome"] == "ok" for run in runs),
        "steps_compared_bit_by_bit": sum(run.get("steps", 0) for run in runs),
        "steps_that_differ": sum(run.get("steps_that_differ", 0) for run in runs),
        "largest_drift_from_one_process": max(
            (run.get("drift_from_one_process", 0) for run in runs), default=0
        ),
        "seconds_to_train_on_median": statistics.median(killed) if killed else None,
        "seconds_to_train_on_max": max(killed, default=None),
        "timeout": args.timeout,
        "seeds": [args.seed, args.seed + len(runs) - 1],
        "failure_rate_below": round(3 / args.kills, 4) if recovered == args.kills else None,
        "took": round(time.monotonic() - begin, 1),
    }
    write(summary, args.json, each=runs)
    return 0 if good and recovered == args.kills else 1


if __name__ == "__main__":
    sys.exit(main())
