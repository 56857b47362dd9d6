"""Train on handwritten digits with any number of processes; the loss does not depend on it.

    python examples/distributed/digits.py                        one process
    mxlite-run -np 4 python examples/distributed/digits.py       four, the same global batch
    python examples/distributed/digits.py --compare 1 2 4        runs all, compares their curves

Each process takes its part of every batch; gradients are averaged by Horovod's trainer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd, gluon
from mxlite.gluon import nn
from sklearn.datasets import load_digits

# Limit of the relative difference of each epoch's loss; float sums differ by their order.
TOLERANCE = 1e-3


def make_network() -> nn.HybridSequential:
    """Return a network without random or batch-wide parts, which would depend on the processes."""
    net = nn.HybridSequential(prefix="digits_")
    with net.name_scope():
        net.add(
            nn.Conv2D(16, kernel_size=3, padding=1, activation="relu"),
            nn.MaxPool2D(2),
            nn.Conv2D(32, kernel_size=3, padding=1, activation="relu"),
            nn.Flatten(),
            nn.Dense(64, activation="relu"),
            nn.Dense(10),
        )
    return net


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return pictures (n, 1, 8, 8) in 0..1 and labels, for training and held out."""
    digits = load_digits()
    order = np.random.RandomState(1).permutation(len(digits.target))
    pictures = (digits.images[order, None] / 16.0).astype("float32")
    labels = digits.target[order].astype("float32")
    return pictures[360:], labels[360:], pictures[:360], labels[:360]


def train(args: argparse.Namespace) -> dict[str, object]:
    """Train, and return the loss of each epoch and the accuracy."""
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    if args.batch_size % size:
        raise SystemExit(f"a batch of {args.batch_size} cannot be shared by {size} processes")
    pictures, labels, test_pictures, test_labels = load_data()
    mx.random.seed(args.seed + rank)  # broadcast_parameters makes them equal
    net = make_network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hvd.DistributedTrainer(
        net.collect_params(), "sgd", {"learning_rate": args.lr, "momentum": 0.9}
    )
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    mine = args.batch_size // size
    losses = []
    begin = time.perf_counter()
    for epoch in range(args.epochs):
        order = np.random.RandomState(epoch).permutation(len(labels))
        total = mx.nd.zeros((1,))
        steps = len(labels) // args.batch_size
        for step in range(steps):
            first = step * args.batch_size + rank * mine
            chosen = order[first : first + mine]
            data, target = mx.nd.array(pictures[chosen]), mx.nd.array(labels[chosen])
            with autograd.record():
                loss = loss_function(net(data), target)
            loss.backward()
            trainer.step(mine)
            total += loss.detach().sum()
        mean = hvd.allreduce(total, op=hvd.Sum, name="loss").asscalar() / (steps * args.batch_size)
        losses.append(float(mean))
        if rank == 0:
            print(f"epoch {epoch}: loss {mean:.6f}", flush=True)
    seconds = time.perf_counter() - begin
    answers = net(mx.nd.array(test_pictures)).asnumpy().argmax(axis=1)
    accuracy = float(np.mean(answers == test_labels))
    if rank == 0:
        print(f"held-out accuracy {accuracy:.4f}, {size} processes, {seconds:.1f} s", flush=True)
    return {"processes": size, "losses": losses, "accuracy": accuracy, "seconds": seconds}


def compare(args: argparse.Namespace) -> int:
    """Run with several numbers of processes, and compare the curves."""
    results = []
    for count in args.compare:
        file = Path(f"digits_{count}.json")
        command = [sys.executable, "-m", "mxlite.run", "-np", str(count), sys.executable, __file__]
        command += ["--epochs", str(args.epochs), "--json", str(file)]
        subprocess.run(command, check=True)
        results.append(json.loads(file.read_text()))
        file.unlink()
    reference = np.array(results[0]["losses"])
    worst = 0.0
    for entry in results[1:]:
        difference = float(np.max(np.abs(np.array(entry["losses"]) / reference - 1)))
        worst = max(worst, difference)
        print(f"{entry['processes']} processes: largest relative difference {difference:.2e}")
    if args.json:
        summary = {"tolerance": TOLERANCE, "largest_difference": worst, "runs": results}
        Path(args.json).write_text(json.dumps(summary, indent=1) + "\n")
    if args.plot:
        plot(results, args.plot)
    return 0 if worst <= TOLERANCE else 1


def plot(results: list[dict], path: str) -> None:
    """Draw the loss curves on top of each other."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for entry, style in zip(results, ("-", "--", ":", "-.")):
        label = f"{entry['processes']} processes, accuracy {entry['accuracy']:.3f}"
        plt.semilogy(entry["losses"], style, label=label)
    plt.xlabel("epoch")
    plt.ylabel("loss")
    plt.legend()
    plt.savefig(path, dpi=110)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64, help="of all processes together")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", help="file for losses and accuracy")
    parser.add_argument("--plot", help="with --compare: picture of the curves")
    parser.add_argument("--compare", type=int, nargs="+", metavar="N", help="numbers of processes")
    parser.add_argument("--smoke", action="store_true", help="two epochs")
    args = parser.parse_args()
    if args.smoke:
        args.epochs = 2
    if args.compare:
        return compare(args)
    result = train(args)
    if args.json and hvd.rank() == 0:
        Path(args.json).write_text(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
