"""Forked processes that prepare batches.

Each worker has a connection of its own. No lock or queue is shared, so a killed worker leaves
nothing locked. When a worker is killed, its end of the connection closes, and the loader notices
the loss immediately.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import threading
import time
import traceback
import weakref
from collections import deque
from multiprocessing.connection import wait
from typing import Any, Callable, NamedTuple

import numpy as np

from ... import random as mx_random
from ...ndarray import waitall
from .channel import Channel
from .errors import WorkerDiedError, WorkerError, WorkerTimeoutError

__all__ = ["Task", "WorkerPool", "WorkerTraceback"]

_POLL_SECONDS = 1.0
_STOPPED_SECONDS = 2.0  # a worker that is stopped (SIGSTOP, debugger) for longer counts as failed
_EXIT_SECONDS = 2.0
_QUEUED = 2  # tasks per worker: one in progress and one waiting


class WorkerTraceback(Exception):  # noqa: N818 - the cause of an error, as its text
    """Text of the traceback of a worker's exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


class Task(NamedTuple):
    """One batch to prepare."""

    number: int  # unique in the pool
    batch: int  # position in its pass, for messages
    indices: Any
    seed: int  # seeds mx.random
    entropy: tuple[int, ...]  # seeds the generators of NumPy and Python


class _Worker(NamedTuple):
    place: int
    process: Any
    channel: Channel
    tasks: deque[Task]  # sent and not answered, oldest first


_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


class WorkerPool:
    """Worker processes; they are forked here and keep the data set in its state at that time."""

    def __init__(self, size: int, prepare: Callable[[Any], Any]) -> None:
        waitall()  # the child has no engine that could compute pending values
        context = multiprocessing.get_context("fork")
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._waiting: deque[Task] = deque()  # guarded by _lock
        self._results: dict[int, Any] = {}  # guarded by _lock; None until the answer arrives
        self._workers: list[_Worker] = []
        self._owner = os.getpid()
        self._close = weakref.finalize(self, _end, self._workers, self._owner)
        _pools.add(self)
        try:
            for place in range(size):
                ours, theirs = Channel.pair()
                process = context.Process(
                    target=_run,
                    args=(theirs, ours, prepare, os.getpid()),
                    name=f"mxlite-dataloader-{place}",
                    daemon=True,
                )
                try:
                    process.start()
                except BaseException:
                    ours.close()
                    raise
                finally:
                    theirs.close()
                self._workers.append(_Worker(place, process, ours, deque()))
        except BaseException:
            self.close()
            raise

    def submit(self, batch: int, indices: Any, seed: int, entropy: tuple[int, ...]) -> int:
        """Request a batch and return its number for `result`."""
        with self._lock:
            task = Task(next(self._numbers), batch, indices, seed, entropy)
            self._results[task.number] = None
            self._waiting.append(task)
            self._send_waiting()
            return task.number

    def forget(self, numbers: list[int]) -> None:
        """Drop tasks whose batches are no longer needed."""
        with self._lock:
            for number in numbers:
                self._results.pop(number, None)
            self._waiting = deque(t for t in self._waiting if t.number in self._results)

    def result(self, number: int, timeout: float) -> Any:
        """Wait for a batch."""
        deadline = time.monotonic() + timeout
        while True:
            with self._lock:
                answer = self._results[number]
                if answer is not None:
                    del self._results[number]
                    break
                left = deadline - time.monotonic()
                if left <= 0:
                    raise WorkerTimeoutError(self._whereabouts(number), timeout)
                self._receive(min(left, _POLL_SECONDS))
        succeeded, value = answer
        if succeeded:
            return value
        error, text = value
        raise error from WorkerTraceback(text)

    @property
    def usable(self) -> bool:
        """Whether the workers run and belong to this process (False in a forked copy)."""
        return self._close.alive and os.getpid() == self._owner

    def close(self) -> None:
        """End the workers; kill those that do not exit."""
        self._close()

    def _send_waiting(self) -> None:
        while self._waiting:
            worker = min(self._workers, key=lambda w: len(w.tasks))
            if len(worker.tasks) >= _QUEUED:
                return
            task = self._waiting.popleft()
            worker.tasks.append(task)
            try:
                worker.channel.send(task)
            except OSError:
                raise self._death(worker) from None

    def _receive(self, timeout: float) -> None:
        """Wait for the first answer, then receive all that are available."""
        ready = wait([worker.channel.socket for worker in self._workers], timeout)
        if not ready:
            self._check_alive()
        for worker in self._workers:
            if worker.channel.socket not in ready:
                continue
            try:
                number, succeeded, value = worker.channel.receive()
            except EOFError:
                raise self._death(worker) from None
            worker.tasks.popleft()
            if number in self._results:
                self._results[number] = (succeeded, value)
        self._send_waiting()

    def _check_alive(self) -> None:
        for worker in self._workers:
            if not worker.process.is_alive() and not wait([worker.channel.socket], 0):
                raise self._death(worker)
        stopped = [w for w in self._workers if w.tasks and _is_stopped(w.process.pid)]
        if not stopped:
            return
        time.sleep(_STOPPED_SECONDS)
        for worker in stopped:
            if _is_stopped(worker.process.pid):
                raise WorkerDiedError(
                    f"DataLoader: {self._name(worker)} has been stopped (SIGSTOP or a debugger) "
                    f"while preparing batch {worker.tasks[0].batch}"
                )

    def _death(self, worker: _Worker) -> WorkerDiedError:
        worker.process.join(1.0)
        code = worker.process.exitcode
        if code is None:
            how = "closed its connection"
        elif code < 0:
            how = f"was killed by signal {-code} ({_signal_name(-code)})"
            if code == -signal.SIGKILL:
                how += ", perhaps because the machine ran out of memory"
        else:
            how = f"exited with code {code}"
        doing = f" while preparing batch {worker.tasks[0].batch}" if worker.tasks else ""
        return WorkerDiedError(f"DataLoader: {self._name(worker)} {how}{doing}")

    def _name(self, worker: _Worker) -> str:
        return f"worker {worker.place} of {len(self._workers)} (process {worker.process.pid})"

    def _whereabouts(self, number: int) -> str:
        for worker in self._workers:
            if any(task.number == number for task in worker.tasks):
                return self._name(worker)
        return f"any of {len(self._workers)} workers"


def _end(workers: list[_Worker], owner: int) -> None:
    for worker in workers:
        worker.channel.close()
    if os.getpid() != owner:  # in a forked copy, the workers are not child processes
        return
    for worker in workers:
        if _is_stopped(worker.process.pid):
            worker.process.kill()
        elif worker.tasks:
            worker.process.terminate()
    deadline = time.monotonic() + _EXIT_SECONDS
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()
    workers.clear()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    return False


def _run(channel: Channel, other_end: Channel, prepare: Callable[[Any], Any], parent: int) -> None:
    """Prepare batches until the loader closes the connection or its process ends."""
    # Ignores Ctrl-C, because the loader's process handles it for its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # a collection would write to pages shared with the loader and thereby copy them
    other_end.close()
    for pool in list(_pools):  # inherited copies would keep other workers' connections open
        for worker in pool._workers:
            worker.channel.close()
    with contextlib.suppress(EOFError, OSError):
        while True:
            while not wait([channel.socket], 5.0):
                if os.getppid() != parent:
                    return
            task: Task = channel.receive()
            answer = _answer(task, prepare)
            try:
                channel.send(answer)
            except ConnectionError:
                return
            except Exception as error:  # noqa: BLE001 - a batch that does not pickle
                channel.send((task.number, False, _portable(error)))


def _answer(task: Task, prepare: Callable[[Any], Any]) -> tuple[int, bool, Any]:
    try:
        _seed(task)
        return task.number, True, prepare(task.indices)
    except BaseException as error:  # noqa: BLE001 - SystemExit too must reach the loader
        return task.number, False, _portable(error)


def _portable(error: BaseException) -> tuple[BaseException, str]:
    """Return the exception, or a `WorkerError` with its text if it cannot be pickled."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        if isinstance(error, Exception):
            pickle.loads(pickle.dumps(error))
            return error, text
    except Exception:  # noqa: BLE001, S110 - whatever a foreign __reduce__ raises
        pass
    return WorkerError(f"DataLoader: a worker raised {type(error).__name__}: {error}"), text


def _seed(task: Task) -> None:
    """Seed the three generators, so that a batch does not depend on the worker that prepares it."""
    words = np.random.SeedSequence(task.entropy).generate_state(2, np.uint32).tolist()
    np.random.seed(words[0])
    random.seed(words[1])
    mx_random.seed(task.seed)
