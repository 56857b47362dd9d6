"""A Gluon loader as an iterator of batches (``mx.contrib.io``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import ndarray as nd
from ..io import DataDesc, DataIter
from ..ndarray import NDArray

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """Iterator over a Gluon loader of (data, label), for modules.

    Parameters
    ----------
    loader : DataLoader
        Its first batch determines batch size and shapes.
    data_name, label_name : str
        Names in ``provide_data`` and ``provide_label``.
    dtype : str or numpy.dtype
        Data and labels are cast to it.

    Notes
    -----
    Matches ``mxnet.contrib.io.DataLoaderIter``. A last batch that is smaller is filled with
    zeros; ``getpad`` returns their number.
    """

    def __init__(
        self,
        loader: Any,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
    ) -> None:
        self._loader = loader
        data, label = next(iter(loader))
        super().__init__(data.shape[0])
        self.dtype = dtype
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self._current: Any = None
        self._iter: Iterator[Any] = iter(())
        self.reset()

    def reset(self) -> None:
        """Start the next epoch."""
        self._iter = iter(self._loader)

    def iter_next(self) -> bool:
        """Move to the next batch; False at the end."""
        self._current = next(self._iter, None)
        return self._current is not None

    def _filled(self, array: NDArray) -> list[NDArray]:
        values: NDArray = array.astype(self.dtype)
        if not self.getpad():
            return [values]
        rest = nd.zeros((self.getpad(), *values.shape[1:]), dtype=values.dtype, ctx=values.context)
        return [nd.concat(values, rest, dim=0)]

    def getdata(self) -> list[NDArray]:
        """Return the data of the current batch."""
        return self._filled(self._current[0])

    def getlabel(self) -> list[NDArray]:
        """Return the labels of the current batch."""
        return self._filled(self._current[1])

    def getpad(self) -> int:
        """Return the number of padding samples in the current batch."""
        return self.batch_size - self._current[0].shape[0]

    def getindex(self) -> None:
        """Return None, because a loader does not know the numbers of its samples."""
        return None
