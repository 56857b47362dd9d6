"""MXLITE_NVJPEG=1 where there is no GPU: an error, not the CPU's decoder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mxlite as mx
import numpy as np
from mxlite import recordio

PROGRAM = """
import sys, mxlite as mx
batches = mx.io.ImageRecordIter(
    path_imgrec=sys.argv[1], data_shape=(3, 8, 8), batch_size=1, ctx=sys.argv[2], verbose=0
)
print(batches.next().data[0].ctx)
"""


def run(record: str, ctx: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "MXLITE_NVJPEG": "1", "CUDA_VISIBLE_DEVICES": ""}
    env.pop("MXLITE_CUDA_LIBRARY", None)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, record, ctx],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_without_a_gpu_nvjpeg_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "a.rec")
    with recordio.MXRecordIO(path, "w") as file:
        image = np.zeros((9, 9, 3), "uint8")
        file.write(recordio.pack_img((0, 0.0, 0, 0), image, img_fmt=".png"))
    failed = run(path, "gpu")
    assert failed.returncode == 1
    assert "DeviceError: ImageRecordIter (MXLITE_NVJPEG=1): gpu(0) asked for" in failed.stderr
    assert run(path, "cpu").stdout == f"{mx.cpu()}\n"
