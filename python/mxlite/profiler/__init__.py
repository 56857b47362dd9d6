"""Records what runs at which time and for how long (MXNet 1.x: ``mxnet.profiler``).

``set_config(filename="profile.json")``, ``set_state("run")``, work, ``dump()`` writes a trace that
``chrome://tracing`` and Perfetto show: operators, calls from Python, graph passes, stages of the
input pipeline, collective operations, memory and the tasks in flight. ``dumps()`` gives tables.

``MXNET_PROFILER_AUTOSTART=1`` starts recording at import, and writes the trace at exit.
``MXNET_PROFILER_MODE`` then selects the events, as a sum of 1 (hybridized operators), 2 (eager
operators), 4 (calls) and 8 (memory).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._names_1x import attributes as _attributes
from .control import (
    dump,
    dump_profile,
    dumps,
    pause,
    profiler_set_config,
    profiler_set_state,
    resume,
    set_config,
    set_kvstore_handle,
    set_state,
)
from .control import _autostart
from .memory import memory_by_block
from .objects import Counter, Domain, Event, Frame, Marker, Task

__all__ = [
    "Counter",
    "Domain",
    "Event",
    "Frame",
    "Marker",
    "Task",
    "dump",
    "dump_profile",
    "dumps",
    "memory_by_block",
    "pause",
    "profiler_set_config",
    "profiler_set_state",
    "resume",
    "set_config",
    "set_kvstore_handle",
    "set_state",
]

_autostart()

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
