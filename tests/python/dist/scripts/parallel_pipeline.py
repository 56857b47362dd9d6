"""A pipeline has the losses, gradients and trained weights of one process."""

import contextlib
import functools
import itertools
import sys

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd, gluon
from mxlite.gluon import nn
from mxlite.parallel import Pipeline, one_forward_one_backward
from rank_checks import agree, fails, gradients, invalid, refused, weights

data_ranks, stages_count = int(sys.argv[1]), int(sys.argv[2])
mesh = mx.parallel.mesh(data=data_ranks, pipe=stages_count)
rank, place = mesh.rank, mesh.coordinate("pipe")
CLASSES, WIDTH, BATCH = 5, 12, 24


class Fork(gluon.HybridBlock):
    """Returns two arrays; the second is an integer one, which has no gradient."""

    def __init__(self, units):
        super().__init__()
        self.dense = nn.Dense(units, activation="tanh")

    def hybrid_forward(self, F, x):
        return self.dense(x), F.cast(F.argmax(x, axis=1), dtype="int32")


class Join(gluon.HybridBlock):
    def __init__(self, units):
        super().__init__()
        self.dense = nn.Dense(units)
        self.table = nn.Embedding(WIDTH, units)

    def hybrid_forward(self, F, x, index):
        return self.dense(x) + self.table(index)


def make_stages():
    """Return stages of different kinds, the same values on all ranks."""
    mx.random.seed(3)
    if stages_count == 1:
        stages = [nn.HybridSequential()]
        stages[0].add(nn.Dense(WIDTH, activation="tanh"), nn.Dense(CLASSES))
    else:
        middle = [nn.Dense(WIDTH, activation="tanh") for _ in range(stages_count - 2)]
        stages = [*middle, Fork(WIDTH), Join(CLASSES)]
    x = mx.nd.ones((2, WIDTH))
    for stage in stages:
        stage.initialize(mx.init.Xavier(magnitude=3))
        y = stage(*(x if isinstance(x, (list, tuple)) else [x]))
        x = y
    return stages


def run_whole(stages, x):
    for stage in stages:
        x = stage(*(x if isinstance(x, (list, tuple)) else [x]))
    return x


loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
for micro_batches, hybridize in ((1, False), (2, False), (4, True), (12, True)):
    if BATCH // data_ranks % micro_batches:
        continue
    ours, plain = make_stages(), make_stages()
    if hybridize:
        for stage in ours:
            stage.hybridize()
    pipeline = Pipeline(ours, micro_batches, mesh, loss_function)
    assert pipeline.stage is ours[place]
    assert (pipeline.is_first, pipeline.is_last) == (place == 0, place == stages_count - 1)
    options = ("sgd", {"learning_rate": 0.1, "momentum": 0.9})
    trainer = hvd.DistributedTrainer(
        pipeline.collect_params(), *options, process_set=mesh.group("data")
    )
    every = {}
    for stage in plain:
        every.update(stage.collect_params().items())
    reference = gluon.Trainer(every, *options, kvstore=None)
    random = np.random.RandomState(8)
    for _ in range(3):
        x = random.uniform(-1, 1, (BATCH, WIDTH)).astype("float32")
        label = random.randint(0, CLASSES, BATCH).astype("float32")
        with autograd.record():
            wanted = loss_function(run_whole(plain, mx.nd.array(x)), mx.nd.array(label))
        wanted.backward()
        part = slice(*(BATCH // data_ranks * (mesh.coordinate("data") + i) for i in (0, 1)))
        got = pipeline.step(
            mx.nd.array(x[part]) if pipeline.is_first else None,
            mx.nd.array(label[part]) if pipeline.is_last else None,
        )
        assert (got is not None) == pipeline.is_last
        if got is not None:
            agree([got], [wanted[part]], 2e-5, 1e-6)
        if data_ranks == 1:
            agree(gradients(pipeline), gradients(plain[place]), 1e-5, 3e-6)
        reference.step(BATCH)
        trainer.step(BATCH // data_ranks)
    agree(weights(pipeline), weights(plain[place]), 1e-4, 1e-6)
    x = mx.nd.array(x[part])
    answer = pipeline.predict(x if pipeline.is_first else None)
    if pipeline.is_last:
        agree([answer], [run_whole(plain, x)], 1e-4, 1e-5)
    else:
        assert answer is None

# A first stage that has no trainable parameters computes no gradients.
if stages_count > 1:
    frozen = make_stages()
    for param in frozen[0].collect_params().values():
        param.grad_req = "null"
    pipeline = Pipeline(frozen, 2, mesh, loss_function)
    pipeline.step(mx.nd.ones((4, WIDTH)), mx.nd.zeros((4,)))
    assert mx.nd.contrib.all_reduce(mx.nd.ones((1,))).asscalar() == mesh.size

# No stage holds more micro-batches than the schedule says.
held = peak = 0
for kind, _ in one_forward_one_backward(place, stages_count, 8):
    held += 1 if kind == "forward" else -1
    peak = max(peak, held)
assert held == 0 and peak == stages_count - place


BUG = "this stage has a bug"


def settle():
    """Wait for results of a failed call, which fail as well."""
    with contextlib.suppress(mx.MXNetError):
        mx.nd.waitall()


def kind_of(culprit):
    return RuntimeError if place == culprit else mx.MXNetError


class Failing(gluon.Block):
    """Raises at one of its calls."""

    def __init__(self, stage, at):
        super().__init__()
        self.stage, self.calls_left = stage, at

    def forward(self, *inputs):
        self.calls_left -= 1
        if self.calls_left == -1:
            raise RuntimeError(BUG)
        return self.stage(*inputs)


class Indices(gluon.HybridBlock):
    """Its output is an integer array, its weight has no gradient."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(5, in_units=WIDTH)

    def hybrid_forward(self, F, x):
        return F.cast(F.argmax(self.dense(x), axis=1), dtype="int32")


def make_without_gradients(kind):
    """Return stages of which those before the last one get no gradient."""
    mx.random.seed(1)
    middle = [nn.Dense(WIDTH, in_units=WIDTH) for _ in range(stages_count - 2)]
    if kind == "integers":
        stages = [*middle, Indices(), nn.Embedding(5, CLASSES)]
    else:
        stages = [nn.Dense(WIDTH, in_units=WIDTH), *middle, nn.Dense(CLASSES, in_units=WIDTH)]
        stages[0].collect_params().setattr("grad_req", "null")
    for stage in stages:
        stage.initialize()
    return stages


# A stage that raises is an error on all ranks at once, and the next step has the right values.
waits = mx._core.engine_runs_in_caller()
cases = [(make_stages, culprit) for culprit in range(stages_count)]
for kind in ("integers", "frozen"):
    cases.append((functools.partial(make_without_gradients, kind), stages_count - 1))
for (make, culprit), at in itertools.product(cases, (0, 2)):
    if stages_count == 1 or waits:
        break
    ours, plain = make(), make()
    ours[culprit] = Failing(ours[culprit], at)
    pipeline = Pipeline(ours, 4, mesh, loss_function)
    random = np.random.RandomState(5)
    x = mx.nd.array(random.uniform(-1, 1, (8, WIDTH)))
    label = mx.nd.array(random.randint(0, CLASSES, 8))

    def step(pipeline=pipeline, x=x, label=label):
        pipeline.step(x, label)
        gradients(pipeline)

    failed_rank = mesh.group("pipe").ranks[culprit]
    wanted = f"stage {culprit} on rank {failed_rank} has failed: RuntimeError: {BUG}"
    fails(step, BUG if place == culprit else wanted, kind=kind_of(culprit), after=settle)
    with autograd.record():
        losses = loss_function(run_whole(plain, x), label)
    losses.backward()
    got = pipeline.step(x, label)
    if got is not None:
        agree([got], [losses], 2e-5, 1e-6)
    agree(gradients(pipeline), gradients(plain[place]), 1e-5, 3e-6)


# The same in predict: earlier stages than the failing one have run ahead, and get the error later.
for culprit in range(stages_count) if stages_count > 1 and not waits else ():
    ours, plain = make_stages(), make_stages()
    ours[culprit] = Failing(ours[culprit], 0)
    pipeline = Pipeline(ours, 1, mesh, loss_function)
    x = mx.nd.ones((2, WIDTH))

    def predict(pipeline=pipeline, x=x, culprit=culprit):
        pipeline.predict(x)
        assert place < culprit
        pipeline._check_later_stages(0)

    words = [BUG] if place == culprit else [BUG, f"stage {culprit} on rank"]
    fails(predict, *words, kind=kind_of(culprit), after=settle)
    for _ in range(stages_count + 1):
        got = pipeline.predict(x)
        if pipeline.is_last:
            agree([got], [run_whole(plain, x)], 1e-4, 1e-5)

# A stage that runs ahead raises in one of its next calls, or in step as all stages do.
for use in ("predict", "step") if stages_count > 1 and not waits else ():
    ours = make_stages()
    ours[-1] = Failing(ours[-1], 0)
    pipeline = Pipeline(ours, 1, mesh, loss_function)
    if pipeline.is_last:
        fails(functools.partial(pipeline.predict, x), BUG, kind=RuntimeError)
    else:
        pipeline.predict(x)
    errors = []
    for _ in range(stages_count):
        try:
            if use == "predict":
                pipeline.predict(x)
            else:
                pipeline.step(x, mx.nd.zeros((2,)))
        except mx.MXNetError as error:
            errors.append(str(error))
    assert len(errors) == (0 if use == "predict" and pipeline.is_last else 1), errors
    assert all(BUG in text for text in errors)
    settle()

# A second pipeline over the same stage, for a smaller batch, replaces the gradients, too.
stages = make_stages()
wanted = None
for count in (4, 2, 4):
    Pipeline(stages, count, mesh, loss_function).step(mx.nd.ones((8, WIDTH)), mx.nd.zeros((8,)))
    got = gradients(stages[place])
    wanted = wanted or got
    agree(got, wanted, 1e-5, 1e-6)


x, label = mx.nd.ones((6, WIDTH)), mx.nd.zeros((6,))
first, last = (mesh.group("pipe").ranks[i] for i in (0, -1))
pipeline = Pipeline(make_stages(), 4, mesh, loss_function)
refused(lambda: pipeline.step(x, mx.nd.zeros((8,))), "(6, 12)", "multiple of the 4 micro-batches")
refused(
    lambda: pipeline.step(x[:4], None), "label must be an NDArray on the last stage, got NoneType"
)
if stages_count > 1:
    refused(
        lambda: pipeline.step(x[:4], mx.nd.zeros((8,))),
        f"samples of a micro-batch: 1 on rank {first}, 2 on rank {last}",
    )
    uneven = Pipeline(make_stages(), 2 if pipeline.is_last else 4, mesh, loss_function)
    refused(lambda: uneven.step(x[:4], label[:4]), f"4 on rank {first}", f"2 on rank {last}")
invalid(lambda: Pipeline(make_stages() * 2, 2, mesh, loss_function), "the number of stages must be")
invalid(
    lambda: Pipeline(make_stages(), 0, mesh, loss_function),
    "micro_batches must be at least 1, got 0",
)
print("done", rank)
