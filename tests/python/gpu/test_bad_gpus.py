"""Errors where a driver, a GPU, its memory or a library is missing; on the simulated GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from processes import run_python

STAND_IN = os.environ.get("MXLITE_CUDA_LIBRARY", "")
pytestmark = pytest.mark.skipif(
    "mxlite_fake_gpu" not in STAND_IN, reason="only the simulated GPU can be bad: make test-cuda"
)

PROGRAM = """
import time

import mxlite as mx
from mxlite import nd

begin = time.perf_counter()
print(mx.num_gpus(), "GPUs")
try:
    x = nd.ones((1024, 1024), ctx=mx.gpu(0))
    nd.erf(x).asnumpy()
except mx.base.MXNetError as error:
    print(type(error).__name__, error)
print("in time:", time.perf_counter() - begin < 5)
print("cpu", nd.ones((2, 2)).sum().asscalar())
"""
# A library that depends on a missing library; the test of the plug-in loader builds it.
NEEDY = str(Path(STAND_IN).parent / "libmxlite_test_needy.so")

CASES = {
    "no driver": (
        {"MXLITE_FAKE_GPU_DRIVER": "0"},
        "0 GPUs",
        "no NVIDIA driver that answers; this build needs one for CUDA 13.0 or later",
    ),
    "old driver": (
        {"MXLITE_FAKE_GPU_DRIVER": "12040"},
        "0 GPUs",
        "the NVIDIA driver supports CUDA up to 12.4, but this build needs CUDA 13.0; "
        "install a newer driver",
    ),
    "other architecture": (
        {"MXLITE_FAKE_GPU_KERNELS": "9.0"},
        "2 GPUs",
        "gpu(0) is fake GPU of the tests of architecture 0.0, but this build has kernels for 9.0 "
        "only; build with MXLITE_CUDA_ARCHITECTURES",
    ),
    "full memory": (
        {"MXLITE_GPU_MEMORY_LIMIT": "1000000"},
        "2 GPUs",
        "out of memory on gpu(0): 4194304 bytes requested, 0 in use, 0 cached, limit 1000000",
    ),
    "missing library": (
        {"MXLITE_CUDA_LIBRARY": NEEDY},
        "0 GPUs",
        "the CUDA libraries cannot be loaded (pip install mxlite[cuda]): "
        "libmxlite_test_needed.so: cannot open shared object file",
    ),
    "no library": (
        {"MXLITE_CUDA_LIBRARY": "/nowhere.so"},
        "0 GPUs",
        "there is no MXLITE_CUDA_LIBRARY=/nowhere.so",
    ),
    "lost GPU": (
        {"MXLITE_FAKE_GPU_BREAKS": "erf"},
        "2 GPUs",
        "illegal address, says the simulated GPU",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_error_names_what_is_there_and_what_is_needed(case: str) -> None:
    variables, count, sentence = CASES[case]
    text = run_python("-c", PROGRAM, environment=variables, timeout=60).stdout
    assert text.startswith(count)
    assert sentence in text
    assert "in time: True" in text
    assert "cpu 4.0" in text
