"""Batches from arrays in memory."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import _core
from .._core import NDArray
from .._typed_init import TypedInit
from ..base import NotSupportedError, ShapeError, TypeError_, ValueError_
from ..ndarray import array
from ..ndarray.array_like import host_array
from ..ndarray.sparse import csr_matrix
from .batch import DataBatch, DataDesc, DataIter


def _named_sources(data: Any, default_name: str, optional: bool) -> list[tuple[str, Any]]:
    """Return pairs (name, array); an array is an NDArray or is read row by row."""
    if data is None:
        if not optional:
            raise TypeError_("NDArrayIter: data must be given, got None")
        return []
    given_by_name = isinstance(data, dict)  # as in 1.x, names of a dict are sorted
    if hasattr(data, "shape"):
        data = [data]
    if isinstance(data, (list, tuple)):
        if not data and not optional:
            raise ValueError_("NDArrayIter: data must have at least one array, got an empty list")
        single = len(data) == 1
        names = [default_name if single else f"_{i}_{default_name}" for i in range(len(data))]
        data = dict(zip(names, data))
    if not isinstance(data, dict):
        raise TypeError_(
            f"NDArrayIter: {default_name} must be an NDArray, a numpy.ndarray, or a list or dict "
            f"of these, got {type(data).__name__}"
        )
    pairs = sorted(data.items()) if given_by_name else data.items()
    return [(name, _source(name, value)) for name, value in pairs]


def _source(name: str, value: Any) -> Any:
    if hasattr(value, "tocsr"):  # a sparse matrix of SciPy
        return csr_matrix(value.tocsr())
    if isinstance(value, (list, tuple)) or np.isscalar(value) or not hasattr(value, "shape"):
        raise TypeError_(
            f"NDArrayIter: {name} must be an NDArray or numpy.ndarray, got {type(value).__name__}"
        )
    if isinstance(value, NDArray) or type(value).__module__.startswith("h5py"):
        return value  # files are read one batch at a time
    return array(value)


class NDArrayIter(DataIter, TypedInit):
    """Iterator over batches of arrays in memory.

    Parameters
    ----------
    data : NDArray, numpy.ndarray, h5py.Dataset, or a list or dict of them
        NumPy arrays become float32.
    label : likewise, optional
    batch_size : int
    shuffle : bool
        Whether every reset draws a new order, by NumPy's generator.
    last_batch_handle : str
        ``'pad'`` fills the last batch with the first samples and sets ``pad`` to their number,
        ``'discard'`` leaves it out, ``'roll_over'`` moves its samples to the next epoch.
    data_name, label_name : str
    layout : str
        Letters of the axes; ``N`` is the axis of the samples.

    Raises
    ------
    ShapeError
        If an array has fewer samples than the first data array. Surplus samples are left out with
        a warning, because scripts of 1.x rely on that.
    ValueError
        If there are no samples, or fewer than ``batch_size`` with ``'discard'``.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
    ) -> None:
        super().__init__(batch_size)
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise ValueError_(
                "NDArrayIter: last_batch_handle must be 'pad', 'discard' or 'roll_over', got "
                f"{last_batch_handle!r}"
            )
        if batch_size < 1:
            raise ValueError_(f"NDArrayIter: batch_size must be at least 1, got {batch_size}")
        self.data = _named_sources(data, data_name, optional=False)
        self.label = _named_sources(label, label_name, optional=True)
        # The arrays without their names, data first. Later writes to the arrays are visible in
        # batches.
        self.data_list: list[Any] = [value for _, value in self.data + self.label]
        self.num_source = len(self.data_list)
        self.layout = layout
        self._axis = layout.find("N")
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.num_data = self._check_lengths()
        self.idx = np.arange(self.num_data)
        self._order = np.arange(self.num_data)  # sample at each position of this epoch
        self._rolled = np.arange(0)  # samples left over from the previous epoch
        self.cursor = -batch_size
        self.reset()

    def _check_lengths(self) -> int:
        sources = self.data + self.label
        for name, value in sources:
            if len(value.shape) <= self._axis:
                raise ShapeError(
                    f"NDArrayIter: {name} must be an array with samples along axis {self._axis}, "
                    f"got shape {tuple(value.shape)}"
                )
        lengths = {name: int(value.shape[self._axis]) for name, value in sources}
        count = lengths[self.data[0][0]]
        if any(length < count for length in lengths.values()):
            raise ShapeError(
                f"NDArrayIter: all arrays must have the same number of samples, got {lengths}"
            )
        if any(length > count for length in lengths.values()):
            warnings.warn(
                f"NDArrayIter: different numbers of samples given: {lengths}; those after the "
                f"first {count} are left out",
                stacklevel=4,
            )
        if count < 1:
            raise ValueError_("NDArrayIter: number of samples must be at least 1, got 0")
        if self.last_batch_handle == "discard" and count < self.batch_size:
            raise ValueError_(
                f"NDArrayIter: batch_size must be at most the number of samples, {count}, with "
                f"last_batch_handle='discard', got {self.batch_size}"
            )
        sparse = any(getattr(value, "stype", "default") != "default" for _, value in sources)
        if sparse and self.last_batch_handle != "discard":
            raise NotSupportedError(
                "NDArrayIter: last_batch_handle must be 'discard' for sparse arrays, got "
                f"{self.last_batch_handle!r}"
            )
        return count

    def _descriptions(self, sources: list[tuple[str, Any]]) -> list[DataDesc]:
        found = []
        for name, value in sources:
            shape = list(value.shape)
            shape[self._axis] = self.batch_size
            dtype = value.dtype if isinstance(value, NDArray) else np.float32  # read from files
            found.append(DataDesc(name, tuple(shape), dtype, self.layout))
        return found

    @property
    def provide_data(self) -> list[DataDesc]:
        """Descriptions of a batch's data."""
        return self._descriptions(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Descriptions of a batch's labels."""
        return self._descriptions(self.label)

    def hard_reset(self) -> None:
        """Start again from the first batch and drop samples left over from the last epoch."""
        self._shuffle()
        self.cursor = -self.batch_size
        self._rolled = self._rolled[:0]

    def reset(self) -> None:
        """Begin the next epoch."""
        last = self.num_data - self.batch_size < self.cursor < self.num_data
        if self.last_batch_handle == "roll_over" and last:
            self._rolled = np.append(
                self._rolled if self.cursor < 0 else [], self._order[max(self.cursor, 0) :]
            ).astype(np.int64)
            self.cursor = -len(self._rolled) - self.batch_size
        else:
            self.cursor = -self.batch_size
            self._rolled = self._rolled[:0]
        self._shuffle()

    def _shuffle(self) -> None:
        if self.shuffle:  # as in 1.x, each epoch permutes the order of the previous one
            np.random.shuffle(self.idx)
            self._order = self._order[self.idx]

    def state_dict(self) -> dict[str, Any]:
        """Return the position and the order of the samples; see `DataIter.state_dict`."""
        return {
            "num_data": self.num_data,
            "batch_size": self.batch_size,
            "shuffle": bool(self.shuffle),
            "cursor": self.cursor,
            "idx": self.idx.copy(),
            "order": self._order.copy(),
            "rolled": self._rolled.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position that `state_dict` returned."""
        shuffle = bool(self.shuffle)
        state = {"shuffle": shuffle, **state}  # states of older versions do not have this entry
        self._check_state(
            state, num_data=self.num_data, batch_size=self.batch_size, shuffle=shuffle
        )
        least, most = -2 * self.batch_size, self.num_data + self.batch_size
        for key, own in (("idx", self.idx), ("order", self._order)):
            self._check_order(state[key], own, state["cursor"], least, most)
        rolled = state["rolled"]
        self._check_order(rolled, rolled[np.isin(rolled, self.idx)], 0, 0, 0)
        self.idx, self._order = state["idx"].copy(), state["order"].copy()
        self._rolled = state["rolled"].copy()
        self.cursor = state["cursor"]

    def iter_next(self) -> bool:
        """Move to the next batch; False at the end."""
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        """Return the next batch; StopIteration ends the pass."""
        if not self.iter_next():
            raise StopIteration
        if self.last_batch_handle != "pad" and self.cursor + self.batch_size > self.num_data:
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), None)

    def _rows(self, source: Any) -> Any:
        begin, end = self.cursor, self.cursor + self.batch_size
        if not self.shuffle and begin >= 0 and end <= self.num_data:
            if isinstance(source, NDArray) and self._axis > 0:
                return _core.op("slice_axis")(source, axis=self._axis, begin=begin, end=end)
            if isinstance(source, NDArray) or getattr(source, "stype", None) == "csr":
                return source[begin:end]
        rows = self._order[np.arange(max(begin, 0), end) % self.num_data]
        if begin < 0:
            rows = np.append(self._rolled, rows)
        if getattr(source, "stype", None) == "csr":
            return _csr_rows(source, rows)
        if isinstance(source, NDArray):
            return _core.op("take")(source, _core.from_numpy(rows), axis=self._axis)
        # Reads each row once in ascending order, as h5py requires, and then restores the order.
        unique, back = np.unique(rows, return_inverse=True)
        chosen = np.take(host_array(source[unique], "NDArrayIter"), back, axis=self._axis)
        return array(chosen)

    def getdata(self) -> list[Any]:
        """Return the data of the current batch."""
        return self._batch(self.data)

    def getlabel(self) -> list[Any]:
        """Return the labels of the current batch."""
        return self._batch(self.label)

    def _batch(self, sources: list[tuple[str, Any]]) -> list[Any]:
        if self.cursor >= self.num_data:
            raise ValueError_("NDArrayIter: the epoch is over; call reset()")
        return [self._rows(value) for _, value in sources]

    def getpad(self) -> int:
        """Return the number of padding samples, or with roll_over, of samples of the last epoch."""
        if self.last_batch_handle == "pad":
            return max(self.cursor + self.batch_size - self.num_data, 0)
        if self.last_batch_handle == "roll_over" and -self.batch_size < self.cursor < 0:
            return -self.cursor
        return 0


def _csr_rows(source: Any, rows: np.ndarray[Any, Any]) -> Any:
    """Return rows of a CSR array in a given order."""
    begins = source.indptr.asnumpy()
    counts = np.diff(begins)[rows]
    ends = np.cumsum(counts)
    places = np.repeat(begins[rows] - (ends - counts), counts) + np.arange(counts.sum())
    where = _core.from_numpy(places)
    take = _core.op("take")
    parts = take(source.data, where), take(source.indices, where), np.append(0, ends)
    return csr_matrix(parts, shape=(len(rows), source.shape[1]), dtype=source.dtype)
