"""Memory per Gluon block, while the profiler records memory."""

from __future__ import annotations

from typing import Any, Callable

from .. import _core


class _Watch:
    """Whether memory is attributed to block calls; calls ``listeners`` on changes."""

    __slots__ = ("listeners", "on")

    def __init__(self) -> None:
        self.on = False
        self.listeners: list[Callable[[], None]] = []

    def set(self, on: bool) -> None:
        """Start or stop the attribution of memory to blocks."""
        if on == self.on:
            return
        self.on = on
        (_core.memory_profile_start if on else _core.memory_profile_stop)()
        for listener in self.listeners:
            listener()


WATCH = _Watch()


def memory_by_block() -> dict[str, dict[str, dict[str, int]]]:
    """Return the bytes of arrays by the Gluon block whose call allocated them.

    Returns
    -------
    dict
        ``{device: {block: {"bytes", "peak", "allocations"}}}``: current bytes, peak
        bytes, and number of arrays made since recording last started. The name ``""`` is for arrays
        made outside of all blocks: inputs, gradients, weights, optimizer states. Activations of
        hybridized blocks are counted for the outermost hybridized block, or are in memory that
        executables share.

    Notes
    -----
    Memory is recorded from ``set_state("run")`` on, if ``profile_memory`` or ``profile_all`` is
    set.
    """
    table: dict[str, dict[str, dict[str, Any]]] = {}
    for device, block, in_use, peak, count in _core.memory_by_block():
        row = {"bytes": in_use, "peak": peak, "allocations": count}
        table.setdefault(device, {})[block] = row
    return table
