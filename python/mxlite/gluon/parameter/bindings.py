"""Validity tokens of data that is derived from parameters and blocks, such as compiled graphs.

A compiled graph holds the arrays of its parameters, and was traced with certain children. Code that
derives such data notes a `Binding` at each parameter and block before it reads them. Code that
replaces an array or a child expires the bindings noted there; all others stay valid.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from ... import autograd
from ...comm.job import JOB
from ...profiler.memory import WATCH

__all__ = ["EXPIRED", "PROCESS", "Binding", "Bindings"]


class Binding:
    """Tells whether data that was derived from parameters and blocks is still valid.

    Attributes
    ----------
    valid : bool
        True until one of the parameters or blocks changes; never becomes True again.
    retrace : bool
        Whether more than arrays has changed, so that graphs must be traced again.
    changed : bool
        Whether the program has set an attribute of one of the blocks.
    """

    __slots__ = ("__weakref__", "changed", "retrace", "valid")

    def __init__(self, valid: bool = True) -> None:
        self.valid = valid
        self.changed = self.retrace = False

    def __reduce__(self) -> Any:
        # A parameter has no reference to a copied binding and could not expire it, so copies are
        # expired.
        return Binding, (False,)


EXPIRED = Binding(False)
# Reentrant, because a finalizer may expire bindings while the lock is held.
_LOCK = threading.RLock()


class Bindings:
    """Weak references to the bindings that depend on one parameter or block."""

    __slots__ = ("__weakref__", "_limit", "_references")

    def __init__(self) -> None:
        self._references: list[weakref.ref[Binding]] = []
        self._limit = 8  # length at which dead references are dropped

    def __reduce__(self) -> Any:
        return type(self), ()

    def note(self, binding: Binding) -> None:
        """Make a binding depend on the owner; call this before reading the owner's state."""
        with _LOCK:
            if len(self._references) >= self._limit:
                self._references = [ref for ref in self._references if ref() is not None]
                self._limit = max(8, 2 * len(self._references))
            self._references.append(weakref.ref(binding))

    def expire(self, retrace: bool = False, changed: bool = False) -> None:
        """Expire all bindings noted here; call this after the owner has changed."""
        if not self._references:
            return
        with _LOCK:
            for ref in self._references:
                binding = ref()
                if binding is not None:
                    binding.valid = False
                    binding.retrace |= retrace
                    binding.changed |= changed


class _Process(Bindings):
    """Bindings of the whole process, which all expire together."""

    __slots__ = ()

    def _follow_size(self) -> None:
        """Expire graphs, because they contain the ranks of the job before its size changed."""
        self.expire(retrace=True)


PROCESS = _Process()
JOB.followers.add(PROCESS)
autograd.graphs_out_of_date.provide(PROCESS.expire)
# Block.__call__ attributes memory to blocks, but the fast path of hybridized blocks does not.
# Bindings therefore expire when the memory profiler starts or stops, so that the next calls choose
# their path again.
WATCH.listeners.append(PROCESS.expire)
