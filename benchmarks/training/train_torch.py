"""A training step on PyTorch: channels last, eager or compiled, half types by autocast."""

import numpy as np
import peer_values
import torch
from gluon_step import LEARNING_RATE, LOSS_SCALE, MOMENTUM, WEIGHT_DECAY, labels
from on_torch import DTYPES, device, network, set_values, version, wait
from torch.nn import functional

__all__ = ["prepare", "version"]


def prepare(spec, variant, dtype, batch):
    """Return ``step(fetch=False)`` and ``wait()``; see ``gluon_step.gluon``."""
    net = network(spec)
    set_values(net, spec)
    place = device()
    net = net.train().to(place).to(memory_format=torch.channels_last)
    data = torch.from_numpy(peer_values.images(batch, spec["size"])).to(place)
    data = data.contiguous(memory_format=torch.channels_last)
    target = torch.from_numpy(labels(batch).astype(np.int64)).to(place)
    scale = LOSS_SCALE if dtype == "float16" else 1.0
    optimizer = torch.optim.SGD(
        net.parameters(),
        lr=LEARNING_RATE,
        momentum=MOMENTUM,
        weight_decay=WEIGHT_DECAY,
        fused=True,
    )

    def objective():
        with torch.autocast(place.type, DTYPES[dtype], enabled=dtype != "float32"):
            scores = net(data)
        return functional.cross_entropy(scores.float(), target)

    if variant == "compile":
        objective = torch.compile(objective)

    def step(fetch=False):
        optimizer.zero_grad(set_to_none=True)
        loss = objective()
        (loss * scale).backward()
        if scale != 1:
            torch._foreach_mul_([p.grad for p in net.parameters()], 1 / scale)
        optimizer.step()
        return loss.item() if fetch else None

    return step, wait
