"""The traced arrays that stand in for parameters while a block is traced.

While a block is traced, :meth:`Parameter.data` must return the traced array of the parameter. The
stand-ins of a running trace are stored per thread. ``STATE`` counts the running traces, so that the
fast path of a hybridized block needs no thread-local look-up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["STATE", "note_use", "stand_ins", "standing_in"]


class _State:
    """Counts the traces that are running in this process.

    Attributes
    ----------
    traces : int
        Number of traces that run now, in all threads.
    """

    __slots__ = ("lock", "traces")

    def __init__(self) -> None:
        self.traces = 0
        self.lock = threading.Lock()  # guards changes of the counter


class _Local(threading.local):
    """Traced arrays that replace parameters in this thread's trace."""

    arrays: Mapping[int, Any] | None = None
    used: set[int] | None = None


STATE = _State()
_local = _Local()


def note_use(param_id: int) -> None:
    """Record that the traced forward has read a parameter."""
    if _local.used is not None:
        _local.used.add(param_id)


def stand_ins() -> Mapping[int, Any] | None:
    """Return the traced arrays of this thread's trace by ``id(parameter)``, or None."""
    return _local.arrays


@contextmanager
def standing_in(arrays: Mapping[int, Any], used: set[int] | None = None) -> Iterator[None]:
    """Within a with block, make parameters return ``arrays`` instead of their data."""
    outer = _local.arrays, _local.used
    with STATE.lock:
        STATE.traces += 1
    _local.arrays, _local.used = arrays, used
    try:
        yield
    finally:
        _local.arrays, _local.used = outer
        with STATE.lock:
            STATE.traces -= 1
