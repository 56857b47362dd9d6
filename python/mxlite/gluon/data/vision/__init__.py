"""Image data sets and transforms of images (``mx.gluon.data.vision``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...._names_1x import attributes as _attributes
from . import datasets, transforms
from .datasets import (
    CIFAR10,
    CIFAR100,
    MNIST,
    FashionMNIST,
    ImageFolderDataset,
    ImageListDataset,
    ImageRecordDataset,
)

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "MNIST",
    "FashionMNIST",
    "ImageFolderDataset",
    "ImageListDataset",
    "ImageRecordDataset",
    "datasets",
    "transforms",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
