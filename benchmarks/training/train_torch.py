"""A training step on PyTorch: channels last, eager or compiled, bfloat16 by autocast."""

import numpy as np
import torch
import values
from gluon_step import LEARNING_RATE, MOMENTUM, WEIGHT_DECAY, labels
from on_torch import network, set_values, version
from torch.nn import functional

__all__ = ["prepare", "version"]


def prepare(spec, variant, dtype, batch):
    """Return ``step(fetch=False)`` and ``wait()``; see ``gluon_step.gluon``."""
    net = network(spec)
    set_values(net, spec)
    net = net.train().to(memory_format=torch.channels_last)
    data = torch.from_numpy(values.images(batch, spec["size"]))
    data = data.contiguous(memory_format=torch.channels_last)
    target = torch.from_numpy(labels(batch).astype(np.int64))
    optimizer = torch.optim.SGD(
        net.parameters(),
        lr=LEARNING_RATE,
        momentum=MOMENTUM,
        weight_decay=WEIGHT_DECAY,
        fused=True,
    )

    def objective():
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            scores = net(data)
        return functional.cross_entropy(scores.float(), target)

    if variant == "compile":
        objective = torch.compile(objective)

    def step(fetch=False):
        optimizer.zero_grad(set_to_none=True)
        loss = objective()
        loss.backward()
        optimizer.step()
        return loss.item() if fetch else None

    return step, lambda: None
