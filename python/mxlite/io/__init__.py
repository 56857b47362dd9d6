"""Batches, descriptions of batches, and iterators over them (``mx.io``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._names_1x import attributes as _attributes
from .batch import DataBatch, DataDesc, DataIter
from .data_iter import MXDataIter
from .detection_record import ImageDetRecordIter
from .image_record import ImageRecordInt8Iter, ImageRecordIter, ImageRecordUInt8Iter
from .mnist_iter import MNISTIter
from .ndarray_iter import NDArrayIter
from .text_iters import CSVIter, LibSVMIter
from .wrappers import PrefetchingIter, ResizeIter

__all__ = [
    "CSVIter",
    "DataBatch",
    "DataDesc",
    "DataIter",
    "ImageDetRecordIter",
    "ImageRecordInt8Iter",
    "ImageRecordIter",
    "ImageRecordUInt8Iter",
    "LibSVMIter",
    "MNISTIter",
    "MXDataIter",
    "NDArrayIter",
    "PrefetchingIter",
    "ResizeIter",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
