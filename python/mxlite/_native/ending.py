"""Ends threads before the interpreter ends: those that read ahead, and the engine's workers.

A thread of ours that runs while the interpreter goes away could be stopped anywhere inside native
code. The hook runs when the threads that Python waits for are done, and after the program's own
exit handlers, which may use everything.
"""

from __future__ import annotations

import atexit
import contextlib
import weakref
from typing import Any

from .. import _core

__all__ = ["close_at_exit"]

_open: weakref.WeakSet[Any] = weakref.WeakSet()


def close_at_exit(resource: Any) -> None:
    """Call ``resource.close()`` before the interpreter ends, if the resource still exists then."""
    _open.add(resource)


def _end() -> None:
    if _core.ended_by_interrupt():
        # The user does not want to wait for queued work.
        _core.engine_cancel("the program was interrupted")
    for resource in list(_open):
        with contextlib.suppress(Exception):
            resource.close()
    _core.engine_stop()


atexit.register(_end)
