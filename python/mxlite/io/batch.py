"""Descriptions of data, batches, and the base of iterators over batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._files.likeness import check_like
from ..base import FileFormatError, NeedsInit, NotSupportedError, TypeError_, ValueError_
from ..numpy_mode import is_np_array, of_mode


class _NameAndShape(NamedTuple):
    name: str
    shape: tuple[int, ...]


class DataDesc(_NameAndShape):
    """Name, shape, type and layout of an array of a batch, as a tuple (name, shape).

    Parameters
    ----------
    name : str
    shape : tuple of int
    dtype : str or type
    layout : str
        One letter for each axis, ``N`` for the batch.
    """

    dtype: Any
    layout: str

    def __new__(
        cls, name: str, shape: tuple[int, ...], dtype: Any = np.float32, layout: str = "NCHW"
    ) -> DataDesc:
        """Make the tuple (name, shape) with the attributes dtype and layout."""
        self = super().__new__(cls, name, shape)
        self.dtype = dtype
        self.layout = layout
        return self

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Return the axis of ``N`` in a layout, or 0 without a layout."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Sequence[Any], types: Sequence[Any] | None) -> list[DataDesc]:
        """Return descriptions from lists of pairs (name, shape) and, if given, (name, dtype)."""
        if types is None:
            return [DataDesc(name, shape) for name, shape in shapes]
        by_name = dict(types)
        return [DataDesc(name, shape, by_name[name]) for name, shape in shapes]


def _of_mode(arrays: Sequence[Any] | None) -> Sequence[Any] | None:
    if arrays is None or not is_np_array():
        return arrays
    return [of_mode(a) if _core.array_kind(a) == "dense" else a for a in arrays]


class DataBatch:
    """The arrays of one batch.

    Parameters
    ----------
    data, label : list of NDArray
    pad : int, optional
        Number of samples at the end that are only padding.
    index : array, optional
        Positions of the samples in their source.
    bucket_key : hashable, optional
        Key of the bucketing module's network for this batch.
    provide_data, provide_label : list of DataDesc, optional
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        pad: int | None = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Any = None,
        provide_label: Any = None,
    ) -> None:
        for kind, arrays in (("data", data), ("label", label)):
            if arrays is not None and not isinstance(arrays, (list, tuple)):
                raise TypeError_(
                    f"DataBatch: {kind} must be a list of NDArrays, got {type(arrays).__name__}"
                )
        self.data = _of_mode(data)
        self.label = _of_mode(label)
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __repr__(self) -> str:
        shapes = [[tuple(a.shape) for a in arrays or ()] for arrays in (self.data, self.label)]
        labels = shapes[1] if self.label else None
        return f"{type(self).__name__}: data shapes: {shapes[0]} label shapes: {labels}"


class DataIter(NeedsInit):
    """Base of iterators over batches: define ``next``, or the parts that it calls."""

    _set_by_init = "batch_size"

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __repr__(self) -> str:
        parts = [
            part
            for kind in ("data", "label")
            for part in getattr(self, f"provide_{kind}", None) or ()
        ]
        shapes = ", ".join(f"{part[0]} {tuple(part[1])}" for part in parts)
        about = shapes or f"batch_size={vars(self).get('batch_size')}"
        return f"{type(self).__name__}({about})"

    def __iter__(self) -> DataIter:
        return self

    def __next__(self) -> DataBatch:
        return self.next()

    def reset(self) -> None:
        """Start again from the first batch."""

    def next(self) -> DataBatch:
        """Return the next batch; StopIteration ends the pass."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())

    def iter_next(self) -> bool:
        """Move to the next batch; False at the end."""
        raise NotImplementedError(f"{type(self).__name__} defines neither next nor iter_next")

    def getdata(self) -> Any:
        """Return the data of the current batch."""
        raise NotImplementedError(f"{type(self).__name__} does not define getdata")

    def getlabel(self) -> Any:
        """Return the labels of the current batch."""
        return None

    def getindex(self) -> Any:
        """Return the positions of the current batch's samples, or None if unknown."""
        return None

    def getpad(self) -> int | None:
        """Return the number of padding samples in the current batch."""
        return 0

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the iterator for a checkpoint, as numbers, strings and arrays.

        It is for `load_state_dict` of an iterator made in the same way. Raises NotSupportedError
        if the class does not define it.
        """
        raise NotSupportedError(
            f"{type(self).__name__}: a checkpoint needs its position; define state_dict and "
            "load_state_dict"
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position that `state_dict` returned.

        Raises ValueError if the position belongs to another data set or batch size.
        """
        raise NotSupportedError(
            f"{type(self).__name__}: a checkpoint needs its position; define state_dict and "
            "load_state_dict"
        )

    def _check_state(self, state: dict[str, Any], **expected: Any) -> None:
        """Raise if a state is not a position of this class or is for other data."""
        check_like(state, self.state_dict(), f"{type(self).__name__}: the saved position")
        for key, value in expected.items():
            if state[key] != value:
                raise ValueError_(
                    f"{type(self).__name__}: the saved position has {key} {state[key]!r}, but "
                    f"this iterator has {value!r}"
                )

    def _check_order(self, saved: Any, own: Any, cursor: int, least: int, most: int) -> None:
        """Raise if a saved order has other samples than this iterator, or is out of range."""
        if not np.array_equal(np.sort(saved), np.sort(own)) or not least <= cursor <= most:
            raise FileFormatError(
                f"{type(self).__name__}: the saved position after sample {cursor} does not fit the "
                f"{len(own)} samples of this iterator"
            )
