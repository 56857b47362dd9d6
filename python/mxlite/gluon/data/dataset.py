"""Data sets: objects with ``__len__`` and ``__getitem__``."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Callable

from ... import recordio
from ..._files.remote import is_address
from ...base import IndexError_, MissingFileError, ShapeError, ValueError_
from ...ndarray import NDArray

__all__ = ["ArrayDataset", "Dataset", "RecordFileDataset", "SimpleDataset"]


class Dataset:
    """Base of the data sets: defines ``__getitem__`` and ``__len__``.

    Matches ``mxnet.gluon.data.Dataset``.
    """

    def __getitem__(self, idx: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")

    def __repr__(self) -> str:
        if type(self).__len__ is Dataset.__len__:
            return object.__repr__(self)
        return f"{type(self).__name__} of {len(self)} samples"

    def filter(self, fn: Callable[[Any], bool]) -> Dataset:
        """Return the samples for which ``fn`` is true."""
        return _Chosen(self, [index for index in range(len(self)) if fn(self[index])])

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Return one of ``num_shards`` parts of nearly equal size."""
        if num_shards < 1:
            raise ValueError_(f"shard: num_shards must be 1 or more, got {num_shards}")
        if not 0 <= index < num_shards:
            raise IndexError_(f"shard: index must be 0 to {num_shards - 1}, got {index}")
        size, rest = divmod(len(self), num_shards)
        begin = size * index + min(index, rest)
        return _Chosen(self, range(begin, begin + size + (index < rest)))

    def take(self, count: int | None) -> Dataset:
        """Return the first ``count`` samples.

        Parameters
        ----------
        count : int or None
            None and numbers beyond the end take all.
        """
        if count is not None and count < 0:
            raise ValueError_(f"take: count must be 0 or more, got {count}")
        size = len(self) if count is None else min(count, len(self))
        return _Chosen(self, range(size))

    def sample(self, sampler: Iterable[int]) -> Dataset:
        """Return the samples in an order that is drawn now from a sampler.

        Parameters
        ----------
        sampler : Sampler
        """
        return _Chosen(self, list(sampler))

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """Return samples passed through a function.

        Parameters
        ----------
        fn : callable
            Gets the parts of a sample as arguments.
        lazy : bool
            Whether ``fn`` is called at each access, instead of for all samples now.
        """
        transformed = _Transformed(self, fn)
        if lazy:
            return transformed
        return SimpleDataset([transformed[index] for index in range(len(transformed))])

    def transform_first(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """Return samples whose first part is passed through a function.

        Parameters
        ----------
        fn : callable
        lazy : bool
            As in `transform`.
        """
        return self.transform(_First(fn), lazy)


class SimpleDataset(Dataset):
    """A list, an array or anything else with ``[]`` and ``len``."""

    def __init__(self, data: Sequence[Any]) -> None:
        self._data = data

    def __getitem__(self, idx: int) -> Any:
        return self._data[idx]

    def __len__(self) -> int:
        return len(self._data)


class ArrayDataset(Dataset):
    """Arrays of equal length; a sample is one element of each.

    Parameters
    ----------
    *args : NDArray, numpy.ndarray or sequence
        One argument gives bare samples, several give tuples.
    """

    def __init__(self, *args: Any) -> None:
        if not args:
            raise ValueError_("ArrayDataset: the number of arrays must be at least 1, got 0")
        self._length = len(args[0])
        self._data = []
        for position, data in enumerate(args):
            if len(data) != self._length:
                raise ShapeError(
                    f"ArrayDataset: all arrays must have the same length; array[0] has length "
                    f"{self._length} while array[{position}] has {len(data)}."
                )
            # As in MXNet 1.x, the elements of vectors, such as labels, are NumPy numbers.
            small = isinstance(data, NDArray) and len(data.shape) == 1
            self._data.append(data.asnumpy() if small else data)

    def __getitem__(self, idx: int) -> Any:
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)

    def __len__(self) -> int:
        return self._length


class RecordFileDataset(Dataset):
    """The records of a record file, as bytes.

    Matches ``mxnet.gluon.data.RecordFileDataset``. Each process and each pickled copy opens the
    file for itself.

    Parameters
    ----------
    filename : str
        The ``.rec`` file; its ``.idx`` is in the same folder.

    Raises
    ------
    MissingFileError
        If one of the two files does not exist.
    """

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.idx_file = os.path.splitext(filename)[0] + ".idx"
        for path in (self.filename, self.idx_file):
            if not is_address(path) and not os.path.isfile(path):
                raise MissingFileError(f"{type(self).__name__}: there is no file {path!r}")
        self._open()
        if not self._record.keys:
            warnings.warn(
                f"{type(self).__name__}: index {self.idx_file!r} names no records", stacklevel=2
            )

    def _open(self) -> None:
        self._record = recordio.MXIndexedRecordIO(self.idx_file, self.filename, "r")
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def __getitem__(self, idx: int) -> Any:
        if self._owner != os.getpid():  # a forked child shares the file position with its parent
            self._open()
        with self._lock:
            return self._record.read_idx(self._record.keys[idx])

    def __len__(self) -> int:
        return len(self._record.keys)

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments with which a pickled copy opens the file."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_record", "_owner", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the file again."""
        self.__dict__.update(state)
        self._open()


class _Chosen(Dataset):
    """Samples of another data set by their numbers."""

    def __init__(self, data: Dataset, indices: Sequence[int]) -> None:
        self._data = data
        self._indices = indices

    def __getitem__(self, idx: int) -> Any:
        return self._data[self._indices[idx]]

    def __repr__(self) -> str:
        return f"{len(self)} samples of {self._data!r}"

    def __len__(self) -> int:
        return len(self._indices)


class _Transformed(Dataset):
    """Samples of another data set, passed through a function."""

    def __init__(self, data: Dataset, fn: Callable[..., Any]) -> None:
        self._data = data
        self._fn = fn

    def __getitem__(self, idx: int) -> Any:
        sample = self._data[idx]
        return self._fn(*sample) if isinstance(sample, tuple) else self._fn(sample)

    def __repr__(self) -> str:
        return f"{self._data!r}, transformed"

    def __len__(self) -> int:
        return len(self._data)


class _First:
    """Applies a function to the first part of a sample; a class, so that it can be pickled."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn

    def __call__(self, x: Any, *rest: Any) -> Any:
        return (self._fn(x), *rest) if rest else self._fn(x)
