"""Batches of images from record files, decoded by the core's threads."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import IO, Any

import numpy as np

from .. import _core
from .._files.native import int64_of, native_name
from .._files.whole import open_text
from .._native.ending import close_at_exit
from ..base import NotSupportedError, RecordError, TypeError_, ValueError_
from ..ndarray import array, load, save
from ..recordio import MXRecordIO, unpack
from .batch import DataBatch, DataDesc
from .data_iter import MXDataIter
from .options import documented, known_options

# A separate logger, because logging.info would configure the root logger before the script does.
_LOG = logging.getLogger(__name__)

# Options that are passed to the core by name, which declares and checks them.
_OPTIONS: dict[str, tuple[Any, str]] = {
    **_core.ImagePipeline.reading_options(),
    **_core.ImagePipeline.augment_options(),
}
_OF_CORE = {name: default for name, (default, _) in _OPTIONS.items()}
_DEFAULTS: dict[str, Any] = {
    "path_imgrec": "",
    "path_imgidx": "",
    "path_imglist": "",
    "aug_seq": "aug_default",
    "data_shape": None,
    "verbose": True,
    "device_id": 0,
    "shuffle_chunk_size": 0,
    "seed_aug": None,
    "batch_size": None,
    "ctx": "gpu",
    "dtype": None,
    "data_name": "data",
    "label_name": "softmax_label",
    "mean_img": "",
    "on_error": "raise",
    **{f"mean_{c}": 0.0 for c in "rgba"},
    **{f"std_{c}": 1.0 for c in "rgba"},
    **_OF_CORE,
}

_RANGE_BYTES = 8 + 24 + 2 * 4  # head of a record, IRHeader and two labels


def _record_files(text: str) -> list[str]:
    """Return the files of a path: a file, several separated by ``;``, or a folder's files."""
    found: list[str] = []
    for part in filter(None, text.split(";")):
        if os.path.isdir(part):
            names = sorted(os.listdir(part))
            found += [os.path.join(part, name) for name in names if name.endswith(".rec")]
        else:
            found.append(part)
    if not found:
        raise RecordError(f"ImageRecordIter: path_imgrec {text!r} names no record file")
    return found


def _read_index(path: str) -> list[tuple[str, int]]:
    """Return the keys of records and their offsets."""
    offsets = []
    with _opened(path, "index file") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                fields = line.split()
                offsets.append((fields[0], int64_of(fields[1])))
            except (IndexError, ValueError) as error:
                raise RecordError(
                    f"ImageRecordIter: index file {path!r}, line {number} must be key<tab>offset, "
                    f"got {line.rstrip()!r}"
                ) from error
    if not offsets:
        raise RecordError(f"ImageRecordIter: index file {path!r} is empty")
    return offsets


def _may_begin_with_a_range(index: list[tuple[str, int]]) -> bool:
    """Return whether record 0 may have two labels and no image.

    The offset of the record that follows in the file shows how large record 0 is.
    """
    key, begin = index[0]
    end = min((offset for _, offset in index if offset > begin), default=begin)
    return key == "0" and end - begin <= _RANGE_BYTES


def _image_offsets(files: list[str], index_path: str) -> list[int]:
    """Return the offsets of the records with images.

    In InsightFace's files, record 0 has no image. Its two labels are the range of the records of
    identities, which have no images, either, and which come after the records of the images.
    """
    index = _read_index(index_path)
    if len(files) == 1 and _may_begin_with_a_range(index):
        with contextlib.suppress(RecordError), MXRecordIO(files[0], "r") as records:
            records.handle.seek(index[0][1])
            header, image = unpack(records.read() or b"")
            if header.flag == 2 and not image:
                first = int(header.label[0])
                return [offset for key, offset in index if 0 < int64_of(key) < first]
    return [offset for _, offset in index]


def _opened(path: str, what: str) -> IO[str]:
    try:
        # Keeps damaged bytes, which are then rejected as numbers.
        return open_text(path, errors="surrogateescape")
    except OSError as error:
        raise RecordError(
            f"ImageRecordIter: {what} {path!r} cannot be read: {error.strerror or error}"
        ) from error


def _read_list(path: str) -> dict[int, list[float]]:
    labels = {}
    with _opened(path, "list") as lines:
        for number, line in enumerate(lines, 1):
            fields = line.strip().split("\t")
            if fields == [""]:
                continue
            try:
                labels[int64_of(fields[0])] = [float(field) for field in fields[1:-1]]
            except ValueError as error:
                raise RecordError(
                    f"ImageRecordIter: list {path!r}, line {number} must be "
                    f"index<tab>label<tab>path, got {line.rstrip()!r}"
                ) from error
    return labels


@documented({name: text for name, (_, text) in _OPTIONS.items()})
class ImageRecordIter(MXDataIter):
    """Iterator over batches of images from a record file.

    Parameters are given by keyword; a warning names those that the iterator does not have.

    Parameters
    ----------
    path_imgrec : str
        Record file, several separated by ``;``, or a folder of record files. Files may be
        addresses such as ``s3://bucket/file``.
    data_shape : tuple of int
        (channels, height, width) of a sample, with 1, 3 or 4 channels. A smaller image is enlarged
        until it covers height and width.
    batch_size : int
    path_imgidx : str, optional
        Index of the record file, with which records are found without reading the whole file.
    path_imglist : str, optional
        List file whose labels replace those of the records.
    mean_r, mean_g, mean_b, mean_a : float
        Subtracted from the values of each channel.
    std_r, std_g, std_b, std_a : float
        Divisors of the values of each channel.
    mean_img : str, optional
        File of an image that is subtracted instead; it is computed and written if it is missing.
    dtype : str, optional
    data_name, label_name : str
    seed_aug : int, optional
        Seed of the augmentation; default is `seed`.
    shuffle_chunk_size : int
        MB of the chunks that are shuffled as a whole; 0: records are shuffled one by one.
    verbose : bool
        Log the file, the number of records and of threads.
    aug_seq : str
        Must be the default.
    on_error : str
        ``'raise'``: a damaged record raises an error instead of its batch. ``'skip'``: later
        records fill its batch, and ``skipped`` and ``bad_records`` count it.
    ctx, device_id : str or Context, int
        Accepted as in 1.x and ignored: images are decoded on the CPU, and batches are on the CPU.
    {options}

    Attributes
    ----------
    num_records : int
        Records of this part.
    skipped : int
        Bad records left out since the iterator was made.

    Raises
    ------
    RecordError
        If a file is missing or damaged, or this part of it has no records.
    ShapeError
        If a record does not have label_width labels.

    Notes
    -----
    Matches ``mxnet.io.ImageRecordIter``. Every epoch has all records: ``round_batch=1`` fills the
    last batch with the epoch's first samples, ``round_batch=0`` with zeros; ``pad`` is the number.
    The augmentation of a sample depends on the seeds, the epoch and its record, not on threads.
    If record 0 has two labels and no image, as in InsightFace's face sets, the images are the
    records with keys from 1 to before the first label.
    """

    _dtype: Any = np.float32
    _dtypes: tuple[str, ...] = ("float32", "uint8", "int8")
    _defaults: dict[str, Any] = _DEFAULTS
    _aug_seq = "aug_default"

    def __init__(self, **kwargs: Any) -> None:
        kwargs = known_options(type(self).__name__, kwargs, self._defaults)
        for name in ("path_imgrec", "data_shape", "batch_size"):
            if kwargs.get(name) is None:
                raise ValueError_(f"{type(self).__name__}: {name} is required")
        given = {**self._defaults, **kwargs}
        if isinstance(given["data_shape"], str):  # 1.x accepts texts as options
            given["data_shape"] = given["data_shape"].strip("()[] ").strip(",").split(",")
        if int(given["batch_size"]) < 1:
            raise ValueError_(
                f"{type(self).__name__}: batch_size must be 1 or more, got {given['batch_size']}"
            )
        super().__init__(int(given["batch_size"]))
        options = self._options(given)
        self._order = f"shuffle {bool(options['shuffle'])}, seed {int(given['seed'])}"
        self._pipeline = _core.ImagePipeline(options, type(self).__name__)
        close_at_exit(self._pipeline)
        shape = (self.batch_size, *(int(side) for side in given["data_shape"]))
        width = int(self._pipeline.label_width)
        labels = (self.batch_size,) if width == 1 else (self.batch_size, width)
        self.provide_data = [DataDesc(given["data_name"], shape, self._dtype)]
        self.provide_label = [DataDesc(given["label_name"], labels, np.float32)]
        if given["verbose"]:
            _LOG.info(
                "%s: %s, %d records, %d threads for decoding",
                type(self).__name__,
                given["path_imgrec"],
                self.num_records,
                given["preprocess_threads"],
            )

    def _options(self, given: dict[str, Any]) -> dict[str, Any]:
        name = type(self).__name__
        if given["aug_seq"] != self._aug_seq:
            raise NotSupportedError(
                f"{name}: aug_seq must be {self._aug_seq!r}, got {given['aug_seq']!r}"
            )
        if given["on_error"] not in ("raise", "skip"):
            raise ValueError_(
                f"{name}: on_error must be 'raise' or 'skip', got {given['on_error']!r}"
            )
        shape = tuple(int(side) for side in given["data_shape"])
        if len(shape) != 3:
            raise ValueError_(f"{name}: data_shape must be (channels, height, width), got {shape}")
        dtype = np.dtype(given["dtype"] or self._dtype)
        if dtype.name not in self._dtypes:
            raise TypeError_(f"{name}: dtype must be one of {self._dtypes}, got {dtype.name}")
        self._dtype = dtype.type
        seed = given["seed"] if given["seed_aug"] is None else given["seed_aug"]
        files = _record_files(os.fsdecode(given["path_imgrec"]))
        options = {
            "paths": [native_name(path) for path in files],
            "batch_size": self.batch_size,
            "skip_bad": given["on_error"] == "skip",
            "shuffle_bytes": int(given["shuffle_chunk_size"]) << 20,
            "augment_seed": int(seed),
            "channels": shape[0],
            "height": shape[1],
            "width": shape[2],
            "dtype": dtype.name,
            "mean": [float(given[f"mean_{c}"]) for c in "rgba"],
            "std": [float(given[f"std_{c}"]) for c in "rgba"],
        }
        options.update({key: given[key] for key in _OF_CORE if key in given})
        if given["path_imgidx"]:
            options["offsets"] = _image_offsets(files, given["path_imgidx"])
        if given["path_imglist"]:
            options["labels"] = _read_list(given["path_imglist"])
        if given["mean_img"]:
            path = os.fspath(given["mean_img"])
            if not os.path.exists(path):
                _write_mean_image(path, options, bool(given["verbose"]))
            options["mean_image"] = _mean_image(path, shape)
        return options

    @property
    def num_records(self) -> int:
        """Number of records in this part."""
        return self._pipeline.num_records

    @property
    def skipped(self) -> int:
        """Number of bad records skipped since the iterator was created."""
        return sum(self.bad_records.values())

    @property
    def bad_records(self) -> dict[str, int]:
        """Number of bad records by their bad part: ``record``, ``label`` or ``image``."""
        return self._pipeline.skipped

    def reset(self) -> None:
        """Begin the next epoch."""
        self._pipeline.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and the position within it; see `DataIter.state_dict`."""
        return {
            "num_records": self.num_records,
            "batch_size": self.batch_size,
            "order": self._order,
            "position": list(self._pipeline.position()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position that `state_dict` returned; only later samples are decoded."""
        state = {"order": self._order, **state}  # states of older versions do not have an order
        self._check_state(
            state, num_records=self.num_records, batch_size=self.batch_size, order=self._order
        )
        self._pipeline.seek(*state["position"])

    def _load(self) -> DataBatch | None:
        before = self.skipped
        found = self._pipeline.next()
        if self.skipped > before:
            _LOG.warning(
                "%s: %d bad records skipped, the last: %s",
                type(self).__name__,
                self.skipped,
                self._pipeline.last_skipped,
            )
        if found is None:
            return None
        data, label, index, pad = found
        return DataBatch([data], [label], pad, np.array(index, np.int64))


def _write_mean_image(path: str, options: dict[str, Any], verbose: bool) -> None:
    """Write the mean of all images in the files, cropped like the iterator's images."""
    if verbose:
        _LOG.info("Cannot find %s: create mean image, this will take some time...", path)
    plain = {"num_parts": 1, "part_index": 0, "shuffle": False, "shuffle_bytes": 0}
    numbers = {"dtype": "float32", "mean": [0.0] * 4, "std": [1.0] * 4, "scale": 1.0}
    pipeline = _core.ImagePipeline({**options, **plain, **numbers}, "ImageRecordIter")
    total, count = np.zeros((1,)), 0
    while (found := pipeline.next()) is not None:
        images = found[0].asnumpy()
        images = images[: len(images) - found[3]]
        total = total + images.sum(axis=0, dtype=np.float64)
        count += len(images)
    save(path, {"mean_img": array((total / max(count, 1)).astype(np.float32))})
    if verbose:
        _LOG.info("Save mean image to %s..", path)


def _mean_image(path: str, shape: tuple[int, ...]) -> list[float]:
    mean = load(path)["mean_img"]
    if tuple(mean.shape) != shape:
        raise ValueError_(
            f"ImageRecordIter: the mean image must have data_shape, {shape}, got "
            f"{tuple(mean.shape)}"
        )
    return mean.asnumpy().reshape(-1).tolist()


class ImageRecordUInt8Iter(ImageRecordIter):
    """`ImageRecordIter` with uint8 pixels, which are not normalized."""

    _dtype = np.uint8
    _dtypes = ("uint8",)


class ImageRecordInt8Iter(ImageRecordIter):
    """`ImageRecordIter` with int8 pixels, from which only the means are subtracted."""

    _dtype = np.int8
    _dtypes = ("int8",)
