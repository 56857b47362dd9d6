"""Statistics of arrays inside executors, for debugging (``mx.monitor``)."""

from __future__ import annotations

import logging
import math
import re
from typing import Any, Callable

from . import ndarray as nd
from .base import TypeError_
from .ndarray import NDArray

__all__ = ["Monitor"]


def _mean_size(array: NDArray) -> NDArray:
    """Return the root of the mean of squares."""
    norm: NDArray = nd.norm(array)
    return norm / math.sqrt(max(array.size, 1))


class Monitor:
    """Collects statistics of outputs and arguments of executors every few batches.

    Parameters
    ----------
    interval : int
        Number of batches between two collections.
    stat_func : callable, optional
        NDArray to NDArray or list of NDArray; None: the root of the mean of squares.
    pattern : str
        Regular expression that names must match from their beginning.
    sort : bool
        Whether results are sorted by name.
    monitor_all : bool
        Whether inputs of operators are monitored, too.
    """

    def __init__(
        self,
        interval: int,
        stat_func: Callable[[NDArray], Any] | None = None,
        pattern: str = ".*",
        sort: bool = False,
        monitor_all: bool = False,
    ) -> None:
        self.stat_func = _mean_size if stat_func is None else stat_func
        self.interval = interval
        self.activated = False
        self.queue: list[tuple[int, str, Any]] = []
        self.step = 0
        self.exes: list[Any] = []
        self.re_prog = re.compile(pattern)
        self.sort = sort
        self.monitor_all = monitor_all

    def install(self, exe: Any) -> None:
        """Add an `Executor` whose arrays are monitored."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def stat_helper(self, name: str, array: NDArray) -> None:
        """Record the statistic of an array if statistics are being collected."""
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def tic(self) -> None:
        """Begin a batch; collect statistics in it if ``interval`` batches have passed."""
        if self.step % self.interval == 0:
            self._wait()
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """End a batch.

        Returns
        -------
        list of (int, str, str)
            Batch, name and statistic; empty where nothing was collected.

        Raises
        ------
        TypeError
            If the statistic is not an NDArray.
        """
        if not self.activated:
            return []
        self._wait()
        for exe in self.exes:
            for arrays in (exe.arg_dict, exe.aux_dict):
                for name, array in arrays.items():
                    self.stat_helper(name, array)
        self.activated = False
        if self.sort:
            self.queue.sort(key=lambda entry: entry[1])
        found = [(step, name, _text(value)) for step, name, value in self.queue]
        self.queue = []
        return found

    def toc_print(self) -> None:
        """End a batch and log the collected statistics."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %-30s %s", step, name, text)

    def _wait(self) -> None:
        for exe in self.exes:
            for array in (*exe.arg_arrays, *exe.aux_arrays):
                array.wait_to_read()


def _text(value: Any) -> str:
    parts = value if isinstance(value, (list, tuple)) else [value]
    text = ""
    for part in parts:
        if not isinstance(part, NDArray):
            raise TypeError_(
                "Monitor: stat_func must return an NDArray or a list of NDArrays, got "
                f"{type(part).__name__}"
            )
        text += f"{str(part.asscalar()) if part.size == 1 else part.asnumpy()}\t"
    return text
