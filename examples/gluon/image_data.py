"""Data sets of image_classification.py as pairs of iterators (training, validation)."""

from __future__ import annotations

import argparse
import os
from typing import Any

import mxlite as mx
from common.datasets import cifar10_records, digits_records
from mxlite.contrib.io import DataLoaderIter
from mxlite.gluon.data import DataLoader
from mxlite.gluon.data.vision import MNIST, ImageFolderDataset

# Number of classes of each data set.
CLASSES = {
    "mnist": 10,
    "cifar10": 10,
    "digits": 10,
    "caltech101": 101,
    "imagenet": 1000,
    "dummy": 1000,
}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class DummyIter(mx.io.DataIter):
    """Repeats a batch of zeros, a hundred times per epoch.

    Parameters
    ----------
    batch_size : int
    data_shape : tuple of int
        Shape of one image.
    batches : int
    """

    def __init__(self, batch_size: int, data_shape: tuple, batches: int = 100) -> None:
        super().__init__(batch_size)
        shape = (batch_size, *data_shape)
        self.provide_data = [mx.io.DataDesc("data", shape)]
        self.provide_label = [mx.io.DataDesc("softmax_label", (batch_size,))]
        self.batch = mx.io.DataBatch(
            data=[mx.nd.zeros(shape)], label=[mx.nd.zeros((batch_size,))], pad=0
        )
        self.num_batches = batches
        self.count = 0

    def next(self) -> Any:
        """Return the batch, or end the epoch."""
        if self.count == self.num_batches:
            raise StopIteration
        self.count += 1
        return self.batch

    def reset(self) -> None:
        """Begin an epoch."""
        self.count = 0


def record_iters(
    paths: tuple, shape: tuple, batch_size: int, kvstore: Any, mean: Any = (0, 0, 0), **augment: Any
) -> tuple:
    """Return iterators over two record files; ``augment`` is for training only."""
    common = {
        **{f"mean_{channel}": value for channel, value in zip("rgb", mean)},
        "data_shape": shape,
        "batch_size": batch_size,
        "num_parts": kvstore.num_workers,
        "part_index": kvstore.rank,
    }
    train = mx.io.ImageRecordIter(path_imgrec=paths[0], **augment, **common)
    train.num_batches = -(-train.num_records // batch_size)
    return train, mx.io.ImageRecordIter(path_imgrec=paths[1], **common)


def mnist_iters(directory: str, batch_size: int, kvstore: Any) -> tuple:
    """Return iterators over MNIST's pixels in [0, 1], shape (batch, 1, 28, 28)."""
    iterators = []
    for train in (True, False):
        images = MNIST(os.path.abspath(directory), train=train)
        part = slice(kvstore.rank, None, kvstore.num_workers)
        pixels = images._data.asnumpy()[part, None, :, :, 0].astype("float32") / 255
        iterators.append(mx.io.NDArrayIter(pixels, images._label[part], batch_size, shuffle=train))
    iterators[0].num_batches = -(-len(pixels) // batch_size)
    return tuple(iterators)


def _folder_iters(folders: tuple, functions: tuple, batch_size: int, workers: int) -> tuple:
    iterators = []
    for folder, function, train in zip(folders, functions, (True, False)):
        if not os.path.isdir(folder):
            raise FileNotFoundError(
                f"there is no folder {folder!r}: it has a folder of images for each class"
            )
        loader = DataLoader(
            ImageFolderDataset(folder, transform=function),
            batch_size,
            shuffle=train,
            last_batch="discard" if train else "keep",
            num_workers=workers,
        )
        iterators.append(DataLoaderIter(loader))
        iterators[-1].num_batches = len(loader)
    return tuple(iterators)


def imagenet_iters(directory: str, batch_size: int, workers: int, size: int) -> tuple:
    """Return iterators over folders ``train`` and ``val`` of images."""

    def normalized(image: Any) -> Any:
        return mx.nd.image.normalize(mx.nd.image.to_tensor(image), mean=MEAN, std=STD)

    def train(image: Any, label: Any) -> tuple:
        image, _ = mx.image.random_size_crop(image, (size, size), 0.08, (3 / 4, 4 / 3))
        return normalized(mx.nd.image.random_flip_left_right(image)), label

    def val(image: Any, label: Any) -> tuple:
        image, _ = mx.image.center_crop(mx.image.resize_short(image, size + 32), (size, size))
        return normalized(image), label

    folders = (os.path.join(directory, "train"), os.path.join(directory, "val"))
    return _folder_iters(folders, (train, val), batch_size, workers)


def caltech101_iters(directory: str, batch_size: int, workers: int) -> tuple:
    """Return iterators over ``101_ObjectCategories`` and ``101_ObjectCategories_test``."""

    def crop(image: Any, label: Any) -> tuple:
        image, _ = mx.image.center_crop(mx.image.resize_short(image, 224), (224, 224))
        return mx.nd.transpose(image, axes=(2, 0, 1)), label

    name = os.path.join(directory, "101_ObjectCategories")
    return _folder_iters((name, f"{name}_test"), (crop, crop), batch_size, workers)


def get_data_iters(opt: argparse.Namespace, batch_size: int, kvstore: Any) -> tuple:
    """Return the iterators over training and validation images.

    Parameters
    ----------
    opt : argparse.Namespace
        ``dataset``, ``data_dir`` (by default ``data``), ``num_workers`` and ``model``.
    batch_size : int
        Batch size on all devices together.
    kvstore : KVStore
        Each worker gets its part.

    Returns
    -------
    (DataIter, DataIter)
        The first has ``num_batches``.

    Raises
    ------
    FileNotFoundError
        If the data set does not exist.
    """
    directory = opt.data_dir or "data"
    size = 299 if opt.model == "inceptionv3" else 224
    if opt.dataset == "mnist":
        return mnist_iters(directory, batch_size, kvstore)
    if opt.dataset == "cifar10":
        # As in 1.x, reads in the order of the file, whose records are already shuffled.
        augment = {"rand_crop": True, "rand_mirror": True}
        shape = (3, 32, 32)
        return record_iters(cifar10_records(directory), shape, batch_size, kvstore, **augment)
    if opt.dataset == "digits":
        # The options are those of train_cifar10.py --data digits, so that both give the same curve.
        augment = {"shuffle": True, "rand_crop": True, "pad": 2, "fill_value": 0}
        augment["mean"] = (123.68, 116.779, 103.939)
        shape = (3, 28, 28)
        return record_iters(digits_records(directory), shape, batch_size, kvstore, **augment)
    if opt.dataset == "caltech101":
        return caltech101_iters(directory, batch_size, opt.num_workers)
    if opt.dataset == "imagenet":
        return imagenet_iters(directory, batch_size, opt.num_workers, size)
    return tuple(DummyIter(batch_size, (3, size, size)) for _ in range(2))
