"""Attributes given to all symbols created in a ``with`` block (``mx.AttrScope``)."""

from __future__ import annotations

import threading
from typing import Any

from .base import ValueError_

__all__ = ["AttrScope", "current"]


class _AttrScopeType(type):
    """Metaclass that gives `AttrScope` the property ``current``."""

    @property
    def current(cls) -> AttrScope:
        """The attribute scope of this thread; may be assigned."""
        return current()

    @current.setter
    def current(cls, scope: AttrScope) -> None:
        _state.scope = scope


class AttrScope(metaclass=_AttrScopeType):
    """Attributes that every variable and node created inside the scope gets.

    Parameters
    ----------
    **kwargs : str
        Attribute names and their text. Inner scopes win over outer ones.

    Raises
    ------
    ValueError
        If a value is not a string.
    """

    def __init__(self, **kwargs: str) -> None:
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError_(
                    f"AttrScope: attribute {key!r} must be a string, got {value!r} of type "
                    f"{type(value).__name__}"
                )
        self._attr = kwargs
        self._outer: AttrScope | None = None

    def get(self, attr: dict[str, str] | None) -> dict[str, str]:
        """Return the scope's attributes updated by those that the user gave for one symbol."""
        return {**self._attr, **(attr or {})}

    def __enter__(self) -> AttrScope:
        self._outer = current()
        self._attr = {**self._outer._attr, **self._attr}
        _state.scope = self
        return self

    def __exit__(self, *exc: Any) -> None:
        assert self._outer is not None
        _state.scope = self._outer


class _State(threading.local):
    """The current scope of each thread."""

    def __init__(self) -> None:
        self.scope = AttrScope()


_state = _State()


def current() -> AttrScope:
    """Return the attribute scope of this thread."""
    return _state.scope
