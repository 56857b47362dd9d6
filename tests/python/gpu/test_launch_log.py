"""The log of launches with shapes that the simulated GPU writes for tools/gpu/predict.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from processes import run_python

PROGRAM = """
import mxlite as mx
from mxlite import gluon, nd

gpu = mx.gpu(0)
nd.dot(nd.ones((2, 3), ctx=gpu), nd.ones((3, 4), ctx=gpu)).wait_to_read()
net = gluon.nn.Conv2D(8, 3, in_channels=4)
net.initialize(ctx=gpu)
net.cast("bfloat16")
net.hybridize()
net(nd.ones((2, 4, 6, 6), ctx=gpu, dtype="bfloat16")).wait_to_read()
"""


@pytest.mark.skipif(
    "mxlite_fake_gpu" not in os.environ.get("MXLITE_CUDA_LIBRARY", ""),
    reason="only the simulated GPU writes the log: make test-cuda",
)
def test_launches_have_their_shapes(tmp_path: Path) -> None:
    log = tmp_path / "launches"
    run_python("-c", PROGRAM, environment={"MXLITE_FAKE_GPU_LAUNCHES": str(log)}, timeout=60)
    lines = log.read_text().splitlines()
    assert "dot_kernel\t(2, 3) float32;(3, 4) float32;\t(2, 4) float32;" in lines
    # Channels are last, as they are on a GPU.
    convolution = "(2, 6, 6, 4) bfloat16;(8, 3, 3, 4) bfloat16;"
    assert any(line.startswith(f"Convolution_kernel\t{convolution}") for line in lines), lines
