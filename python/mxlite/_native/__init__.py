"""Loads the native library with short waits of its compute threads.

libgomp reads how long a thread polls before it sleeps only once, when it is loaded. Its own default
is several milliseconds: beside other busy programs a thread that polls uses up the time slice that
the thread it waits for needs.
"""

from __future__ import annotations

import importlib
import os
import sys


def _check_interpreter() -> None:
    """Raise in a subinterpreter, where loading the library would never return."""
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    try:
        interpreters = importlib.import_module(name)
    except ImportError:  # this Python has no subinterpreters
        return
    if interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "mxlite cannot be imported in a subinterpreter; import it in the main interpreter, or "
            "use another process (multiprocessing)"
        )


_check_interpreter()

# About 0.1 ms: longer than the gaps between parallel loops of one network, much shorter than a time
# slice. benchmarks/results has the measurements of other values, docs/performance.md the summary.
_POLLS = "5000"

# A program that sets one of these has chosen.
if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
    os.environ["GOMP_SPINCOUNT"] = _POLLS
    try:
        importlib.import_module("mxlite._core")
    finally:
        del os.environ["GOMP_SPINCOUNT"]  # processes started later are not ours to decide about

from .. import _core  # noqa: E402 - after the variable above
from . import ending as ending  # noqa: E402 - its hook at exit needs _core

# The libraries of GPUs may be in another folder than this package: of the user, or of the system.
_core.set_package_folders([folder for folder in sys.path if folder])
