"""The last step of reading a pickle: replaces unfinished objects by their values."""

from __future__ import annotations

import collections
from typing import Any

from .values import Maker, PickleContentError, Unfinished

_DEEPEST = 100
_SCALARS = frozenset((type(None), bool, int, float, complex, str, bytes))


def finished(value: Any, most_entries: int | None) -> Any:
    """Return a value with all unfinished objects in it replaced by their values."""
    finisher = _Finisher()
    result = finisher.finish(value)
    if most_entries is not None and finisher.entries > most_entries:
        raise PickleContentError(
            f"number of entries in containers must be at most {most_entries}, got "
            f"{finisher.entries}"
        )
    return result


class _Finisher:
    def __init__(self) -> None:
        # Keys are ids. Values: the object (stored to keep ids unique), its value, its number of
        # entries.
        self._known: dict[int, tuple[Any, Any, int]] = {}
        self._running: set[int] = set()
        self.entries = 0

    def finish(self, value: Any) -> Any:
        """Return the value of an object, with the values of all objects in it."""
        self.entries += 1
        if type(value) in _SCALARS:
            return value
        if isinstance(value, Maker):
            raise PickleContentError(f"a value must be plain data, got the name {value.name}")
        key = id(value)
        if key in self._known:
            self.entries += self._known[key][2]
            return self._known[key][1]
        if key in self._running:
            raise PickleContentError("a container must not contain itself")
        if len(self._running) >= _DEEPEST:
            raise PickleContentError(f"containers must be nested at most {_DEEPEST} levels deep")
        self._running.add(key)
        before = self.entries
        result = self._contents(value)
        self._running.discard(key)
        self._known[key] = value, result, self.entries - before
        return result

    def _contents(self, value: Any) -> Any:
        if isinstance(value, Unfinished):
            return value.value(self.finish)
        if isinstance(value, dict):
            for name, item in value.items():
                value[name] = self.finish(item)
        elif isinstance(value, (list, collections.deque)):
            items = [self.finish(item) for item in value]
            value.clear()
            value.extend(items)
        elif type(value) is tuple:
            return tuple([self.finish(item) for item in value])
        return value
