"""The naive engine computes the same values, in the calls themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from processes import run_python

PROGRAM = """
import json
import numpy as np
import mxlite as mx
from mxlite import autograd, gluon, nd

rng = np.random.RandomState(3)
a = nd.array(rng.uniform(-1, 1, (8, 6)))
w = nd.array(rng.uniform(-1, 1, (5, 6)))
w.attach_grad()
for _ in range(5):
    with autograd.record():
        loss = (nd.FullyConnected(a, w, no_bias=True, num_hidden=5).tanh() ** 2).mean()
    loss.backward()
    w[:] = w - 0.5 * w.grad
a[2:4] += 1
a[:, 0] = a[:, 1]

net = gluon.nn.HybridSequential()
net.add(gluon.nn.Conv2D(4, 3), gluon.nn.BatchNorm(), gluon.nn.Dense(3))
net.initialize(mx.init.One())
x = nd.array(rng.uniform(-1, 1, (2, 3, 7, 7)))
eager = net(x)
net.hybridize()
hybrid = net(x)
mx.random.seed(11)
drawn = nd.random.uniform(shape=(3,))
pending = mx._core.engine_stats()["in_flight"]
values = [v.asnumpy().ravel().tolist() for v in (loss, w, a, eager, hybrid, drawn)]
print(json.dumps({"pending": pending, "values": values}))
"""


THREADS = """
import json, os, threading
import mxlite as mx

net = mx.gluon.nn.Conv2D(16, 3, padding=1)
net.initialize()
net.hybridize(static_alloc=True)
x = mx.nd.ones((1, 16, 16, 16))
net(x)

def update_and_call():
    for _ in range(100):
        net.weight.data()[:] = net.weight.data() * 1
        net(x).wait_to_read()

threads = [threading.Thread(target=update_and_call, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
print(json.dumps(sum(thread.is_alive() for thread in threads)), flush=True)
os._exit(0)
"""


def run(program: str = PROGRAM, **env: str) -> Any:
    clean = {"MXLITE_ENGINE": None, "MXNET_ENGINE_TYPE": None}
    return json.loads(run_python("-c", program, **{**clean, **env}).stdout)


@pytest.fixture(scope="module")
def threaded() -> dict:
    return run()


@pytest.mark.parametrize("env", [{"MXLITE_ENGINE": "naive"}, {"MXNET_ENGINE_TYPE": "NaiveEngine"}])
def test_a_program_gives_the_same_values_and_leaves_nothing_pending(threaded, env):
    naive = run(**env)
    assert naive["pending"] == 0
    assert len(naive["values"]) == len(threaded["values"])
    for ours, theirs in zip(naive["values"], threaded["values"]):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)


def test_threads_call_a_block_whose_weights_change():
    assert run(THREADS, MXLITE_ENGINE="naive") == 0


def test_an_unknown_engine_is_named():
    program = "import mxlite as mx; mx.nd.ones((2,)).asnumpy()"
    done = run_python("-c", program, ok=False, MXLITE_ENGINE="turbo")
    assert done.returncode != 0
    assert "turbo" in done.stderr and "naive" in done.stderr
