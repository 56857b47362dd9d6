"""The door for scripts written for MXNet 1.x: ``import mxnet`` gives mxlite.

``python -m mxlite.compat script.py args...`` runs an unchanged script. A program that is started in
another way calls :func:`install` before its first ``import mxnet``. Every module of 1.9.1 resolves
to the module of mxlite (``mxnet.nd is mxlite.nd``); only ``mxnet.__version__`` differs.
"""

from __future__ import annotations

import os
import sys

import numpy as np

from .._surface import VERSION
from ..base import MXNetError
from .finder import CHILD_PATH, DoorFinder, Mxnet

__all__ = ["VERSION", "install"]

_FINDER = DoorFinder()
_PACKAGE_PARENT = str(CHILD_PATH.parents[2])


def install(subprocesses: bool = True) -> None:
    """Make ``import mxnet`` (and ``horovod.mxnet``) resolve to mxlite in this process.

    Calling it again does nothing. ``np.float``, ``np.int`` and their like, which scripts of that
    time use and NumPy 1.24 removed, come back as what they were: names of Python's own types.

    Parameters
    ----------
    subprocesses : bool
        Also put a folder into ``PYTHONPATH`` and ``sys.path``, so that Python processes started
        from here (``subprocess``, ``multiprocessing`` with spawn) find the same ``mxnet``.

    Raises
    ------
    MXNetError
        If another ``mxnet`` is imported already.
    """
    imported = sys.modules.get("mxnet")
    # The file that leads child processes here is a module named mxnet as well, until it ends.
    if imported is not None and not isinstance(imported, Mxnet):
        origin = str(getattr(imported, "__file__", None))
        if not origin.startswith(str(CHILD_PATH)):
            raise MXNetError(
                f"install: another mxnet is imported already, from {origin}; "
                "call install() before the first import of mxnet"
            )
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
        _restore_numpy_aliases()
    if subprocesses:
        _extend_python_path()


def _restore_numpy_aliases() -> None:
    for alias in (bool, int, float, complex, object, str):
        if alias.__name__ not in np.__dict__:  # getattr would warn
            setattr(np, alias.__name__, alias)


def _extend_python_path() -> None:
    """Put the folder with ``mxnet`` for child processes, and mxlite's own, into the search path."""
    door = str(CHILD_PATH)
    entries = [e for e in os.environ.get("PYTHONPATH", "").split(os.pathsep) if e]
    if door not in entries:
        entries.insert(0, door)
    if _PACKAGE_PARENT not in entries and not _PACKAGE_PARENT.endswith("site-packages"):
        entries.append(_PACKAGE_PARENT)
    os.environ["PYTHONPATH"] = os.pathsep.join(entries)
    # multiprocessing gives a spawned process this list; the script's own folder stays in front.
    if door not in sys.path:
        sys.path.insert(1, door)
