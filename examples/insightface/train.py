r"""Train a face network with a margin softmax whose classes are divided among the ranks.

    python train.py --network y1 --rec faces/train.rec --val faces/lfw.bin --steps 2000
    mxlite-run -np 4 python train.py --network r50 --margins 1,0,0.4 --sample-ratio 0.1 --rec ...
    python train.py --network r18 --synthetic 100000 --steps 40

Each rank reads its part of the images. A run continues from the last checkpoint in
``--checkpoints``, on any number of ranks.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from pathlib import Path
from typing import Any

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from faces import FaceImages, RandomImages
from mxlite import autograd, checkpoint, gluon
from mxlite.contrib import amp
from mxlite.gluon.contrib import parallel
from networks import NETWORKS, make_network
from verification import Result, embed_pairs, read_pairs, verify


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--network", default="r50", choices=NETWORKS)
    add("--embedding", type=int, help="features; default 512, for y1 and s4 128")
    add("--image-size", type=int, default=112)
    add("--mesh", default="", help="data=N, to check the number of ranks")
    add("--rec", help="record file of a face set, with its .idx beside it")
    add("--val", nargs="*", default=[], help=".bin files of pairs")
    add("--synthetic", type=int, default=0, metavar="CLASSES", help="random images, for speed")
    add("--head", default="sharded", choices=["sharded", "replicated"],
        help="classes divided among the ranks, or all of them on each (data parallel)")  # fmt: skip
    add("--margins", default="1,0.5,0", help="m1,m2,m3 of cos(m1 * t + m2) - m3")
    add("--scale", type=float, default=64.0)
    add("--sample-ratio", type=float, default=1.0, help="share of the centres of a step")
    add("--batch-size", type=int, default=64, help="images of a rank")
    add("--steps", type=int, default=1000)
    add("--lr", type=float, default=0.1)
    add("--lr-steps", default="", help="steps at which the rate falls to a tenth")
    add("--warmup", type=int, default=0, help="steps")
    add("--momentum", type=float, default=0.9)
    add("--wd", type=float, default=5e-4)
    add("--dropout", type=float, default=0.4)
    add("--dtype", default="float32", choices=["float32", "bfloat16"])
    add("--threads", type=int, default=4, help="that decode images")
    add("--seed", type=int, default=100)
    add("--frequent", type=int, default=20, help="steps between log lines")
    add("--verbose", type=int, default=2000, help="steps between verifications")
    add("--save-interval", type=int, default=0, help="steps; 0: only at the end")
    add("--checkpoints", help="folder of checkpoints; no files without it")
    add("--json", help="file for losses and verifications")
    return parser


class ReplicatedHead(gluon.HybridBlock):
    """The same loss with all centres on every rank, whose gradients the trainer sums."""

    def __init__(
        self, classes: int, units: int, margins: list[float], scale: float, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.weight = self.params.get(
                "weight", shape=(classes, units), init=mx.init.Normal(0.01)
            )
            self.loss = parallel.VocabParallelSoftmaxCELoss(
                classes, "classes", margin=tuple(margins), scale=scale
            )

    def hybrid_forward(self, F: Any, x: Any, label: Any, weight: Any) -> Any:  # noqa: N803
        """Return the losses of embeddings (batch, units)."""
        unit, centres = F.L2Normalization(x), F.L2Normalization(weight)
        return self.loss(F.dot(unit, centres, transpose_b=True), label)


class Training:
    """Network, head and trainer on the ranks of the job."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        if args.dtype != "float32":
            amp.init(target_dtype=args.dtype)
        axis, _, size = (args.mesh or "data=-1").partition("=")
        try:
            if axis != "data":
                raise ValueError(f"--mesh must be data=N, got {args.mesh}")
            # If the axis ``classes`` has size 1, its process set has this rank only.
            self.mesh = mx.parallel.mesh(data=int(size), classes=1).use()
            margins = [float(margin) for margin in args.margins.split(",")]
        except ValueError as error:
            raise SystemExit(f"insightface: {error}") from error
        mesh = self.mesh
        source = RandomImages if args.synthetic else FaceImages
        self.images = source(args, mesh.coordinate("data"), mesh.axis_size("data"))
        mx.random.seed(args.seed)
        self.net = make_network(args.network, args.embedding, args.image_size, args.dropout)
        self.net.initialize(mx.init.Xavier("gaussian", "out", 2))
        pixels = mx.nd.zeros((1, 3, args.image_size, args.image_size), dtype="uint8")
        units = self.net(pixels).shape[1]
        self.net.hybridize(static_alloc=True, static_shape=True)
        params = self.net.collect_params()
        self.replicated: ReplicatedHead | None = None
        self.head: parallel.PartialFC | None = None
        if args.head == "replicated":
            if args.sample_ratio != 1:
                raise SystemExit("insightface: --sample-ratio needs --head sharded")
            self.replicated = ReplicatedHead(
                self.images.classes, units, margins, args.scale, prefix="head_"
            )
            self.replicated.initialize()
            self.replicated.hybridize()
            params.update(self.replicated.collect_params())
        else:
            self.head = parallel.PartialFC(
                self.images.classes,
                units,
                "data",
                sample_ratio=args.sample_ratio,
                margins=margins,
                scale=args.scale,
                momentum=args.momentum,
                wd=args.wd,
                seed=args.seed,
            )
        milestones = [int(step) for step in args.lr_steps.split(",") if step]
        self.schedule = mx.lr_scheduler.MultiFactorScheduler(
            milestones or [args.steps + 1], 0.1, args.lr, args.warmup
        )
        self.trainer = hvd.DistributedTrainer(
            params,
            "sgd",
            {"lr_scheduler": self.schedule, "momentum": args.momentum, "wd": args.wd},
            process_set="data",
        )
        mx.random.seed(args.seed + 1 + mesh.rank)  # each rank has dropout of its own

    def step(self, number: int) -> mx.nd.NDArray:
        """Train on the batch of a step, from 0; return this rank's losses."""
        images, labels = self.images.read()
        head = self.head if self.replicated is None else self.replicated
        with autograd.record():
            losses = head(self.net(images), labels)
        losses.backward()
        self.trainer.step(len(images))
        if self.head is not None:
            self.head.learning_rate = self.schedule(number + 1)
            self.head.step(len(images))
        return losses

    def mean_loss(self, losses: mx.nd.NDArray) -> float:
        """Return the mean over the samples of all ranks; all ranks call it."""
        return float(mx.nd.contrib.all_reduce(losses.mean().reshape((1,)), op="mean").asscalar())

    def verify(self, path: str) -> Result:
        """Return the result of a .bin file."""
        images, same = read_pairs(path)
        embeddings = embed_pairs(self.net, images, self.args.image_size, self.args.batch_size)
        return verify(embeddings, same)

    def _centres(self, step: int) -> Path:
        return Path(self.args.checkpoints) / f"centres-{step:08d}"

    def save(self, step: int) -> None:
        """Write a checkpoint that any number of ranks can load; all ranks call it."""
        if not self.args.checkpoints:
            return
        if self.head is not None:
            self.head.save(self._centres(step))
        if self.mesh.rank == 0:
            manager = checkpoint.CheckpointManager(self.args.checkpoints, keep=2)
            manager.save(step, **self._parts())
        self.mesh.barrier()

    def _parts(self) -> dict[str, Any]:
        head = {} if self.replicated is None else {"head": self.replicated}
        return {"net": self.net, "trainer": self.trainer, **head}

    def resume(self) -> int:
        """Load the last checkpoint if there is one; return the number of steps done."""
        if not self.args.checkpoints:
            return 0
        found = checkpoint.CheckpointManager(self.args.checkpoints).load_latest(**self._parts())
        if found is None:
            return 0
        step = int(found["step"])
        if self.head is not None:
            self.head.load(self._centres(step))
        self.images.skip(step)
        mx.random.seed(self.args.seed + 1 + self.mesh.rank + step)
        return step


class Log:
    """Prints the lines of InsightFace's MXNet scripts on rank 0."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._begin = time.time()

    def speed(self, step: int, steps: int, loss: float) -> None:
        """Print the rate of the last ``steps`` steps."""
        args, mesh = self._training.args, self._training.mesh
        now = time.time()
        rate = steps * args.batch_size / (now - self._begin)
        total = rate * mesh.axis_size("data")
        self._begin = now
        if mesh.rank:
            return
        epoch = (step - 1) // self._training.images.steps_of_epoch
        if args.head == "replicated":
            logging.info(
                "Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec\tlossvalue=%f",
                epoch,
                step,
                total,
                loss,
            )
            return
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        print(
            f"rank-id:0:{clock}-Iter:{step} Rank:{rate:.2f} it/sec Total:{total:.2f} it/sec "
            f"[{epoch}][loss]:{loss:.2f}",
            flush=True,
        )

    def verification(self, path: str, step: int, result: Result) -> None:
        """Print the result of a .bin file."""
        name = Path(path).stem
        print(f"[{name}][{step}]XNorm: {result.norm:f}")
        print(f"[{name}][{step}]Accuracy-Flip: {result.accuracy:1.5f}+-{result.std:1.5f}")
        print(f"[{name}][{step}]Validation-Rate: {result.validation_rate:1.5f}", flush=True)
        self._begin = time.time()


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    args = make_parser().parse_args(argv)
    if bool(args.rec) == bool(args.synthetic):
        raise SystemExit("insightface: either --rec or --synthetic must be given")
    logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s", level=logging.INFO)
    training = Training(args)
    begin = last = training.resume()
    report: dict[str, Any] = {"classes": training.images.classes, "losses": {}, "results": {}}
    log = Log(training)
    best: dict[str, float] = {}
    for step in range(begin + 1, args.steps + 1):
        losses = training.step(step - 1)
        if step % args.frequent == 0 or step == args.steps:
            loss = training.mean_loss(losses)
            if not np.isfinite(loss):
                raise SystemExit(f"insightface: the loss of step {step} is {loss}")
            log.speed(step, step - last, loss)
            report["losses"][step], last = loss, step
        if training.mesh.rank == 0 and (step % args.verbose == 0 or step == args.steps):
            for path in args.val:
                result = training.verify(path)
                log.verification(path, step, result)
                name = Path(path).stem
                best[name] = max(best.get(name, 0.0), result.accuracy)
                print(f"[{name}][{step}]Accuracy-Highest: {best[name]:1.5f}", flush=True)
                report["results"].setdefault(name, {})[step] = result._asdict()
        if args.save_interval and step % args.save_interval == 0 or step == args.steps:
            training.save(step)
    if training.mesh.rank == 0:
        print("Training is over!", flush=True)
        if args.json:
            Path(args.json).write_text(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
