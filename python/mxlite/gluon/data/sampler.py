"""Samplers: the order in which samples are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import numpy as np

from ..._typed_init import TypedInit
from ...base import ValueError_
from .dataset import Dataset

__all__ = [
    "BatchSampler",
    "FilterSampler",
    "IntervalSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
]


class Sampler(TypedInit):
    """Base of the samplers: defines ``__iter__`` and ``__len__``."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __repr__(self) -> str:
        if type(self).__len__ is Sampler.__len__:
            return object.__repr__(self)
        return f"{type(self).__name__} of {len(self)} samples"

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")


class SequentialSampler(Sampler):
    """``start, start + 1, ...``."""

    def __init__(self, length: int, start: int = 0) -> None:
        self._length = length
        self._start = start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


class RandomSampler(Sampler):
    """All numbers below ``length`` in a random order, drawn for each pass by ``numpy.random``."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.permutation(self._length).tolist())

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """The numbers of the samples for which ``fn`` is true."""

    def __init__(self, fn: Callable[[Any], bool], dataset: Dataset) -> None:
        self._indices = [index for index in range(len(dataset)) if fn(dataset[index])]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class IntervalSampler(Sampler):
    """Yields ``0, interval, 2 * interval, ...``, then the same from 1 on, and so on.

    Parameters
    ----------
    length : int
    interval : int
        Size of the interval, at most ``length``.
    rollover : bool
        Start again from 1, 2, ...; else stop after the first pass.
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        if interval > length:
            raise ValueError_(
                f"Interval {interval} must be smaller than or equal to length {length}"
            )
        self._length = length
        self._interval = interval
        self._rollover = rollover

    def __iter__(self) -> Iterator[int]:
        for begin in range(self._interval if self._rollover else 1):
            yield from range(begin, self._length, self._interval)

    def __len__(self) -> int:
        return self._length if self._rollover else -(-self._length // self._interval)


class BatchSampler(Sampler):
    """Groups the numbers of another sampler into lists.

    Parameters
    ----------
    sampler : Sampler
    batch_size : int
    last_batch : {'keep', 'discard', 'rollover'}
        How to treat a last, smaller batch; rollover keeps it for the next pass.
    """

    def __init__(self, sampler: Sampler, batch_size: int, last_batch: str = "keep") -> None:
        if last_batch not in ("keep", "discard", "rollover"):
            raise ValueError_(
                f"last_batch must be one of 'keep', 'discard', or 'rollover', but got "
                f"{last_batch!r}"
            )
        if batch_size < 1:
            raise ValueError_(f"BatchSampler: batch_size must be 1 or more, got {batch_size}")
        self._sampler = sampler
        self._batch_size = batch_size
        self._last_batch = last_batch
        self._left: list[int] = []

    def __repr__(self) -> str:
        options = f"batch_size={self._batch_size}, last_batch={self._last_batch!r}"
        return f"{type(self).__name__}({self._sampler!r}, {options})"

    def __iter__(self) -> Iterator[list[int]]:
        batch, self._left = self._left, []
        for index in self._sampler:
            batch.append(index)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif batch and self._last_batch == "rollover":
            self._left = batch

    def __len__(self) -> int:
        size = len(self._sampler)
        if self._last_batch == "keep":
            return -(-size // self._batch_size)
        if self._last_batch == "rollover":
            size += len(self._left)
        return size // self._batch_size
