r"""Fine-tune BERT as a classifier of texts or pairs. gluon-nlp: ``finetune_classifier.py``.

    python finetune.py --train train.tsv --dev dev.tsv --vocab data/vocab.txt \
        --model bert_2_128_2 --parameters ckpt_dir/0002000.params --epochs 3
    python finetune.py --train train.tsv --dev dev.tsv --test test.tsv --output test.out.tsv ...

Lines of the files: label, text, and for pairs a second text, separated by tabs; the test file has
an index in place of the label. Labels are words; their order is that of the sorted training labels.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon
from mxlite.contrib import amp, quantization
from mxlite.gluon.contrib.nn.transformer import BERTClassifier, BERTForPretraining
from pretraining_objective import bert_model, learning_rate
from wordpiece import WordPiece, read_vocabulary

logger = logging.getLogger("bert")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Fine-tune BERT as a classifier.")
    add = parser.add_argument
    add("--train", required=True, help="label, text and perhaps a second text, with tabs between")
    add("--dev", required=True)
    add("--test", default="", help="index instead of the label; writes --output")
    add("--output", default="predictions.tsv")
    add("--vocab", required=True)
    add("--model", default="bert_12_768_12", help="bert_<layers>_<units>_<heads>")
    add("--parameters", default="", help=".params file of pretrain.py; random if none")
    add("--max_positions", type=int, default=512, help="of the pre-trained model")
    add("--batch_size", type=int, default=32)
    add("--dev_batch_size", type=int, default=8)
    add("--lr", type=float, default=3e-5)
    add("--epsilon", type=float, default=1e-6)
    add("--warmup_ratio", type=float, default=0.1)
    add("--max_len", type=int, default=128)
    add("--epochs", type=int, default=3)
    add("--dtype", default="float32", choices=["float32", "bfloat16"])
    add("--log_interval", type=int, default=10)
    add("--save", default="", help=".params file of the best epoch")
    add(
        "--int8",
        nargs="*",
        default=[],
        choices=["naive", "entropy"],
        help="accuracies of the last epoch's model with int8 layers, by how ranges are found",
    )
    add("--gpus", default="", help="number of the GPU; '' for the CPU")
    add("--seed", type=int, default=2)
    return parser


class Texts:
    """Texts of a file as token ids.

    Parameters
    ----------
    path : str
        The file.
    pieces : WordPiece
        Divides the texts.
    max_length : int
        Longest sequence; the longer text of a pair is shortened.
    """

    def __init__(self, path: str, pieces: WordPiece, max_length: int) -> None:
        self.labels: list[str] = []
        self.tokens: list[list[int]] = []
        self.segments: list[list[int]] = []
        try:
            content = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise SystemExit(f"bert: {path} cannot be read: {error}") from None
        lines = content.removesuffix("\n").split("\n") if content else []
        for number, line in enumerate(lines, 1):
            fields = line.split("\t")
            if len(fields) not in (2, 3):
                raise SystemExit(
                    f"bert: {path}:{number} must have a label and one or two texts, separated by "
                    f"tabs, got {len(fields)} fields"
                )
            parts = [pieces.encode(text) for text in fields[1:]]
            while sum(map(len, parts)) > max_length - 1 - len(parts):
                max(parts, key=len).pop()
            tokens, segments = [pieces.begin], [0]
            for kind, part in enumerate(parts):
                tokens += [*part, pieces.separator]
                segments += [kind] * (len(part) + 1)
            self.labels.append(fields[0])
            self.tokens.append(tokens)
            self.segments.append(segments)
        if not lines:
            raise SystemExit(
                f"bert: {path} must have lines with a label and a text, got an empty file"
            )

    def batch(self, rows: np.ndarray, length: int, ctx: Any) -> list[Any]:
        """Return tokens, segments and lengths of some texts, padded to a length."""
        tokens = np.zeros((len(rows), length), "int32")
        segments = np.zeros((len(rows), length), "int32")
        lengths = np.array([len(self.tokens[row]) for row in rows], "int32")
        for line, row in enumerate(rows):
            tokens[line, : lengths[line]] = self.tokens[row]
            segments[line, : lengths[line]] = self.segments[row]
        return [mx.nd.array(a, ctx=ctx, dtype="int32") for a in (tokens, segments, lengths)]


class FineTuning:
    """A classifier in training.

    Parameters
    ----------
    opt : argparse.Namespace
        The command line.
    """

    def __init__(self, opt: argparse.Namespace) -> None:
        self.opt = opt
        self.ctx = mx.gpu(int(opt.gpus)) if opt.gpus else mx.cpu()
        mx.random.seed(opt.seed)
        vocabulary = read_vocabulary(opt.vocab)
        pieces = WordPiece(vocabulary)
        if not 8 <= opt.max_len <= opt.max_positions:
            raise SystemExit(
                f"bert: --max_len must be 8 to {opt.max_positions}, the positions of the model, "
                f"got {opt.max_len}"
            )
        self.train, self.dev = (Texts(p, pieces, opt.max_len) for p in (opt.train, opt.dev))
        self.test = Texts(opt.test, pieces, opt.max_len) if opt.test else None
        self.names = sorted(set(self.train.labels))
        unknown = sorted(set(self.dev.labels) - set(self.names))
        if len(self.names) < 2 or unknown:
            raise SystemExit(
                "bert: the training must have at least two labels, and the other file no others, "
                f"got {', '.join(self.names)}"
                + (f", and {', '.join(unknown)} in {opt.dev}" if unknown else "")
            )
        if opt.dtype != "float32":
            amp.init(opt.dtype)
        self.net = self._network(len(vocabulary))
        for name, parameter in self.net.collect_params().items():
            if name.endswith(("bias", "beta", "gamma")):
                parameter.wd_mult = 0.0
        options = {"learning_rate": opt.lr, "epsilon": opt.epsilon, "wd": 0.01}
        options["correct_bias"] = False
        self.trainer = gluon.Trainer(
            self.net.collect_params(), "adamw", options, kvstore=None, clip_global_norm=1.0
        )
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def _network(self, vocab_size: int) -> BERTClassifier:
        opt = self.opt
        backbone = bert_model(opt.model, vocab_size, opt.max_positions, 0.1)
        if opt.parameters:
            if not Path(opt.parameters).exists():
                raise SystemExit(f"bert: --parameters {opt.parameters} does not exist")
            # Loads the heads of pre-training, too, because files of pretrain.py contain them.
            whole = BERTForPretraining(backbone)
            try:
                whole.load_parameters(opt.parameters, ctx=self.ctx)
            except mx.MXNetError as error:
                raise SystemExit(
                    f"bert: {opt.parameters} does not fit --model {opt.model}, --vocab {opt.vocab} "
                    f"and --max_positions {opt.max_positions}: {error}"
                ) from None
        net = BERTClassifier(backbone, len(self.names))
        if opt.parameters:
            net.classifier.initialize(mx.init.Normal(0.02), ctx=self.ctx)
        else:
            net.initialize(mx.init.Normal(0.02), ctx=self.ctx)
        net.hybridize(static_alloc=True)
        return net

    def scores(self, texts: Texts, net: Any = None) -> np.ndarray:
        """Return the classes' scores of all texts; ``net`` is used in place of the float one."""
        net = self.net if net is None else net
        order = np.argsort([len(tokens) for tokens in texts.tokens], kind="stable")
        found = np.zeros((len(order), len(self.names)), "float32")
        for begin in range(0, len(order), self.opt.dev_batch_size):
            rows = order[begin : begin + self.opt.dev_batch_size]
            batch = texts.batch(rows, self._padded(texts, rows), self.ctx)
            found[rows] = net(*batch).astype("float32").asnumpy()
        return found

    def _padded(self, texts: Texts, rows: np.ndarray) -> int:
        longest = max(len(texts.tokens[row]) for row in rows)
        return min(self.opt.max_len, -(-longest // 8) * 8)

    def _classes(self, texts: Texts) -> np.ndarray:
        numbers = {name: number for number, name in enumerate(self.names)}
        return np.array([numbers[label] for label in texts.labels])

    def train_epoch(self, epoch: int, step: int, steps: int) -> int:
        """Train one epoch and log its lines; return the steps of all epochs so far."""
        opt, classes = self.opt, self._classes(self.train)
        random = np.random.RandomState(opt.seed + epoch)
        order = random.permutation(len(classes))
        batches = -(-len(order) // opt.batch_size)
        warm_up, begin = int(steps * opt.warmup_ratio), time.time()
        losses, right, count = [], 0, 0
        for number in range(batches):
            rows = order[number * opt.batch_size : (number + 1) * opt.batch_size]
            step += 1
            self.trainer.set_learning_rate(learning_rate(step, steps, warm_up, opt.lr))
            batch = self.train.batch(rows, self._padded(self.train, rows), self.ctx)
            label = mx.nd.array(classes[rows], ctx=self.ctx)
            with autograd.record():
                output = self.net(*batch).astype("float32")
                loss = self.loss(output, label).mean()
            loss.backward()
            self.trainer.step(1)
            losses.append(loss)
            right += int((output.argmax(axis=-1) == label).sum().asscalar())
            count += len(rows)
            if (number + 1) % opt.log_interval == 0 or number + 1 == batches:
                value = float(np.mean([one.asscalar() for one in losses]))
                logger.info(
                    "[Epoch %d Batch %d/%d] loss=%.4f, lr=%.7f, metrics:accuracy:%.4f",
                    *(epoch, number + 1, batches, value, self.trainer.learning_rate),
                    right / count,
                )
                losses = []
        seconds = time.time() - begin
        logger.info("Time cost=%.2fs, throughput=%.2f samples/s", seconds, len(order) / seconds)
        return step

    def accuracy(self, net: Any = None) -> float:
        """Return the part of the other file's texts that is classified correctly."""
        return float((self.scores(self.dev, net).argmax(1) == self._classes(self.dev)).mean())

    def int8_accuracy(self, calib_mode: str) -> float:
        """Return the accuracy with int8 dense layers.

        The ranges come from the first 256 training texts.
        """
        rows = np.arange(min(256, len(self.train.labels)))
        parts = np.array_split(rows, -(-len(rows) // self.opt.dev_batch_size))
        batches = [self.train.batch(r, self._padded(self.train, r), self.ctx) for r in parts]
        net = quantization.quantize_net_v2(
            self.net, quantize_mode="smart", quantize_granularity="channel-wise",
            calib_data=batches, calib_mode=calib_mode, ctx=self.ctx,
        )  # fmt: skip
        net.hybridize(static_alloc=True)
        return self.accuracy(net)

    def run(self) -> float:
        """Train all epochs; return the best accuracy on the other file."""
        opt = self.opt
        steps = opt.epochs * -(-len(self.train.labels) // opt.batch_size)
        step, best, best_epoch = 0, -1.0, 0
        predicted = None
        for epoch in range(1, opt.epochs + 1):
            step = self.train_epoch(epoch, step, steps)
            accuracy = self.accuracy()
            logger.info("validation metrics:accuracy:%.4f", accuracy)
            if accuracy > best:
                best, best_epoch = accuracy, epoch
                if opt.save:
                    self.net.save_parameters(opt.save)
                if self.test is not None:
                    predicted = self.scores(self.test).argmax(1)
        logger.info("Best model at epoch %d. Validation metrics:accuracy:%.4f", best_epoch, best)
        for mode in opt.int8:
            logger.info("int8 (%s) metrics:accuracy:%.4f", mode, self.int8_accuracy(mode))
        if self.test is not None and predicted is not None:
            rows = zip(self.test.labels, predicted)
            lines = [f"{index}\t{self.names[number]}\n" for index, number in rows]
            Path(opt.output).write_text("index\tprediction\n" + "".join(lines), encoding="utf-8")
        return best


def main(arguments: list[str] | None = None) -> int:
    opt = make_parser().parse_args(arguments)
    for name in ("batch_size", "dev_batch_size", "epochs", "log_interval"):
        if getattr(opt, name) < 1:
            raise SystemExit(f"bert: --{name} must be at least 1, got {getattr(opt, name)}")
    for name in ("lr", "epsilon", "seed"):
        if not 0 <= getattr(opt, name) < 2**31:
            raise SystemExit(f"bert: --{name} must be 0 or more, got {getattr(opt, name)}")
    if not 0 <= opt.warmup_ratio <= 1:
        raise SystemExit(f"bert: --warmup_ratio must be 0 to 1, got {opt.warmup_ratio}")
    if opt.gpus and not opt.gpus.isdigit():
        raise SystemExit(f"bert: --gpus must be a number, or '' for the CPU, got {opt.gpus}")
    for name in ("save", "output"):
        folder = Path(getattr(opt, name)).parent
        if not folder.is_dir():
            raise SystemExit(f"bert: the folder {folder} of --{name} does not exist")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    FineTuning(opt).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
