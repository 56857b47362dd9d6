"""The naive engine computes the same values, in the calls themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

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


def run(**env: str) -> dict:
    clean = {k: v for k, v in os.environ.items() if k not in ("MXLITE_ENGINE", "MXNET_ENGINE_TYPE")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        env={**clean, **env},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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


def test_an_unknown_engine_is_named():
    done = subprocess.run(
        [sys.executable, "-c", "import mxlite as mx; mx.nd.ones((2,)).asnumpy()"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "MXLITE_ENGINE": "turbo"},
    )
    assert done.returncode != 0
    assert "turbo" in done.stderr
    assert "naive" in done.stderr
