"""Bulking of eager operators (MXNet 1.x: ``mxnet.engine``).

mxlite runs small operators in the caller and hybridized blocks as one task, so there is nothing to
bulk; the functions keep the value that scripts set and read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from .c_library import _LIB, check_call

__all__ = ["bulk", "set_bulk_size"]


def set_bulk_size(size: int) -> int:
    """Set the bulk size of this thread.

    Parameters
    ----------
    size : int
        Number of operators that MXNet would join into one task; it has no effect here.

    Returns
    -------
    int
        The size that was set before.
    """
    old = ctypes.c_int()
    check_call(_LIB.MXEngineSetBulkSize(ctypes.c_int(size), ctypes.byref(old)))
    return old.value


@contextmanager
def bulk(size: int) -> Iterator[None]:
    """Set the bulk size inside a ``with`` block.

    Parameters
    ----------
    size : int
        See :func:`set_bulk_size`.
    """
    old = set_bulk_size(size)
    try:
        yield
    finally:
        set_bulk_size(old)
