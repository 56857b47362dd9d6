"""One pool of compute threads: the engine's, and how they wait."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
    environment = {**os.environ, "MXLITE_CPU_THREADS": "3", "MXLITE_ENGINE": ""}
    environment.pop("MXNET_ENGINE_TYPE", None)
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
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
    environment = {**os.environ, "OMP_DISPLAY_ENV": "verbose"}
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        environment.pop(name, None)
    environment.update(given)
    script = (
        "import os, mxlite; print(*(f'{name}={os.environ.get(name)}' for name in "
        "('GOMP_SPINCOUNT', 'OMP_WAIT_POLICY')))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    # libgomp prints what it read when it was loaded.
    assert f"GOMP_SPINCOUNT = '{polls}'" in ended.stderr
    # Processes that the program starts see the original environment.
    left = [f"{name}={given.get(name)}" for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")]
    assert ended.stdout.split() == left
