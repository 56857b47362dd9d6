"""Entries of the table of allowed names, and objects that later opcodes complete."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

_MOST_KEY_PARTS = 1000
_SCALARS = frozenset((type(None), bool, int, float, complex, str, bytes))

Spender = Callable[[int], None]  # subtracts bytes from the limit of one pickle


class PickleContentError(ValueError):
    """The bytes are not a pickle, are damaged, or use names that are not allowed."""


class Unfinished:
    """A value that a BUILD opcode may complete; `value` is called after the last opcode."""

    def build(self, state: Any, spend: Spender) -> None:
        """Set the state, which follows the object in the file."""
        raise PickleContentError("an object without state must not be followed by a state")

    def value(self, finish: Callable[[Any], Any]) -> Any:
        """Return the final value."""
        raise NotImplementedError


class Maker(NamedTuple):
    """A name that a pickle may call: ``make(args, spend)`` checks args and makes the value."""

    make: Callable[[tuple[Any, ...], Spender], Any]
    name: str


Makers = Callable[[str, str], "Maker | None"]


def check_key(key: Any) -> None:
    """Raise for a key that is unhashable or slow to hash, such as tuples of repeated tuples."""
    if type(key) in _SCALARS:
        return
    waiting, count = [key], 0
    while waiting:
        count += 1
        value = waiting.pop()
        if type(value) in (tuple, frozenset):
            waiting.extend(value)
        elif not _hashable(value):
            raise PickleContentError(f"a {type(value).__name__} cannot be a key of a dict or set")
        if count > _MOST_KEY_PARTS or len(waiting) > _MOST_KEY_PARTS:
            raise PickleContentError(f"a key has more than {_MOST_KEY_PARTS} parts")


def _hashable(value: Any) -> bool:
    return not isinstance(value, (Unfinished, Maker)) and type(value).__hash__ is not None
