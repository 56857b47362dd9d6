"""``python -m mxlite`` prints what is installed and where the documentation is."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np

import mxlite as mx

_TOOLS = "im2rec, launch, parse_log, rec2idx, recinfo, trace"


def main() -> None:
    """Print versions, features, GPUs, tools and how to read the documentation."""
    features = mx.runtime.feature_list()
    print(
        f"mxlite {mx.__version__} in {Path(mx.__file__).parent}\n"
        f"Python {platform.python_version()}, NumPy {np.__version__}, {mx.num_gpus()} GPUs\n"
        f"features: {', '.join(feature.name for feature in features if feature.enabled)}\n"
        f"tools (python -m mxlite.tools.NAME --help): {_TOOLS}\n"
        "documentation: help(mxlite.gluon) and help() of any other name; README.md and the folder "
        "docs of the source archive"
    )


if __name__ == "__main__":
    main()
