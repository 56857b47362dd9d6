"""The emulator of kernels reports what they access beside their arrays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from processes import run_python

pytestmark = pytest.mark.skipif(
    "emulated_gpu" not in os.environ.get("MXLITE_CUDA_LIBRARY", ""),
    reason="only the emulator checks the memory of kernels: make test-emulated",
)

PROGRAM = """
import sys
import mxlite as mx
source = 'extern "C" __global__ void spoil(float *x, int i) { x[i] = 1; }'
spoil = mx.rtc.CudaModule(source).get_kernel("spoil", "float *x, int i")
gpu = mx.gpu(0)
arrays = [mx.nd.zeros((6,), ctx=gpu) for _ in range(3)]
for x in arrays:
    spoil.launch([x, 5], gpu, (1, 1, 1), (1, 1, 1))
    print(x.asnumpy().tolist())
spoil.launch([arrays[int(sys.argv[1])], int(sys.argv[2])], gpu, (1, 1, 1), (1, 1, 1))
try:
    (arrays[0] + 1).asnumpy()
except mx.base.MXNetError as error:
    print("ERROR:", error)
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the first program leaves its compiled kernel for the others."""
    return tmp_path_factory.mktemp("compiled")


@pytest.mark.parametrize("array", [0, 1, 2])
@pytest.mark.parametrize("index", [-1, 6])
def test_a_kernel_that_writes_beside_its_array_is_named(
    tmp_path: Path, compiled: Path, array: int, index: int
) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = run_python(path, array, index, environment={"MXLITE_CACHE_DIR": str(compiled)})
    assert done.stdout.count("[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]") == 3
    assert "ERROR:" in done.stdout and "spoil failed" in done.stdout, done.stdout
