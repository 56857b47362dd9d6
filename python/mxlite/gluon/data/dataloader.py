"""DataLoader: batches of a data set, optionally prepared by forked processes or threads."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from ... import _core
from ... import ndarray as nd
from ..._typed_init import TypedInit
from ...base import ShapeError, TypeError_, ValueError_
from ...context import cpu_pinned
from ...ndarray import NDArray
from ...ndarray.array_like import host_array
from ...numpy_mode import Scope, of_mode, switches
from ...profiler.scope import IO_SCOPE, scope
from .dataset import Dataset
from .errors import WorkerDiedError, WorkerError, WorkerTimeoutError
from .order import Order, batch_seed, check_position, left_over, set_left_over, settings
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

if TYPE_CHECKING:
    from .pools import Pool, WorkerPool

__all__ = [
    "DataLoader",
    "WorkerDiedError",
    "WorkerError",
    "WorkerTimeoutError",
    "default_batchify_fn",
    "default_mp_batchify_fn",
]


def default_batchify_fn(data: list[Any]) -> Any:
    """Stack samples to a batch.

    Parameters
    ----------
    data : list of NDArray, of numbers or of tuples of them

    Returns
    -------
    NDArray or list of NDArray
        Arrays with one more dimension. Numbers get the type that NumPy gives them.
    """
    if any(sample is None for sample in data):
        raise TypeError_(
            f"DataLoader: sample {[s is None for s in data].index(True)} of a batch is None; "
            "perhaps __getitem__ of the dataset lacks a return"
        )
    if isinstance(data[0], NDArray):
        if any(sample.shape != data[0].shape for sample in data):
            raise _unequal(data)
        return nd.stack(*data, axis=0)
    if any(isinstance(sample, tuple) for sample in data):
        _check_tuples(data)
        return [default_batchify_fn(list(column)) for column in zip(*data)]
    if isinstance(data[0], dict):
        raise TypeError_(
            "DataLoader: sample must be numbers, arrays or a tuple of these, got a dict; return "
            "a tuple or give a batchify_fn"
        )
    try:
        values = host_array(data, "default_batchify_fn")
    except (TypeError, ValueError):
        if len({np.shape(sample) for sample in data}) > 1:
            raise _unequal(data) from None
        raise
    return of_mode(nd.array(values, dtype=values.dtype))


def _check_tuples(data: list[Any]) -> None:
    """Raise if a sample does not have as many parts as the first sample."""
    parts = [
        f"a tuple of {len(s)}" if isinstance(s, tuple) else f"a {type(s).__name__}" for s in data
    ]
    for i, given in enumerate(parts):
        if given != parts[0]:
            raise TypeError_(
                f"DataLoader: all samples of a batch must be {parts[0]} like sample 0, got {given} "
                f"for sample {i}; return the "
                "same parts for every sample or give a batchify_fn"
            )


def _unequal(data: list[Any]) -> ShapeError:
    """Return the error for samples of a batch whose shapes differ."""
    shapes = [np.shape(sample) for sample in data]
    other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), 0)
    return ShapeError(
        f"DataLoader: all samples of a batch must have shape {shapes[0]} like sample 0, got "
        f"{shapes[other]} for sample {other}; make them equal in the dataset (pad, crop, resize) "
        "or give a batchify_fn"
    )


def default_mp_batchify_fn(data: list[Any]) -> Any:
    """Stack samples to a batch inside a worker; its memory is shared when the batch is sent.

    Parameters
    ----------
    data : list of NDArray, of numbers or of tuples of them

    Returns
    -------
    NDArray or list of NDArray
        The result of `default_batchify_fn`.
    """
    return default_batchify_fn(data)


def _as_in_context(data: Any, ctx: Any) -> Any:
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, (list, tuple)):
        return [_as_in_context(part, ctx) for part in data]
    return data


def __getattr__(name: str) -> Any:
    if name == "ForkingPickler":  # GluonNLP imports it from this module
        from multiprocessing.reduction import ForkingPickler

        return ForkingPickler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _unchanged(batch: Any) -> Any:
    return batch


class DataLoader(TypedInit):
    """Iterates over the batches of a data set.

    Parameters
    ----------
    dataset : Dataset
        Anything with ``[]`` and ``len``.
    batch_size : int, optional
        Required unless ``batch_sampler`` is given.
    shuffle : bool
        Read the samples in a random order, which ``numpy.random`` draws for each pass.
    sampler : Sampler, optional
        Order of the samples; cannot be combined with ``shuffle``.
    last_batch : {'keep', 'discard', 'rollover'}, optional
        As in `BatchSampler`.
    batch_sampler : Sampler, optional
        Gives a list of sample numbers for each batch; replaces the four options above.
    batchify_fn : callable, optional
        Makes a batch of a list of samples; default is `default_batchify_fn`.
    num_workers : int
        Number of processes that prepare batches; 0 prepares them in the caller. They are forked
        at the start of the first pass, so the data set may hold lambdas and open files, and they
        end with the loader. Batches arrive in shared memory.
    pin_memory : bool, pin_device_id : int
        Copy batches to pinned memory of that device, or to ordinary memory if there is none.
    prefetch : int, optional
        Number of batches requested ahead; default is twice the number of workers.
    thread_pool : bool
        Threads instead of processes.
    timeout : float
        Seconds to wait for a batch.
    auto_reload : bool
        Prepare the first pass when the loader is made, and the next one when a pass ends.

    Raises
    ------
    WorkerDiedError
        While iterating, if a worker is killed or stopped.
    WorkerTimeoutError
        While iterating, if a batch does not arrive in time.
    Exception
        While iterating: the exception that the data set, a transform or ``batchify_fn`` raised in
        a worker, with the worker's traceback as its cause.

    Notes
    -----
    Matches ``mxnet.gluon.data.DataLoader``, except for random numbers. Numbers that the
    data set, a transform or ``batchify_fn`` draws from ``mx.random`` come from a separate
    generator, which is seeded for each batch from the seed of ``mx.cpu(0)``: neither the samples
    nor the numbers of the main program depend on ``num_workers`` and ``thread_pool``. Worker
    processes also seed ``random`` and ``numpy.random`` for each batch, from the states in the
    loader's process; without workers and in threads, the program's own generators are used. As in
    MXNet 1.x, ``numpy.random`` draws the order of shuffling.
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
        for method in ("__len__", "__getitem__"):
            if not hasattr(dataset, method):
                raise TypeError_(
                    "DataLoader: dataset must be a Dataset or a list of samples, got "
                    f"{type(dataset).__name__} without {method}"
                )
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
        num_workers = max(0, num_workers)  # as in 1.x, negative numbers mean 0
        if timeout <= 0:
            raise ValueError_(f"DataLoader: timeout must be more than 0 seconds, got {timeout}")
        self._num_workers = num_workers
        self._prefetch = max(0, 2 * num_workers if prefetch is None else int(prefetch))
        default = default_mp_batchify_fn if num_workers > 0 else default_batchify_fn
        self._batchify_fn = batchify_fn or default
        self._timeout = timeout
        self._thread_pool = thread_pool
        self._finish: Callable[[Any], Any] = _unchanged
        if pin_memory:
            self._finish = functools.partial(_as_in_context, ctx=cpu_pinned(pin_device_id))
        self._processes: WorkerPool | None = None
        self._iter: Iterator[Any] | None = None
        self._resumed: dict[str, Any] | None = None  # position at which the next pass begins
        self._refreshed: Any = None  # sample order of the pass that was started most recently
        self._pass: Any = None  # sample order of the current pass
        self.auto_reload = auto_reload
        if auto_reload:
            self.refresh()

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
                f"DataLoader: batch_size must be an integer above 0, got {batch_size!r}"
            )
        if batch_size < 1:
            raise ValueError_(
                f"DataLoader: batch_size must be an integer above 0, got {batch_size}"
            )
        if sampler is not None and shuffle:
            raise ValueError_("shuffle must not be specified if sampler is specified")
        if sampler is None:
            size = len(self._dataset)
            sampler = RandomSampler(size) if shuffle else SequentialSampler(size)
        return BatchSampler(sampler, int(batch_size), last_batch or "keep")

    def __repr__(self) -> str:
        data = f"{type(self._dataset).__name__} of {len(self._dataset)} samples"
        return f"{type(self).__name__}({data}, num_workers={self._num_workers})"

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        if self._iter is None:
            self.refresh()
        started, self._iter = self._iter, None
        assert started is not None
        order = self._pass = self._refreshed
        try:
            for batch in started:
                order.taken += 1
                yield batch
            order.total = order.taken
        finally:
            order.ended = True
        if self._iter is None and self.auto_reload:
            self.refresh()

    def refresh(self) -> None:
        """Start preparing a pass now; the next iteration yields its batches."""
        prepare = _Prepare(self._dataset, self._batchify_fn)
        resumed, self._resumed = self._resumed, None
        order = self._refreshed = Order(self._batch_sampler, resumed)
        if self._num_workers == 0:
            self._iter = self._prepare_here(prepare, order)
            return
        # Imported on use, because multiprocessing needs megabytes that only workers require.
        from . import pools

        if self._thread_pool:
            seed = order.start(_core.draw_loading_seed)
            pool: Pool = pools.Threads(self._num_workers, prepare, seed, order.taken)
        else:
            if self._processes is None or not self._processes.usable:
                self._processes = pools.WorkerPool(self._num_workers, prepare)
            seed, entropy = order.start(pools.draw_entropy)
            pool = pools.Processes(self._processes, seed, entropy, order.taken)
        self._iter = _MultiWorkerIter(pool, order, self._prefetch, self._timeout, self._finish)

    def _prepare_here(self, prepare: Callable[[Any], Any], order: Order) -> Iterator[Any]:
        seed = order.start(_core.draw_loading_seed)
        for batch, indices in enumerate(order, order.taken):
            yield self._finish(_core.call_seeded(batch_seed(seed, batch), prepare, indices))

    def clean(self) -> None:
        """Drop a pass prepared in advance, and the position of a pass that was left early."""
        self._iter = None
        if self._pass is not None and self._pass.ended:
            self._pass = None

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the current pass, and the random state of its order.

        Returns
        -------
        dict
            State for `load_state_dict` of a loader with the same arguments. After a complete pass,
            the position is the first batch of the next pass. A pass that was left before its last
            batch, by ``break`` or an exception, keeps its position until another pass begins.
        """
        own = settings(self._dataset, self._batch_sampler)
        if self._resumed is not None:
            return {**self._resumed, **own}
        running = self._pass
        if running is None or running.ended:
            if self._iter is not None:  # a pass prepared in advance has already drawn its order
                running = self._refreshed
            elif running is not None and running.taken == running.total:
                running = None
        if running is None or running.begin is None:
            return {"begin": None, "taken": 0, "left": left_over(self._batch_sampler), **own}
        return {"begin": running.begin, "taken": running.taken, **own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next iteration continue where `state_dict` was called.

        Earlier samples are not read. The random generators are not changed; restore them as well.

        Raises
        ------
        ValueError
            If it was saved by a loader with another data set length, batch size or sampler; the
            loader is unchanged.
        """
        own = settings(self._dataset, self._batch_sampler)
        check_position(state, own, self._batch_sampler)
        self._iter = self._pass = None
        self._resumed = None if state["begin"] is None else dict(state)
        if self._resumed is None:
            set_left_over(self._batch_sampler, state["left"])
        if self.auto_reload:
            self.refresh()


class _Prepare:
    """The part of a loader that workers use; it must not keep the loader alive."""

    def __init__(self, dataset: Any, batchify_fn: Callable[[list[Any]], Any]) -> None:
        self._dataset = dataset
        self._batchify_fn = batchify_fn
        self._switches = switches()  # numpy-mode switches of the loader's thread

    def __call__(self, indices: Any) -> Any:
        with scope("DataLoader: batch", IO_SCOPE), Scope(self._switches):
            try:
                return self._batchify_fn([self._dataset[index] for index in indices])
            # Raises another error, because StopIteration would end a for loop without an error.
            except StopIteration as error:
                raise WorkerError(
                    f"DataLoader: preparing the batch of samples {list(indices)[:8]} raised "
                    "StopIteration; perhaps the dataset or batchify_fn calls next() without a "
                    "default"
                ) from error


class _MultiWorkerIter:
    """One pass over batches that workers prepare; yields them in order.

    Parameters
    ----------
    pool : Pool
    order : Order
    prefetch : int
        Number of batches requested ahead.
    timeout : float
    finish : callable
        Applied to each batch in the process of the loader.
    """

    def __init__(
        self,
        pool: Pool,
        order: Order,
        prefetch: int,
        timeout: float,
        finish: Callable[[Any], Any],
    ) -> None:
        self._ended = False
        self._pool = pool
        self._timeout = timeout
        self._finish = finish
        self._order = order
        self._under_way = 0
        try:
            for _ in range(prefetch):
                self._push_next()
        except BaseException:
            self._end()
            raise

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        try:
            self._push_next()
            if self._under_way == 0:
                raise StopIteration
            with scope("DataLoader: wait", IO_SCOPE):
                batch = self._pool.take(self._timeout)
            self._under_way -= 1
            return self._finish(batch)
        except BaseException:
            self._end()
            raise

    next = __next__

    def __del__(self) -> None:
        self._end()

    def _push_next(self) -> None:
        indices = next(self._order, None)
        if indices is not None:
            self._pool.submit(indices)
            self._under_way += 1

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._pool.end()
