"""State of the job that this process has joined."""

from __future__ import annotations

import itertools
import weakref
from collections import defaultdict
from typing import Any

from ..base import ValueError_

_NOT_INITIALIZED = "Horovod has not been initialized; use hvd.init()."


class InitError(ValueError_):
    """The job could not be joined, or has not been joined (Horovod raises ``ValueError``)."""


class _Job:
    """State of this process's job; there is one object, `JOB`."""

    def __init__(self) -> None:
        self.info: dict[str, Any] | None = None
        self.failed = False  # True if an exception ends this process
        # Objects such as trainers whose _follow_size() is called when the size of the job changes.
        self.followers: weakref.WeakSet[Any] = weakref.WeakSet()
        # Calls without a name get a number per kind of operation and process set. All ranks of the
        # set must make them in the same order.
        self.counters: dict[tuple[str, int | None], itertools.count[int]] = defaultdict(
            itertools.count
        )

    def value(self, name: str) -> Any:
        if self.info is None:
            raise InitError(_NOT_INITIALIZED)
        return self.info[name]


JOB = _Job()
