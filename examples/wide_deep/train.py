r"""Train Wide & Deep on one process or several, each with a part of the tables and of a batch.

    python train.py --data data/criteo --iterations 1000 --eval-interval 100
    mxlite-run -np 4 python train.py --mesh data=4 --data data/criteo ...

Losses do not depend on the number of ranks, except for rounding, if dropout is 0. A run continues
from the last checkpoint in ``--checkpoints``, on any number of ranks.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from model import Config, WideDeep, area_under_curve
from mxlite import autograd, checkpoint
from mxlite.contrib import amp
from rows import FlatRows

KEPT = 2  # checkpoints


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--mesh", default="", help="data=N: the number of ranks; default: all of the job")
    add("--data", required=True, help="path of prepared rows without .train and .test")
    add("--batch", type=int, default=16384, help="rows of an iteration, of all ranks")
    add("--iterations", type=int, default=1000)
    add("--optimizer", default="adam", choices=["adam", "sgd", "adagrad", "ftrl"])
    add("--lr", type=float, default=1e-3)
    add("--dim", type=int, default=16, help="length of a row of the deep table")
    add("--layers", type=int, default=7)
    add("--hidden", type=int, default=1024)
    add("--dropout", type=float, default=0.5)
    add("--dtype", default="float32", choices=["float32", "bfloat16"], help="of the dense layers")
    add("--table-dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    add("--policy", default="error", choices=["error", "clip", "hash"], help="for unknown ids")
    add("--deep-vocab-size", type=int, help="rows of the deep table; default: those of the data")
    add("--growing", action="store_true", help="tables start empty")
    add("--device", default="cpu", choices=["cpu", "gpu"], help="of the dense layers")
    add("--cache-rows", type=int, help="rows of each table that the device keeps; default: none")
    add("--seed", type=int, default=1234)
    add("--log-interval", type=int, default=100)
    add("--eval-interval", type=int, default=0, help="0: only at the end")
    add("--eval-rows", type=int, default=0, help="of the test rows; 0: all")
    add("--save-interval", type=int, default=0, help="0: only at the end")
    add("--checkpoints", help="folder of checkpoints; no files without it")
    add("--json", help="file for losses and areas")
    return parser


def rank_rows(rows: FlatRows, batch: int, rank: int, ranks: int, seed: int) -> Iterator[Any]:
    """Yield this rank's part of shuffled batches endlessly; a batch may span two epochs."""
    own = batch // ranks
    rest = np.zeros(0, np.int64)
    epoch = 0
    while True:
        while len(rest) < batch:
            order = np.random.RandomState((seed, epoch)).permutation(len(rows))
            rest, epoch = np.concatenate([rest, order]), epoch + 1
        # Sorts the positions, because a memory-mapped file is read faster in ascending order.
        yield rows.records[np.sort(rest[rank * own : (rank + 1) * own])]
        rest = rest[batch:]


class Training:
    """A network on all ranks with its optimizers."""

    def __init__(self, args: argparse.Namespace, train: FlatRows) -> None:
        self.args = args
        if args.dtype != "float32":
            amp.init(target_dtype=args.dtype)
        self.mesh = _mesh(args.mesh)
        if args.batch % self.mesh.size:
            raise SystemExit(
                f"wide_deep: --batch must be a multiple of the {self.mesh.size} ranks, got "
                f"{args.batch}"
            )
        sizes, grows = train.sizes, args.growing
        config = Config(
            sizes.deep,
            sizes.numbers,
            None if grows else sizes.wide_rows,
            None if grows else args.deep_vocab_size or sizes.deep_rows,
            args.dim, args.layers, args.hidden, args.dropout, args.table_dtype, args.policy,
            args.seed, args.cache_rows,
        )  # fmt: skip
        options = {"learning_rate": args.lr}
        try:
            self.net = WideDeep(config, "data", args.optimizer, options)
        except mx.MXNetError as error:
            raise SystemExit(f"wide_deep: {error}") from error
        mx.random.seed(args.seed)  # the same values on all ranks
        self.net.top.initialize(mx.init.Xavier())
        self.net.top.hybridize(static_alloc=True)
        self._loss = mx.gluon.loss.SigmoidBinaryCrossEntropyLoss()
        self.trainer = hvd.DistributedTrainer(
            self.net.top.collect_params(), args.optimizer, options, process_set="data"
        )
        mx.random.seed(args.seed + self.mesh.rank)  # different dropout

    def step(self, rows: np.ndarray) -> mx.nd.NDArray:
        """Make an update; return this rank's losses."""
        with autograd.record():
            losses = self._loss(self.net(*inputs_of(rows)), mx.nd.array(rows["label"]))
        losses.backward()
        self.trainer.step(len(rows))
        self.net.step(len(rows))
        return losses

    def average(self, losses: mx.nd.NDArray) -> float:
        """Return the mean loss of all ranks; all of them call it."""
        return float(mx.nd.contrib.all_reduce(losses.mean().reshape((1,)), op="mean").asscalar())

    def evaluate(self, rows: FlatRows) -> tuple[float, float]:
        """Return mean loss and area under the curve; all ranks call it."""
        count = min(len(rows), self.args.eval_rows or len(rows))
        ranks, rank = self.mesh.size, self.mesh.rank
        found = []
        for first in range(0, count, self.args.batch):
            # Ranks without rows in the last batch also call _scores: lookups are collective.
            part = rows.records[first : min(count, first + self.args.batch)]
            part = part[len(part) * rank // ranks : len(part) * (rank + 1) // ranks]
            if len(part) or ranks > 1:
                found.append(self._scores(part))
        every = np.concatenate(found)
        gathered = hvd.allgather(mx.nd.array(every), name="scores").asnumpy()
        labels, scores = gathered[:, 0], gathered[:, 1].astype(np.float64)
        losses = np.maximum(scores, 0) - scores * labels + np.log1p(np.exp(-np.abs(scores)))
        return float(losses.mean()), area_under_curve(labels, scores)

    def _scores(self, rows: np.ndarray) -> np.ndarray:
        wide, deep, numbers = inputs_of(rows)
        tables = self.net.wide(wide), self.net.deep(deep)
        if not len(rows):
            return np.zeros((0, 2), np.float32)
        scores = self.net.top(*tables, numbers).asnumpy()[:, 0]
        return np.stack([rows["label"].astype(np.float32), scores], axis=1)

    def save(self, iteration: int) -> None:
        """Write a checkpoint that any number of ranks can load; all ranks call it."""
        if not self.args.checkpoints:
            return
        folder = Path(self.args.checkpoints)
        for name, table in self.net.tables.items():
            table.save(folder / f"tables-{iteration}" / name)
        self.mesh.barrier()
        if self.mesh.rank == 0:
            manager = checkpoint.CheckpointManager(str(folder), keep=KEPT)
            manager.save(iteration, net=self.net.top, trainer=self.trainer, iteration=iteration)
            saved = sorted(folder.glob("tables-*"), key=lambda path: int(path.name[7:]))
            for old in saved[:-KEPT]:
                shutil.rmtree(old)
        self.mesh.barrier()

    def resume(self) -> int:
        """Load the last checkpoint if there is one; return the number of iterations done."""
        if not self.args.checkpoints or not Path(self.args.checkpoints).is_dir():
            return 0
        manager = checkpoint.CheckpointManager(self.args.checkpoints)
        found = manager.load_latest(restore_random=False, net=self.net.top, trainer=self.trainer)
        if found is None:
            return 0
        iteration = int(found["iteration"])
        for name, table in self.net.tables.items():
            table.load(Path(self.args.checkpoints) / f"tables-{iteration}" / name)
        return iteration


def _mesh(text: str) -> mx.parallel.Mesh:
    axis, _, size = (text or "data=-1").partition("=")
    if axis != "data" or not size.lstrip("-").isdecimal():
        raise SystemExit(f"wide_deep: --mesh must be data=N, got {text!r}")
    try:
        return mx.parallel.mesh(data=int(size)).use()
    except ValueError as error:  # sizes that do not multiply to the number of ranks
        raise SystemExit(f"wide_deep: {error}") from error


def inputs_of(rows: np.ndarray) -> tuple[mx.nd.NDArray, mx.nd.NDArray, mx.nd.NDArray]:
    """Return ids for the wide and the deep table, and numbers."""
    ids = [mx.nd.array(rows[name], dtype="int64") for name in ("wide", "deep")]
    return ids[0], ids[1], mx.nd.array(rows["numbers"])


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    args = make_parser().parse_args(argv)
    hvd.init()
    with mx.gpu(hvd.local_rank()) if args.device == "gpu" else mx.cpu():
        return run(args)


def run(args: argparse.Namespace) -> int:
    """Train and evaluate on the current context."""
    train, test = (FlatRows(f"{args.data}.{part}") for part in ("train", "test"))
    training = Training(args, train)
    mesh = training.mesh
    if mesh.rank == 0:
        for name, value in (
            ("num_nodes", 1), ("gpu_num_per_node", mesh.size), ("batch_size", args.batch),
            ("deep_vocab_size", args.deep_vocab_size or train.sizes.deep_rows),
            ("wide_vocab_size", train.sizes.wide_rows), ("hidden_units_num", args.layers),
            ("deep_embedding_vec_size", args.dim),
        ):  # fmt: skip
            print(f"{name} = {value}")
    begin = training.resume()
    batches = rank_rows(train, args.batch, mesh.rank, mesh.size, args.seed)
    for _ in range(begin):
        next(batches)
    report: dict[str, Any] = {"losses": {}, "evaluations": {}}
    since, last = time.time(), begin
    for iteration in range(begin + 1, args.iterations + 1):
        losses = training.step(next(batches))
        is_last = iteration == args.iterations
        if iteration % args.log_interval == 0 or is_last:
            loss = report["losses"][iteration] = training.average(losses)
            if mesh.rank == 0:
                latency = 1000 * (time.time() - since) / (iteration - last)
                print(
                    f"[rank:0] iter: {iteration}/{args.iterations}, loss: {loss:.7f}, "
                    f"latency(ms): {latency:.4f} | {datetime.datetime.now()}",
                    flush=True,
                )
            since, last = time.time(), iteration
        if is_last or (args.eval_interval and iteration % args.eval_interval == 0):
            report["evaluations"][iteration] = value = training.evaluate(test)
            if mesh.rank == 0:
                print(f"iter: {iteration}, eval_loss: {value[0]:.6f}, eval_auc: {value[1]:.6f}")
            since, last = time.time(), iteration
        if is_last or (args.save_interval and iteration % args.save_interval == 0):
            training.save(iteration)
    if args.json and mesh.rank == 0:
        Path(args.json).write_text(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
