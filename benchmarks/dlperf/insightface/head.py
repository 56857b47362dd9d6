r"""Time the head of partial FC: mxlite with all centres and with a part, and PyTorch with a part.

    python benchmarks/dlperf/insightface/head.py --classes 100000 --ratio 0.1 --batch 64 \
        --torch-python PATH/bin/python

A step gets embeddings and labels, and ends when the centres are updated and the gradient of the
embeddings is computed. Each system runs in a process of its own; they take turns. Printed are the
medians and quartiles of the rounds, of the times and of the ratios to mxlite with a part. The loss
of the first step is printed: with ratio 1 it is the same for both.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Callable

import numpy as np

UNITS, SCALE, ANGLE, RATE, MOMENTUM, DECAY = 512, 64.0, 0.5, 0.1, 0.9, 5e-4
Step = Callable[[np.ndarray, np.ndarray], float]


def make_mxlite(classes: int, ratio: float) -> Step:
    """Return a step of PartialFC."""
    from mxlite import autograd, nd
    from mxlite.gluon.contrib import parallel

    head = parallel.PartialFC(
        classes, UNITS, sample_ratio=ratio, margins=(1, ANGLE, 0), scale=SCALE,
        learning_rate=RATE, momentum=MOMENTUM, wd=DECAY,
    )  # fmt: skip

    def step(embeddings: np.ndarray, labels: np.ndarray) -> float:
        x, label = nd.array(embeddings), nd.array(labels, dtype="int64")
        x.attach_grad()
        with autograd.record():
            losses = head(x, label)
        losses.backward()
        head.step(len(labels))
        x.grad.wait_to_read()
        head.weight.wait_to_read()
        return float(losses.mean().asscalar())

    return step


def make_torch(classes: int, ratio: float) -> Step:
    """Return the same step in plain PyTorch: random keys, top-k, gathered rows."""
    import torch
    from torch.nn import functional

    weight, momentum = torch.randn(classes, UNITS) * 0.01, torch.zeros(classes, UNITS)
    count = max(1, round(classes * ratio))

    def step(embeddings: np.ndarray, labels: np.ndarray) -> float:
        x, label = torch.from_numpy(embeddings).requires_grad_(), torch.from_numpy(labels)
        keys = torch.rand(classes)
        keys[label] = 2.0
        rows = torch.topk(keys, count)[1].sort()[0]
        position = torch.searchsorted(rows, label)
        chosen, moving = weight[rows].requires_grad_(), momentum[rows]
        cosines = functional.linear(functional.normalize(x), functional.normalize(chosen))
        target = cosines[torch.arange(len(label)), position].clamp(-1 + 1e-6, 1 - 1e-6)
        one_hot = functional.one_hot(position, count)
        logits = cosines + one_hot * (torch.cos(torch.acos(target) + ANGLE) - target)[:, None]
        loss = functional.cross_entropy(logits * SCALE, position)
        loss.backward()
        with torch.no_grad():
            assert chosen.grad is not None
            moving = MOMENTUM * moving - RATE * (chosen.grad + DECAY * chosen)
            momentum[rows] = moving
            weight[rows] = chosen + moving
        return float(loss)

    return step


MAKERS = {"mxlite": make_mxlite, "torch": make_torch}


def work(args: argparse.Namespace) -> None:
    """Answer each request, a line with a number of steps, with seconds of a step and a loss."""
    step = MAKERS[args.worker](args.classes, args.ratio)
    random = np.random.RandomState(0)
    batches = [
        (
            random.randn(args.batch, UNITS).astype(np.float32),
            random.randint(0, args.classes, args.batch),
        )
        for _ in range(8)
    ]
    for line in sys.stdin:
        losses = []
        begin = time.perf_counter()
        for number in range(json.loads(line)["steps"]):
            losses.append(step(*batches[number % len(batches)]))
        seconds = (time.perf_counter() - begin) / len(losses)
        print(json.dumps({"seconds": seconds, "loss": losses[0]}), flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--classes", type=int, default=100000)
    add("--ratio", type=float, default=0.1)
    add("--batch", type=int, default=64)
    add("--threads", type=int, default=2)
    add("--rounds", type=int, default=5)
    add("--steps", type=int, default=5, help="steps of a round")
    add("--torch-python", help="Python that has PyTorch; without it mxlite runs alone")
    add("--json", type=Path, help="file for the result")
    add("--worker", choices=MAKERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args)
        return
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import common
    from worker_process import WorkerProcess

    systems = [("mxlite", args.ratio, sys.executable), ("mxlite", 1.0, sys.executable)]
    if args.torch_python:
        systems.append(("torch", args.ratio, args.torch_python))
    workers = {}
    for name, ratio, python in systems:
        sizes = ["--classes", args.classes, "--ratio", ratio, "--batch", args.batch]
        command = [python, __file__, "--worker", name, *sizes]
        workers[f"{name} ratio {ratio}"] = WorkerProcess(
            list(map(str, command)), args.threads, name == "mxlite"
        )
    try:
        losses = {name: worker.ask(steps=2)["loss"] for name, worker in workers.items()}
        seconds: dict[str, list[float]] = {name: [] for name in workers}
        for _ in range(args.rounds):
            for name, worker in workers.items():
                seconds[name].append(worker.ask(steps=args.steps)["seconds"])
    finally:
        for worker in workers.values():
            worker.close()
    first, *others = seconds
    results = [
        common.result(name, common.Timing(values, args.steps), unit="ms", amount=1000)
        for name, values in seconds.items()
    ]
    for name in others:
        ratios = [other / own for other, own in zip(seconds[name], seconds[first])]
        unit = f"{name} / {first}"
        results.append(
            common.result("head", common.Timing(ratios, args.steps), unit=unit, better="higher")
        )
    for entry in results:
        print(
            f"{entry['name']}: {entry['median']:.2f} {entry['unit']} ({entry['q1']:.2f} to "
            f"{entry['q3']:.2f})"
        )
    for name, loss in losses.items():
        print(f"{name}: first loss {loss:.3f}")
    if args.json:
        settings = {
            key: getattr(args, key) for key in ("classes", "batch", "threads", "rounds", "steps")
        }
        content = common.report("head of partial FC", settings, results, first_losses=losses)
        common.write_json(args.json, content)


if __name__ == "__main__":
    main()
