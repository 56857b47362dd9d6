"""Batches, what describes them, and iterators over them (``mx.io``)."""

from __future__ import annotations

from .batch import DataBatch, DataDesc, DataIter
from .image_record import ImageRecordInt8Iter, ImageRecordIter, ImageRecordUInt8Iter
from .ndarray_iter import NDArrayIter
from .wrappers import PrefetchingIter, ResizeIter

__all__ = [
    "DataBatch",
    "DataDesc",
    "DataIter",
    "ImageRecordInt8Iter",
    "ImageRecordIter",
    "ImageRecordUInt8Iter",
    "NDArrayIter",
    "PrefetchingIter",
    "ResizeIter",
]
