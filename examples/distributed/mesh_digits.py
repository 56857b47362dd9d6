"""Train on handwritten digits on a mesh of processes: batches and layers are both divided.

    python examples/distributed/mesh_digits.py                                     one process
    mxlite-run -np 4 python examples/distributed/mesh_digits.py --data 2 --tensor 2

Ranks with the same place along the data axis read the same batch and have shards of the dense
layers along the tensor axis; the loss works on divided logits. Gradients are averaged over the data
axis. The loss of each epoch does not depend on the mesh.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd
from mxlite.gluon import nn
from mxlite.gluon.contrib import parallel
from sklearn.datasets import load_digits


def make_network() -> nn.HybridSequential:
    """Return a convolution and dense layers; the output is this rank's shard of the ten logits."""
    net = nn.HybridSequential(prefix="digits_")
    with net.name_scope():
        net.add(
            nn.Conv2D(16, kernel_size=3, padding=1, activation="relu"),
            nn.MaxPool2D(2),
            nn.Flatten(),
            parallel.ColumnParallelDense(60, "tensor", activation="relu"),
            parallel.RowParallelDense(32, "tensor", activation="relu", in_units=60),
            parallel.ColumnParallelDense(10, "tensor", allow_uneven=True),
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
    mesh = mx.parallel.mesh(data=args.data, tensor=args.tensor).use()
    parts, part = mesh.axis_size("data"), mesh.coordinate("data")
    if args.batch_size % parts:
        raise SystemExit(f"a batch of {args.batch_size} cannot be shared by {parts} ranks")
    pictures, labels, test_pictures, test_labels = load_data()
    mx.random.seed(args.seed)  # the same on all ranks: each keeps its shard of the same values
    net = make_network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss_function = parallel.VocabParallelSoftmaxCELoss(10, "tensor")
    trainer = hvd.DistributedTrainer(
        net.collect_params(),
        "sgd",
        {"learning_rate": args.lr, "momentum": 0.9},
        process_set="data",
    )
    mine = args.batch_size // parts
    losses = []
    for epoch in range(args.epochs):
        order = np.random.RandomState(epoch).permutation(len(labels))
        total = mx.nd.zeros((1,))
        steps = len(labels) // args.batch_size
        for step in range(steps):
            first = step * args.batch_size + part * mine
            chosen = order[first : first + mine]
            data, target = mx.nd.array(pictures[chosen]), mx.nd.array(labels[chosen])
            with autograd.record():
                loss = loss_function(net(data), target)
            loss.backward()
            trainer.step(mine)
            total += loss.detach().sum()
        total = mx.nd.contrib.all_reduce(total, process_set=mesh.group("data")).asscalar()
        losses.append(float(total) / (steps * args.batch_size))
        if mesh.rank == 0:
            print(f"epoch {epoch}: loss {losses[-1]:.6f}", flush=True)
    logits = net(mx.nd.array(test_pictures))
    # The highest logit of each shard, then the shard that has the highest.
    best = mx.nd.concat(
        logits.max(axis=1, keepdims=True),
        logits.argmax(axis=1, keepdims=True) + first_class(10, mesh),
        dim=1,
    )
    best = mx.nd.contrib.all_gather(best.expand_dims(0), process_set=mesh.group("tensor"))
    best = best.asnumpy()
    answers = best[best[:, :, 0].argmax(axis=0), np.arange(best.shape[1]), 1]
    accuracy = float(np.mean(answers == test_labels))
    if mesh.rank == 0:
        print(f"held-out accuracy {accuracy:.4f}, {mesh}", flush=True)
    return {"mesh": mesh.axes, "losses": losses, "accuracy": accuracy}


def first_class(classes: int, mesh: mx.parallel.Mesh) -> int:
    """Return the number of the first class of this rank's shard."""
    parts = np.array_split(np.arange(classes), mesh.axis_size("tensor"))
    return int(parts[mesh.coordinate("tensor")][0])


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=int, default=-1, help="ranks that share a batch")
    parser.add_argument("--tensor", type=int, default=1, help="ranks that share the dense layers")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64, help="of all ranks together")
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", help="file for losses and accuracy")
    parser.add_argument("--smoke", action="store_true", help="two epochs")
    args = parser.parse_args()
    if args.smoke:
        args.epochs = 2
    result = train(args)
    if args.json and hvd.rank() == 0:
        Path(args.json).write_text(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
