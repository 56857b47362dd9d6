"""Trainer and Module with a `dist_sync` store: the weights of one process with the whole batch."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon
from mxlite.gluon import nn
from rank_checks import agree, weights

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
    return weights(net)


OPTIONS = {
    "sgd": {"learning_rate": 0.3, "momentum": 0.9, "wd": 0.01},
    "adam": {"learning_rate": 0.05},
    "lamb": {"learning_rate": 0.05, "wd": 0.01},  # servers do not have it
}


for optimizer, on_store in (("sgd", True), ("sgd", False), ("adam", True), ("lamb", None)):
    store = mx.kv.create("dist_sync")
    share = slice(store.rank, None, store.num_workers)
    options = OPTIONS[optimizer]
    found = trained(store, optimizer, options, share, update_on_kvstore=on_store)
    agree(found, trained(None, optimizer, options, slice(None)), 2e-5, 1e-6)
print("done", flush=True)
