"""Training that continues when processes are lost or join (`mxlite-run --elastic`).

A program saves its state with every commit, and continues from the last one::

    state = hvd.elastic.TrainState(net, trainer, sampler=sampler, epoch=0)

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, epochs):
            for number, (data, label) in enumerate(loader):
                ...
                trainer.step(batch_size)
                state.sampler.record_batch(number, batch_size)
                if number % 10 == 0:
                    state.commit()
            state.sampler.set_epoch(state.epoch + 1)

    train(state)

The API is that of ``horovod.torch.elastic``; Horovod has no elastic training for MXNet.
"""

from __future__ import annotations

from .errors import HorovodInternalError, HostsUpdatedInterrupt
from .runner import run
from .sampler import ElasticSampler
from .state import ObjectState, State, TrainState

__all__ = [
    "ElasticSampler",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "TrainState",
    "run",
]
