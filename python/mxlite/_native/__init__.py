"""Loads the native library with a short polling time of libgomp's threads.

When libgomp is loaded, it reads how long a waiting thread polls before it sleeps. Its default is
several milliseconds. Next to other busy programs, a polling thread then takes CPU time from the
thread for which it waits.
"""

from __future__ import annotations

import importlib
import os
import sys

import numpy as np


def _check_interpreter() -> None:
    """Raise in a subinterpreter, where loading the library would hang."""
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    try:
        interpreters = importlib.import_module(name)
    except ImportError:  # this version of Python has no subinterpreters
        return
    if interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "mxlite cannot be imported in a subinterpreter; import it in the main interpreter, or "
            "use another process (multiprocessing)"
        )


_check_interpreter()

# About 0.1 ms: longer than the gaps between parallel loops of one network, and much shorter than a
# time slice. See docs/performance.md; benchmarks/results has measurements of other values.
_POLLS = "5000"

# Respect a wait policy that the user set.
if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
    os.environ["GOMP_SPINCOUNT"] = _POLLS
    try:
        importlib.import_module("mxlite._core")
    finally:
        del os.environ["GOMP_SPINCOUNT"]  # child processes must not inherit it

from .. import _core  # noqa: E402 - after the variable above
from . import ending as ending  # noqa: E402 - its hook at exit needs _core

# Packages with GPU libraries may be in another site-packages folder than mxlite.
_core.set_package_folders([folder for folder in sys.path if folder])
# mxlite calls the LAPACK library that NumPy's linear algebra module is linked against.
_core.set_lapack_library(getattr(np.linalg, "_umath_linalg").__file__)  # noqa: B009 - no stub
