"""Stages that get no gradient learn that a later stage has failed."""

import contextlib
import time

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
import pytest
from mxlite import autograd, gluon
from mxlite.gluon import nn
from mxlite.parallel import Pipeline

hvd.init()
mesh = mx.parallel.mesh(pipe=hvd.size())
place, last = mesh.coordinate("pipe"), hvd.size() - 1
loss_function = gluon.loss.L2Loss()


class Indices(gluon.HybridBlock):
    """Its output is an integer array, its weight has no gradient."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(5, in_units=4)

    def hybrid_forward(self, F, x):
        return F.cast(F.argmax(self.dense(x), axis=1), dtype="int32")


class Last(gluon.Block):
    def __init__(self, first_layer, calls):
        super().__init__()
        self.first_layer, self.second_layer = first_layer, nn.Dense(1, in_units=3)
        self.calls = calls  # the calls before the one that fails

    def forward(self, x):
        self.calls -= 1
        if self.calls == -1:
            raise RuntimeError("this stage has a bug")
        return self.second_layer(self.first_layer(x))


def frozen():
    layer = nn.Dense(4, in_units=4)
    layer.collect_params().setattr("grad_req", "null")
    return layer


def make_stages(kind, calls):
    mx.random.seed(1)
    middle = [nn.Dense(4, in_units=4) for _ in range(hvd.size() - 2)]
    if kind == "integers":
        stages = [*middle, Indices(), Last(nn.Embedding(5, 3), calls)]
    else:
        stages = [frozen(), *middle, Last(nn.Dense(3, in_units=4), calls)]
    for stage in stages:
        stage.initialize()
    return stages


x = mx.nd.array(np.arange(32).reshape(8, 4))
label = mx.nd.ones((8, 1))
for kind in ("integers", "frozen"):
    for calls in (0, 2):
        stages, plain = make_stages(kind, calls), make_stages(kind, -2)
        pipeline = Pipeline(stages, 4, mesh, loss_function)
        begin = time.monotonic()
        with pytest.raises(mx.MXNetError if place != last else RuntimeError) as caught:
            pipeline.step(x, label)
            for param in pipeline.collect_params().values():
                if param.grad_req != "null":
                    param.grad().wait_to_read()
        assert "this stage has a bug" in str(caught.value), (kind, calls, str(caught.value))
        assert time.monotonic() - begin < 15
        with contextlib.suppress(mx.MXNetError):
            mx.nd.waitall()
        # The next step is right.
        with autograd.record():
            y = x
            for stage in plain:
                y = stage(y)
            losses = loss_function(y, label)
        losses.backward()
        got = pipeline.step(x, label)
        if got is not None:
            np.testing.assert_allclose(got.asnumpy(), losses.asnumpy(), rtol=1e-5)
        for mine, wanted in zip(
            pipeline.collect_params().values(), plain[place].collect_params().values()
        ):
            if mine.grad_req != "null":
                np.testing.assert_allclose(
                    mine.grad().asnumpy(), wanted.grad().asnumpy(), rtol=1e-4
                )
print("done", place)
