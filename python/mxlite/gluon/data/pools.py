"""Processes or threads that prepare the batches of one pass of a DataLoader.

Imported by the first loader that has workers, because multiprocessing costs megabytes.
"""

from __future__ import annotations

import concurrent.futures
import queue
import random
import threading
import time
import zlib
from collections import deque
from typing import Any, Callable, Optional, Protocol

import numpy as np

from ... import _core
from ..._native.ending import close_at_exit
from .errors import WorkerDiedError, WorkerTimeoutError
from .order import batch_seed
from .worker_pool import WorkerPool

__all__ = ["Pool", "Processes", "Threads", "WorkerPool", "draw_entropy"]


class Pool(Protocol):
    """Prepares the batches of one pass."""

    def submit(self, indices: Any) -> None:
        """Request a batch."""

    def take(self, timeout: float) -> Any:
        """Wait for the oldest requested batch."""

    def end(self) -> None:
        """Forget batches that were not taken."""


class Processes:
    """A pass in a pool of processes; the pool outlives the pass."""

    def __init__(self, pool: WorkerPool, seed: int, entropy: tuple[int, ...], first: int) -> None:
        self._workers = pool
        self._numbers: deque[int] = deque()
        self._count = first
        self._seed = seed
        self._entropy = entropy

    def submit(self, indices: Any) -> None:
        """Request a batch."""
        try:
            seed = batch_seed(self._seed, self._count)
            number = self._workers.submit(self._count, indices, seed, (*self._entropy, seed))
        except WorkerDiedError:
            self._workers.close()
            raise
        self._numbers.append(number)
        self._count += 1

    def take(self, timeout: float) -> Any:
        """Wait for the oldest requested batch."""
        try:
            batch = self._workers.result(self._numbers[0], timeout)
        except (WorkerDiedError, WorkerTimeoutError):
            self._workers.close()
            raise
        self._numbers.popleft()
        return batch

    def end(self) -> None:
        """Forget batches that were not taken."""
        self._workers.forget(list(self._numbers))


Requests = queue.SimpleQueue[Optional[tuple[concurrent.futures.Future[Any], int, Any]]]


_EXIT_SECONDS = 1  # limit in seconds for threads that read samples when a program ends


class Threads:
    """The threads that load one pass.

    If a `concurrent.futures.ThreadPoolExecutor` were used, a program that Ctrl-C ends would wait
    for the samples that its threads are reading.
    """

    def __init__(self, size: int, prepare: Callable[[Any], Any], seed: int, first: int) -> None:
        self._size = size
        self._prepare = prepare
        self._seed = batch_seed(seed, first)
        self._requests: Requests = queue.SimpleQueue()
        self._futures: deque[concurrent.futures.Future[Any]] = deque()
        self._threads = [
            threading.Thread(target=self._serve, name=f"mxlite-dataloader_{number}", daemon=True)
            for number in range(size)
        ]
        for thread in self._threads:
            thread.start()
        close_at_exit(self)

    def submit(self, indices: Any) -> None:
        """Request a batch."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._futures.append(future)
        self._requests.put((future, self._seed, indices))
        self._seed = batch_seed(self._seed, 1)

    def take(self, timeout: float) -> Any:
        """Wait for the oldest requested batch."""
        future = self._futures.popleft()
        if not concurrent.futures.wait([future], timeout).done:
            raise WorkerTimeoutError(f"any of {self._size} threads", timeout)
        return future.result()

    def end(self) -> None:
        """Forget batches that were not taken."""
        for future in self._futures:
            future.cancel()
        for _ in range(self._size):
            self._requests.put(None)

    def close(self) -> None:
        """End the threads before the interpreter ends, because they may be running native code.

        Slow samples of a pass that was left, perhaps by Ctrl-C, are not waited for.
        """
        self.end()
        deadline = time.monotonic() + (0 if _core.ended_by_interrupt() else _EXIT_SECONDS)
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            future, seed, indices = request
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(_core.call_seeded(seed, self._prepare, indices))
            except BaseException as error:
                future.set_exception(error)
            del request, future  # frees the batch, which may be large


def draw_entropy() -> tuple[int, tuple[int, ...]]:
    """Return a pass's seed for ``mx.random``, and entropy for the generators of NumPy and Python.

    The generators of NumPy and Python do not advance, so workers do not change the shuffling.
    """
    numpy_state = np.random.get_state(legacy=False)["state"]
    _, python_state, _ = random.getstate()
    return _core.draw_loading_seed(), (
        zlib.crc32(numpy_state["key"].tobytes()),
        int(numpy_state["pos"]),
        zlib.crc32(np.asarray(python_state, np.uint32).tobytes()),
    )
