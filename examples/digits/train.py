"""Train a small convolutional network on scikit-learn's handwritten digits.

    python examples/digits/train.py                     train, save, test in a new process
    python examples/digits/train.py --load digits.params  test a saved network only
    python examples/digits/train.py --picture digits.png  also draw held-out digits and answers

The 1,797 pictures of 8 x 8 pixels come with scikit-learn; a fifth is held out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn
from sklearn.datasets import load_digits


def make_network() -> nn.HybridSequential:
    """Return two convolutions and two dense layers; input (batch, 1, 8, 8)."""
    net = nn.HybridSequential(prefix="digits_")
    with net.name_scope():
        net.add(
            nn.Conv2D(32, kernel_size=3, padding=1, activation="relu"),
            nn.BatchNorm(),
            nn.Conv2D(64, kernel_size=3, padding=1, activation="relu"),
            nn.MaxPool2D(2),
            nn.Dropout(0.25),
            nn.Flatten(),
            nn.Dense(128, activation="relu"),
            nn.Dense(10),
        )
    return net


def load_data(seed: int = 1) -> tuple[gluon.data.ArrayDataset, gluon.data.ArrayDataset]:
    """Return training and held-out sets of (1, 8, 8) pictures in 0..1 and labels."""
    digits = load_digits()
    order = np.random.RandomState(seed).permutation(len(digits.target))
    pictures = (digits.images[order, None] / 16.0).astype("float32")
    labels = digits.target[order].astype("float32")
    held_out = len(labels) // 5
    train = gluon.data.ArrayDataset(pictures[held_out:], labels[held_out:])
    test = gluon.data.ArrayDataset(pictures[:held_out], labels[:held_out])
    return train, test


def evaluate(net: gluon.Block, data: gluon.data.DataLoader, ctx: mx.Context) -> float:
    """Return the share of pictures that are recognised."""
    metric = mx.metric.Accuracy()
    for pictures, labels in data:
        metric.update([labels], [net(pictures.as_in_context(ctx))])
    return float(metric.get()[1])


def train(net: gluon.Block, args: argparse.Namespace, ctx: mx.Context) -> float:
    """Train and return the accuracy on the held-out fifth."""
    train_set, test_set = load_data()
    train_data = gluon.data.DataLoader(train_set, args.batch_size, shuffle=True)
    test_data = gluon.data.DataLoader(test_set, 256)
    net.initialize(mx.init.Xavier(), ctx=ctx)
    net.hybridize()
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": args.lr})
    accuracy = 0.0
    for epoch in range(args.epochs):
        start, total = time.time(), 0.0
        for pictures, labels in train_data:
            pictures, labels = pictures.as_in_context(ctx), labels.as_in_context(ctx)
            with autograd.record():
                loss = loss_function(net(pictures), labels)
            loss.backward()
            trainer.step(pictures.shape[0])
            total += float(loss.sum().asscalar())
        accuracy = evaluate(net, test_data, ctx)
        seconds = time.time() - start
        print(
            f"epoch {epoch}: loss {total / len(train_set):.4f}, held-out accuracy "
            f"{accuracy:.4f}, {len(train_set) / seconds:.0f} pictures/s"
        )
    return accuracy


def draw_answers(net: gluon.Block, ctx: mx.Context, file: str) -> None:
    """Write a picture of held-out digits with the network's answers, wrong ones first."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    pictures, labels = (np.stack(values) for values in zip(*load_data()[1]))
    answers = net(nd.array(pictures, ctx=ctx)).asnumpy().argmax(axis=1)
    chosen = np.argsort(answers == labels, kind="stable")[:16]
    figure, axes = plt.subplots(2, 8, figsize=(7, 2.2))
    for axis, number in zip(axes.flat, chosen):
        axis.imshow(pictures[number, 0], cmap="gray_r")
        color = "black" if answers[number] == labels[number] else "red"
        axis.set_title(str(answers[number]), color=color, fontsize=9)
        axis.axis("off")
    figure.savefig(file, dpi=80, bbox_inches="tight")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--file", default="digits.params", help="where the network is saved")
    parser.add_argument("--load", metavar="FILE", help="test a saved network, do not train")
    parser.add_argument("--picture", metavar="FILE", help="write digits with their answers")
    parser.add_argument("--gpu", action="store_true", help="use mx.gpu(0)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--smoke", action="store_true", help="two epochs, no accuracy demanded")
    args = parser.parse_args()
    ctx = mx.gpu(0) if args.gpu else mx.cpu()
    mx.random.seed(args.seed)
    np.random.seed(args.seed)
    net = make_network()

    if args.load:
        net.load_parameters(args.load, ctx=ctx)
        net.hybridize()
        data = gluon.data.DataLoader(load_data()[1], 256)
        print(f"accuracy {evaluate(net, data, ctx):.6f}")
        return 0

    if args.smoke:
        args.epochs = 2
    accuracy = train(net, args, ctx)
    net.save_parameters(args.file)
    if args.picture:
        draw_answers(net, ctx, args.picture)
    print(f"saved {args.file}; testing it in a new process")
    command = [sys.executable, __file__, "--load", args.file] + (["--gpu"] if args.gpu else [])
    reply = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    print(reply)
    if reply != f"accuracy {accuracy:.6f}":
        print(f"the loaded network scores differently: {reply}, trained: {accuracy:.6f}")
        return 1
    if not args.smoke and accuracy <= 0.97:
        print(f"accuracy {accuracy:.4f} is not above 0.97")
        return 1
    nd.waitall()
    return 0


if __name__ == "__main__":
    sys.exit(main())
