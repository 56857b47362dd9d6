"""Trainer and Module with a `dist_sync` store: the weights of one process with the whole batch."""

from __future__ import annotations

import argparse
from typing import Any

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon
from mxlite.gluon import nn

BATCH, STEPS = 24, 4


def data() -> tuple[Any, Any]:
    random = np.random.RandomState(3)
    return (
        random.uniform(-1, 1, (STEPS + 1, BATCH, 5)).astype("float32"),
        random.randint(0, 3, (STEPS + 1, BATCH)).astype("float32"),
    )


def make_net(seed: int) -> Any:
    mx.random.seed(seed)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(7, activation="tanh", in_units=5), nn.Dense(3, in_units=7))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def step(net: Any, trainer: Any, inputs: Any, labels: Any, batch_size: int) -> None:
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    with autograd.record():
        loss = loss_function(net(mx.nd.array(inputs)), mx.nd.array(labels))
    loss.backward()
    trainer.step(batch_size)


def values(net: Any) -> list[Any]:
    return [p.data().asnumpy() for _, p in sorted(net.collect_params().items())]


def trained(kvstore: Any, optimizer: str, options: dict, share: slice, **kwargs: Any) -> list[Any]:
    """Train, the last step with half the batch and another rate; return the weights."""
    inputs, labels = data()
    net = make_net(5 if kvstore is None else 5 + kvstore.rank)
    trainer = gluon.Trainer(net.collect_params(), optimizer, options, kvstore=kvstore, **kwargs)
    trainer._init_kvstore()
    trainer._init_params()  # all workers have the weights of rank 0 before their first forward
    for i in range(STEPS):
        step(net, trainer, inputs[i][share], labels[i][share], BATCH)
    trainer.set_learning_rate(options["learning_rate"] / 3)
    step(net, trainer, inputs[STEPS][share], labels[STEPS][share], BATCH // 2)
    return values(net)


OPTIONS = {
    "sgd": {"learning_rate": 0.3, "momentum": 0.9, "wd": 0.01},
    "adam": {"learning_rate": 0.05},
    "lamb": {"learning_rate": 0.05, "wd": 0.01},  # servers do not have it
}


def check(store: Any, optimizer: str, on_workers: bool | None) -> None:
    options = OPTIONS[optimizer]
    share = slice(store.rank, None, store.num_workers)
    on_store = None if on_workers is None else not on_workers
    found = trained(store, optimizer, options, share, update_on_kvstore=on_store)
    for a, b in zip(found, trained(None, optimizer, options, slice(None))):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--type", default="dist_sync")
    parser.add_argument("--optimizer", default="sgd", choices=OPTIONS)
    parser.add_argument("--on-workers", action="store_true", help="update_on_kvstore=False")
    parser.add_argument("--all", action="store_true", help="each way, with a store of its own")
    args = parser.parse_args()
    ways = [("sgd", False), ("sgd", True), ("adam", False), ("lamb", None)]
    for optimizer, on_workers in ways if args.all else [(args.optimizer, args.on_workers)]:
        store = mx.kv.create(args.type)
        check(store, optimizer, on_workers)
    print(f"worker {store.rank}: training passed", flush=True)


if __name__ == "__main__":
    main()
