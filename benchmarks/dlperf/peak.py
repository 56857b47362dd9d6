"""Peak arithmetic of a device: the denominator of model FLOP utilisation (MFU).

``python peak.py DTYPE`` measures the CPU and prints JSON.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import Any

# Dense TFLOP/s of data sheets: name in the driver's text, then figures by dtype.
_GPUS = {
    "V100": {"float32": 15.7, "float16": 125.0},
    "A100": {"float32": 19.5, "tf32": 156.0, "float16": 312.0, "bfloat16": 312.0},
    "H100": {"float32": 66.9, "tf32": 494.7, "float16": 989.4, "bfloat16": 989.4},
    "H200": {"float32": 66.9, "tf32": 494.7, "float16": 989.4, "bfloat16": 989.4},
}
_SIDE, _PRODUCTS, _BLOCKS = 1536, 4, 5


def gpu_peak(name: str, dtype: str) -> dict[str, Any] | None:
    """Return the data sheet's figure of a GPU, or None if it is not in the table.

    Parameters
    ----------
    name : str
        Name of the GPU, as the driver gives it.
    dtype : str
        A key of ``cases.MATH``.

    Returns
    -------
    dict or None
        ``tflops`` and ``source``.
    """
    for known, figures in _GPUS.items():
        if known in name and dtype in figures:
            return {"tflops": figures[dtype], "source": f"data sheet of {known}"}
    return None


def cpu_peak(dtype: str) -> dict[str, Any]:
    """Return what square matrix products reach on this CPU now, in a process of their own.

    Parameters
    ----------
    dtype : str
        ``"float32"`` or a half type.

    Returns
    -------
    dict
        As in :func:`measured_peak`.
    """
    command = [sys.executable, __file__, dtype]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        words = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise SystemExit(f"dlperf: the peak of {dtype} cannot be measured: {words[0]}")
    return json.loads(done.stdout)


def measured_peak(dtype: str) -> dict[str, Any]:
    """Return what square matrix products reach in this process.

    Parameters
    ----------
    dtype : str
        ``"float32"`` or a half type.

    Returns
    -------
    dict
        ``tflops`` of the best of several blocks, their median, and ``source``.
    """
    import mxlite as mx

    a = mx.nd.random.uniform(shape=(_SIDE, _SIDE)).astype(dtype)
    b = mx.nd.random.uniform(shape=(_SIDE, _SIDE)).astype(dtype)
    mx.nd.dot(a, b).wait_to_read()
    found = []
    for _ in range(_BLOCKS):
        begin = time.perf_counter()
        for _ in range(_PRODUCTS):
            mx.nd.dot(a, b)
        mx.nd.waitall()
        found.append(2e-12 * _PRODUCTS * _SIDE**3 / (time.perf_counter() - begin))
    return {
        "tflops": max(found),
        "median_tflops": statistics.median(found),
        "source": f"best of {_BLOCKS} measurements of {dtype} products of side {_SIDE}",
    }


if __name__ == "__main__":
    print(json.dumps(measured_peak(sys.argv[1])))
