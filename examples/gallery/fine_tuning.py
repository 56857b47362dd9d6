"""Fine-tune a network for a new question with few labels, beside one trained from scratch.

    python examples/gallery/fine_tuning.py
    python examples/gallery/fine_tuning.py --labels 10 --picture fine_tuning.png

The first network learns to read digits. Its features then begin a network that counts the closed
loops of a digit (none, one or two), of which only a few pictures have labels.
"""

from __future__ import annotations

import argparse
import sys

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn
from sklearn.datasets import load_digits

OLD = 900  # pictures of the first task


class Classifier(nn.HybridBlock):
    """Convolutions as `features`, one dense layer as `output`."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features = nn.HybridSequential()
        for channels in (32, 64):
            self.features.add(
                nn.Conv2D(channels, 3, padding=1), nn.BatchNorm(), nn.Activation("relu")
            )
            self.features.add(nn.MaxPool2D())
        self.features.add(nn.Dense(64, activation="relu"))
        self.output = nn.Dense(classes)

    def hybrid_forward(self, F, x):  # noqa: N803
        """Return scores (batch, classes) of pictures (batch, 1, height, width)."""
        return self.output(self.features(x))


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return pictures (count, 1, 8, 8) of digits, their values, and their numbers of loops."""
    digits = load_digits()
    order = np.random.permutation(len(digits.target))
    pictures = (digits.images[order, None] / 16).astype("float32")
    values = digits.target[order].astype("float32")
    loops = np.isin(values, (0, 6, 9)) + 2.0 * (values == 8)
    return pictures, values, loops.astype("float32")


def train(net: Classifier, x: np.ndarray, y: np.ndarray, steps: int, rate: float) -> None:
    """Train for a number of steps of at most 64 pictures."""
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": rate})
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    net.hybridize()
    for _ in range(steps):
        chosen = np.random.choice(len(y), min(64, len(y)), replace=False)
        with autograd.record():
            loss = loss_function(net(nd.array(x[chosen])), nd.array(y[chosen]))
        loss.backward()
        trainer.step(len(chosen))


def accuracy(net: Classifier, x: np.ndarray, y: np.ndarray) -> float:
    """Return the share of pictures whose class is right."""
    return float((net(nd.array(x)).asnumpy().argmax(axis=1) == y).mean())


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--labels", type=int, default=3, help="pictures of each digit for the new task"
    )
    parser.add_argument("--steps", type=int, default=200, help="of the first network")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="fewer steps")
    parser.add_argument("--picture", metavar="FILE", help="write a plot of the accuracies")
    args = parser.parse_args()
    if args.smoke:
        args.steps = 100
    mx.random.seed(args.seed)
    np.random.seed(args.seed)
    pictures, values, loops = load_data()
    new = [OLD + np.flatnonzero(values[OLD:] == digit)[: args.labels] for digit in range(10)]
    few = np.concatenate(new)
    test = np.setdiff1d(np.arange(OLD, len(values)), few)

    first = Classifier(10)
    first.initialize(mx.init.Xavier())
    train(first, pictures[:OLD], values[:OLD], args.steps, 0.003)
    print(f"digits: accuracy {accuracy(first, pictures[test], values[test]):.3f}")
    first.features.save_parameters("features.params")

    results = {}
    for name in ("from scratch", "fine-tuned"):
        net, rate = Classifier(3), 0.005
        if name == "fine-tuned":
            rate = 0.02
            net.features.load_parameters("features.params")
            net.features.collect_params().setattr("lr_mult", 0.1)
        else:
            net.features.initialize(mx.init.Xavier())
        net.output.initialize(mx.init.Xavier())
        train(net, pictures[few], loops[few], 60, rate)
        results[name] = accuracy(net, pictures[test], loops[test])
    if args.picture:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(5, 2))
        axes.barh(list(results), list(results.values()))
        axes.set(xlabel=f"accuracy with {args.labels} labelled pictures of each digit", xlim=(0, 1))
        figure.savefig(args.picture, dpi=90, bbox_inches="tight")
    print(", ".join(f"{name} {value:.3f}" for name, value in results.items()))
    return 0 if results["fine-tuned"] > results["from scratch"] else 1


if __name__ == "__main__":
    sys.exit(main())
