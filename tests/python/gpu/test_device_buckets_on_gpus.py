"""Gradients of several GPUs of one process: one call of NCCL for a bucket."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STAND_IN = "fake_gpu" in os.environ.get("MXLITE_CUDA_LIBRARY", "")
HELPERS = Path(__file__).resolve().parents[1] / "gluon"

# The stand-in adds in the order of devices, as sums by key do.
PROGRAM = """
import sys
import numpy as np
import mxlite as mx
import mxlite.gluon.trainer as trainer
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
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(count), str(on_store), optimizer, megabytes],
        env={
            **os.environ,
            "MXLITE_FAKE_GPUS": str(count),
            "MXLITE_BUCKET_MB": megabytes,
            "PYTHONPATH": f"{HELPERS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 and "equal" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not STAND_IN, reason="the stand-in has as many GPUs as it is asked for")
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
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "MXLITE_FAKE_GPUS": "2"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "kept" in done.stdout, done.stdout + done.stderr
