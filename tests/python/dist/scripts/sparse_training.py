"""A table whose gradients, or whose values, are rows: several workers learn what one does."""

from __future__ import annotations

import sys
from typing import Any

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon

ROWS, WIDTH, BATCH, STEPS = 50, 4, 12, 4


def trained(kind: str, store: Any, rank: int, workers: int) -> Any:
    random = np.random.RandomState(7)
    ids = random.randint(0, ROWS, (STEPS, BATCH))
    goals = random.uniform(-1, 1, (STEPS, BATCH, WIDTH))
    mx.random.seed(5 + rank)
    if kind == "weight":
        net = gluon.contrib.nn.SparseEmbedding(ROWS, WIDTH)
    else:
        net = gluon.nn.Embedding(ROWS, WIDTH, sparse_grad=True)
    net.initialize(mx.init.Uniform(1.0))
    options = {"learning_rate": 0.5, "momentum": 0.9}
    trainer = gluon.Trainer(net.collect_params(), "sgd", options, kvstore=store)
    trainer._ready()  # all workers have the values of rank 0 before their first forward
    part = slice(rank, None, workers)
    for step in range(STEPS):
        with autograd.record():
            found = net(mx.nd.array(ids[step][part]))
            loss = ((found - mx.nd.array(goals[step][part])) ** 2).sum()
        loss.backward()
        trainer.step(BATCH)
    if kind == "weight":
        rows = net.weight.row_sparse_data(mx.nd.arange(ROWS))
        return rows.tostype("default").asnumpy()
    return net.weight.data().asnumpy()


for kind in sys.argv[1:]:
    store = mx.kv.create("dist_sync")
    found = trained(kind, store, store.rank, store.num_workers)
    # A process on its own: the same rule on rows, in a store of this process.
    expected = trained(kind, mx.kv.create("local"), 0, 1)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
    assert abs(found).max() > 0.1
print("done", flush=True)
