"""Train on handwritten digits on a Ray cluster; the training survives a lost rank.

    python examples/distributed/ray_digits.py --workers 2

Each rank is an actor. If one is lost, all are started again and continue with the last commit.
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import mxlite.ray


def train(epochs: int, lost: str | None) -> dict[str, object]:
    """Train on one rank; return a dict of what it did.

    The dict has the rank, the number of ranks, the epochs trained since the last start, and the
    accuracy on held-out digits.

    Parameters
    ----------
    epochs : int
    lost : str, optional
        Rank 1 writes this file in the third epoch and kills itself, if there is no such file.
    """
    import mxlite as mx
    import mxlite.horovod as hvd
    import numpy as np
    from mxlite import autograd, gluon
    from sklearn.datasets import load_digits

    hvd.init()
    digits = load_digits()
    pictures = mx.nd.array(digits.data / 16.0)
    labels = mx.nd.array(digits.target)
    mx.random.seed(7)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(64, in_units=64, activation="relu"), gluon.nn.Dense(10, in_units=64))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = hvd.DistributedTrainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    state = hvd.elastic.TrainState(net, trainer, epoch=0)
    made = []

    @hvd.elastic.run
    def loop(state: hvd.elastic.TrainState) -> None:
        while state.epoch < epochs:
            order = np.random.RandomState(state.epoch).permutation(1500)
            for first in range(0, 1500, 60):
                own = order[first + hvd.rank() : first + 60 : hvd.size()]
                with autograd.record():
                    loss = loss_function(net(pictures[own]), labels[own])
                loss.backward()
                trainer.step(len(own))
            state.epoch += 1
            made.append(state.epoch)
            if lost and state.epoch == 3 and hvd.rank() == 1 and not Path(lost).exists():
                Path(lost).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            state.commit()

    loop(state)
    answers = net(pictures[1500:]).argmax(axis=1).asnumpy()
    accuracy = float((answers == digits.target[1500:]).mean())
    return {"rank": hvd.rank(), "size": hvd.size(), "epochs": made, "accuracy": accuracy}


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--cpus-per-worker", type=float, default=1)
    parser.add_argument("--lose-a-rank", metavar="FILE", help="kill rank 1 once; for tests")
    args = parser.parse_args()
    results = mxlite.ray.run(
        train,
        (args.epochs, args.lose_a_rank),
        num_workers=args.workers,
        cpus_per_worker=args.cpus_per_worker,
        restarts=1,
    )
    for result in results:
        print(result, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
