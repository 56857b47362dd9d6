"""Gradients of several GPUs of one process: one call of NCCL for a bucket."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from processes import PACKAGE, run_python

STAND_IN = "fake_gpu" in os.environ.get("MXLITE_CUDA_LIBRARY", "")
HELPERS = Path(__file__).resolve().parents[1] / "gluon"


def run(program: str, *arguments: object, gpus: int = 2, **options: Any) -> str:
    """Return what a program prints on a machine with `gpus` simulated GPUs."""
    path = f"{HELPERS}{os.pathsep}{PACKAGE}"
    variables = {"MXLITE_FAKE_GPUS": str(gpus), "PYTHONPATH": path, **options.pop("env", {})}
    return run_python("-c", program, *arguments, environment=variables, **options).stdout


# The simulated GPU adds in the order of devices, as sums by key do.
PROGRAM = """
import sys
import numpy as np
import mxlite as mx
import mxlite.gluon.trainer.trainer as trainer
from device_training import STEPS, summed_by_key, train

count, on_store, optimizer = int(sys.argv[1]), sys.argv[2] == "True", sys.argv[3]
contexts = [mx.gpu(i) for i in range(count)]
calls = []
inner = mx._core.GradientBucket.sum_on_devices

def noting(buckets, first, last):
    calls.append((len(buckets), last - first))
    inner(buckets, first, last)

mx._core.GradientBucket.sum_on_devices = noting
keywords = {"kvstore": "device", "update_on_kvstore": on_store}
got = train(contexts, optimizer, {"learning_rate": 0.05}, **keywords)
assert all(size == count for size, _ in calls), calls
parameters = 8  # weight and bias of three layers, gamma and beta
assert sum(parts for _, parts in calls) == parameters * STEPS, calls
buckets = len(calls) / STEPS
assert buckets == 1 if sys.argv[4] == "25" else 3 <= buckets < parameters, calls
calls.clear()
trainer.pushpull_all = summed_by_key
wanted = train(contexts, optimizer, {"learning_rate": 0.05}, **keywords)
assert not calls
for one, other in zip(got, wanted, strict=True):
    np.testing.assert_array_equal(one, other)
print("equal")
"""


@pytest.mark.skipif(not STAND_IN, reason="NCCL may add four arrays in another order")
@pytest.mark.parametrize("megabytes", ["25", "0.001"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("on_store", [True, False])
@pytest.mark.parametrize("count", [2, 4])
def test_training_has_the_bits_of_sums_by_key(
    count: int, on_store: bool, optimizer: str, megabytes: str
) -> None:
    variables = {"MXLITE_BUCKET_MB": megabytes}
    arguments = (count, on_store, optimizer, megabytes)
    assert "equal" in run(PROGRAM, *arguments, gpus=count, env=variables)


@pytest.mark.skipif(not STAND_IN, reason="only the simulated GPU has any number of GPUs")
def test_sums_of_other_keys_keep_their_values() -> None:
    program = """
import mxlite as mx
from mxlite.kvstore.gradients import pushpull_all

store = mx.kv.create("device")
for key in ("a", "b"):
    store.init(key, mx.nd.zeros((3,)))
for step in range(1, 4):
    for scale, key in enumerate("ab", 1):
        grads = [mx.nd.full((3,), scale * step, ctx=mx.gpu(i)) for i in range(2)]
        pushpull_all(store, [(0, key, [], grads)], False)
        assert all(g.asnumpy().tolist() == [2 * scale * step] * 3 for g in grads)
    for scale, key in enumerate("ab", 1):
        out = mx.nd.zeros((3,))
        store.pull(key, out=out)
        assert out.asnumpy().tolist() == [2 * scale * step] * 3, (step, key, out)
print("kept")
"""
    assert "kept" in run(program, timeout=60)


SEGMENTS = """
import mxlite as mx
import mxlite.gluon.trainer.trainer as trainer
from device_training import summed_by_key
from mxlite import gluon
from mxlite.gluon import nn

contexts = [mx.gpu(0), mx.gpu(1)]
STEPS = 8


def train():
    mx.random.seed(3)
    net = nn.HybridSequential()
    for _ in range(4):
        net.add(nn.Dense(512, activation="tanh", in_units=512))  # weights of 1 MiB
    net.initialize(mx.init.Xavier(), ctx=contexts)
    net.hybridize()
    params = net.collect_params()
    made = gluon.Trainer(params, "sgd", {"learning_rate": 0.05}, kvstore="device")
    parts = [mx.nd.random.uniform(shape=(2, 512), ctx=context) for context in contexts]
    for _ in range(STEPS):
        with mx.autograd.record():
            losses = [(net(part) ** 2).sum() for part in parts]
        mx.autograd.backward(losses)
        made.step(4)
    return [array.asnumpy() for p in params.values() for array in p.list_data()]


buckets = trainer.pushpull_all
trainer.pushpull_all = summed_by_key
wanted = train()
trainer.pushpull_all = buckets
got = train()
for one, other in zip(got, wanted, strict=True):
    assert (one == other).all()
print("graphs", mx._core.device_graph_stats())
"""


@pytest.mark.skipif(not STAND_IN, reason="NCCL may add in another order")
def test_backward_in_segments_has_the_bits_of_one_graph() -> None:
    output = run(SEGMENTS, env={"MXLITE_BUCKET_MB": "1"})
    whole = run(SEGMENTS.replace("buckets = ", "buckets = summed_by_key; _ = "))
    recorded = [int(re.findall(r"'recorded': (\d+)", text)[0]) for text in (output, whole)]
    # A graph of each segment on each GPU, in place of one.
    assert recorded[0] >= recorded[1] + 2 * 2, (output, whole)


@pytest.mark.skipif(not STAND_IN, reason="only the simulated GPU has any number of GPUs")
@pytest.mark.parametrize("engine", ["threaded", "naive"])
def test_sums_of_overlapping_groups_run_in_their_order(engine: str) -> None:
    program = """
import mxlite as mx
import numpy as np

arrays = [mx.nd.full((1000,), i + 1, ctx=mx.gpu(i)) for i in range(4)]
wanted = np.arange(1, 5, dtype="float32")
for _ in range(6):  # all numbers are exact
    for part in (slice(0, 3), slice(1, 4)):
        mx._core.sum_on_devices(arrays[part])
        wanted[part] = wanted[part].sum()
    for array in arrays:
        array *= 0.25
    wanted *= 0.25
for array, number in zip(arrays, wanted, strict=True):
    assert (array.asnumpy() == number).all()
print("in order")
"""
    assert "in order" in run(program, gpus=4, env={"MXLITE_ENGINE": engine}, timeout=60)


@pytest.mark.skipif(not STAND_IN, reason="the GPUs would have to hang")
def test_a_sum_that_hangs_is_an_error_that_names_the_limit() -> None:
    program = """
import mxlite as mx

arrays = [mx.nd.ones((3,), ctx=mx.gpu(i)) for i in range(2)]
mx._core.sum_on_devices(arrays)
try:
    arrays[1].asnumpy()
except mx.base.MXNetError as error:
    print(error)
print("cpu", mx.nd.ones((2,)).sum().asscalar())
"""
    text = run(program, env={"MXLITE_FAKE_GPU_HANGS": "1", "MXLITE_COMM_TIMEOUT": "1"}, timeout=60)
    assert "has waited 1 s for other GPUs (MXLITE_COMM_TIMEOUT)" in text
    assert "cpu 2.0" in text


# Copies of a step, and arrays of recorded graphs that are copied in each run.
COPIES = """
import sys
import mxlite as mx
import mxlite.gluon.trainer.trainer as trainer
from device_training import summed_by_key
from mxlite import gluon
from mxlite.gluon import nn
from mxlite.tools.trace import read_trace

on_store, hybrid = sys.argv[1] == "True", sys.argv[2] == "True"
contexts = [mx.gpu(0), mx.gpu(1)]
LAYERS, GRADIENTS = 8, 16


def copies(with_views):
    mx.random.seed(3)
    net = nn.HybridSequential()
    for _ in range(LAYERS):
        net.add(nn.Dense(11, activation="tanh", in_units=11))
    net.initialize(mx.init.Xavier(), ctx=contexts)
    if hybrid:
        net.hybridize()
    params = net.collect_params()
    keywords = {"kvstore": "device", "update_on_kvstore": on_store}
    made = gluon.Trainer(params, "sgd", {"learning_rate": 0.05}, **keywords)
    parts = [mx.nd.random.uniform(shape=(6, 11), ctx=context) for context in contexts]
    views = [grad[1:] for p in params.values() for grad in p.list_grad()] if with_views else []

    def step():
        with mx.autograd.record():
            losses = [(net(part) ** 2).sum() for part in parts]
        mx.autograd.backward(losses)
        made.step(12)
        mx.nd.waitall()

    before = mx._core.device_graph_stats()
    for _ in range(8):
        step()
    mx.profiler.set_config(profile_all=True, filename="trace.json")
    mx.profiler.set_state("run")
    step()
    mx.profiler.set_state("stop")
    mx.profiler.dump()
    after = mx._core.device_graph_stats()
    operators = [i for i in read_trace("trace.json").intervals if i.category == "operator"]
    found = [i for i in operators if "copyto" in i.name]
    graph = {name: after[name] - before[name] for name in after}
    return len(found), graph, [array.asnumpy() for p in params.values() for array in p.list_data()]


count, graph, weights = copies(False)
count_with_views, _, weights_with_views = copies(True)
trainer.pushpull_all = summed_by_key
_, _, weights_by_key = copies(False)
for found in (weights, weights_with_views):
    for one, other in zip(found, weights_by_key, strict=True):
        assert (one == other).all()
# Pulled weights or sums are copied to each GPU; eager gradients are copied into buckets.
arrays = GRADIENTS * len(contexts)
assert count == arrays * (1 if hybrid else 2), count
assert count_with_views == 2 * arrays, count_with_views
# Graphs write gradients where they are: only their inputs and the outputs of forward are copied.
assert graph["copied_arrays"] < arrays / 2, graph
assert (graph["replayed"] > 0) == hybrid, graph
print("counted")
"""


@pytest.mark.skipif(not STAND_IN, reason="the simulated GPU has two GPUs")
@pytest.mark.parametrize("hybrid", [True, False])
@pytest.mark.parametrize("on_store", [True, False])
def test_backward_writes_gradients_into_their_buckets(
    tmp_path: Path, on_store: bool, hybrid: bool
) -> None:
    assert "counted" in run(COPIES, on_store, hybrid, cwd=tmp_path)
