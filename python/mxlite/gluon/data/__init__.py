"""Data sets, samplers and loaders (``mx.gluon.data``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._names_1x import attributes as _attributes
from . import vision
from .dataloader import (
    DataLoader,
    WorkerDiedError,
    WorkerError,
    WorkerTimeoutError,
    default_batchify_fn,
    default_mp_batchify_fn,
)
from .dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from .sampler import (
    BatchSampler,
    FilterSampler,
    IntervalSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "DataLoader",
    "Dataset",
    "FilterSampler",
    "IntervalSampler",
    "RandomSampler",
    "RecordFileDataset",
    "Sampler",
    "SequentialSampler",
    "SimpleDataset",
    "WorkerDiedError",
    "WorkerError",
    "WorkerTimeoutError",
    "default_batchify_fn",
    "default_mp_batchify_fn",
    "vision",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
