"""State of traces about parameters: stand-ins by thread, and when handles changed.

While a block is traced, :meth:`Parameter.data` must give the traced array that stands for the
parameter. The stand-ins of the running trace are kept per thread; ``STATE`` holds two counters that
the fast path of a hybridized block compares without any look-up by thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .. import autograd
from ..comm.job import JOB
from ..profiler.memory import WATCH

__all__ = ["STATE", "note_use", "stand_ins", "standing_in"]


class _State:
    """Counters of this process.

    Attributes
    ----------
    epoch : int
        Rises whenever an array handle of any parameter is replaced.
    structure : int
        Rises whenever a hybridized block gets a new child.
    traces : int
        Number of traces that run now, in all threads.
    """

    __slots__ = ("__weakref__", "epoch", "lock", "structure", "traces")

    def __init__(self) -> None:
        self.epoch = 0
        self.structure = 0
        self.traces = 0
        self.lock = threading.Lock()  # guards changes of the counters

    def handles_changed(self) -> None:
        """Note that bound parameter arrays may be out of date."""
        with self.lock:
            self.epoch += 1

    def structure_changed(self) -> None:
        """Note that graphs traced before may have other children."""
        with self.lock:
            self.structure += 1
            self.epoch += 1

    def _follow_size(self) -> None:
        """Forget graphs: they hold the ranks of the job that this process was in before."""
        self.structure_changed()


class _Local(threading.local):
    """The stand-ins of the trace that runs in a thread."""

    arrays: Mapping[int, Any] | None = None
    used: set[int] | None = None


STATE = _State()
JOB.followers.add(STATE)
autograd.graphs_out_of_date.provide(STATE.handles_changed)
# While memory is attributed to blocks, all calls run through Block.__call__.
WATCH.listeners.append(STATE.handles_changed)
_local = _Local()


def note_use(param_id: int) -> None:
    """Note that forward asked for a parameter.

    Parameters
    ----------
    param_id : int
        ``id`` of the parameter.
    """
    if _local.used is not None:
        _local.used.add(param_id)


def stand_ins() -> Mapping[int, Any] | None:
    """Return the traced arrays of this thread's trace by ``id(parameter)``, None outside of one.

    Returns
    -------
    mapping of int to NDArray, or None
    """
    return _local.arrays


@contextmanager
def standing_in(arrays: Mapping[int, Any], used: set[int] | None = None) -> Iterator[None]:
    """Let parameters give ``arrays`` instead of their data.

    Parameters
    ----------
    arrays : mapping of int to NDArray
        Traced arrays by ``id(parameter)``.
    used : set of int, optional
        Gets the ids of the parameters that are asked for.
    """
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
