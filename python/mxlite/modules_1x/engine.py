"""Bulking of eager operators (MXNet 1.x: ``mxnet.engine``).

mxlite runs small operators in the caller and hybridized blocks as one task, so there is nothing to
bulk; the functions keep the value that scripts set and read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["bulk", "set_bulk_size"]


class _State(threading.local):
    size = 15


_state = _State()


def set_bulk_size(size: int) -> int:
    """Set the bulk size of this thread.

    Parameters
    ----------
    size : int
        Number of operators MXNet would have joined into one task; no effect here.

    Returns
    -------
    int
        The size that was set before.
    """
    old, _state.size = _state.size, size
    return old


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
