"""Errors that a program gets when a kernel breaks the GPU; on the simulated one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from processes import run_python

pytestmark = pytest.mark.skipif(
    "mxlite_fake_gpu" not in os.environ.get("MXLITE_CUDA_LIBRARY", ""),
    reason="breaks the simulated GPU: make test-cuda",
)

PROGRAM = """
import mxlite as mx
from mxlite import nd
x = nd.ones((3, 4), ctx=mx.gpu(0))
x.wait_to_read()
y = nd.erf(x)  # the line that breaks the GPU
z = nd.relu(y)
for array in (z, y):
    try:
        array.asnumpy()
    except mx.base.DeviceError as error:
        print(error)
    else:
        raise SystemExit("no error")
try:
    nd.ones((2,), ctx=mx.gpu(0)).asnumpy()
except mx.base.DeviceError as error:
    print("LATER:", error)
print("OTHER:", nd.ones((2,), ctx=mx.gpu(1)).sum().asscalar())
"""


def run(program: str, tmp_path: Path, status: int = 0, **environment: str) -> Any:
    path = tmp_path / "program.py"
    path.write_text(program)
    variables = {"MXLITE_FAKE_GPU_BREAKS": "erf", **environment}
    return run_python(path, status=status, environment=variables, timeout=60)


def test_a_broken_gpu_names_kernel_and_line(tmp_path: Path) -> None:
    text = run(PROGRAM, tmp_path).stdout
    line = PROGRAM.splitlines().index("y = nd.erf(x)  # the line that breaks the GPU") + 1
    first, later = text.split("LATER:")
    assert "illegal address" in first
    assert f"program.py:{line}" in first
    assert "erf_kernel" in first
    assert "gpu(0) takes no more work" in later.split("OTHER:")[0]
    assert "OTHER: 2.0" in later


def test_the_naive_engine_names_the_one_operator(tmp_path: Path) -> None:
    error = run(PROGRAM.split("z = ")[0], tmp_path, status=1, MXLITE_ENGINE="naive").stderr
    words = r"while running erf\(.*\), called at .*program.py:6; its kernels: erf_kernel"
    assert re.search(words, error)
    assert "relu" not in error
