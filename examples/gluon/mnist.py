"""Train a perceptron on MNIST with Gluon. MXNet 1.x: ``example/gluon/mnist/mnist.py``.

    python mnist.py --data-dir data         # the four idx files, packed or not
    python mnist.py --data digits           # scikit-learn's digits

The parameters are saved to ``mnist.params``.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "image_classification"))
import mxlite as mx
import numpy as np
from common.datasets import enlarge, load_digits
from mxlite import autograd, gluon
from mxlite.gluon import nn


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Train a perceptron on MNIST.")
    add = parser.add_argument
    add("--batch-size", type=int, default=100, help="default: %(default)s")
    add("--epochs", type=int, default=10, help="default: %(default)s")
    add("--lr", type=float, default=0.1, help="default: %(default)s")
    add("--momentum", type=float, default=0.9, help="default: %(default)s")
    add("--cuda", action="store_true", help="train on GPU 0")
    add("--log-interval", type=int, default=100, metavar="N", help="batches between lines")
    add("--data", choices=["mnist", "digits"], default="mnist")
    add("--data-dir", default="./data", help="folder of the idx files")
    return parser


def make_network() -> nn.Sequential:
    net = nn.Sequential()
    with net.name_scope():
        net.add(nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(10))
    return net


def load_data(opt: argparse.Namespace) -> tuple:
    """Return the data sets: pixels in [0, 1], float32 (784,), and labels."""

    def flat(image: Any, label: Any) -> tuple:
        return image.reshape((-1,)).astype(np.float32) / 255, label

    if opt.data == "mnist":
        return tuple(
            gluon.data.vision.MNIST(opt.data_dir, train=train, transform=flat)
            for train in (True, False)
        )
    train, train_label, val, val_label = load_digits()
    return tuple(
        gluon.data.ArrayDataset(enlarge(images, 28), labels).transform(flat)
        for images, labels in ((train, train_label), (val, val_label))
    )


def test(net: Any, data: Any, context: Any) -> tuple:
    """Return name and value of the accuracy."""
    metric = mx.metric.Accuracy()
    for images, labels in data:
        images, labels = images.as_in_context(context), labels.as_in_context(context)
        metric.update([labels], [net(images)])
    return metric.get()


def main() -> None:
    logging.basicConfig(level=logging.DEBUG)
    opt = make_parser().parse_args()
    context = mx.gpu(0) if opt.cuda else mx.cpu()
    train_set, val_set = load_data(opt)
    train_data = gluon.data.DataLoader(
        train_set, opt.batch_size, shuffle=True, last_batch="discard"
    )
    val_data = gluon.data.DataLoader(val_set, opt.batch_size, shuffle=False)

    net = make_network()
    net.initialize(mx.init.Xavier(magnitude=2.24), ctx=context)
    trainer = gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": opt.lr, "momentum": opt.momentum}
    )
    metric = mx.metric.Accuracy()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for epoch in range(opt.epochs):
        metric.reset()
        for i, (images, labels) in enumerate(train_data):
            images, labels = images.as_in_context(context), labels.as_in_context(context)
            with autograd.record():
                output = net(images)
                loss(output, labels).backward()
            trainer.step(images.shape[0])
            metric.update([labels], [output])
            if i % opt.log_interval == 0 and i > 0:
                name, value = metric.get()
                print(f"[Epoch {epoch} Batch {i}] Training: {name}={value:f}")
        name, value = metric.get()
        print(f"[Epoch {epoch}] Training: {name}={value:f}")
        name, value = test(net, val_data, context)
        print(f"[Epoch {epoch}] Validation: {name}={value:f}")
    net.save_parameters("mnist.params")


if __name__ == "__main__":
    main()
