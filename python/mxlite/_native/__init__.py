"""Loads the native library and checks the environment variables that it reads first."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np

from .requirements import check_interpreter, check_processor, explain_failed_import

check_processor()
check_interpreter()

try:
    importlib.import_module("mxlite._core")
except ImportError as _error:
    explain_failed_import(_error, Path(__file__).parents[1])
    raise

from .. import _core  # noqa: E402 - after the checks above

_core.cpu_threads()  # raises ValueError if a variable of threads has an impossible value

from . import ending as ending  # noqa: E402 - its hook at exit needs _core

# Packages with GPU libraries may be in another site-packages folder than mxlite.
_core.set_package_folders([folder for folder in sys.path if folder])
# mxlite calls the LAPACK library that NumPy's linear algebra module is linked against.
_core.set_lapack_library(getattr(np.linalg, "_umath_linalg").__file__)  # noqa: B009 - no stub
