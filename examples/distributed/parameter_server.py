"""Train on handwritten digits with a parameter server, synchronously or not, by MXNet's API.

    launch="python tools/launch.py --launcher local"
    $launch -n 2 -s 2 python examples/distributed/parameter_server.py
    $launch -n 2 -s 1 python examples/distributed/parameter_server.py --kv-store dist_async
    mpirun -np 2 python examples/distributed/parameter_server.py     without servers
    python examples/distributed/parameter_server.py                  one worker

With `dist_sync` all workers together take every batch: the loss does not depend on their number.
With `dist_async` each worker takes whole batches of its part of the data, and servers update with
each gradient at once; rank 0 prints how old gradients were.
"""

from __future__ import annotations

import argparse
import logging
import time

import mxlite as mx
import numpy as np
from digits import load_data, make_network
from mxlite import autograd, gluon


def train(args: argparse.Namespace) -> None:
    """Train, and print the loss of each epoch and the accuracy."""
    store = mx.kv.create(args.kv_store)
    rank, workers = store.rank, store.num_workers
    together = "async" not in store.type
    pictures, labels, test_pictures, test_labels = load_data()
    mx.random.seed(args.seed + rank)  # the store has the values of rank 0
    net = make_network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    scheduler = mx.lr_scheduler.FactorScheduler(args.decay_steps, 0.7, base_lr=args.lr)
    trainer = gluon.Trainer(
        net.collect_params(),
        "sgd",
        {"learning_rate": args.lr, "momentum": args.momentum, "lr_scheduler": scheduler},
        kvstore=store,
        update_on_kvstore=True,
    )
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    net(mx.nd.array(pictures[:1]))  # shapes of all parameters
    trainer._init_kvstore()
    trainer._init_params()  # before the first step all workers have the same values
    steps = len(labels) // args.batch_size
    if not together:
        steps //= workers
    begin = time.perf_counter()
    for epoch in range(args.epochs):
        order = np.random.RandomState(epoch).permutation(len(labels))
        total = 0.0
        for step in range(steps):
            if together:
                mine = order[step * args.batch_size : (step + 1) * args.batch_size][rank::workers]
            else:
                mine = order[rank::workers][step * args.batch_size : (step + 1) * args.batch_size]
            data, target = mx.nd.array(pictures[mine]), mx.nd.array(labels[mine])
            with autograd.record():
                loss = loss_function(net(data), target)
            loss.backward()
            trainer.step(args.batch_size)
            total += float(loss.mean().asscalar())
        logging.info("worker %d, epoch %d: loss %.6f", rank, epoch, total / steps)
    seconds = time.perf_counter() - begin
    store.barrier()
    if rank:
        return
    answers = net(mx.nd.array(test_pictures)).asnumpy().argmax(axis=1)
    accuracy = float(np.mean(answers == test_labels))
    logging.info(
        "held-out accuracy %.4f, %s, %d workers, %.1f s", accuracy, store.type, workers, seconds
    )
    if hasattr(store, "report"):
        logging.info("report: %s", store.report())


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kv-store", default="dist_sync", help="dist_sync, dist_async, ...")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64, help="of all workers; async: of each")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--decay-steps", type=int, default=100, help="updates of each array")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--smoke", action="store_true", help="two epochs")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if args.smoke:
        args.epochs = 2
    train(args)


if __name__ == "__main__":
    main()
