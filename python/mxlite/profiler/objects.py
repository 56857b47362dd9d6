"""Objects with which scripts add events to the trace."""

from __future__ import annotations

import threading
from typing import Any

from ..base import ValueError_
from .record import record, this_thread

_counting = threading.Lock()  # one lock for all counters, so that counters can be pickled
# Chrome's letter for each scope of markers; tasks and markers have none, so they use p.
_SCOPES = {"global": "g", "process": "p", "thread": "t", "task": "p", "marker": "p"}


class Domain:
    """A group of objects, shown as a row of the trace.

    Parameters
    ----------
    name : str
        Title of the group.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """Return a ``Task`` of this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """Return a ``Frame`` of this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: int | None = None) -> Counter:
        """Return a ``Counter`` of this domain."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """Return a ``Marker`` of this domain."""
        return Marker(self, name)


class _Span:
    """Base of objects with a start and an end; usable as a context manager."""

    _begin, _end = "b", "e"

    def __init__(self, name: str, category: str) -> None:
        self.name = name
        self._category = category
        self._thread: int | None = None  # thread that called start()

    def start(self) -> None:
        """Record the start."""
        self._thread = this_thread()
        record.add(self.name, self._category, self._begin)

    def stop(self) -> None:
        """Record the end; another thread than that of ``start`` may call it."""
        record.add(self.name, self._category, self._end, thread=self._thread)

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def __str__(self) -> str:
        return self.name


class Task(_Span):
    """A named piece of work in a domain.

    Parameters
    ----------
    domain : Domain
        Group of the object.
    name : str
        Title of the object.
    """

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(name, str(domain))
        self.domain = domain


class Frame(_Span):
    """One span of a repeated activity, such as a training step.

    Parameters
    ----------
    domain : Domain
        Group of the object.
    name : str
        Title of the object.
    """

    _begin, _end = "(", ")"

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(name, f"{domain},frame")
        self.domain = domain


class Event(_Span):
    """A span on this thread, without a domain.

    Parameters
    ----------
    name : str
        Title of the object.
    """

    _begin, _end = "B", "E"

    def __init__(self, name: str) -> None:
        super().__init__(name, "event")


class Counter:
    """A number that changes over time.

    Parameters
    ----------
    domain : Domain
        Group of the object.
    name : str
        Title of the object.
    value : int, optional
        Initial value; recorded if given.
    """

    def __init__(self, domain: Domain, name: str, value: int | None = None) -> None:
        self.domain, self.name = domain, name
        self._value = 0
        if value is not None:
            self.set_value(value)

    def __str__(self) -> str:
        return self.name

    def set_value(self, value: int) -> None:
        """Set the value; numbers that are not integers are truncated."""
        with _counting:
            self._set(value)

    def increment(self, delta: int = 1) -> None:
        """Add ``delta``; thread-safe."""
        with _counting:
            self._set(self._value + delta)

    def decrement(self, delta: int = 1) -> None:
        """Subtract ``delta``; thread-safe."""
        self.increment(-delta)

    def _set(self, value: int) -> None:
        self._value = int(value)  # JSON does not support NumPy's numbers
        record.add(self.name, str(self.domain), "C", self._value)

    def __iadd__(self, delta: int) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: int) -> Counter:
        self.decrement(delta)
        return self


class Marker:
    """A point in time.

    Parameters
    ----------
    domain : Domain
        Group of the object.
    name : str
        Title of the object.
    """

    def __init__(self, domain: Domain, name: str) -> None:
        self.domain, self.name = domain, name

    def mark(self, scope: str = "process") -> None:
        """Record the current time.

        Parameters
        ----------
        scope : {"global", "process", "thread", "task", "marker"}
            Extent of the mark in the trace viewer.

        Raises
        ------
        ValueError
            For another scope.
        """
        if scope not in _SCOPES:
            raise ValueError_(f"Marker.mark: scope must be one of {tuple(_SCOPES)}, got {scope!r}")
        record.add(self.name, f"{self.domain},instant_marker", "n", scope=_SCOPES[scope])
