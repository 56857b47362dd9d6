"""Trains a small network on several devices of this process, for tests of stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxlite as mx
import numpy as np
from mxlite import gluon
from mxlite.gluon import nn

STEPS = 4


def summed_by_key(
    store: Any, entries: Sequence[Any], updates: bool, names: Sequence[str] | None = None
) -> None:
    """Take the place of `kvstore.gradients.pushpull_all`: sums each key by a call of its own."""
    for position, key, arrays, grads in entries:
        store.pushpull(key, grads, out=arrays if updates else grads, priority=-position)


def train(
    contexts: Sequence[mx.Context], optimizer: str, options: dict[str, Any], **store: Any
) -> list[np.ndarray]:
    """Return all weights of all devices, and the gradients of the last step."""
    mx.random.seed(3)
    rng = np.random.default_rng(7)
    net = nn.HybridSequential()
    net.add(nn.Dense(33, activation="tanh"), nn.Dense(17), nn.BatchNorm(), nn.Dense(5))
    net.initialize(mx.init.Xavier(), ctx=list(contexts))
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, dict(options), **store)
    for _ in range(STEPS):
        parts = [rng.standard_normal((6, 11)).astype("float32") for _ in contexts]
        with mx.autograd.record():
            losses = [(net(mx.nd.array(x, ctx=c)) ** 2).sum() for x, c in zip(parts, contexts)]
        mx.autograd.backward(losses)
        trainer.step(6 * len(contexts))
    results = []
    for param in net.collect_params().values():
        results += [array.asnumpy() for array in param.list_data()]
        if param.grad_req != "null":
            results += [array.asnumpy() for array in param.list_grad()]
    return results
