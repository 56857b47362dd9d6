"""Loads the native library with a short polling time of libgomp's threads.

When libgomp is loaded, it reads how long a waiting thread polls before it sleeps. Its default is
several milliseconds. Next to other busy programs, a polling thread then takes CPU time from the
thread for which it waits.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import numpy as np

from .requirements import check_interpreter, check_processor, explain_failed_import

check_processor()
check_interpreter()

# About 0.1 ms: longer than the gaps between parallel loops of one network, and much shorter than a
# time slice. docs/explanation/performance.md has the effect, benchmarks/results other values.
_POLLS = "5000"

# Respect a wait policy that the user set.
_set_polls = not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
if _set_polls:
    os.environ["GOMP_SPINCOUNT"] = _POLLS
try:
    importlib.import_module("mxlite._core")
except ImportError as _error:
    explain_failed_import(_error, Path(__file__).parents[1])
    raise
finally:
    if _set_polls:
        del os.environ["GOMP_SPINCOUNT"]  # child processes must not inherit it

from .. import _core  # noqa: E402 - after the variable above
from . import ending as ending  # noqa: E402 - its hook at exit needs _core

# Packages with GPU libraries may be in another site-packages folder than mxlite.
_core.set_package_folders([folder for folder in sys.path if folder])
# mxlite calls the LAPACK library that NumPy's linear algebra module is linked against.
_core.set_lapack_library(getattr(np.linalg, "_umath_linalg").__file__)  # noqa: B009 - no stub
