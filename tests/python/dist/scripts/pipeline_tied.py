"""A parameter that two stages of a pipeline share is trained as in one process."""

import sys

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
import pytest
from mxlite import autograd, gluon
from mxlite.gluon import nn
from mxlite.gluon.contrib import parallel
from mxlite.parallel.tied import parameters_of

WORDS, WIDTH, BATCH = 8, 6, 4
data_ranks, stages_count = int(sys.argv[1]), int(sys.argv[2])
mesh = mx.parallel.mesh(data=data_ranks, pipe=stages_count, tensor=-1)
place, group = mesh.coordinate("pipe"), mesh.group("tensor")
loss_function = parallel.VocabParallelSoftmaxCELoss(WORDS, group)


class Scores(gluon.HybridBlock):
    """Products with the rows of the table."""

    def __init__(self, table):
        super().__init__()
        self.table = table.weight
        self.units = table._size

    def hybrid_forward(self, F, x, table):
        if mesh.axis_size("tensor") > 1:
            x = F.contrib.sum_gradient(x, process_set=group)
        return F.FullyConnected(x, table, num_hidden=self.units, no_bias=True)


def make_stages():
    """Return stages of which the first and the last have the same table."""
    mx.random.seed(4)
    table = parallel.VocabParallelEmbedding(WORDS, WIDTH, group)
    middle = [nn.Dense(WIDTH, in_units=WIDTH, activation="tanh") for _ in range(stages_count - 2)]
    stages = [table, *middle, Scores(table)]
    for stage in stages:
        stage.initialize(mx.init.Uniform(1.0))
    return stages


def run_whole(stages, x):
    for stage in stages:
        x = stage(x)
    return x


def make_trainer(params, process_set, **options):
    return hvd.DistributedTrainer(
        params, "adam", {"learning_rate": 0.05}, process_set=process_set, **options
    )


everyone = mx.parallel.mesh(all=-1, alone=1)
for micro_batches, adds, options in (
    (1, False, {}),
    (4, False, {"clip_global_norm": 0.2}),
    (2, True, {"clip_global_norm": 0.2}),
    (2, False, {"zero": 1}),
):
    ours, plain = make_stages(), make_stages()
    pipeline = mx.parallel.Pipeline(ours, micro_batches, mesh, loss_function)
    if adds:
        for stage in (*ours, *plain):
            parameters_of(stage).setattr("grad_req", "add")
    if place == stages_count - 1 and mesh.coordinate("tensor") == 0:
        ours[-1].table.data()[:] = 7  # the first step takes the values of the first stage
    trainer = make_trainer(pipeline.collect_params(), mesh.group("data"), **options)
    every = {}
    for stage in plain:
        every.update(stage.collect_params().items())
    options.pop("zero", None)
    reference = make_trainer(every, everyone.group("alone"), **options)
    random = np.random.RandomState(2)
    for _ in range(4):
        for _ in range(1 + adds):
            x = random.randint(0, WORDS, BATCH * data_ranks)
            y = random.randint(0, WORDS, BATCH * data_ranks)
            mine = slice(BATCH * mesh.coordinate("data"), BATCH * (mesh.coordinate("data") + 1))
            pipeline.step(mx.nd.array(x[mine]), mx.nd.array(y[mine]))
            with autograd.record():
                loss = loss_function(run_whole(plain, mx.nd.array(x)), mx.nd.array(y))
            loss.backward()
        trainer.step(BATCH)
        reference.step(BATCH * data_ranks)
        if adds:
            for params in (pipeline.collect_params(), every):
                for param in params.values():
                    param.zero_grad()
    for mine, theirs in zip(
        pipeline.collect_params().values(), plain[place].collect_params().values()
    ):
        value, wanted = mine.data().asnumpy(), theirs.data().asnumpy()
        np.testing.assert_allclose(value, wanted, rtol=2e-4, atol=1e-6)


class Failing(gluon.Block):
    def __init__(self, stage):
        super().__init__()
        self.stage = stage

    def forward(self, x):
        raise RuntimeError("this stage has a bug")


# If a stage fails, the others do not wait for its gradients, and the next step works.
stages = make_stages()
stages[-1] = Failing(stages[-1])
pipeline = mx.parallel.Pipeline(stages, 2, mesh, loss_function)
x = mx.nd.zeros((BATCH,))
with pytest.raises((RuntimeError, mx.MXNetError), match="this stage has a bug"):
    pipeline.step(x, x)
    for param in pipeline.collect_params().values():
        param.grad().asnumpy()
pipeline.stage = getattr(pipeline.stage, "stage", pipeline.stage)
losses = pipeline.step(x, x)
assert (losses is not None) == pipeline.is_last
for param in pipeline.collect_params().values():
    assert np.isfinite(param.grad().asnumpy()).all()
print("done", mesh.rank)
