"""Kills or stops a random rank of a job, many times, and counts what the others do.

    python tests/faults/lost_ranks.py kill --runs 100 --json result.json
    python tests/faults/lost_ranks.py stop --runs 50 --timeout 2 --json result.json
    python tests/faults/lost_ranks.py kill --runs 50 --job tensor --json result.json

A job sums arrays (``allreduce``), or trains layers that are divided among the ranks (``tensor``:
2 or 3 ranks, or a mesh of 2 x 2). Each run has 2 to 4 ranks. A survivor must raise within 1 s of
the kill, or within the timeout plus 1 s of the stop, and name the lost rank; no run may hang.
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

# Each rank writes its process number, then steps; a survivor writes when and why it raised.
RANK = """
import json, os, sys, time
import mxlite as mx
import mxlite.horovod as hvd
hvd.init()
folder, job, rank = sys.argv[1], sys.argv[2], hvd.rank()


def all_reduces():
    grads = [mx.nd.ones((n,)) for n in (10, 5000, 300000)]

    def step():
        for i, grad in enumerate(grads):
            hvd.allreduce_(grad, name=f"grad{i}")
        mx.nd.waitall()

    return step


def divided_layers():
    from mxlite import autograd, gluon
    from mxlite.gluon.contrib import parallel

    data = 2 if hvd.size() == 4 else 1
    mesh = mx.parallel.mesh(data=data, tensor=hvd.size() // data)
    group = mesh.group("tensor")
    net = gluon.nn.HybridSequential()
    net.add(
        parallel.ColumnParallelDense(48, group, in_units=32, activation="relu"),
        parallel.RowParallelDense(8, group, in_units=48),
    )
    net.initialize()
    net.hybridize()
    trainer = hvd.DistributedTrainer(
        net.collect_params(), "sgd", {"learning_rate": 1e-3}, process_set=mesh.group("data")
    )
    x = mx.nd.random.normal(shape=(16, 32))

    def step():
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(16)
        mx.nd.waitall()

    return step


try:
    run = {"allreduce": all_reduces, "tensor": divided_layers}[job]()
    for step in range(10**9):
        run()
        if step == 3:
            with open(f"{folder}/pid.tmp{rank}", "w") as file:
                file.write(str(os.getpid()))
            os.rename(f"{folder}/pid.tmp{rank}", f"{folder}/pid.{rank}")
except mx.MXNetError as error:
    with open(f"{folder}/raised.{rank}", "w") as file:
        json.dump({"time": time.time(), "text": str(error), "step": step}, file)
    sys.exit(3)
"""


def one_run(args: argparse.Namespace, seed: int, folder: Path) -> dict[str, Any]:
    """Return what happened in one job."""
    rng = random.Random(seed)
    ranks = rng.randint(2, 4)
    victim = rng.randrange(ranks)
    job = start_job(folder, RANK, ranks, str(folder), args.job, MXLITE_COMM_TIMEOUT=args.timeout)
    result: dict[str, Any] = {"seed": seed, "ranks": ranks, "victim": victim}

    def failed(outcome: str) -> dict[str, Any]:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        return {**result, "outcome": outcome, "output": tail(folder)}

    def number_started() -> int:
        return len(list(folder.glob("pid.[0-9]")))

    limit = time.monotonic() + 60
    while number_started() < ranks and job.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)
    if number_started() < ranks:
        return failed("did not start")
    time.sleep(rng.random() * 0.2)
    process = int((folder / f"pid.{victim}").read_text())
    lost = time.time()
    os.kill(process, signal.SIGKILL if args.what == "kill" else signal.SIGSTOP)
    survivors = [r for r in range(ranks) if r != victim]
    allowed = 1.0 if args.what == "kill" else args.timeout + 1.0
    raised = [folder / f"raised.{r}" for r in survivors]
    limit = time.monotonic() + allowed + 20
    while not all(file.exists() for file in raised) and time.monotonic() < limit:
        time.sleep(0.01)
    time.sleep(0.1)
    if args.what == "stop":
        os.kill(process, signal.SIGKILL)
    try:
        job.wait(timeout=20)
    except subprocess.TimeoutExpired:
        return failed("hang")
    if not all(file.exists() for file in raised):
        return failed("no error")
    answers = [json.loads(file.read_text()) for file in raised]
    result["seconds"] = [answer["time"] - lost for answer in answers]
    named = all(f"rank {victim}" in answer["text"] for answer in answers)
    late = max(result["seconds"]) > allowed
    result["outcome"] = "late" if late else "ok" if named else "not named"
    result["text"] = answers[0]["text"].splitlines()[0]
    result["code"] = job.returncode
    return result


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["kill", "stop"])
    parser.add_argument("--job", choices=["allreduce", "tensor"], default="allreduce")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--timeout", type=float, default=2.0, help="MXLITE_COMM_TIMEOUT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json")
    args = parser.parse_args()
    begin = time.monotonic()
    runs = []
    for i in range(args.runs):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(one_run(args, args.seed + i, Path(folder)))
        if runs[-1]["outcome"] != "ok":
            print(json.dumps(runs[-1]), flush=True)
    seconds = sorted(s for run in runs for s in run.get("seconds", []))
    good = sum(run["outcome"] == "ok" for run in runs)
    summary = {
        "what": args.what,
        "job": args.job,
        "runs": args.runs,
        "good": good,
        "hangs": sum(run["outcome"] == "hang" for run in runs),
        "survivors": len(seconds),
        "timeout": args.timeout,
        "seconds_median": statistics.median(seconds) if seconds else None,
        "seconds_max": max(seconds, default=None),
        "seeds": [args.seed, args.seed + args.runs - 1],
        "failure_rate_below": round(3 / args.runs, 4) if good == args.runs else None,
        "took": round(time.monotonic() - begin, 1),
        "example": runs[0].get("text"),
    }
    write(summary, args.json, each=runs)
    return 0 if good == args.runs else 1


if __name__ == "__main__":
    sys.exit(main())
