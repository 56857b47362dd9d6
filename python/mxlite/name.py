"""Automatic names, numbered as in MXNet 1.x: ``dense0``, ``dense1``, ..."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["NameManager", "Prefix", "current"]


class _NameManagerType(type):
    """Metaclass that gives `NameManager` the property ``current``."""

    @property
    def current(cls) -> NameManager:
        """The name manager of this thread; may be assigned."""
        return current()

    @current.setter
    def current(cls, manager: NameManager) -> None:
        _state.manager = manager


class NameManager(metaclass=_NameManagerType):
    """Names objects without a name: a hint and a counter.

    A manager is made current with ``with``; each thread starts with its own.
    Matches ``mxnet.name.NameManager``.
    """

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._outer: NameManager | None = None

    def get(self, name: str | None, hint: str) -> str:
        """Return ``name``, or if it is None, the next free name for ``hint``.

        Parameters
        ----------
        name : str or None
            The name the user gave.
        hint : str
            Usually the lower-case class name.
        """
        if name:
            return name
        count = self._counter.get(hint, 0)
        self._counter[hint] = count + 1
        return f"{hint}{count}"

    def __enter__(self) -> NameManager:
        self._outer = current()
        _state.manager = self
        return self

    def __exit__(self, *exc: Any) -> None:
        assert self._outer is not None
        _state.manager = self._outer


class Prefix(NameManager):
    """A name manager that adds ``prefix`` to every name.

    Parameters
    ----------
    prefix : str
        Text before each name, usually ending in an underscore.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        """Return the prefix followed by the result of `NameManager.get`."""
        return self._prefix + super().get(name, hint)


class _State(threading.local):
    """The current name manager of each thread."""

    def __init__(self) -> None:
        self.manager = NameManager()


_state = _State()


def current() -> NameManager:
    """Return the name manager of this thread."""
    return _state.manager
