"""Numbers that stay unknown until the result of a check on the device has been read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from .optimizer import Optimizer
    from .updater import Updater

__all__ = ["Attempt", "Settled", "Settling"]

_T = TypeVar("_T")


class Settling:
    """Base of objects of which some attributes depend on a check that is still running."""

    # Reads the result and corrects the attributes; None: nothing is open.
    _unsettled: Callable[[], None] | None = None
    # Attributes that belong to one process and are not copied.
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
        """Set the value, which the check does not change any more."""
        if owner._unsettled is not None:
            owner._settle()
        owner.__dict__[self._name] = value


class Attempt:
    """Changes of an update on the host, which are undone if the device skips the update.

    Parameters
    ----------
    optimizer : Optimizer
    updaters : list of Updater
        Their new states are forgotten, so that the next update makes them of the weights then.
    """

    def __init__(self, optimizer: Optimizer, updaters: Sequence[Updater]) -> None:
        self._optimizer, self._updaters = optimizer, list(updaters)
        self._before = {name: _copied(getattr(optimizer, name)) for name in optimizer._counts}
        self._scheduler = dict(_scheduler_attributes(optimizer))
        self._states = [len(updater.states) for updater in updaters]

    def wait_with(self, settle: Callable[[], None]) -> None:
        """Let the optimizer's counts wait for a check.

        Parameters
        ----------
        settle : callable
            Reads the result and calls `finish`.
        """
        # A scheduler's attributes are plain: only those that the update changed are taken back.
        now = _scheduler_attributes(self._optimizer)
        self._scheduler = {
            name: value for name, value in self._scheduler.items() if now.get(name) is not value
        }
        self._optimizer._unsettled = settle

    def finish(self, skipped: bool) -> None:
        """End the wait.

        Parameters
        ----------
        skipped : bool
            Whether the device left the weights as they were.
        """
        self._optimizer.__dict__.pop("_unsettled", None)
        if not skipped:
            return
        for name, before in self._before.items():
            if isinstance(before, dict):
                _restore(getattr(self._optimizer, name), before)
            else:
                setattr(self._optimizer, name, before)
        _scheduler_attributes(self._optimizer).update(self._scheduler)
        for updater, count in zip(self._updaters, self._states):
            for key in list(updater.states)[count:]:
                del updater.states[key]


def _scheduler_attributes(optimizer: Optimizer) -> dict[str, Any]:
    return getattr(optimizer.lr_scheduler, "__dict__", {})


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(entry) for key, entry in value.items()}
    return value


def _restore(value: dict[Any, Any], before: dict[Any, Any]) -> None:
    """Give a dictionary, and those inside, the entries of a copy; others may refer to them."""
    for key in list(value):
        if isinstance(value[key], dict):
            _restore(value[key], before.get(key, {}))
        elif key in before:
            value[key] = before[key]
        else:
            del value[key]
