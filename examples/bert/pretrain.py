r"""Pre-train BERT. gluon-nlp: ``scripts/bert/run_pretraining.py``.

    python prepare.py text/*.txt --out data --vocab_size 8192
    python pretrain.py --data 'data/train*.npz' --data_eval 'data/eval*.npz' \
        --vocab data/vocab.txt --model bert_2_128_2 --max_seq_length 128 --num_steps 2000
    python pretrain.py --data 'long/train*.npz' --vocab data/vocab.txt --max_seq_length 512 \
        --phase2 --phase1_num_steps 2000
    mxlite-run -np 4 python pretrain.py --comm_backend horovod ...
    python pretrain.py --synthetic_data --model bert_2_128_2 --num_steps 20

A run continues from the last checkpoint in ``--ckpt_dir``, bit for bit. Phase 2 begins with the
parameters of the last step of phase 1.
"""

from __future__ import annotations

import argparse
import glob
import logging
import sys
import time
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
from mxlite import autograd, checkpoint
from mxlite._files.remote import is_address
from mxlite.contrib import amp
from mxlite.gluon.contrib.nn.transformer import BERTForPretraining
from pretraining_batches import Batches, evaluation_batches
from pretraining_files import read_samples
from pretraining_objective import (
    FIGURES,
    OPTIMIZERS,
    Objective,
    bert_model,
    learning_rate,
    make_trainer,
    on_device,
)
from pretraining_samples import Samples, joined, synthetic_samples
from wordpiece import read_vocabulary

logger = logging.getLogger("bert")
BACKENDS = ["device", "horovod", "dist_sync", "dist_sync_device"]
SYNTHETIC_VOCABULARY, SYNTHETIC_SAMPLES = 512, 512


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Pre-train BERT.")
    add = parser.add_argument
    add("--data", default="", help=".npz files, patterns or addresses, with commas between")
    add("--data_eval", default="", help="as --data; '' for no evaluation")
    add("--vocab", help="vocab.txt of the files, one token a line")
    add("--synthetic_data", action="store_true", help="sentences of a small random grammar")
    add("--model", default="bert_12_768_12", help="bert_<layers>_<units>_<heads>")
    add("--pretrained", help=".params file to begin with")
    add("--ckpt_dir", default="./ckpt_dir", help="'' for no files")
    add("--ckpt_interval", type=int, default=25000, help="steps between checkpoints")
    add("--log_interval", type=int, default=250, help="steps between lines")
    add("--eval_interval", type=int, default=50000, help="steps between evaluations")
    add("--total_batch_size", type=int, default=256, help="of all ranks in a micro step")
    add("--total_batch_size_eval", type=int, default=256)
    add("--accumulate", type=int, default=1, help="micro steps of an update")
    add("--num_steps", type=int, default=20, help="updates of this phase")
    add("--optimizer", default="bertadam", choices=OPTIMIZERS)
    add("--lr", type=float, default=1e-4)
    add("--warmup_ratio", type=float, default=0.01)
    add("--clip", type=float, default=1.0, help="greatest norm of the gradients; 0: any")
    add("--dropout", type=float, default=0.1)
    add("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    add("--no_compute_acc", action="store_true", help="leave the accuracies out of the lines")
    add(
        "--latency_unit", default="step", choices=["step", "batch"],
        help="batch: lines of gluon-nlp before 0.9, which DLPerf's extractor reads",
    )  # fmt: skip
    add("--num_buckets", type=int, default=1, help="groups of similar lengths")
    add("--max_seq_length", type=int, default=512)
    add("--max_predictions_per_seq", type=int, default=80, help="masks of synthetic data")
    add("--phase2", action="store_true", help="continue from the end of phase 1")
    add("--phase1_num_steps", type=int, help="updates of phase 1, with --phase2")
    add("--comm_backend", default="device", choices=BACKENDS)
    add("--gpus", default="", help="number of the GPU, or local: that of the rank; '' for the CPU")
    add("--seed", type=int, default=0)
    return parser


def checked_options(arguments: list[str] | None) -> argparse.Namespace:
    """Return the command line; SystemExit says which value is required."""
    opt = make_parser().parse_args(arguments)
    for name in ("total_batch_size", "total_batch_size_eval", "accumulate", "num_steps"):
        if getattr(opt, name) < 1:
            raise SystemExit(f"bert: --{name} must be at least 1, got {getattr(opt, name)}")
    for name in ("ckpt_interval", "log_interval", "eval_interval", "num_buckets"):
        if getattr(opt, name) < 1:
            raise SystemExit(f"bert: --{name} must be at least 1, got {getattr(opt, name)}")
    for name, most in (("lr", float("inf")), ("clip", float("inf")), ("seed", 2**31 - 1)):
        if not 0 <= getattr(opt, name) <= most:
            raise SystemExit(f"bert: --{name} must be 0 to {most}, got {getattr(opt, name)}")
    if not 0 <= opt.dropout < 1:
        raise SystemExit(f"bert: --dropout must be 0 or more, below 1, got {opt.dropout}")
    if opt.pretrained and not Path(opt.pretrained).is_file():
        raise SystemExit(f"bert: --pretrained {opt.pretrained} does not exist")
    if not 0 <= opt.warmup_ratio <= 1:
        raise SystemExit(f"bert: --warmup_ratio must be 0 to 1, got {opt.warmup_ratio}")
    if opt.gpus and opt.gpus != "local" and not opt.gpus.isdigit():
        raise SystemExit(f"bert: --gpus must be a number, local or '', got {opt.gpus}")
    if not opt.synthetic_data and not (opt.data and opt.vocab):
        raise SystemExit("bert: --data and --vocab, or --synthetic_data, must be given")
    if opt.phase2 and not (opt.phase1_num_steps and opt.ckpt_dir):
        raise SystemExit("bert: --phase2 needs --phase1_num_steps and the --ckpt_dir of phase 1")
    return opt


class Pretraining:
    """A model in training on this rank.

    Parameters
    ----------
    opt : argparse.Namespace
        The command line.
    """

    def __init__(self, opt: argparse.Namespace) -> None:
        self.opt = opt
        self.rank, self.ranks = self._job()
        if opt.total_batch_size % self.ranks:
            raise SystemExit(
                f"bert: --total_batch_size must be a multiple of the {self.ranks} ranks, got "
                f"{opt.total_batch_size}"
            )
        self.ctx = self._context()
        mx.random.seed(opt.seed)  # all ranks begin with the same parameters
        self.vocab_size = (
            SYNTHETIC_VOCABULARY if opt.synthetic_data else len(read_vocabulary(opt.vocab))
        )
        self.samples, self.eval_samples = self._samples()
        batch_size = opt.total_batch_size // self.ranks
        self.batches = Batches(
            self.samples, batch_size, opt.num_buckets, opt.max_seq_length, opt.seed, self.rank,
            self.ranks,
        )  # fmt: skip
        if opt.dtype != "float32":
            amp.init(opt.dtype)
        self.objective = self._objective()
        self.model = self.objective.model
        mx.random.seed(opt.seed + self.rank)  # dropout differs
        self.trainer = make_trainer(self.model, opt.optimizer, opt.lr, opt.comm_backend, opt.clip)
        if opt.dtype == "float16":
            amp.init_trainer(self.trainer)
        if opt.accumulate > 1:
            for parameter in self.model.collect_params().values():
                parameter.grad_req = "add"
        self.step = 0
        self.manager = None
        if opt.ckpt_dir:
            folder = Path(opt.ckpt_dir) / f"phase{2 if opt.phase2 else 1}_rank{self.rank}"
            self.manager = checkpoint.CheckpointManager(folder, keep=3)
            self._continue()

    def _job(self) -> tuple[int, int]:
        backend = self.opt.comm_backend
        if backend == "horovod":
            import mxlite.horovod as hvd

            hvd.init()
            return hvd.rank(), hvd.size()
        if backend.startswith("dist_sync"):
            store = mx.kv.create(backend)
            return store.rank, store.num_workers
        return 0, 1

    def _context(self) -> Any:
        if self.opt.gpus != "local":
            return mx.gpu(int(self.opt.gpus)) if self.opt.gpus else mx.cpu()
        if self.ranks == 1:
            return mx.gpu(0)
        import mxlite.horovod as hvd

        hvd.init()
        return mx.gpu(hvd.local_rank())

    def _samples(self) -> tuple[Samples, Samples | None]:
        opt = self.opt
        if opt.synthetic_data:
            sizes = (self.vocab_size, opt.max_seq_length, opt.max_predictions_per_seq)
            train = synthetic_samples(
                max(SYNTHETIC_SAMPLES, opt.total_batch_size), *sizes, opt.seed
            )
            return train, synthetic_samples(64, *sizes, opt.seed + 1) if opt.data_eval else None
        return self._files(opt.data, "--data"), (
            self._files(opt.data_eval, "--data_eval") if opt.data_eval else None
        )

    def _files(self, patterns: str, flag: str) -> Samples:
        paths: list[str] = []
        for pattern in filter(None, patterns.split(",")):
            pattern = pattern.strip()
            found = [pattern] if is_address(pattern) else sorted(glob.glob(pattern))
            if not found:
                raise SystemExit(f"bert: no file matches {flag} {pattern!r}")
            paths += found
        if not paths:
            raise SystemExit(f"bert: {flag} must be files or patterns, got {patterns!r}")
        length = self.opt.max_seq_length
        return joined([read_samples(path, self.vocab_size, length) for path in paths])

    def _objective(self) -> Objective:
        opt = self.opt
        positions = max(512, opt.max_seq_length)  # the same in both phases
        backbone = bert_model(opt.model, self.vocab_size, positions, opt.dropout)
        objective = Objective(BERTForPretraining(backbone))
        objective.initialize(mx.init.Normal(0.02), ctx=self.ctx)
        begin = opt.pretrained
        if opt.phase2:
            begin = self._parameter_file(opt.phase1_num_steps)
            if not begin.is_file():
                raise SystemExit(
                    f"bert: --phase2 needs {begin}, the parameters of phase 1 after "
                    f"--phase1_num_steps {opt.phase1_num_steps}"
                )
        if begin:
            try:
                objective.model.load_parameters(str(begin), ctx=self.ctx)
            except mx.MXNetError as error:
                raise SystemExit(
                    f"bert: {begin} does not fit --model {opt.model}, the vocabulary of "
                    f"{self.vocab_size} tokens and {positions} positions: {error}"
                ) from None
        objective.hybridize(static_alloc=True)
        return objective

    def _parameter_file(self, step: int) -> Path:
        return Path(self.opt.ckpt_dir) / f"{step:07d}.params"

    def _objects(self) -> dict[str, Any]:
        return {"net": self.model, "trainer": self.trainer, "batches": self.batches}

    def _continue(self) -> None:
        """Load the newest checkpoint that every rank has."""
        assert self.manager is not None
        newest = max(self.manager.steps(), default=0)
        if self.ranks > 1:
            newest = self._smallest(newest)
        if newest:
            if newest not in self.manager.steps():
                raise SystemExit(
                    f"bert: every rank must have its checkpoint of step {newest} in "
                    f"{self.opt.ckpt_dir}, rank {self.rank} has none"
                )
            state = self.manager.load(newest, **self._objects())
            self.step = state["step"]
            logger.info("continued after step %d", self.step)

    def _smallest(self, number: int) -> int:
        """Return the smallest number of all ranks."""
        import mxlite.horovod as hvd

        hvd.init()
        mine = mx.nd.array([number], dtype="int32")
        return int(hvd.allreduce(mine, op=hvd.Min, name="newest").asscalar())

    def _summed(self, figures: np.ndarray) -> np.ndarray:
        """Return the sum over the ranks."""
        if self.ranks == 1:
            return figures
        import mxlite.horovod as hvd

        hvd.init()
        return hvd.allreduce(mx.nd.array(figures), op=hvd.Sum, name="figures").asnumpy()

    def update(self) -> tuple[Any, int]:
        """Train one step; return its figures, which are on the device, and its tokens."""
        opt = self.opt
        self.step += 1
        warm_up = int(opt.num_steps * opt.warmup_ratio)
        self.trainer.set_learning_rate(learning_rate(self.step, opt.num_steps, warm_up, opt.lr))
        total, tokens = None, 0
        for _ in range(opt.accumulate):
            batch = next(self.batches)
            tokens += int(batch["valid_lengths"].sum())
            with autograd.record():
                loss, figures = self.objective(*on_device(batch, self.ctx))
                loss = loss / opt.accumulate
                if opt.dtype == "float16":
                    with amp.scale_loss(loss, self.trainer) as scaled:
                        autograd.backward(scaled)
            if opt.dtype != "float16":
                loss.backward()
            total = figures if total is None else total + figures
        # A store sums gradients over the ranks, Horovod's trainer averages them.
        self.trainer.step(self.ranks if opt.comm_backend.startswith("dist_sync") else 1)
        if opt.accumulate > 1:
            self.model.collect_params().zero_grad()
        return total, tokens

    def save(self) -> None:
        """Write the checkpoint of this rank, and the parameters on rank 0."""
        if self.manager is not None:
            self.manager.save(self.step, **self._objects())
            if self.rank == 0:
                done = self.step + (self.opt.phase1_num_steps if self.opt.phase2 else 0)
                self.model.save_parameters(str(self._parameter_file(done)))

    def evaluate(self) -> dict[str, float] | None:
        """Return the mean losses and the accuracies in percent of the evaluation's samples."""
        if self.eval_samples is None:
            return None
        begin, total = time.time(), np.zeros(len(FIGURES))
        size = max(1, self.opt.total_batch_size_eval // self.ranks)
        parts = (self.eval_samples, size, self.opt.max_seq_length, self.rank, self.ranks)
        for batch in evaluation_batches(*parts):
            total += self.objective(*on_device(batch, self.ctx))[1].asnumpy()
        found = means(self._summed(total))
        logger.info(
            "Eval mlm_loss=%.3f\tmlm_acc=%.1f\tnsp_loss=%.3f\tnsp_acc=%.1f\t",
            *(found[key] for key in ("mlm_loss", "mlm_acc", "nsp_loss", "nsp_acc")),
        )
        logger.info("Eval cost=%.1fs", time.time() - begin)
        return found

    def _log(self, figures: Any, tokens: int, steps: int, begin: float) -> None:
        found = means(figures.asnumpy())
        seconds = time.time() - begin
        accuracies = not self.opt.no_compute_acc
        text = f"[step {self.step}]\tmlm_loss={found['mlm_loss']:7.5f}"
        text += f"\tmlm_acc={found['mlm_acc']:4.2f}" if accuracies else ""
        text += f"\tnsp_loss={found['nsp_loss']:5.2f}"
        text += f"\tnsp_acc={found['nsp_acc']:5.2f}" if accuracies else ""
        text += f"\tthroughput={tokens / seconds / 1000:.1f}K tks/s"
        text += f"\tlr={self.trainer.learning_rate:.7f} time={seconds:.2f}"
        logger.info(f"{text}, latency={seconds / steps * 1000:.3f} ms/{self.opt.latency_unit}")

    def run(self) -> None:
        """Train to the last step."""
        opt, first = self.opt, time.time()
        begin, figures, tokens, steps = time.time(), None, 0, 0
        while self.step < opt.num_steps:
            found, count = self.update()
            figures = found if figures is None else figures + found
            tokens, steps = tokens + count, steps + 1
            if self.step % opt.log_interval == 0:
                self._log(figures, tokens, steps, begin)
                begin, figures, tokens, steps = time.time(), None, 0, 0
            last = self.step == opt.num_steps
            if self.step % opt.ckpt_interval == 0 or last:
                self.save()
            if self.step % opt.eval_interval == 0 or last:
                self.evaluate()
        mx.nd.waitall()
        logger.info("Train cost=%.1fs", time.time() - first)


def means(figures: np.ndarray) -> dict[str, float]:
    """Return mean losses, and accuracies in percent.

    Parameters
    ----------
    figures : numpy.ndarray
        Sums in the order of ``FIGURES``.

    Returns
    -------
    dict
    """
    sums = dict(zip(FIGURES, (float(value) for value in figures)))
    masks, sentences = max(sums["masks"], 1e-8), max(sums["sentences"], 1e-8)
    return {
        "mlm_loss": sums["mlm_loss_sum"] / masks,
        "mlm_acc": 100 * sums["mlm_correct"] / masks,
        "nsp_loss": sums["nsp_loss_sum"] / sentences,
        "nsp_acc": 100 * sums["nsp_correct"] / sentences,
    }


def set_logging(opt: argparse.Namespace, rank: int) -> None:
    """Write lines to the terminal and, as gluon-nlp does, to ``phase<n>_log.<rank>``."""
    logger.setLevel(logging.INFO)
    logger.propagate = False
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if opt.ckpt_dir:
        Path(opt.ckpt_dir).mkdir(parents=True, exist_ok=True)
        name = f"phase{2 if opt.phase2 else 1}_log.{rank}"
        handlers.append(logging.FileHandler(Path(opt.ckpt_dir) / name))
    logger.handlers = handlers


def main(arguments: list[str] | None = None) -> int:
    opt = checked_options(arguments)
    set_logging(opt, 0)
    training = Pretraining(opt)
    if training.rank:
        set_logging(opt, training.rank)
    training.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
