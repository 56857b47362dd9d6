"""Print versions, device, memory and the libraries that were loaded.

python3 tools/gpu/versions.py --json FILE
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np


def loaded_libraries() -> list[str]:
    """Return the files of the libraries that this process has loaded."""
    names = ("libcuda", "libcublas", "libcudnn", "libnccl", "libnvrtc", "libmxlite", "libdnnl")
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split()[-1] for line in lines if "/" in line}
    return sorted(p for p in paths if Path(p).name.startswith(names))


def main() -> int:
    """Print and write the versions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mxlite": mx.__version__,
        "gpus": mx.num_gpus(),
    }
    if not found["gpus"]:
        found["why_no_gpu"] = mx._core.why_no_gpu()
    else:
        x = mx.nd.ones((4, 4), ctx=mx.gpu(0))
        found["sum"] = float(mx.nd.dot(x, x).sum().asscalar())  # 64 if a product works
        found["device"] = mx._core.gpu_properties(0)
        found["memory"] = mx.context.gpu_memory_info(0)
    found["libraries"] = loaded_libraries()
    Path(options.json).write_text(json.dumps(found))
    print(json.dumps(found, indent=1))
    return 0 if found["gpus"] and found["sum"] == 64 else 1


if __name__ == "__main__":
    sys.exit(main())
