"""Train a network of the model zoo. MXNet 1.x: ``example/gluon/image_classification.py``.

    python image_classification.py --model resnet18_v1 --mode hybrid --dataset dummy --epochs 1
    python image_classification.py --model resnet18_v1 --mode hybrid --dataset digits \
        --use_thumbnail --epochs 3

``--mode`` is ``imperative``, ``hybrid`` or ``symbolic`` (a Module of the same network); the
three give the same curve. ``--model`` also takes the ``-symbol.json`` of a checkpoint.
"""

from __future__ import annotations

import argparse
import cProfile
import logging
import os
import pstats
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "image_classification"))
import mxlite as mx
import numpy as np
from image_data import CLASSES, get_data_iters
from mxlite import autograd, gluon
from mxlite.gluon.model_zoo import vision

logger = logging.getLogger()


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Train a model for image classification.")
    add = parser.add_argument
    add("--dataset", type=str, default="cifar10", choices=list(CLASSES))
    add("--data-dir", type=str, default="", help="folder of the data set")
    add("--num-worker", "-j", dest="num_workers", default=4, type=int, help="loading processes")
    add("--batch-size", type=int, default=32, help="images of a batch on each device")
    add("--gpus", type=str, default="", help="GPUs such as 0,1,2; none: the CPU")
    add("--epochs", type=int, default=120)
    add("--lr", type=float, default=0.1)
    add("--momentum", type=float, default=0.9)
    add("--wd", type=float, default=0.0001)
    add("--seed", type=int, default=123)
    add("--mode", type=str, default="hybrid", choices=["symbolic", "imperative", "hybrid"])
    add("--model", type=str, required=True, help="name in the model zoo, or a symbol file")
    add("--use_thumbnail", action="store_true", help="resnet for small images")
    add("--batch-norm", action="store_true", help="vgg with batch normalization")
    add("--use-pretrained", action="store_true", help="begin from the zoo's parameters")
    add("--prefix", default="", type=str, help="folder of checkpoints")
    add("--start-epoch", default=0, type=int)
    add("--resume", type=str, default="", help="parameter file to continue from")
    add("--lr-factor", default=0.1, type=float)
    add("--lr-steps", default="30,60,90", type=str, help="last epochs before the rate goes down")
    add("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    add("--save-frequency", default=10, type=int, help="epochs between checkpoints")
    add("--kvstore", type=str, default="device")
    add("--log-interval", type=int, default=50, help="batches between lines of the log")
    add("--profile", action="store_true", help="profile the script's Python code")
    add("--builtin-profiler", type=int, default=0, help="1: print what operators cost")
    return parser


def get_model(opt: argparse.Namespace, context: list) -> Any:
    """Return the network, with parameters."""
    if opt.model.endswith("-symbol.json"):
        # Drops the softmax at the end, because the loss computes it.
        scores = mx.sym.load(opt.model).get_children()[0]
        net = gluon.SymbolBlock(scores, [mx.sym.var("data")])
    else:
        kwargs = {"ctx": context, "pretrained": opt.use_pretrained, "classes": CLASSES[opt.dataset]}
        if opt.model.startswith("resnet"):
            kwargs["thumbnail"] = opt.use_thumbnail
        elif opt.model.startswith("vgg"):
            kwargs["batch_norm"] = opt.batch_norm
        net = vision.get_model(opt.model, **kwargs)
    if opt.resume:
        net.load_parameters(opt.resume, ctx=context)
    elif not opt.use_pretrained:
        normal = opt.model == "alexnet"
        net.initialize(mx.init.Normal() if normal else mx.init.Xavier(magnitude=2), ctx=context)
    net.cast(opt.dtype)
    return net


class Classifier:
    """A network in training.

    Parameters
    ----------
    opt : argparse.Namespace
        The command line.
    """

    def __init__(self, opt: argparse.Namespace) -> None:
        self.opt = opt
        gpus = [number for number in opt.gpus.split(",") if number.strip()]
        self.context = [mx.gpu(int(number)) for number in gpus] or [mx.cpu()]
        self.batch_size = opt.batch_size * len(self.context)
        self.kvstore = mx.kv.create(opt.kvstore)
        self.metric = mx.metric.CompositeEvalMetric(
            [mx.metric.Accuracy(), mx.metric.TopKAccuracy(5)]
        )
        self.net = get_model(opt, self.context)
        self.train_data, self.val_data = get_data_iters(opt, self.batch_size, self.kvstore)
        self.lr_steps = [int(epoch) for epoch in opt.lr_steps.split(",") if epoch.strip()]
        self.best = 0.0

    def _split(self, batch: Any) -> tuple:
        data = batch.data[0].astype(self.opt.dtype)
        return (
            gluon.utils.split_and_load(data, ctx_list=self.context, batch_axis=0),
            gluon.utils.split_and_load(batch.label[0], ctx_list=self.context, batch_axis=0),
        )

    def validate(self) -> tuple:
        """Return names and values of the metrics on the validation data."""
        self.metric.reset()
        self.val_data.reset()
        for batch in self.val_data:
            data, label = self._split(batch)
            real = batch.data[0].shape[0] - (batch.pad or 0)
            outputs = [self.net(part) for part in data]
            if len(outputs) == 1:
                outputs, label = [outputs[0][:real]], [label[0][:real]]
            self.metric.update(label, outputs)
        return self.metric.get()

    def save(self, epoch: int, accuracy: float) -> None:
        """Save parameters in regular intervals, and the best ones."""
        name = Path(self.opt.model).name.replace("-symbol.json", "")
        files = []
        if self.opt.save_frequency and (epoch + 1) % self.opt.save_frequency == 0:
            files.append(f"{name}_{epoch}_acc_{accuracy:.4f}.params")
        if accuracy > self.best:
            self.best = accuracy
            files.append(f"{name}_best.params")
        for file in files:
            path = os.path.join(self.opt.prefix, file)
            self.net.save_parameters(path)
            logger.info(
                "[Epoch %d] Saving checkpoint to %s with Accuracy: %.4f", epoch, path, accuracy
            )

    def train_epoch(self, epoch: int, trainer: Any, loss: Any) -> None:
        """Train one epoch."""
        self.metric.reset()
        begin = time.time()
        for i, batch in enumerate(self.train_data):
            data, label = self._split(batch)
            with autograd.record():
                outputs = [self.net(part) for part in data]
                losses = [loss(output, part) for output, part in zip(outputs, label)]
            autograd.backward(losses)
            trainer.step(batch.data[0].shape[0])
            self.metric.update(label, outputs)
            if self.opt.log_interval and (i + 1) % self.opt.log_interval == 0:
                name, value = self.metric.get()
                logger.info(
                    "Epoch[%d] Batch [%d]\tSpeed: %f samples/sec\t%s=%f, %s=%f",
                    epoch,
                    i,
                    self.batch_size / (time.time() - begin),
                    name[0],
                    value[0],
                    name[1],
                    value[1],
                )
            begin = time.time()
        self.train_data.reset()

    def train(self) -> None:
        """Train with a Trainer, and log an average of the epochs' times."""
        opt = self.opt
        self.net.collect_params().reset_ctx(self.context)
        trainer = gluon.Trainer(
            self.net.collect_params(),
            "sgd",
            optimizer_params={
                "learning_rate": opt.lr,
                "wd": opt.wd,
                "momentum": opt.momentum,
                "multi_precision": True,
            },
            kvstore=self.kvstore,
        )
        loss = gluon.loss.SoftmaxCrossEntropyLoss()
        times = []
        for epoch in range(opt.start_epoch, opt.epochs):
            passed = sum(step < epoch for step in self.lr_steps)
            trainer.set_learning_rate(opt.lr * opt.lr_factor**passed)
            begin = time.time()
            self.train_epoch(epoch, trainer, loss)
            times.append(time.time() - begin)
            name, value = self.metric.get()
            logger.info(
                "[Epoch %d] training: %s=%f, %s=%f", epoch, name[0], value[0], name[1], value[1]
            )
            logger.info("[Epoch %d] time cost: %f", epoch, times[-1])
            name, value = self.validate()
            logger.info(
                "[Epoch %d] validation: %s=%f, %s=%f", epoch, name[0], value[0], name[1], value[1]
            )
            self.save(epoch, value[0])
        if len(times) > 1:
            # Skips the first epoch, which also compiles the network.
            print(f"Average epoch time: {np.mean(times[1:])}")

    def train_module(self) -> None:
        """Train a Module of the same network, beginning from the same parameters."""
        opt = self.opt
        shape = self.train_data.provide_data[0].shape
        for context in self.context:
            # Determines the shapes of the parameters, which are then initialized.
            part = (shape[0] // len(self.context), *shape[1:])
            self.net(mx.nd.zeros(part, ctx=context, dtype=opt.dtype))
        values = {
            name: parameter.data(self.context[0])
            for name, parameter in self.net.collect_params().items()
        }
        data = mx.sym.var("data")
        if opt.dtype != "float32":
            data = mx.sym.Cast(data, dtype=opt.dtype)
        scores = self.net(data)
        if opt.dtype != "float32":
            scores = mx.sym.Cast(scores, dtype="float32")
        symbol = mx.sym.SoftmaxOutput(scores, name="softmax")
        states = set(symbol.list_auxiliary_states())
        module = mx.mod.Module(symbol, context=self.context)
        batches = getattr(self.train_data, "num_batches", None)
        schedule = None
        if batches:
            schedule = mx.lr_scheduler.MultiFactorScheduler(
                [(step + 1) * batches for step in self.lr_steps], opt.lr_factor, base_lr=opt.lr
            )
        name = f"image-classifier-{Path(opt.model).name.replace('-symbol.json', '')}"
        prefix = os.path.join(opt.prefix, name)
        module.fit(
            self.train_data,
            eval_data=self.val_data,
            eval_metric=self.metric,
            arg_params={key: value for key, value in values.items() if key not in states},
            aux_params={key: value for key, value in values.items() if key in states},
            begin_epoch=opt.start_epoch,
            num_epoch=opt.epochs,
            kvstore=self.kvstore,
            batch_end_callback=mx.callback.Speedometer(self.batch_size, max(1, opt.log_interval)),
            epoch_end_callback=mx.callback.do_checkpoint(prefix),
            optimizer="sgd",
            optimizer_params={
                "learning_rate": opt.lr,
                "wd": opt.wd,
                "momentum": opt.momentum,
                "lr_scheduler": schedule,
                "multi_precision": True,
            },
        )
        module.save_params(f"{prefix}-{opt.epochs}-final.params")


def run(opt: argparse.Namespace) -> None:
    """Train as the command line says."""
    mx.random.seed(opt.seed)
    classifier = Classifier(opt)
    if opt.builtin_profiler > 0:
        mx.profiler.set_config(profile_all=True, aggregate_stats=True)
        mx.profiler.set_state("run")
    if opt.mode == "symbolic":
        classifier.train_module()
    else:
        if opt.mode == "hybrid":
            classifier.net.hybridize()
        classifier.train()
    if opt.builtin_profiler > 0:
        mx.profiler.set_state("stop")
        print(mx.profiler.dumps())


def main() -> None:
    opt = make_parser().parse_args()
    logging.basicConfig(level=logging.INFO)
    file = logging.FileHandler("image-classification.log")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(file)
    logger.info("Starting new image-classification task:, %s", opt)
    if not opt.profile:
        run(opt)
        return
    profile = cProfile.Profile()
    profile.runcall(run, opt)
    name = f"image-classifier-{Path(opt.model).name}-{opt.mode}.prof"
    profile.dump_stats(name)
    pstats.Stats(name).strip_dirs().sort_stats("cumtime", "calls").print_stats()


if __name__ == "__main__":
    main()
