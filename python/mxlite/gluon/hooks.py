"""Handles of functions that blocks call before or after their forward."""

from __future__ import annotations

import itertools
from typing import Any, Callable

__all__ = ["HookHandle"]

_ids = itertools.count()


class HookHandle:
    """Removes a hook: by `detach`, or at the end of a ``with`` block.

    Parameters
    ----------
    hooks : dict of int to callable
        The table the hook is put into.
    hook : callable
    """

    def __init__(self, hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self._hooks = hooks
        self._id = next(_ids)
        hooks[self._id] = hook

    def detach(self) -> None:
        """Remove the hook; a second call does nothing."""
        self._hooks.pop(self._id, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.detach()
