"""Iterators that wrap other iterators."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

from .._native.ending import close_at_exit
from .._typed_init import TypedInit
from ..base import FileFormatError, MXNetError, NotSupportedError, ValueError_
from .batch import DataBatch, DataDesc, DataIter

_EXIT_SECONDS = 2.0
_ALIVE_SECONDS = 1.0  # interval at which a waiting iterator checks that its thread is alive


class _CurrentBatch(DataIter):
    """Base of iterators whose ``iter_next`` stores a batch in ``current_batch``."""

    current_batch: Any = None

    def next(self) -> DataBatch:
        """Return the next batch."""
        if not self.iter_next():
            raise StopIteration
        return self.current_batch

    def getdata(self) -> Any:
        """Return the data of the current batch."""
        return self.current_batch.data

    def getlabel(self) -> Any:
        """Return the labels of the current batch."""
        return self.current_batch.label

    def getindex(self) -> Any:
        """Return the positions of the current batch's samples."""
        return self.current_batch.index

    def getpad(self) -> int | None:
        """Return the number of padding samples in the current batch."""
        return self.current_batch.pad


class ResizeIter(_CurrentBatch, TypedInit):
    """Gives another iterator a fixed number of batches per epoch.

    Parameters
    ----------
    data_iter : DataIter
        Restarted if it ends before ``size`` batches.
    size : int
        Batches per epoch.
    reset_internal : bool
        Whether `reset` also resets data_iter.
    """

    def __init__(self, data_iter: Any, size: int, reset_internal: bool = True) -> None:
        super().__init__(data_iter.batch_size)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.provide_data = data_iter.provide_data
        self.provide_label = data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        """Start again from the first batch."""
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of this iterator and of data_iter; see `DataIter.state_dict`."""
        return {"size": self.size, "cur": self.cur, "inside": self.data_iter.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position that `state_dict` returned."""
        self._check_state(state, size=self.size)
        if not 0 <= state["cur"] <= self.size:
            raise FileFormatError(
                f"ResizeIter: the saved position must be after 0 to {self.size} batches, got "
                f"{state['cur']}"
            )
        self.data_iter.load_state_dict(state["inside"])
        self.cur = state["cur"]

    def iter_next(self) -> bool:
        """Move to the next batch; False at the end."""
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            try:
                self.current_batch = self.data_iter.next()
            except StopIteration:
                raise ValueError_(
                    "ResizeIter: the inner iterator must return at least 1 batch, got none"
                ) from None
        self.cur += 1
        return True


def _state_of(source: Any) -> dict[str, Any] | None:
    """Return an iterator's position, or None if its class does not support that."""
    try:
        return source.state_dict()
    except (NotSupportedError, AttributeError):
        return None


class _Fetcher(threading.Thread):
    """Reads one epoch of an iterator, one batch ahead.

    Puts (batch, None) for each batch, (None, None) at the end, (None, error) on failure.
    """

    def __init__(self, source: Any) -> None:
        super().__init__(name="prefetch", daemon=True)
        self.source = source
        self.ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(maxsize=1)
        self.stopping = threading.Event()
        close_at_exit(self)

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.ready.put((self.source.next(), None))
        except StopIteration:
            self.ready.put((None, None))
        except BaseException as error:  # next() raises it in the calling thread
            self.ready.put((None, error))

    def stop(self, timeout: float | None = None) -> None:
        """Wait for the thread to end, but at most ``timeout`` seconds."""
        self.stopping.set()
        end = None if timeout is None else time.monotonic() + timeout
        while self.is_alive() and (end is None or time.monotonic() < end):
            try:
                self.ready.get(timeout=0.01)
            except queue.Empty:
                continue

    def take(self) -> tuple[Any, BaseException | None]:
        """Return the next (batch, error); raise if the thread no longer runs."""
        while True:
            try:
                return self.ready.get(timeout=_ALIVE_SECONDS)
            except queue.Empty:
                if not self.is_alive() and self.ready.empty():
                    raise MXNetError(
                        "PrefetchingIter: the iterator's thread does not run in this process; "
                        "make the iterator after a fork, and use it before the program exits"
                    ) from None

    def close(self) -> None:
        """End the thread; give up after a while if the wrapped iterator blocks."""
        self.stop(_EXIT_SECONDS)


class PrefetchingIter(_CurrentBatch):
    """Reads other iterators ahead, with one thread each, and joins their batches.

    Parameters
    ----------
    iters : DataIter or list of DataIter
    rename_data, rename_label : list of dict, optional
        New names, one dict per iterator.

    Notes
    -----
    Matches ``mxnet.io.PrefetchingIter``. ``next`` raises errors of the iterators. Threads may
    share it: each batch is returned to one of them.
    """

    def __init__(self, iters: Any, rename_data: Any = None, rename_label: Any = None) -> None:
        self.iters = list(iters) if isinstance(iters, (list, tuple)) else [iters]
        if not self.iters:
            raise ValueError_("PrefetchingIter: iters must have at least one iterator, got none")
        self.n_iter = len(self.iters)
        self.rename_data = rename_data
        self.rename_label = rename_label
        self._fetchers: list[_Fetcher] = []
        self._lock = threading.RLock()  # held while a thread takes a batch or resets
        super().__init__(self.provide_data[0].shape[0])
        self._start()

    def _start(self) -> None:
        self._ended = False
        self._delivered = 0
        # Stores the positions now, because the threads read ahead.
        self._begin = [_state_of(source) for source in self.iters]
        self._fetchers = [_Fetcher(source) for source in self.iters]
        for fetcher in self._fetchers:
            fetcher.start()

    def _stop(self) -> None:
        for fetcher in self._fetchers:
            fetcher.stop()
        self._fetchers = []

    def __del__(self) -> None:
        for fetcher in getattr(self, "_fetchers", ()):
            fetcher.stopping.set()
            while not fetcher.ready.empty():
                fetcher.ready.get_nowait()

    def _joined(self, kind: str, renames: Any) -> list[DataDesc]:
        found = []
        for i, source in enumerate(self.iters):
            names = renames[i] if renames is not None else {}
            for desc in getattr(source, kind):
                full = desc if isinstance(desc, DataDesc) else DataDesc(*desc)
                new_name = names.get(full.name, full.name)
                found.append(DataDesc(new_name, full.shape, full.dtype, full.layout))
        return found

    @property
    def provide_data(self) -> list[DataDesc]:
        """Descriptions of a batch's data."""
        return self._joined("provide_data", self.rename_data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Descriptions of a batch's labels."""
        return self._joined("provide_label", self.rename_label)

    def state_dict(self) -> dict[str, Any]:
        """Return the start of the epoch and the number of batches; see `DataIter.state_dict`."""
        if None in self._begin:
            raise NotSupportedError(
                "PrefetchingIter: one of the iterators inside has no state_dict: "
                f"{[type(source).__name__ for source in self.iters]}"
            )
        return {"begin": list(self._begin), "delivered": self._delivered, "ended": self._ended}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position that `state_dict` returned; reads the epoch's batches up to it."""
        self._check_state(state)
        if len(state["begin"]) != len(self.iters):
            raise ValueError_(
                f"PrefetchingIter: the saved position is that of {len(state['begin'])} iterators, "
                f"this one has {len(self.iters)}"
            )
        with self._lock:
            self._stop()
            try:
                for source, begin in zip(self.iters, state["begin"]):
                    source.load_state_dict(begin)
            finally:
                self._start()
            while self._delivered < state["delivered"]:
                if not self.iter_next():
                    raise ValueError_(
                        f"PrefetchingIter: the saved position is after {state['delivered']} "
                        f"batches, but the inner iterators have only {self._delivered}"
                    )
            self._ended = state["ended"]

    def reset(self) -> None:
        """Start again from the first batch."""
        with self._lock:
            self._stop()
            for source in self.iters:
                source.reset()
            self._start()

    def iter_next(self) -> bool:
        """Move to the next batch; False at the end."""
        with self._lock:
            return not self._ended and self._take()

    def _take(self) -> bool:
        results = [fetcher.take() for fetcher in self._fetchers]
        for _, error in results:
            if error is not None:
                self._ended = True
                raise error
        batches = [batch for batch, _ in results]
        if any(batch is None for batch in batches):
            self._ended = True
            if any(batch is not None for batch in batches):
                raise ValueError_(
                    "PrefetchingIter: all iterators must return the same number of batches"
                )
            return False
        self._delivered += 1
        if len({batch.pad for batch in batches}) != 1:
            raise ValueError_(
                "PrefetchingIter: all iterators must return the same pad, got "
                f"{[b.pad for b in batches]}"
            )
        self.current_batch = DataBatch(
            [array for batch in batches for array in batch.data],
            [array for batch in batches for array in batch.label or ()],
            batches[0].pad,
            batches[0].index,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )
        return True

    def next(self) -> DataBatch:
        """Return the next batch."""
        with self._lock:
            return super().next()
