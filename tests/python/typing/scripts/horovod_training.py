"""Train in several processes: mxlite-run -np 2 python horovod_training.py."""

from __future__ import annotations

import mxlite as mx
import mxlite.horovod as hvd
from mxlite import autograd, gluon


def main() -> None:
    hvd.init()
    mx.random.seed(hvd.rank())
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    params = net.collect_params()
    hvd.broadcast_parameters(params, root_rank=0)
    trainer = hvd.DistributedTrainer(params, "sgd", {"learning_rate": 0.1 * hvd.size()})
    loss = gluon.loss.L2Loss()
    x, y = mx.nd.ones((4, 3)), mx.nd.zeros((4, 2))
    with autograd.record():
        error = loss(net(x), y)
    error.backward()
    trainer.step(x.shape[0])
    mean = hvd.allreduce(error.mean(), average=True, name="loss")
    if hvd.rank() == 0:
        print(mean.asscalar(), hvd.local_size())
    hvd.shutdown()


if __name__ == "__main__":
    main()
