"""The import alias for scripts written for MXNet 1.x: ``import mxnet`` gives mxlite.

``python -m mxlite.compat script.py args...`` runs an unchanged script. Other programs call
:func:`install` before their first ``import mxnet``, or the packages of the folder ``shim`` are
installed, which make ``import mxnet`` work in all programs. Every module of 1.9.1
resolves to the module of mxlite (``mxnet.nd is mxlite.nd``); only ``mxnet.__version__`` differs.
"""

from __future__ import annotations

import multiprocessing.pool  # noqa: F401 - 1.x imports it too, scripts use it without an import
import os
import sys
from .._names_1x import VERSION
from ..base import MXNetError
from .finder import CHILD_PATH, SHIM_FILES, ImportFinder, Mxnet
from .hooks import add_names_after_imports
from .numpy_names import add_numpy_names

__all__ = ["VERSION", "install"]

_FINDER = ImportFinder()
_PACKAGE_PARENT = str(CHILD_PATH.parents[2])


def install(subprocesses: bool = True, numpy_names: bool = True) -> None:
    """Make ``import mxnet`` (and ``horovod.mxnet``) resolve to mxlite in this process.

    Calling it again does nothing.

    Parameters
    ----------
    subprocesses : bool
        Also put a folder into ``PYTHONPATH`` and ``sys.path``, so that Python processes started
        from here (``subprocess``, ``multiprocessing`` with spawn) find the same ``mxnet``.
    numpy_names : bool
        Also add names to NumPy, for the whole process, that old scripts use and NumPy has removed:
        ``np.float``, ``np.int`` and others as names of Python's types, ``np.product``,
        ``np.asscalar``, ..., and ``np.fromstring`` for bytes. Names that NumPy has are not changed.

    Raises
    ------
    MXNetError
        If another ``mxnet`` is imported already.
    """
    imported = sys.modules.get("mxnet")
    # In child processes, the file that calls this function is itself imported as module mxnet.
    if imported is not None and not isinstance(imported, Mxnet):
        origin = str(getattr(imported, "__file__", None))
        if not origin.startswith(str(CHILD_PATH)) and origin not in SHIM_FILES:
            raise MXNetError(
                f"install: another mxnet is imported already, from {origin}; "
                "call install() before the first import of mxnet"
            )
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
        add_names_after_imports()
        if numpy_names:
            add_numpy_names()
    if subprocesses:
        _extend_python_path()


def _extend_python_path() -> None:
    """Add the folders of modules ``mxnet`` and mxlite to the search path of child processes."""
    folder = str(CHILD_PATH)
    entries = [e for e in os.environ.get("PYTHONPATH", "").split(os.pathsep) if e]
    if folder not in entries:
        entries.insert(0, folder)
    if _PACKAGE_PARENT not in entries and not _PACKAGE_PARENT.endswith("site-packages"):
        entries.append(_PACKAGE_PARENT)
    os.environ["PYTHONPATH"] = os.pathsep.join(entries)
    # multiprocessing passes sys.path to spawned processes; the script's folder must stay first.
    if folder not in sys.path:
        sys.path.insert(1, folder)
