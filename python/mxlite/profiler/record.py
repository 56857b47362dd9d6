"""The recorded events: those of the core, and those of user objects."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

from .. import _core

# Kinds of the core's events; a kind's number is its bit in masks.
OPERATOR, API, PASS, IO, COMM, DEVICE = range(6)
CATEGORIES = ("operator", "MXNET_C_API", "graph pass", "IO", "communication")
MEMORY, ENGINE, CUSTOM = "Device Storage", "engine", "Custom Operator"


def _gpu(track: int) -> str:
    """Return the category of a GPU track of the core: operators or kernels."""
    return f"gpu/{track >> 4 & 0xFF}{' kernels' if track >> 12 & 1 else ''}"


class Entry(NamedTuple):
    """One event.

    ``phase`` is Chrome's letter: B, E, C, and for user objects b, e, (, ), n. ``value`` is that of
    a counter, ``scope`` that of a marker (Chrome's letter: g, p or t).
    """

    nanoseconds: int
    name: str
    category: str
    phase: str
    thread: int
    value: int | None = None
    scope: str = "p"


def this_thread() -> int:
    """Return the number of the calling thread in events."""
    return threading.get_ident() & 0x7FFFFFFF


class Record:
    """Collects events; ``running`` is whether events of user objects are recorded."""

    def __init__(self) -> None:
        self.running = False
        self._dropped = 0
        self._entries: list[Entry] = []
        self._mark = 0
        self._lock = threading.Lock()

    def events(self, from_mark: bool = False) -> list[Entry]:
        """Return the events, ordered by time within each thread."""
        with self._lock:
            self._take()
            return self._entries[self._mark :] if from_mark else list(self._entries)

    def mark(self) -> None:
        """Make `events` with ``from_mark`` start at the current time."""
        with self._lock:
            self._take()
            self._mark = len(self._entries)

    def clear(self) -> None:
        """Drop all events."""
        with self._lock:
            self._take()
            self._entries.clear()
            self._mark = self._dropped = 0

    def take_dropped(self) -> int:
        """Return how many events were lost since the last call."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
            return dropped

    def add(
        self,
        name: str,
        category: str,
        phase: str,
        value: int | None = None,
        *,
        scope: str = "p",
        thread: int | None = None,
    ) -> None:
        """Record an event of a user object now; no effect while the profiler is off.

        ``thread`` is the number of the event's thread; by default, the calling thread.
        """
        if not self.running:
            return
        number = this_thread() if thread is None else thread
        with self._lock:
            now = time.perf_counter_ns()
            self._entries.append(Entry(now, name, category, phase, number, value, scope))

    def add_span(self, name: str, category: str, begin: int, end: int) -> None:
        """Record a span between two times of ``time.perf_counter_ns``."""
        thread = this_thread()
        with self._lock:
            for phase, time_ns in (("B", begin), ("E", max(begin, end))):
                self._entries.append(Entry(time_ns, name, category, phase, thread))

    def _take(self) -> None:
        taken: dict[str, Any] = _core.profiler_take()
        self._dropped += int(taken["dropped"])
        names = taken["names"]
        columns = ("nanoseconds", "name", "kind", "phase", "thread", "value")
        for time_ns, name, kind, phase, thread, value in zip(
            *(taken[column].tolist() for column in columns)
        ):
            text = names[name]
            if phase == ord("C"):
                category = MEMORY if text.startswith("Memory") else ENGINE
                self._entries.append(Entry(time_ns, text, category, "C", thread, value))
            else:
                category = _gpu(thread) if kind == DEVICE else CATEGORIES[kind]
                self._entries.append(Entry(time_ns, text, category, chr(phase), thread))


record = Record()
