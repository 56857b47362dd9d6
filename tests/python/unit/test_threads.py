"""Compute threads: which calls use them, and which settings are accepted."""

from __future__ import annotations

import pytest
from processes import run_python

START = """
import os
import numpy as np
import mxlite as mx

def threads():
    return len(os.listdir("/proc/self/task"))

before = threads()
"""
LARGE = """
host = np.ones((64, 256, 256), np.float32)
big = mx.nd.array(host)
strided = mx.nd.array(host.T)
assert threads() == before, "a conversion started threads of the caller"
sums = [big * 2, big.sum(), big.astype("float16"), mx.nd.dot(big[0], big[1]), big.transpose()]
mx.nd.waitall()
big.transpose().asnumpy()
print(threads() - before)
"""
SMALL = """
from mxlite.gluon import nn, rnn

def ones(*shape):
    return mx.nd.ones(shape)

a = ones(32, 32)
for _ in range(3):
    mx.nd.FullyConnected(ones(32, 12), ones(48, 12), ones(48), num_hidden=48)
    mx.nd.dot(a, a), mx.nd.batch_dot(ones(4, 16, 16), ones(4, 16, 16)), mx.nd.softmax(a), a.sum()
    mx.nd.Convolution(ones(1, 8, 8, 8), ones(8, 8, 3, 3), ones(8), kernel=(3, 3), num_filter=8)
    mx.nd.Pooling(ones(1, 8, 8, 8), kernel=(2, 2), stride=(2, 2)), mx.nd.exp(a), a.transpose()
    mx.nd.dot(ones(1, 100), ones(100, 100)), mx.nd.LayerNorm(a, ones(32), ones(32))
net, cell = nn.HybridSequential(), rnn.LSTMCell(40)
net.add(nn.Dense(64, activation="relu"), nn.BatchNorm(), nn.Dense(64), nn.Activation("tanh"))
lstm = rnn.LSTM(32)
for block in (net, cell, lstm):
    block.initialize()
    block.hybridize()
for _ in range(3):
    with mx.autograd.record():
        loss = net(ones(16, 32)).sum() + cell(ones(32, 12), cell.begin_state(32))[0].sum()
        loss = loss + lstm(ones(5, 8, 16)).sum()
    loss.backward()
mx.nd.waitall()
print(threads() - before)
"""


@pytest.mark.parametrize(("calls", "helpers"), [(LARGE, 2), (SMALL, 0)])
def test_threads_that_a_program_starts(calls: str, helpers: int) -> None:
    def count_started(threads: int) -> int:
        options = {"MXLITE_CPU_THREADS": threads, "MXLITE_ENGINE": "", "MXNET_ENGINE_TYPE": None}
        return int(run_python("-c", START + calls, **options).stdout)

    # With one thread, only the workers of the engine start.
    assert count_started(3) == count_started(1) + helpers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MXLITE_CPU_THREADS", "0"),
        ("MXLITE_CPU_THREADS", "-3"),
        ("MXLITE_CPU_THREADS", "two"),
        ("MXLITE_CPU_THREADS", "99999999999"),
        ("OMP_NUM_THREADS", "2,"),
        ("OMP_WAIT_POLICY", "sometimes"),
        ("GOMP_SPINCOUNT", "-1"),
    ],
)
def test_impossible_settings_are_errors_of_the_import(name: str, value: str) -> None:
    script = f"""
try:
    import mxlite
except ValueError as error:
    assert "environment variable {name}" in str(error) and "'{value}'" in str(error), error
    print("refused")
"""
    unset = {"MXLITE_CPU_THREADS": None, "OMP_NUM_THREADS": None}
    assert run_python("-c", script, **{**unset, name: value}).stdout == "refused\n"


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({"MXLITE_CPU_THREADS": "3", "OMP_NUM_THREADS": "2"}, 3),
        ({"OMP_NUM_THREADS": "2,1"}, 2),
        ({"OMP_NUM_THREADS": "5", "OMP_WAIT_POLICY": "PASSIVE"}, 5),
        ({"OMP_NUM_THREADS": "4", "GOMP_SPINCOUNT": "infinity"}, 4),
    ],
)
def test_settings(given: dict[str, str], count: int) -> None:
    script = (
        "import mxlite as mx; mx.nd.ones((9, 9)).wait_to_read(); print(mx.runtime.thread_count())"
    )
    unset = {"MXLITE_CPU_THREADS": None, "OMP_NUM_THREADS": None}
    assert int(run_python("-c", script, **{**unset, **given}).stdout) == count
