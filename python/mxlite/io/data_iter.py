"""Base of the iterators that are part of the core in 1.x."""

from __future__ import annotations

from typing import Any

import numpy as np

from .batch import DataBatch, DataIter

__all__ = ["MXDataIter"]


class MXDataIter(DataIter):
    """Iterator whose batches hold one array of data and one of labels.

    Notes
    -----
    Matches ``mxnet.io.MXDataIter``: ``getdata`` and ``getlabel`` return an array, not a list. Use
    the subclasses ``ImageRecordIter``, ``CSVIter``, ``LibSVMIter`` and ``MNISTIter``.
    """

    def __init__(self, batch_size: int) -> None:
        super().__init__(batch_size)
        self.current: Any = None
        self._repeats = False

    def debug_skip_load(self) -> None:
        """Return the same batch every time, to measure training without input."""
        self._repeats = True

    def _load(self) -> DataBatch | None:
        """Return the next batch; None at the end."""
        raise NotImplementedError(f"{type(self).__name__} does not define _load")

    def _advance(self) -> DataBatch | None:
        """Move to the next batch and return it, even if other threads change ``current``."""
        batch: DataBatch | None = self.current
        if not (self._repeats and batch is not None):
            self.current = batch = self._load()
        return batch

    def iter_next(self) -> bool:
        """Move to the next batch; False at the end."""
        return self._advance() is not None

    def next(self) -> DataBatch:
        """Return the next batch; StopIteration ends the pass."""
        batch = self._advance()
        if batch is None:
            raise StopIteration
        return batch

    def getdata(self) -> Any:
        """Return the data of the current batch."""
        return self.current.data[0]

    def getlabel(self) -> Any:
        """Return the labels of the current batch."""
        return self.current.label[0]

    def getindex(self) -> np.ndarray[Any, Any]:
        """Return the numbers of the current batch's samples within this part; -1 for padding."""
        return self.current.index

    def getpad(self) -> int | None:
        """Return the number of padding samples in the current batch."""
        return self.current.pad

    def getitems(self) -> tuple[Any, Any, int | None, np.ndarray[Any, Any]]:
        """Return data, label, pad and index of the current batch."""
        return self.getdata(), self.getlabel(), self.getpad(), self.getindex()
