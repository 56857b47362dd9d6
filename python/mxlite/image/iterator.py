"""Batches of augmented images from record files or lists of files, in Python."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import recordio
from .._core import NDArray
from .._files.whole import open_text, read_file
from ..base import (
    FileFormatError,
    MissingFileError,
    RecordError,
    ShapeError,
    TypeError_,
    ValueError_,
)
from ..io.batch import DataBatch, DataDesc, DataIter
from ..ndarray import array, stack, transpose
from .augmenter import Augmenter
from .create import CreateAugmenter
from .read import imdecode

_HANDLES = ("pad", "discard", "roll_over")


class ImageIter(DataIter):
    """Iterates over batches of images, from a record file or listed files, with any augmenters.

    Parameters
    ----------
    batch_size : int
    data_shape : tuple of int
        (3, height, width) of the augmented images.
    label_width : int
        Number of values in a label.
    path_imgrec : str, optional
        Record file; shuffling and reading a part of it need ``path_imgidx``.
    path_imglist : str, optional
        List file: number, label or labels, name, separated by tabs.
    path_root : str, optional
        Folder that names of a list are relative to.
    path_imgidx : str, optional
        Index of the record file.
    shuffle : bool
        Whether each pass has a new order (Python's generator).
    part_index, num_parts : int
        Read one of several parts of equal size.
    aug_list : list of Augmenter, optional
        Default is the result of `CreateAugmenter` with the further arguments.
    imglist : list, optional
        Entries ``[label or labels, name]``, instead of a list file.
    data_name, label_name : str
    dtype : {'float32', 'float64', 'int32', 'int64'}
        Type of the labels.
    last_batch_handle : {'pad', 'discard', 'roll_over'}
        The last batch is filled from the beginning (and `DataBatch.pad` counts what was added),
        dropped, or begins the next pass; in that pass's first batch `DataBatch.pad` counts the
        samples of the pass itself.
    apply_exif_orientation : bool, optional
        Whether images are turned upright as their Exif orientation says; see `imdecode`.

    Raises
    ------
    MissingFileError, FileFormatError, RecordError, ValueError
        For missing or damaged files; a broken image raises when its batch is made.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, ...],
        label_width: int = 1,
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: Sequence[Augmenter] | None = None,
        imglist: list[Any] | None = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: str = "float32",
        last_batch_handle: str = "pad",
        apply_exif_orientation: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(batch_size)
        name = type(self).__name__
        if not (path_imgrec or path_imglist or isinstance(imglist, list)):
            raise ValueError_(
                f"{name}: path_imgrec, path_imglist or a list imglist must be given, got none"
            )
        if dtype not in ("int32", "float32", "int64", "float64"):
            raise ValueError_(
                f"{name}: dtype must be 'int32', 'int64', 'float32' or 'float64', got {dtype!r}"
            )
        if last_batch_handle not in _HANDLES:
            raise ValueError_(
                f"{name}: last_batch_handle must be one of {', '.join(_HANDLES)}, got "
                f"{last_batch_handle!r}"
            )
        if batch_size < 1:
            raise ValueError_(f"{name}: batch_size must be 1 or more, got {batch_size}")
        data_shape = tuple(data_shape)
        self.check_data_shape(data_shape)
        self.batch_size = batch_size
        self.data_shape = data_shape
        self.label_width = label_width
        self.path_root = path_root
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self._label_dtype = dtype
        self._apply_exif_orientation = apply_exif_orientation
        self.imgrec: Any = None
        self.imgidx: list[Any] | None = None
        self.imglist = self._read_list(path_imglist, imglist)
        if path_imgrec:
            self._open_records(path_imgrec, path_imgidx)
        self.seq = self._keys(part_index, num_parts)
        self.num_image = None if self.seq is None else len(self.seq)
        self.provide_data = [DataDesc(data_name, (batch_size, *data_shape))]
        label_shape = (batch_size, label_width) if label_width > 1 else (batch_size,)
        self.provide_label = [DataDesc(label_name, label_shape, np.dtype(dtype))]
        self.auglist: Any = CreateAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self.cur = 0
        self._exhausted = False
        self._rolled: list[tuple[NDArray, Any]] = []
        self.reset()

    def _read_list(self, path: str | None, entries: list[Any] | None) -> dict[Any, Any] | None:
        if path:
            try:
                with open_text(path) as file:
                    lines = file.read().splitlines()
            except FileNotFoundError as error:
                raise MissingFileError(
                    f"{type(self).__name__}: there is no file {path!r}"
                ) from error
            return dict(self._list_line(path, n, line) for n, line in enumerate(lines, 1) if line)
        if entries is None:
            return None
        found = {}
        for number, entry in enumerate(entries, 1):
            if len(entry) < 2 or not isinstance(entry[-1], (str, os.PathLike)):
                raise TypeError_(
                    f"{type(self).__name__}: entries of imglist must be labels and a file name, "
                    f"got {entry!r}"
                )
            labels = np.concatenate([np.ravel(part) for part in entry[:-1]])
            found[str(number)] = (labels.astype(self._label_dtype), entry[-1])
        return found

    def _list_line(self, path: str, number: int, line: str) -> tuple[int, Any]:
        fields = line.strip().split("\t")
        try:
            labels = np.array([float(field) for field in fields[1:-1]])
            key = int(float(fields[0]))
        except ValueError as error:
            raise FileFormatError(f"{path!r}, line {number}: {error}") from error
        if labels.size == 0:
            raise FileFormatError(
                f"{path!r}, line {number} must be number, label and name with tabs between, got "
                f"{len(fields)} fields"
            )
        return key, (labels.astype(self._label_dtype), fields[-1])

    def _open_records(self, path: str, index: str | None) -> None:
        if index:
            self.imgrec = recordio.MXIndexedRecordIO(index, path, "r")
            self.imgidx = list(self.imgrec.keys)
        else:
            self.imgrec = recordio.MXRecordIO(path, "r")

    def _keys(self, part_index: int, num_parts: int) -> list[Any] | None:
        name = type(self).__name__
        keys = self.imgidx if self.imgrec is not None else list(self.imglist or ())
        if keys is None:
            if self.shuffle or num_parts > 1:
                raise ValueError_(
                    f"{name}: path_imgidx must be given with shuffle or num_parts, got none"
                )
            return None
        if num_parts < 1 or not 0 <= part_index < num_parts:
            raise ValueError_(
                f"{name}: part_index must be 0 to num_parts - 1 with num_parts {num_parts}, got "
                f"{part_index}"
            )
        size = len(keys) // num_parts
        if num_parts > 1 and size == 0:
            raise ValueError_(
                f"{name}: num_parts must be at most the number of images, {len(keys)}, got "
                f"{num_parts}"
            )
        return list(keys) if num_parts == 1 else keys[part_index * size : (part_index + 1) * size]

    def reset(self) -> None:
        """Start the next pass, with the samples left over from the last one."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        self._rewind()
        self._exhausted = False

    def hard_reset(self) -> None:
        """Start the next pass without the samples left over from the last one."""
        self._rolled = []
        self.reset()

    def _rewind(self) -> None:
        self.cur = 0
        if self.imgrec is not None:
            self.imgrec.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return the position and the order of the images; see `DataIter.state_dict`."""
        return {
            "batch_size": self.batch_size,
            "seq": None if self.seq is None else list(self.seq),
            "cur": self.cur,
            "exhausted": self._exhausted,
            "rolled": [(picture, np.asarray(label)) for picture, label in self._rolled],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position that `state_dict` returned."""
        self._check_state(state, batch_size=self.batch_size)
        known = None if self.seq is None else sorted(self.seq, key=str)
        if known != (None if state["seq"] is None else sorted(state["seq"], key=str)):
            raise ValueError_(
                f"{type(self).__name__}: the saved position belongs to another list of images"
            )
        least, most = 0, float("inf") if self.seq is None else len(self.seq)
        pairs = [(type(picture), type(label)) for picture, label in state["rolled"]]
        if not least <= state["cur"] <= most or set(pairs) - {(NDArray, np.ndarray)}:
            raise FileFormatError(
                f"{type(self).__name__}: the saved position after image {state['cur']} with "
                f"{len(pairs)} images left over is not understood"
            )
        self._rewind()
        if state["seq"] is None:
            for _ in range(state["cur"]):
                if self.imgrec.read() is None:
                    raise ValueError_(
                        f"{type(self).__name__}: the saved position is after image "
                        f"{state['cur']}, but the record file has fewer images"
                    )
        else:
            self.seq = list(state["seq"])
        self.cur = state["cur"]
        self._exhausted = state["exhausted"]
        self._rolled = [(picture, label) for picture, label in state["rolled"]]

    def next_sample(self) -> tuple[Any, bytes]:
        """Return label and file content of the next image; StopIteration ends the pass.

        Labels of a list are NDArrays, those of records numbers or NumPy arrays, as in 1.x.
        """
        if self.seq is None:
            return self._unpack(self.imgrec.read())
        if self.cur >= len(self.seq):
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if self.imglist is None:
            return self._unpack(self.imgrec.read_idx(key))
        label, name = self.imglist[key]
        if self.imgrec is None:
            content = self.read_image(name)
        else:
            _, content = self._unpack(self.imgrec.read_idx(key))
        return array(label, dtype=label.dtype), content

    def _unpack(self, record: bytes | None) -> tuple[Any, bytes]:
        if record is None:
            raise StopIteration
        if self.seq is None:
            self.cur += 1
        header, content = recordio.unpack(record)
        return header.label, content

    def next(self) -> DataBatch:
        """Return the next batch; StopIteration ends the pass."""
        if self._exhausted:
            raise StopIteration
        samples, self._rolled = self._rolled, []
        rolled = len(samples)
        self._gather(samples)
        pad = self.batch_size - len(samples)
        if not samples:
            raise StopIteration
        if pad and self.last_batch_handle != "pad":
            self._exhausted = True
            self._rolled = samples if self.last_batch_handle == "roll_over" else []
            raise StopIteration
        while len(samples) < self.batch_size:
            self._exhausted = True
            self._rewind()
            self._gather(samples)
        data = stack(*(picture for picture, _ in samples), axis=0)
        labels = np.stack([label for _, label in samples])
        if rolled:
            pad = self.batch_size - rolled
        return DataBatch([data], [array(labels, dtype=labels.dtype)], pad=pad)

    def _gather(self, samples: list[tuple[NDArray, Any]]) -> None:
        """Add samples until there are enough for a batch or the pass ends."""
        try:
            while len(samples) < self.batch_size:
                label, content = self.next_sample()
                sample = self._make_sample(self.imdecode(content), label)
                if sample is not None:
                    samples.append(sample)
        except StopIteration:
            pass

    def _make_sample(self, picture: NDArray, label: Any) -> tuple[NDArray, Any] | None:
        self.check_valid_image([picture])
        picture = self.postprocess_data(self.augmentation_transform(picture))
        if tuple(picture.shape) != self.data_shape:
            raise ShapeError(
                f"{type(self).__name__}: the augmenters must return data_shape {self.data_shape}, "
                f"got {tuple(picture.shape)} ({self._location()})"
            )
        if isinstance(label, NDArray):
            label = label.asnumpy()
        values = np.ravel(label).astype(self._label_dtype)
        if values.size != self.label_width:
            raise ShapeError(
                f"{type(self).__name__}: a label must have label_width {self.label_width} "
                f"numbers, got {values.size} ({self._location()})"
            )
        return picture.astype(np.float32), values if self.label_width > 1 else values[0]

    def _location(self) -> str:
        if self.seq is None:
            return f"record {self.cur - 1}"
        key = self.seq[self.cur - 1]
        if self.imgrec is None and self.imglist is not None:
            return f"filename: {self.imglist[key][1]}"
        return f"index: {key}"

    def check_data_shape(self, data_shape: tuple[int, ...]) -> None:
        """Raise ValueError unless the shape is (3, height, width)."""
        if len(data_shape) != 3:
            raise ShapeError(
                f"data_shape {data_shape} given: data_shape should have length 3, with dimensions "
                "CxHxW"
            )
        if data_shape[0] != 3:
            raise ShapeError(
                f"data_shape {data_shape} given: This iterator expects inputs to have 3 channels."
            )

    def check_valid_image(self, data: Sequence[NDArray]) -> None:
        """Raise ShapeError if the first element of a list is not an image."""
        if len(data[0].shape) == 0:
            raise ShapeError("Data shape is wrong")

    def imdecode(self, s: bytes) -> NDArray:
        """Decode the content of an image file; a RecordError names the file or record."""
        try:
            return imdecode(s, apply_exif_orientation=self._apply_exif_orientation)
        except RecordError as error:
            raise RecordError(f"Broken image {self._location()}, {error}") from error

    def read_image(self, fname: str) -> bytes:
        """Return the content of a file of the list."""
        path = os.path.join(self.path_root or "", fname)
        try:
            return read_file(path)
        except FileNotFoundError as error:
            raise MissingFileError(f"{type(self).__name__}: there is no file {path!r}") from error

    def augmentation_transform(self, data: NDArray) -> NDArray:
        """Return the image after all augmenters."""
        for augmenter in self.auglist:
            data = augmenter(data)
        return data

    def postprocess_data(self, datum: NDArray) -> NDArray:
        """Return the image with channels first."""
        return transpose(datum, axes=(2, 0, 1))
