r"""Train GPT-2 on one process or on a mesh of them; layers, batches and stages are divided.

    python pretrain.py --data data/text --vocab-size 512 --hidden 128 --layers 4 --heads 4
    mxlite-run -np 4 python pretrain.py --mesh data=2,tensor=2 ...
    mxlite-run -np 4 python pretrain.py --mesh pipeline=2,tensor=2 --micro-batch 2 ...
    mxlite-run -np 8 python pretrain.py --preset 2D_2x4x1_16_1536x16 --synthetic

Losses do not depend on the mesh, except for rounding, if dropout is 0. A run continues from the
last checkpoint in ``--checkpoints``, on any mesh.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from indexed import IndexedTokens, Samples, split_documents
from model import Config, initialize, make_stages
from mxlite import checkpoint
from mxlite.contrib import amp
from mxlite.gluon.contrib import parallel
from presets import LENGTH, case, iteration_flops

AXES = ("pipeline", "data", "tensor")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--mesh", default="", help="such as data=2,tensor=2,pipeline=1; the rest is data")
    add("--preset", help="a case of presets.py: sizes, batches and mesh")
    add("--data", help="path of .bin and .idx without a suffix")
    add("--synthetic", action="store_true", help="random tokens, to measure speed")
    add("--split", default="949,50,1", help="shares for training, validation and test")
    add("--vocab-size", type=int, default=50257)
    add("--hidden", type=int, default=768)
    add("--layers", type=int, default=12)
    add("--heads", type=int, default=12)
    add("--length", type=int, default=1024, help="tokens of a sequence")
    add("--batch", type=int, default=8, help="sequences of an iteration, of all ranks")
    add("--micro-batch", type=int, help="sequences that a rank computes at once; default: all")
    add("--iterations", type=int, default=100)
    add("--lr", type=float, default=1.5e-4)
    add("--min-lr", type=float, default=1e-5)
    add("--warmup", type=float, default=0.01, help="share of the iterations")
    add("--weight-decay", type=float, default=0.01)
    add("--clip", type=float, default=1.0, help="greatest norm of all gradients; 0: any")
    add("--dropout", type=float, default=0.1)
    add("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    add("--sequence-parallel", action="store_true", help="divide LayerNorm and dropout, too")
    add("--recompute", action="store_true", help="compute activations again in backward")
    add("--zero", type=int, default=0, choices=[0, 1], help="1: divide the optimizer's states")
    add("--seed", type=int, default=1234)
    add("--log-interval", type=int, default=10)
    add("--eval-interval", type=int, default=0, help="0: no evaluation")
    add("--eval-iterations", type=int, default=4)
    add("--save-interval", type=int, default=0, help="0: only at the end")
    add("--checkpoints", help="folder of checkpoints; no files without it")
    add("--peak-tflops", type=float, help="of a device, to print the utilization")
    add("--json", help="file for the losses")
    return parser


def parse_mesh(text: str) -> dict[str, int]:
    """Return the sizes of all axes; the data axis takes the remaining ranks."""
    # Ranks that follow each other differ along the last axis first.
    sizes = {"pipeline": 1, "data": -1, "tensor": 1}
    for part in filter(None, text.split(",")):
        axis, _, size = part.partition("=")
        if axis not in AXES or not size.isdecimal() or not int(size):
            raise SystemExit(
                f"gpt: --mesh must be sizes such as data=2,tensor=2,pipeline=1, got {part!r}"
            )
        sizes[axis] = int(size)
    return sizes


class Batches:
    """Reads this rank's part of the batch of an iteration."""

    def __init__(self, args: argparse.Namespace, mesh: mx.parallel.Mesh, kind: int) -> None:
        self._batch, self._length = args.batch, args.length
        self._own = args.batch // mesh.axis_size("data")
        self._first = self._own * mesh.coordinate("data")
        self._vocabulary, self._seed = args.vocab_size, args.seed
        self._samples: Samples | None = None
        if not args.synthetic:
            tokens = IndexedTokens(args.data)
            documents = split_documents(len(tokens), args.split)[kind]
            evaluations = args.iterations // args.eval_interval if args.eval_interval else 0
            rounds = evaluations * args.eval_iterations if kind else args.iterations
            count = max(1, rounds) * args.batch
            self._samples = Samples(tokens, documents, args.length, count, args.seed)

    def read(self, iteration: int) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
        """Return inputs and targets, (sequences of this rank, length)."""
        numbers = np.arange(self._own) + iteration * self._batch + self._first
        if self._samples is not None:
            inputs, targets = self._samples.batch(numbers.tolist())
        else:
            rows = np.stack(
                [
                    np.random.RandomState((self._seed, number)).randint(
                        0, self._vocabulary, self._length + 1
                    )
                    for number in numbers
                ]
            )
            inputs, targets = rows[:, :-1], rows[:, 1:]
        if inputs.max() >= self._vocabulary:
            raise SystemExit(
                f"gpt: tokens of --data must be below --vocab-size {self._vocabulary}, got "
                f"{int(inputs.max())}"
            )
        return mx.nd.array(inputs, dtype="int32"), mx.nd.array(targets, dtype="int32")


class Training:
    """A network on a mesh with its optimizer."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        if args.dtype != "float32":
            amp.init(target_dtype=args.dtype)
        try:
            self.mesh = mx.parallel.mesh(**parse_mesh(args.mesh)).use()
        except ValueError as error:  # sizes that do not multiply to the number of ranks
            raise SystemExit(f"gpt: {error}") from error
        mesh = self.mesh
        self.config = Config(
            args.hidden,
            args.layers,
            args.heads,
            args.length,
            args.vocab_size,
            args.dropout,
            args.sequence_parallel,
        )
        ranks = mesh.axis_size("data")
        micro = args.micro_batch or max(1, args.batch // ranks)
        if args.batch % (ranks * micro):
            raise SystemExit(
                f"gpt: a batch of {args.batch} does not divide into micro batches of {micro} on "
                f"{ranks} data ranks"
            )
        self.micro_batches = args.batch // ranks // micro
        stages = make_stages(self.config, mesh)
        initialize(stages, mesh.coordinate("pipeline"), args.seed)
        self._loss = parallel.VocabParallelSoftmaxCELoss(self.config.padded_vocabulary, "tensor")
        self._loss.hybridize(static_alloc=True)
        self.pipeline = mx.parallel.Pipeline(
            stages, self.micro_batches, mesh, self._scaled_loss, axis="pipeline"
        )
        if args.recompute:
            for block in self.pipeline.stage:
                block.checkpoint()
        self.pipeline.stage.hybridize(static_alloc=True)
        params = self.pipeline.collect_params()
        for param in params.values():
            if param.name.endswith(("bias", "gamma", "beta")):
                param.wd_mult = 0.0
        schedule = mx.lr_scheduler.CosineScheduler(
            args.iterations,
            base_lr=args.lr,
            final_lr=args.min_lr,
            warmup_steps=int(args.warmup * args.iterations),
        )
        self.trainer = hvd.DistributedTrainer(
            params,
            "adamw",
            {
                "lr_scheduler": schedule,
                "wd": args.weight_decay,
                "epsilon": 1e-8,
            },
            process_set="data",
            zero=args.zero,
            clip_global_norm=args.clip or None,
        )
        if args.dtype == "float16":
            amp.init_trainer(self.trainer)

    def _scaled_loss(self, scores: mx.nd.NDArray, targets: mx.nd.NDArray) -> mx.nd.NDArray:
        return self._loss(scores, targets) * self.loss_scale

    @property
    def loss_scale(self) -> float:
        """Factor by which losses are multiplied before backward."""
        scaler = self.trainer._amp_loss_scaler
        return 1.0 if scaler is None else scaler.loss_scale

    def step(self, inputs: mx.nd.NDArray, targets: mx.nd.NDArray) -> mx.nd.NDArray | None:
        """Make an update; return this rank's losses on the last stage."""
        scale = self.loss_scale
        if self.args.dtype == "float16":
            # This does not scale the loss, because _scaled_loss does. On every stage it tells the
            # trainer the scale by which gradients are divided.
            with amp.scale_loss([], self.trainer):
                losses = self.pipeline.step(inputs, targets)
        else:
            losses = self.pipeline.step(inputs, targets)
        self.trainer.step(len(inputs))
        return None if losses is None else losses / scale

    def average(self, losses: mx.nd.NDArray | None) -> float:
        """Return the mean of the losses of all ranks; all ranks call it."""
        total = mx.nd.zeros((2,))
        if losses is not None and self.mesh.coordinate("tensor") == 0:
            total = mx.nd.concat(losses.sum().reshape((1,)), mx.nd.full((1,), losses.size), dim=0)
        total = mx.nd.contrib.all_reduce(total).asnumpy()
        return float(total[0] / total[1])

    def evaluate(self, batches: Batches, first: int) -> float:
        """Return the mean loss of some batches that are not trained on."""
        total = 0.0
        for number in range(self.args.eval_iterations):
            inputs, targets = batches.read(first + number)
            scores = self.pipeline.predict(inputs)
            total += self.average(None if scores is None else self._loss(scores, targets))
        return total / self.args.eval_iterations

    def save(self, iteration: int) -> None:
        """Write a checkpoint that any mesh can load; all ranks call it."""
        if not self.args.checkpoints:
            return
        state = self.pipeline.state_dict(self.trainer)
        if self.mesh.rank == 0:
            manager = checkpoint.CheckpointManager(self.args.checkpoints, keep=2)
            manager.save(iteration, model=state, iteration=iteration, config=vars(self.config))
        self.mesh.barrier()

    def resume(self) -> int:
        """Load the last checkpoint if there is one; return the number of iterations done."""
        if not self.args.checkpoints:
            return 0
        found = checkpoint.CheckpointManager(self.args.checkpoints).load_latest()
        if found is None:
            return 0
        self.pipeline.load_state_dict(found["model"], self.trainer)
        return int(found["iteration"])


def apply_preset(args: argparse.Namespace) -> None:
    """Take sizes, batches and mesh of a published case."""
    given = case(args.preset)
    args.hidden, args.layers, args.heads = given.hidden, given.layers, given.heads
    args.batch, args.micro_batch, args.length = given.batch, given.micro_batch, LENGTH
    args.mesh = f"data={given.data},tensor={given.tensor},pipeline={given.pipeline}"
    args.recompute = True


def log_line(training: Training, iteration: int, loss: float, seconds: float) -> str:
    """Return the log line of an iteration, in Megatron-LM's format."""
    args, norm = training.args, training.trainer.gradient_norm
    line = (
        f" iteration {iteration:8d}/{args.iterations:8d} |"
        f" consumed samples: {iteration * args.batch:12d} |"
        f" elapsed time per iteration (ms): {1000 * seconds:.1f} |"
        f" learning rate: {training.trainer.learning_rate:.3E} |"
        f" global batch size: {args.batch:5d} | lm loss: {loss:.6E} |"
        f" loss scale: {training.loss_scale:.1f} |"
    )
    return line if norm is None else f"{line} grad norm: {float(norm.asscalar()):.3f} |"


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    args = make_parser().parse_args(argv)
    if args.preset:
        apply_preset(args)
    if not args.data and not args.synthetic:
        raise SystemExit("gpt: --data or --synthetic must be given")
    training = Training(args)
    batches = Batches(args, training.mesh, 0)
    held_out = Batches(args, training.mesh, 1) if args.eval_interval else None
    is_printer = training.mesh.rank == training.mesh.size - 1
    begin = training.resume()
    report: dict[str, Any] = {"mesh": training.mesh.axes, "losses": {}, "evaluations": {}}
    flops = iteration_flops(
        args.batch,
        args.length,
        args.layers,
        args.hidden,
        training.config.padded_vocabulary,
        args.recompute,
    )
    since, last = time.time(), begin
    for iteration in range(begin + 1, args.iterations + 1):
        losses = training.step(*batches.read(iteration - 1))
        if iteration % args.log_interval == 0 or iteration == args.iterations:
            loss = training.average(losses)
            seconds = (time.time() - since) / (iteration - last)
            report["losses"][iteration] = loss
            if is_printer:
                line = log_line(training, iteration, loss, seconds)
                rate = flops / seconds / training.mesh.size / 1e12
                line += (
                    f" TFLOP/s: {rate:.3f} | tokens/s: {args.batch * args.length / seconds:.0f} |"
                )
                if args.peak_tflops:
                    model = rate * (0.75 if args.recompute else 1)
                    line += f" utilization: {100 * model / args.peak_tflops:.1f} % |"
                print(line, flush=True)
            since, last = time.time(), iteration
        if held_out is not None and iteration % args.eval_interval == 0:
            first = (iteration // args.eval_interval - 1) * args.eval_iterations
            value = training.evaluate(held_out, first)
            report["evaluations"][iteration] = value
            if is_printer:
                print(f" validation loss at iteration {iteration}: {value:.6E}", flush=True)
            since, last = time.time(), iteration
        if args.save_interval and iteration % args.save_interval == 0:
            training.save(iteration)
    if begin < args.iterations and not (
        args.save_interval and args.iterations % args.save_interval == 0
    ):
        training.save(args.iterations)
    if args.json and is_printer:
        Path(args.json).write_text(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
