"""One pool of compute threads: the engine's, and how they wait."""

from __future__ import annotations

import pytest
from processes import run_python

SCRIPT = """
import os
import numpy as np
import mxlite as mx

def threads():
    return len(os.listdir("/proc/self/task"))

before = threads()
host = np.ones((64, 256, 256), np.float32)
big = mx.nd.array(host)
strided = mx.nd.array(host.T)
assert threads() == before, "a conversion started threads of the caller"
sums = [big * 2, big.sum(), big.astype("float16"), mx.nd.dot(big[0], big[1]), big.transpose()]
mx.nd.waitall()
big.transpose().asnumpy()
print(threads() - before)
"""


def test_only_the_engine_starts_compute_threads():
    # A second OpenMP pool would put the first one's threads to sleep after every region.
    options = {"MXLITE_CPU_THREADS": 3, "MXLITE_ENGINE": "", "MXNET_ENGINE_TYPE": None}
    ended = run_python("-c", SCRIPT, **options)
    # Two helpers of the engine's worker; the worker itself may start with the first operator.
    assert int(ended.stdout) in (2, 3), ended.stdout


@pytest.mark.parametrize(
    ("given", "polls"),
    [
        ({}, "5000"),
        ({"GOMP_SPINCOUNT": "70"}, "70"),
        ({"OMP_WAIT_POLICY": "passive"}, "0"),
        ({"OMP_WAIT_POLICY": "active"}, "30000000000"),
    ],
)
def test_threads_poll_briefly_unless_the_environment_says_otherwise(
    given: dict[str, str], polls: str
) -> None:
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    script = f"import os, mxlite; print(*(f'{{n}}={{os.environ.get(n)}}' for n in {names}))"
    variables = {"OMP_DISPLAY_ENV": "verbose", **dict.fromkeys(names), **given}
    ended = run_python("-c", script, **variables)
    # libgomp prints what it read when it was loaded.
    assert f"GOMP_SPINCOUNT = '{polls}'" in ended.stderr
    # Processes that the program starts see the original environment.
    assert ended.stdout.split() == [f"{name}={given.get(name)}" for name in names]
