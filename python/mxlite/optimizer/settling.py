"""Attributes whose value is unknown until a check on the device has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["Settled", "Settling"]

_T = TypeVar("_T")


class Settling:
    """Base of objects with attributes that depend on a check that may still be running."""

    # Reads the result and corrects the attributes; None if no check is running.
    _unsettled: Callable[[], None] | None = None
    # Attributes that copies and pickles leave out.
    _transient: tuple[str, ...] = ("_unsettled",)

    def _settle(self) -> None:
        """Wait for the check, if one is running, and correct the attributes."""
        settle = self.__dict__.pop("_unsettled", None)
        if settle is not None:
            settle()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a copy or a pickle, after the check."""
        self._settle()
        return {key: entry for key, entry in vars(self).items() if key not in self._transient}


class Settled(Generic[_T]):
    """An attribute of a `Settling` object: reading or setting it waits for the check."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, owner: None, kind: type) -> Settled[_T]: ...
    @overload
    def __get__(self, owner: Settling, kind: type) -> _T: ...
    def __get__(self, owner: Settling | None, kind: type) -> Any:
        """Return the value after the check."""
        if owner is None:
            return self
        if owner._unsettled is not None:
            owner._settle()
        try:
            return owner.__dict__[self._name]
        except KeyError:
            raise AttributeError(
                f"{type(owner).__name__!r} object has no attribute {self._name!r}",
                name=self._name,
                obj=owner,
            ) from None

    def __set__(self, owner: Settling, value: _T) -> None:
        """Set the value after the check."""
        if owner._unsettled is not None:
            owner._settle()
        owner.__dict__[self._name] = value
