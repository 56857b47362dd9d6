"""The norm of clip_global_norm is that of all stages of a pipeline, and of their blocks."""

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd, gluon
from mxlite.gluon import nn
from mxlite.gluon.contrib import parallel
from rank_checks import agree, fails, weights

STEPS, BATCH, WIDTH = 4, 8, 6
mesh = mx.parallel.mesh(pipe=2, tensor=-1)
place, group = mesh.coordinate("pipe"), mesh.group("tensor")


def make_stages(divided):
    """Return two stages, the second one with divided layers, with the same values on all ranks."""
    mx.random.seed(5)
    column = parallel.ColumnParallelDense if divided else nn.Dense
    row = parallel.RowParallelDense if divided else nn.Dense
    options = [group] if divided else []
    first, second = nn.Dense(WIDTH, in_units=WIDTH, activation="tanh"), nn.HybridSequential()
    second.add(column(4, *options, in_units=WIDTH), row(3, *options, in_units=4))
    for stage in (first, second):
        if not divided or stage is second or place == 0:
            stage.initialize(mx.init.Xavier(magnitude=3))
        else:
            nn.Dense(WIDTH, in_units=WIDTH).initialize(mx.init.Xavier(magnitude=3))  # draws as much
    return [first, second]


def make_trainer(make, params, optimizer):
    return make(params, optimizer, {"learning_rate": 0.2}, clip_global_norm=0.3)


def make_alone(*args, **options):
    """Return a trainer that averages over no other rank: data is not divided here."""
    return hvd.DistributedTrainer(*args, process_set=alone, **options)


alone = mx.parallel.mesh(all=-1, alone=1).group("alone")
loss_function = gluon.loss.L2Loss()
for optimizer in ("sgd", "adagrad"):  # with and without the factor in the optimizer's operator
    stages, plain = make_stages(True), make_stages(False)
    pipeline = mx.parallel.Pipeline(stages, 4, mesh, loss_function)
    every = {}
    for stage in plain:
        every.update(stage.collect_params().items())
    trainer = make_trainer(make_alone, pipeline.collect_params(), optimizer)
    reference = make_trainer(gluon.Trainer, every, optimizer)
    random = np.random.RandomState(4)
    for _ in range(STEPS):
        x = mx.nd.array(random.randn(BATCH, WIDTH))
        y = mx.nd.array(random.randn(BATCH, 3))
        pipeline.step(x, y)
        with autograd.record():
            loss = loss_function(plain[1](plain[0](x)), y)
        loss.backward()
        trainer.step(BATCH)
        reference.step(BATCH)
        agree([trainer.gradient_norm], [reference.gradient_norm], 1e-4, 1e-6)
    values = [p.full_data() if p.shard else p.data() for p in pipeline.collect_params().values()]
    agree(values, weights(plain[place]), 1e-4, 1e-6)

# A stage without trained parameters has a trainer that never counts the norm.
stages = [nn.Activation("tanh"), nn.Dense(3, in_units=WIDTH)]
stages[1].initialize()
pipeline = mx.parallel.Pipeline(stages, 2, mesh, loss_function)
trainer = make_trainer(make_alone, pipeline.collect_params(), "sgd")
x, y = mx.nd.ones((4, WIDTH)), mx.nd.ones((4, 3))
pipeline.step(x, y)
if place == 1:
    fails(lambda: trainer.step(4), "a stage has no trained parameters")
else:
    trainer.step(4)
print("done", mesh.rank)
