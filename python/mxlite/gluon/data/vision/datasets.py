"""Data sets of images, read from local files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Callable

import numpy as np

from .... import image, recordio
from .... import ndarray as nd
from ...._files.whole import open_text
from ....base import FileFormatError, MissingFileError, TypeError_, ValueError_, data_dir
from ....numpy_mode import of_mode
from ..dataset import Dataset, RecordFileDataset
from .local_files import idx_array, read_cifar

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "MNIST",
    "FashionMNIST",
    "ImageFolderDataset",
    "ImageListDataset",
    "ImageRecordDataset",
]

Transform = Callable[[Any, Any], Any]


class _Images(Dataset):
    """Images and labels in memory.

    Subclasses read them in ``_get_data`` and store them as ``_data`` (NDArray) and ``_label``.
    """

    _data: nd.NDArray
    _label: np.ndarray[Any, Any]

    def __init__(self, root: str, transform: Transform | None) -> None:
        self._transform = transform
        self._root = os.path.expanduser(root)
        self._get_data()

    def _get_data(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not define _get_data")

    def __getitem__(self, idx: int) -> Any:
        if self._transform is not None:
            return self._transform(self._data[idx], self._label[idx])
        return self._data[idx], self._label[idx]

    def __len__(self) -> int:
        return len(self._label)


class MNIST(_Images):
    """Handwritten digits: 60000 images (28, 28, 1) for training, 10000 for testing.

    Matches ``mxnet.gluon.data.vision.MNIST``.

    Parameters
    ----------
    root : str
        Folder with ``train-images-idx3-ubyte.gz``, ``train-labels-idx1-ubyte.gz``,
        ``t10k-images-idx3-ubyte.gz`` and ``t10k-labels-idx1-ubyte.gz`` (or unpacked).
    train : bool
    transform : callable, optional
        Gets image and label.

    Raises
    ------
    MissingFileError
        If the files do not exist; nothing is downloaded.
    FileFormatError
        If a file is damaged.
    """

    def __init__(
        self,
        root: str = os.path.join(data_dir(), "datasets", "mnist"),
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        self._train = train
        super().__init__(root, transform)

    def _get_data(self) -> None:
        kind = "train" if self._train else "t10k"
        labels = idx_array(self._root, f"{kind}-labels-idx1-ubyte", 1)
        images = idx_array(self._root, f"{kind}-images-idx3-ubyte", 3)
        if len(images) != len(labels):
            raise FileFormatError(
                f"{type(self).__name__}: {self._root!r} must have as many labels as images, got "
                f"{len(labels)} labels and {len(images)} images ({kind})"
            )
        self._data = of_mode(nd.array(images[..., np.newaxis], dtype=np.uint8))
        self._label = labels.astype(np.int32)


class FashionMNIST(MNIST):
    """Images of clothes in the format of `MNIST`.

    Matches ``mxnet.gluon.data.vision.FashionMNIST``.

    Parameters
    ----------
    root : str
        Folder with the four files that `MNIST` has.
    train : bool
    transform : callable, optional
    """

    def __init__(
        self,
        root: str = os.path.join(data_dir(), "datasets", "fashion-mnist"),
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        super().__init__(root, train, transform)


class CIFAR10(_Images):
    """Photographs in 10 classes: 50000 images (32, 32, 3) for training, 10000 for testing.

    Matches ``mxnet.gluon.data.vision.CIFAR10``.

    Parameters
    ----------
    root : str
        Folder with ``data_batch_1.bin`` to ``data_batch_5.bin`` and ``test_batch.bin``, or with
        ``cifar-10-binary.tar.gz``.
    train : bool
    transform : callable, optional
        Gets image and label.

    Raises
    ------
    MissingFileError
        If the files do not exist; nothing is downloaded.
    FileFormatError
        If a file is damaged.
    """

    _archive = "cifar-10-binary.tar.gz"
    _train_files: Sequence[str] = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
    _test_files: Sequence[str] = ("test_batch.bin",)
    _labels = 1
    _label_column = 0

    def __init__(
        self,
        root: str = os.path.join(data_dir(), "datasets", "cifar10"),
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        self._train = train
        super().__init__(root, transform)

    def _get_data(self) -> None:
        files = self._train_files if self._train else self._test_files
        images, labels = read_cifar(self._root, files, self._archive, self._labels)
        self._data = of_mode(nd.array(images, dtype=np.uint8))
        self._label = labels[:, self._label_column].astype(np.int32)


class CIFAR100(CIFAR10):
    """Photographs in 100 classes or 20 groups of classes; otherwise like `CIFAR10`.

    Matches ``mxnet.gluon.data.vision.CIFAR100``.

    Parameters
    ----------
    root : str
        Folder with ``train.bin`` and ``test.bin``, or with ``cifar-100-binary.tar.gz``.
    fine_label : bool
        Labels are the 100 classes; else the 20 groups.
    train : bool
    transform : callable, optional
    """

    _archive = "cifar-100-binary.tar.gz"
    _train_files = ("train.bin",)
    _test_files = ("test.bin",)
    _labels = 2

    def __init__(
        self,
        root: str = os.path.join(data_dir(), "datasets", "cifar100"),
        fine_label: bool = False,
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        self._label_column = int(fine_label)
        super().__init__(root, train, transform)


class ImageRecordDataset(RecordFileDataset):
    """Images and labels of a record file.

    Matches ``mxnet.gluon.data.vision.ImageRecordDataset``.

    Parameters
    ----------
    filename : str
        The ``.rec`` file; its ``.idx`` is in the same folder.
    flag : {0, 1}
        1: color (RGB), 0: gray.
    transform : callable, optional
        Gets image and label.
    apply_exif_orientation : bool, optional
        Whether images are turned upright as their Exif orientation says; see `mx.image.imdecode`.
    """

    # Subclasses in 1.x scripts set the other attributes themselves, but not this one.
    _apply_exif_orientation: bool | None = None

    def __init__(
        self,
        filename: str,
        flag: int = 1,
        transform: Transform | None = None,
        *,
        apply_exif_orientation: bool | None = None,
    ) -> None:
        super().__init__(filename)
        self._flag = flag
        self._transform = transform
        self._apply_exif_orientation = apply_exif_orientation

    def __getitem__(self, idx: int) -> Any:
        header, content = recordio.unpack(super().__getitem__(idx))
        picture = image.imdecode(
            content, self._flag, apply_exif_orientation=self._apply_exif_orientation
        )
        if self._transform is not None:
            return self._transform(picture, header.label)
        return picture, header.label


_EXTENSIONS = (".jpg", ".jpeg", ".png")


class ImageFolderDataset(Dataset):
    """Image files in folders, one folder per class.

    Matches ``mxnet.gluon.data.vision.ImageFolderDataset``.

    Parameters
    ----------
    root : str
        Folder of the classes' folders.
    flag : {0, 1}
        1: color (RGB), 0: gray.
    transform : callable, optional
        Gets image and label.
    apply_exif_orientation : bool, optional
        Whether images are turned upright as their Exif orientation says; see `mx.image.imdecode`.

    Attributes
    ----------
    synsets : list of str
        The folders' names in alphabetical order; labels are positions in it.
    items : list of (str, int)
        Files and labels.

    Raises
    ------
    MissingFileError
        If there is no such folder.
    """

    # Subclasses in 1.x scripts set the other attributes themselves, but not this one.
    _apply_exif_orientation: bool | None = None

    def __init__(
        self,
        root: str,
        flag: int = 1,
        transform: Transform | None = None,
        *,
        apply_exif_orientation: bool | None = None,
    ) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._transform = transform
        self._apply_exif_orientation = apply_exif_orientation
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        self._list_images(self._root)

    def _list_images(self, root: str) -> None:
        if not os.path.isdir(root):
            raise MissingFileError(f"ImageFolderDataset: there is no folder {root!r}")
        for folder in sorted(os.listdir(root)):
            path = os.path.join(root, folder)
            if not os.path.isdir(path):
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=3)
                continue
            label = len(self.synsets)
            self.synsets.append(folder)
            for name in sorted(os.listdir(path)):
                extension = os.path.splitext(name)[1]
                if extension.lower() in _EXTENSIONS:
                    self.items.append((os.path.join(path, name), label))
                else:
                    warnings.warn(
                        f"Ignoring {os.path.join(path, name)} of type {extension}. Only support "
                        f"{', '.join(_EXTENSIONS)}",
                        stacklevel=3,
                    )
        if not self.items:
            warnings.warn(
                f"ImageFolderDataset: there are no images in {root!r}: the folder must have a "
                f"folder for each class, with files of type {', '.join(_EXTENSIONS)}",
                stacklevel=3,
            )

    def __getitem__(self, idx: int) -> Any:
        name, label = self.items[idx]
        picture = image.imread(
            name, self._flag, apply_exif_orientation=self._apply_exif_orientation
        )
        return (picture, label) if self._transform is None else self._transform(picture, label)

    def __repr__(self) -> str:
        return f"{super().__repr__()} in {len(self.synsets)} classes"

    def __len__(self) -> int:
        return len(self.items)


class ImageListDataset(Dataset):
    """Image files and labels of a list.

    Matches MXNet 2.0's class of this name. Labels are float32: one number, or an array (n,) of
    several.

    Parameters
    ----------
    root : str
        Folder that the files' names are relative to.
    imglist : str, or iterable of (label, str) or of (float, ..., str)
        A ``.lst`` file (number, label or labels, name, separated by tabs) or its lines without
        the number.
    flag : {0, 1}
        1: color (RGB), 0: gray.
    apply_exif_orientation : bool, optional
        Whether images are turned upright as their Exif orientation says; see `mx.image.imdecode`.

    Raises
    ------
    MissingFileError, FileFormatError
        If the list does not exist, or a line of it does not describe an image.
    """

    def __init__(
        self,
        root: str = ".",
        imglist: str | Iterable[Any] | None = None,
        flag: int = 1,
        *,
        apply_exif_orientation: bool | None = None,
    ) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._apply_exif_orientation = apply_exif_orientation
        if imglist is None:
            raise ValueError_("ImageListDataset: imglist must be a file or a list, got None")
        lines = _read_list(imglist) if isinstance(imglist, str) else imglist
        self.items = [self._item(line) for line in lines]

    def _item(self, line: Any) -> tuple[str, Any]:
        if not isinstance(line, (list, tuple)) or len(line) < 2 or not isinstance(line[-1], str):
            raise TypeError_(
                f"ImageListDataset: entries of imglist must be labels and a file name, got {line!r}"
            )
        label = np.concatenate([np.ravel(part) for part in line[:-1]]).astype(np.float32)
        return os.path.join(self._root, line[-1]), label[0] if label.size == 1 else label

    def __getitem__(self, idx: int) -> Any:
        name, label = self.items[idx]
        upright = self._apply_exif_orientation
        return image.imread(name, self._flag, apply_exif_orientation=upright), label

    def __len__(self) -> int:
        return len(self.items)


def _read_list(path: str) -> list[list[Any]]:
    try:
        with open_text(os.path.expanduser(path)) as file:
            lines = file.read().splitlines()
    except FileNotFoundError as error:
        raise MissingFileError(f"ImageListDataset: there is no file {path!r}") from error
    rows: list[list[Any]] = []
    for number, line in enumerate(lines, 1):
        fields = line.strip().split("\t")
        if fields == [""]:
            continue
        try:
            rows.append([*map(float, fields[1:-1]), fields[-1]])
        except ValueError as error:
            raise FileFormatError(f"{path!r}, line {number}: {error}") from error
        if len(fields) < 3:
            raise FileFormatError(
                f"{path!r}, line {number} must be number, label and name with tabs between, got "
                f"{len(fields)} fields"
            )
    return rows
