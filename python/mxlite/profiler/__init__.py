"""Records what runs when, and for how long (MXNet 1.x: ``mxnet.profiler``).

``set_config(filename="profile.json")``, ``set_state("run")``, work, ``dump()`` writes a trace that
``chrome://tracing`` and Perfetto show: operators, calls from Python, graph passes, stages of the
input pipeline, collective operations, memory and the tasks in flight. ``dumps()`` gives tables.

``MXNET_PROFILER_AUTOSTART=1`` starts with the import and writes at the end of the process;
``MXNET_PROFILER_MODE`` then says what: 1 hybridized, 2 eager, 4 calls, 8 memory, in any sum.
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
