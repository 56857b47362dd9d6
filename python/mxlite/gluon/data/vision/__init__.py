"""Image data sets and what prepares images (``mx.gluon.data.vision``)."""

from __future__ import annotations

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
