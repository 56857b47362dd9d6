"""Batches of the MNIST files."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from .. import _core
from .._files.packed import read_idx
from ..base import RecordError, ValueError_
from .batch import DataBatch, DataDesc
from .data_iter import MXDataIter
from .options import known_options

# A separate logger, because logging.info would configure the root logger before the script does.
_LOG = logging.getLogger(__name__)

_IGNORED = {"prefetch_buffer", "ctx", "device_id", "verbose"}


class MNISTIter(MXDataIter):
    """Batches of images and labels from the MNIST files; pixels are divided by 256.

    Parameters
    ----------
    image, label : str
        idx files, packed with gzip or not.
    batch_size : int
    shuffle : bool
        Shuffle once, by the seed; as in 1.x, every epoch has the same order.
    flat : bool
        Return rows of pixels instead of (1, height, width).
    seed : int
    silent : bool
        Do not log what was read.
    num_parts, part_index : int
        Read one of several parts.
    data_name, label_name : str
    **kwargs
        prefetch_buffer, ctx and device_id are ignored. Other names are ignored with a warning.

    Raises
    ------
    RecordError
        If a file is damaged or the counts differ.

    Notes
    -----
    Matches ``mxnet.io.MNISTIter``: a last, smaller batch is left out.
    """

    def __init__(
        self,
        image: str = "./train-images-idx3-ubyte",
        label: str = "./train-labels-idx1-ubyte",
        batch_size: int = 128,
        shuffle: bool = True,
        flat: bool = False,
        seed: int = 0,
        silent: bool = False,
        num_parts: int = 1,
        part_index: int = 0,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **kwargs: Any,
    ) -> None:
        known = "image label batch_size shuffle flat seed silent num_parts part_index".split()
        known_options("MNISTIter", kwargs, [*known, *_IGNORED])
        if int(batch_size) < 1:
            raise ValueError_(f"MNISTIter: batch_size must be at least 1, got {batch_size}")
        if not 0 <= int(part_index) < int(num_parts):
            raise ValueError_(
                f"MNISTIter: part_index must be at least 0 and less than num_parts = {num_parts}, "
                f"got {part_index}"
            )
        super().__init__(int(batch_size))
        pixels, labels = (
            read_idx(image, 3, "MNISTIter", RecordError),
            read_idx(label, 1, "MNISTIter", RecordError),
        )
        if len(pixels) != len(labels):
            raise RecordError(
                f"MNISTIter: the number of labels in {label!r} must be that of images in "
                f"{image!r}, {len(pixels)}, got {len(labels)}"
            )
        self._index = np.arange(len(labels))
        if shuffle:
            np.random.RandomState(int(seed) % 2**32).shuffle(self._index)
        begin = len(labels) * int(part_index) // int(num_parts)
        end = len(labels) * (int(part_index) + 1) // int(num_parts)
        self._index = self._index[begin:end]
        if len(self._index) < self.batch_size:
            raise ValueError_(
                f"MNISTIter: batch_size must be at most {len(self._index)}, the number of images "
                f"in part {part_index} of {num_parts}, got {batch_size}"
            )
        self._pixels, self._labels, self._cursor = pixels, labels, 0
        height, width = pixels.shape[1:]
        self._shape = (height * width,) if flat else (1, height, width)
        self.provide_data = [DataDesc(data_name, (self.batch_size, *self._shape), np.float32)]
        self.provide_label = [DataDesc(label_name, (self.batch_size,), np.float32)]
        if not silent:
            _LOG.info(
                "MNISTIter: load %d images, shuffle=%d, shape=%s",
                len(self._index),
                bool(shuffle),
                (self.batch_size, *self._shape),
            )

    def reset(self) -> None:
        """Start again from the first batch."""
        self._cursor = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the position and the order of the images; see `DataIter.state_dict`."""
        return {
            "batch_size": self.batch_size,
            "images": len(self._labels),
            "index": self._index.copy(),
            "cursor": self._cursor,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position that `state_dict` returned."""
        self._check_state(state, batch_size=self.batch_size, images=len(self._labels))
        self._check_order(state["index"], self._index, state["cursor"], 0, len(self._index))
        self._index, self._cursor = state["index"].copy(), state["cursor"]

    def _load(self) -> DataBatch | None:
        chosen = self._index[self._cursor : self._cursor + self.batch_size]
        if len(chosen) < self.batch_size:
            return None
        self._cursor += self.batch_size
        data = self._pixels[chosen].reshape(self.batch_size, *self._shape) * np.float32(1 / 256)
        labels = self._labels[chosen].astype(np.float32)
        return DataBatch([_core.from_numpy(data)], [_core.from_numpy(labels)], 0, chosen)
