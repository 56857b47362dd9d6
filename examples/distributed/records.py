"""Train on pictures in a record file with any number of processes; the loss does not depend on it.

    python examples/distributed/records.py                       one process
    mxlite-run -np 4 python examples/distributed/records.py      four, the same global batch
    python examples/distributed/records.py --in-turn 4           one that computes four ranks' parts

Each process reads its pictures of every batch from the record file. A process that computes the
parts of several ranks in turn, and adds their gradients in the order of ranks, gets the same bits
as that number of processes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd, gluon
from mxlite.gluon import nn
from mxlite.gluon.data.vision import ImageRecordDataset
from sklearn.datasets import load_digits

SIZE = 32  # side of an image in pixels


def make_records(path: Path) -> None:
    """Write the handwritten digits as JPEG pictures of 32 by 32 into a record file."""
    digits = load_digits()
    order = np.random.RandomState(1).permutation(len(digits.target))
    partial = path.with_suffix(".partial")
    record = mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(partial), "w")
    for place, i in enumerate(order):
        grey = np.kron(digits.images[i] * 15.9, np.ones((4, 4))).astype(np.uint8)
        header = mx.recordio.IRHeader(0, float(digits.target[i]), place, 0)
        record.write_idx(
            place, mx.recordio.pack_img(header, np.stack([grey] * 3, axis=2), quality=95)
        )
    record.close()
    partial.rename(path)


def make_network() -> nn.HybridSequential:
    """Return a network without random or batch-wide parts, which would depend on the processes."""
    net = nn.HybridSequential(prefix="records_")
    with net.name_scope():
        for channels in (8, 16, 32):
            net.add(nn.Conv2D(channels, kernel_size=3, padding=1, activation="tanh"))
            net.add(nn.AvgPool2D(2))
        net.add(nn.Flatten(), nn.Dense(64, activation="tanh"), nn.Dense(10))
    return net


class Parts:
    """Computes gradients of this rank's part of a batch, or of several ranks' parts in turn."""

    def __init__(self, net: nn.HybridSequential, in_turn: int) -> None:
        self._net = net
        self._in_turn = in_turn
        self._loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def ranks(self) -> int:
        """Return how many ranks share a batch."""
        return self._in_turn or hvd.size()

    def backward(self, data: mx.nd.NDArray, label: mx.nd.NDArray) -> np.float32:
        """Leave the gradients of (batch, 3, 32, 32) in the parameters; return the sum of losses."""
        if not self._in_turn:
            return self._backward(data, label)
        params = [p for p in self._net.collect_params().values() if p.grad_req != "null"]
        total = np.float32(0)
        sums: list[np.ndarray] = []
        for rank in range(self._in_turn):
            total += self._backward(data[rank :: self._in_turn], label[rank :: self._in_turn])
            grads = [p.grad().asnumpy() for p in params]
            sums = [a + b for a, b in zip(sums, grads)] if sums else grads
        for param, value in zip(params, sums):
            param.grad()[:] = value
        return total

    def _backward(self, data: mx.nd.NDArray, label: mx.nd.NDArray) -> np.float32:
        with autograd.record():
            loss = self._loss(self._net(data), label)
        loss.backward()
        return loss.sum().asnumpy()[0]


def train(args: argparse.Namespace) -> dict[str, object]:
    """Train, and return the loss of each step and the accuracy on held-out pictures."""
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    path = Path(args.records)
    if rank == 0 and not path.exists():
        make_records(path)
    hvd.allreduce(mx.nd.ones((1,)), name="records").wait_to_read()  # waits for the files
    scaled = lambda data, label: (data.transpose((2, 0, 1)).astype("float32") / 128 - 0.5, label)  # noqa: E731
    dataset = ImageRecordDataset(str(path)).transform(scaled)
    held_out = range(0, 320)
    mx.random.seed(args.seed)
    net = make_network()
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 3, SIZE, SIZE)))
    net.hybridize()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hvd.DistributedTrainer(
        net.collect_params(), "sgd", {"learning_rate": args.lr, "momentum": 0.9}
    )
    parts = Parts(net, args.in_turn)
    if args.in_turn:
        trainer._scale = 1.0 / args.in_turn  # as in the mean over this many ranks
    if args.batch_size % parts.ranks():
        raise SystemExit(f"a batch of {args.batch_size} cannot be shared by {parts.ranks()} ranks")
    losses = []
    begin = time.perf_counter()
    for epoch in range(args.epochs):
        order = 320 + np.random.RandomState(epoch).permutation(len(dataset) - 320)
        batches = [
            [int(i) for i in order[first + rank : first + args.batch_size : size]]
            for first in range(0, len(order) - args.batch_size + 1, args.batch_size)
        ]
        for data, label in gluon.data.DataLoader(dataset, batch_sampler=batches):
            mine = mx.nd.array([parts.backward(data, label.astype("float32"))])
            trainer.step(args.batch_size // parts.ranks())
            total = hvd.allreduce(mine, op=hvd.Sum, name="loss").asscalar()
            losses.append(float(total) / args.batch_size)
        if rank == 0:
            mean = np.mean(losses[-len(batches) :])
            print(f"epoch {epoch}: loss {mean:.6f}, last step {losses[-1].hex()}", flush=True)
    seconds = time.perf_counter() - begin
    data = mx.nd.stack(*[dataset[i][0] for i in held_out])
    labels = np.array([float(dataset[i][1]) for i in held_out])
    accuracy = float(np.mean(net(data).asnumpy().argmax(axis=1) == labels))
    if rank == 0:
        print(f"held-out accuracy {accuracy:.4f}, {size} processes, {seconds:.1f} s", flush=True)
    return {
        "processes": size,
        "in_turn": args.in_turn,
        "losses": losses,
        "accuracy": accuracy,
        "seconds": seconds,
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", default="digits.rec", help="made if it is not there")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64, help="of all processes together")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--in-turn", type=int, default=0, metavar="N", help="parts of N ranks")
    parser.add_argument("--json", help="file for losses and accuracy")
    parser.add_argument("--smoke", action="store_true", help="one epoch")
    args = parser.parse_args()
    if args.smoke:
        args.epochs = 1
    result = train(args)
    if args.json and hvd.rank() == 0:
        Path(args.json).write_text(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
