"""State of traces about parameters: stand-ins by thread.

While a block is traced, :meth:`Parameter.data` must give the traced array that stands for the
parameter. The stand-ins of the running trace are kept per thread; ``STATE`` counts the traces, so
that the fast path of a hybridized block needs no look-up by thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["STATE", "note_use", "stand_ins", "standing_in"]


class _State:
    """Counter of this process.

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
    """The stand-ins of the trace that runs in a thread."""

    arrays: Mapping[int, Any] | None = None
    used: set[int] | None = None


STATE = _State()
_local = _Local()


def note_use(param_id: int) -> None:
    """Note that forward asked for a parameter."""
    if _local.used is not None:
        _local.used.add(param_id)


def stand_ins() -> Mapping[int, Any] | None:
    """Return the traced arrays of this thread's trace by ``id(parameter)``, None outside of one."""
    return _local.arrays


@contextmanager
def standing_in(arrays: Mapping[int, Any], used: set[int] | None = None) -> Iterator[None]:
    """Let parameters give ``arrays`` instead of their data."""
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
