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

CASTS = """
import mxlite as mx
from mxlite import gluon, nd


class Casts(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        for i in range(3):
            setattr(self, f"w{i}", self.params.get(f"w{i}", shape=(i + 1, 2)))

    def forward(self, x):
        return [x * nd.amp_cast(p.data(x.context), dtype="float16") for p in self.params.values()]


net = Casts()
net.initialize(ctx=mx.gpu(0))
net.hybridize()
net(nd.ones((1,), ctx=mx.gpu(0), dtype="float16"))
nd.waitall()
"""

pytestmark = pytest.mark.skipif(
    "mxlite_fake_gpu" not in os.environ.get("MXLITE_CUDA_LIBRARY", ""),
    reason="only the simulated GPU writes the log: make test-cuda",
)


def launches_of(program: str, log: Path) -> list[str]:
    """Return the lines that the simulated GPU logs."""
    run_python("-c", program, environment={"MXLITE_FAKE_GPU_LAUNCHES": str(log)}, timeout=60)
    return log.read_text().splitlines()


def test_launches_have_their_shapes(tmp_path: Path) -> None:
    lines = launches_of(PROGRAM, tmp_path / "launches")
    assert "dot_kernel\t(2, 3) float32;(3, 4) float32;\t(2, 4) float32;" in lines
    # Channels are last, as they are on a GPU.
    convolution = "(2, 6, 6, 4) bfloat16;(8, 3, 3, 4) bfloat16;"
    assert any(line.startswith(f"Convolution_kernel\t{convolution}") for line in lines), lines


def test_weights_are_cast_by_one_call(tmp_path: Path) -> None:
    casts = [
        line
        for line in launches_of(CASTS, tmp_path / "launches")
        if line.startswith(("amp_", "Cast"))
    ]
    inputs, outputs = (
        "".join(f"({i + 1}, 2) {dtype};" for i in range(3)) for dtype in ("float32", "float16")
    )
    assert casts == [f"amp_multicast_kernel\t{inputs}\t{outputs}"]
