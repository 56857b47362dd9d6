"""Ends prefetching threads and the engine's workers before the interpreter ends.

A thread that still runs while the interpreter is finalized could be stopped anywhere in native
code. The hook runs after the non-daemon threads of Python have ended, and after the program's own
exit handlers, so these may use the engine.
"""

from __future__ import annotations

import atexit
import contextlib
import weakref
from typing import Any

from .. import _core

_open: weakref.WeakSet[Any] = weakref.WeakSet()


def close_at_exit(resource: Any) -> None:
    """Call ``resource.close()`` before the interpreter ends; keeps only a weak reference."""
    _open.add(resource)


def _end() -> None:
    if _core.ended_by_interrupt():
        # After Ctrl-C, cancel queued work instead of waiting for it.
        _core.engine_cancel("the program was interrupted")
    for resource in list(_open):
        with contextlib.suppress(Exception):
            resource.close()
    _core.engine_stop()


atexit.register(_end)
