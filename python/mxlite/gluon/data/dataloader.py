"""DataLoader: batches of a data set, made by threads if wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from ... import ndarray as nd
from ...base import MXNetError, TypeError_, ValueError_
from ...ndarray import NDArray
from .dataset import Dataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["DataLoader", "WorkerTimeoutError", "default_batchify_fn"]


class WorkerTimeoutError(MXNetError, TimeoutError):
    """A worker did not deliver its batch in time."""


def default_batchify_fn(data: list[Any]) -> Any:
    """Stack samples to a batch.

    Parameters
    ----------
    data : list of NDArray, of numbers or of tuples of them

    Returns
    -------
    NDArray or list of NDArray
        With one dimension more; numbers keep the type NumPy gives them.
    """
    if isinstance(data[0], NDArray):
        return nd.stack(*data, axis=0)
    if isinstance(data[0], tuple):
        return [default_batchify_fn(list(column)) for column in zip(*data)]
    values = np.asarray(data)
    return nd.array(values, dtype=values.dtype)


class DataLoader:
    """Iterates over the batches of a data set.

    Parameters
    ----------
    dataset : Dataset
        Anything with ``[]`` and ``len``.
    batch_size : int, optional
        Needed without ``batch_sampler``.
    shuffle : bool
        Read in an order drawn anew for each pass by ``numpy.random``.
    sampler : Sampler, optional
        Instead of ``shuffle``.
    last_batch : {'keep', 'discard', 'rollover'}, optional
        As in `BatchSampler`.
    batch_sampler : Sampler, optional
        Gives lists of numbers, instead of the four options above.
    batchify_fn : callable, optional
        Makes a batch of a list of samples; default is `default_batchify_fn`.
    num_workers : int
        Number of threads that prepare batches; 0 prepares them in the caller.
    pin_memory : bool, pin_device_id : int
        Accepted for MXNet 1.x scripts; CPU memory needs no pinning.
    prefetch : int, optional
        Number of batches prepared ahead; default is twice the number of workers.
    thread_pool : bool
        Accepted for MXNet 1.x scripts; workers are always threads.
    timeout : int
        Seconds to wait for a batch.
    auto_reload : bool
        Accepted for MXNet 1.x scripts; preparation starts with each pass.

    Notes
    -----
    Matches ``mxnet.gluon.data.DataLoader``.
    """

    def __init__(
        self,
        dataset: Dataset | Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Sampler | None = None,
        last_batch: str | None = None,
        batch_sampler: Sampler | None = None,
        batchify_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: float = 120,
        auto_reload: bool = False,
    ) -> None:
        self._dataset = dataset
        self._batch_sampler = batch_sampler or self._make_sampler(
            batch_size, shuffle, sampler, last_batch
        )
        if batch_sampler is not None and (
            batch_size is not None or shuffle or sampler is not None or last_batch is not None
        ):
            raise ValueError_(
                "batch_size, shuffle, sampler and last_batch must not be specified if "
                "batch_sampler is specified."
            )
        if num_workers < 0:
            raise ValueError_(f"DataLoader: num_workers is {num_workers}, expected 0 or more")
        if timeout <= 0:
            raise ValueError_(f"DataLoader: timeout is {timeout}, expected more than 0 seconds")
        self._num_workers = num_workers
        self._prefetch = max(1, 2 * num_workers if prefetch is None else prefetch)
        self._batchify_fn = batchify_fn or default_batchify_fn
        self._timeout = timeout

    def _make_sampler(
        self,
        batch_size: int | None,
        shuffle: bool,
        sampler: Sampler | None,
        last_batch: str | None,
    ) -> BatchSampler:
        if batch_size is None:
            raise ValueError_("batch_size must be specified unless batch_sampler is specified")
        if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)):
            raise TypeError_(
                f"DataLoader: batch_size is {batch_size!r}, expected an integer above 0"
            )
        if batch_size < 1:
            raise ValueError_(
                f"DataLoader: batch_size is {batch_size}, expected an integer above 0"
            )
        if sampler is not None and shuffle:
            raise ValueError_("shuffle must not be specified if sampler is specified")
        if sampler is None:
            size = len(self._dataset)
            sampler = RandomSampler(size) if shuffle else SequentialSampler(size)
        return BatchSampler(sampler, int(batch_size), last_batch or "keep")

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def _batch(self, indices: list[int]) -> Any:
        return self._batchify_fn([self._dataset[index] for index in indices])

    def __iter__(self) -> Iterator[Any]:
        if self._num_workers == 0:
            return (self._batch(indices) for indices in self._batch_sampler)
        return self._threaded()

    def _threaded(self) -> Iterator[Any]:
        """Prepare batches ahead, in order; leaving the loop early ends the threads."""
        import concurrent.futures

        pool = concurrent.futures.ThreadPoolExecutor(
            self._num_workers, thread_name_prefix="mxlite-dataloader"
        )
        waiting: deque[Future[Any]] = deque()
        order = iter(self._batch_sampler)
        try:
            exhausted = False
            while True:
                while not exhausted and len(waiting) < self._prefetch:
                    indices = next(order, None)
                    exhausted = indices is None
                    if indices is not None:
                        waiting.append(pool.submit(self._batch, indices))
                if not waiting:
                    return
                try:
                    yield waiting.popleft().result(timeout=self._timeout)
                except concurrent.futures.TimeoutError as error:
                    raise WorkerTimeoutError(
                        f"DataLoader: a worker did not deliver its batch within {self._timeout} "
                        "seconds; make the data set faster or timeout longer"
                    ) from error
        finally:
            for future in waiting:
                future.cancel()
            pool.shutdown(wait=False)
