"""Batches of rows from text files: CSV and LibSVM."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import _core
from .._files.native import native_name
from ..base import NotSupportedError, RecordError, ShapeError, ValueError_
from ..ndarray import zeros
from .batch import DataBatch, DataDesc
from .data_iter import MXDataIter
from .options import known_options

# Parameters of 1.x for prefetching, which have no effect.
_IGNORED = {"prefetch_buffer", "ctx", "verbose", "device_id"}
_LARGEST_BATCH = 2**31 - 1


def _shape(name: str, value: Any) -> tuple[int, ...]:
    shape = (value,) if isinstance(value, int) else tuple(int(side) for side in value)
    if not shape or min(shape) < 1:
        raise ValueError_(f"{name}: shape must have positive sizes, got {shape}")
    if math.prod(shape) >= 1 << 62:
        raise ValueError_(f"{name}: shape must have less than 2^62 elements, got {shape}")
    return shape


def _index(begin: int, found: int, size: int, round_batch: bool) -> np.ndarray[Any, Any]:
    """Return the numbers of a batch's rows if `begin` rows precede it; -1 marks padding."""
    index = np.arange(begin, begin + size)
    if found < size:
        index[found:] = np.arange(size - found) % (begin + found) if round_batch else -1
    return index


class _RowIter(MXDataIter):
    """Base of iterators over rows from two readers, for data and labels, in file order."""

    _data: Any
    _labels: Any
    _row = 0  # number of rows returned in this epoch
    _data_shape: tuple[int, ...]

    def reset(self) -> None:
        """Start again from the first row."""
        self._row = 0
        self._data.rewind()
        if self._labels is not None:
            self._labels.rewind()

    def state_dict(self) -> dict[str, Any]:
        """Return the number of rows read in this epoch; see `DataIter.state_dict`."""
        return {
            "batch_size": self.batch_size,
            "data_shape": list(self._data_shape),
            "row": self._row,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position that `state_dict` returned; reads the epoch's rows up to it."""
        shape = list(self._data_shape)
        self._check_state(state, batch_size=self.batch_size, data_shape=shape)
        self.reset()
        while self._row < state["row"]:
            if self._load() is None:
                break
        if self._row != state["row"]:
            raise ValueError_(
                f"{type(self).__name__}: the saved position is after row {state['row']}, the file "
                f"has {self._row} rows"
            )


class CSVIter(_RowIter):
    """Batches of rows from CSV files.

    Parameters
    ----------
    data_csv : str
    data_shape : tuple of int
        Shape of one row's data; each line must have as many numbers.
    label_csv : str
        ``'NULL'``: the labels are 0.
    label_shape : tuple of int
    batch_size : int
    round_batch : bool
        Fill the last batch with the first rows, else with zeros; ``pad`` is their number.
    dtype : dtype, optional
        Type of data and labels: float32, float64, int32 or int64.
    data_name, label_name : str
    **kwargs
        prefetch_buffer and ctx are accepted and ignored.

    Raises
    ------
    RecordError
        If a file cannot be read, a line does not have as many numbers as the shape, or there are
        fewer labels than rows.

    Notes
    -----
    Matches ``mxnet.io.CSVIter``. Every epoch begins with the first row.
    """

    def __init__(
        self,
        data_csv: str,
        data_shape: Any,
        label_csv: str = "NULL",
        label_shape: Any = (1,),
        batch_size: int = 1,
        round_batch: bool = True,
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **kwargs: Any,
    ) -> None:
        known = ["data_csv", "data_shape", "label_csv", "label_shape", "batch_size", "round_batch"]
        known_options("CSVIter", kwargs, [*known, "dtype", *_IGNORED])
        super().__init__(_batch_size("CSVIter", batch_size))
        self._data_shape = _shape("CSVIter", data_shape)
        self._label_shape = _shape("CSVIter", label_shape)
        self._dtype = np.dtype(dtype or np.float32)
        self._round = bool(round_batch)
        self._data = self._reader(data_csv, self._data_shape)
        self._labels = None if label_csv == "NULL" else self._reader(label_csv, self._label_shape)
        self._label_csv, self._data_csv = label_csv, data_csv
        self.provide_data = [DataDesc(data_name, (batch_size, *self._data_shape), self._dtype.type)]
        self.provide_label = [DataDesc(label_name, self._batch_label_shape(), self._dtype.type)]

    def _reader(self, path: str, shape: tuple[int, ...]) -> Any:
        return _core.CsvReader(native_name(path), math.prod(shape), self._dtype.name)

    def _batch_label_shape(self) -> tuple[int, ...]:
        single = self._label_shape == (1,)
        return (self.batch_size,) if single else (self.batch_size, *self._label_shape)

    def _load(self) -> DataBatch | None:
        size = self.batch_size
        data, found = self._data.read(size, self._round)
        if found == 0:
            return None
        if self._labels is None:
            labels = zeros((size, math.prod(self._label_shape)), dtype=self._dtype.type)
        else:
            labels, given = self._labels.read(size, self._round)
            if given < found:
                raise RecordError(
                    f"CSVIter: {self._label_csv!r} ends at row {self._row + given}, "
                    f"{self._data_csv!r} has more rows"
                )
        index = _index(self._row, found, size, self._round)
        self._row += found
        return DataBatch(
            [data.reshape((size, *self._data_shape))],
            [labels.reshape(self._batch_label_shape())],
            size - found,
            index,
        )


class LibSVMIter(_RowIter):
    """Batches of sparse rows from LibSVM files: lines ``label column:value column:value ...``.

    Parameters
    ----------
    data_libsvm : str
    data_shape : tuple of int
        ``(columns,)``; columns are counted from 0.
    label_libsvm : str
        File of the labels, as rows; ``'NULL'``: labels are the first numbers of the data lines.
    label_shape : tuple of int
    num_parts, part_index : int
        Read one of several parts of the files.
    batch_size : int
    round_batch : bool
        Fill the last batch with the first rows, else with empty rows; ``pad`` is their number.
    data_name, label_name : str
    **kwargs
        prefetch_buffer and ctx are accepted and ignored.

    Raises
    ------
    RecordError
        If a file cannot be read or a line is not of this form.

    Notes
    -----
    Matches ``mxnet.io.LibSVMIter``: data are csr arrays of float32, and so are labels from a
    separate file.
    """

    def __init__(
        self,
        data_libsvm: str,
        data_shape: Any,
        label_libsvm: str = "NULL",
        label_shape: Any = (1,),
        num_parts: int = 1,
        part_index: int = 0,
        batch_size: int = 1,
        round_batch: bool = True,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **kwargs: Any,
    ) -> None:
        known = ["data_libsvm", "data_shape", "label_libsvm", "label_shape", "num_parts"]
        known_options(
            "LibSVMIter", kwargs, [*known, *_IGNORED, "part_index", "batch_size", "round_batch"]
        )
        super().__init__(_batch_size("LibSVMIter", batch_size))
        self._data_shape = _shape("LibSVMIter", data_shape)
        self._label_shape = _shape("LibSVMIter", label_shape)
        if len(self._data_shape) != 1 or len(self._label_shape) != 1:
            raise ShapeError(
                "LibSVMIter: data_shape and label_shape must be (columns,), got "
                f"{self._data_shape} and {self._label_shape}"
            )
        own_labels = label_libsvm == "NULL"
        if own_labels and self._label_shape != (1,):
            raise ShapeError(
                "LibSVMIter: label_shape must be (1,) without label_libsvm, got "
                f"{self._label_shape}"
            )
        if int(num_parts) > 1 and not own_labels:
            raise NotSupportedError(
                "LibSVMIter: num_parts must be 1 with label_libsvm, because parts of two files do "
                "not have the same rows; put the labels into the data file"
            )
        self._round = bool(round_batch)
        parts = int(part_index), int(num_parts)
        self._data = _core.LibSvmReader(native_name(data_libsvm), self._data_shape[0], *parts)
        self._labels = (
            None
            if own_labels
            else _core.LibSvmReader(native_name(label_libsvm), self._label_shape[0], *parts)
        )
        self._names = str(data_libsvm), str(label_libsvm)
        labels = (batch_size,) if own_labels else (batch_size, *self._label_shape)
        self.provide_data = [DataDesc(data_name, (batch_size, *self._data_shape), np.float32)]
        self.provide_label = [DataDesc(label_name, labels, np.float32)]

    def _load(self) -> DataBatch | None:
        size = self.batch_size
        values, columns, begins, labels, found = self._data.read(size, self._round)
        if found == 0:
            return None
        data = _core.make_csr(values, columns, begins, (size, *self._data_shape))
        if self._labels is not None:
            values, columns, begins, _, given = self._labels.read(size, self._round)
            if given < found:
                raise RecordError(
                    f"LibSVMIter: {self._names[1]!r} ends at row {self._row + given}, "
                    f"{self._names[0]!r} has more rows"
                )
            labels = _core.make_csr(values, columns, begins, (size, *self._label_shape))
        index = _index(self._row, found, size, self._round)
        self._row += found
        return DataBatch([data], [labels], size - found, index)


def _batch_size(name: str, value: Any) -> int:
    if int(value) < 1:
        raise ValueError_(f"{name}: batch_size must be at least 1, got {value}")
    if int(value) > _LARGEST_BATCH:  # the readers would repeat rows until memory is exhausted
        raise ValueError_(f"{name}: batch_size must be at most {_LARGEST_BATCH}, got {value}")
    return int(value)
