"""Bindings: whether what was derived from parameters and blocks still holds.

A compiled graph holds the arrays of its parameters, and was traced with certain children. Code that
derives such a thing notes a `Binding` at each parameter and block before it reads them. Code that
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
    """Stands for something derived from parameters and blocks.

    Attributes
    ----------
    valid : bool
        False as soon as one of them has changed; never True again.
    retrace : bool
        Whether what changed was more than arrays, so that graphs must be traced again.
    """

    __slots__ = ("__weakref__", "retrace", "valid")

    def __init__(self, valid: bool = True) -> None:
        self.valid = valid
        self.retrace = False

    def __reduce__(self) -> Any:
        # A copy is noted nowhere, so that it would stay valid for ever.
        return Binding, (False,)


EXPIRED = Binding(False)
_LOCK = threading.RLock()  # a finalizer that runs while it is held may expire bindings


class Bindings:
    """The bindings noted at one parameter or block; they are not kept alive."""

    __slots__ = ("__weakref__", "_limit", "_references")

    def __init__(self) -> None:
        self._references: list[weakref.ref[Binding]] = []
        self._limit = 8  # length at which references to bindings that are gone are dropped

    def __reduce__(self) -> Any:
        return type(self), ()

    def note(self, binding: Binding) -> None:
        """Let a binding depend on the owner, whose state is read after this call."""
        with _LOCK:
            if len(self._references) >= self._limit:
                self._references = [ref for ref in self._references if ref() is not None]
                self._limit = max(8, 2 * len(self._references))
            self._references.append(weakref.ref(binding))

    def expire(self, retrace: bool = False) -> None:
        """End the validity of all bindings noted here, after the owner has changed."""
        if not self._references:
            return
        with _LOCK:
            for ref in self._references:
                binding = ref()
                if binding is not None:
                    binding.valid = False
                    binding.retrace |= retrace


class _Process(Bindings):
    """Bindings of the whole process: what changes concerns all of them."""

    __slots__ = ()

    def _follow_size(self) -> None:
        """Expire graphs: they hold the ranks of the job that this process was in before."""
        self.expire(retrace=True)


PROCESS = _Process()
JOB.followers.add(PROCESS)
autograd.graphs_out_of_date.provide(PROCESS.expire)
# While memory is attributed to blocks, all calls run through Block.__call__.
WATCH.listeners.append(PROCESS.expire)
