"""Data sets from local files; nothing is downloaded. CIFAR-10 and digits become record files."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable
from typing import Any

import mxlite as mx
import numpy as np
from mxlite._files.pickled import numpy_maker, plain_maker, read_pickle

CIFAR10 = ("cifar10_train.rec", "cifar10_val.rec")
DIGITS = ("digits_train.rec", "digits_val.rec")
_BATCHES = [f"data_batch_{number}" for number in range(1, 6)]
_ARCHIVES = ("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz")
_FOLDERS = ("cifar-10-batches-py", "cifar-10-batches-bin")
_PIXELS = 3 * 32 * 32


def _array_names(module: str, name: str) -> Any:
    """Return the names that make an array of a CIFAR pickle; no other name is allowed."""
    return numpy_maker(module, name) or (plain_maker(module, name) if name == "encode" else None)


def _parse(content: bytes, pickled: bool) -> tuple:
    """Return images (n, 3, 32, 32) and labels (n,) of one file of CIFAR-10."""
    if pickled:
        batch = read_pickle(content, _array_names, python2_text="bytes", most_entries=len(content))
        return batch[b"data"].reshape(-1, 3, 32, 32), np.array(batch[b"labels"])
    rows = np.frombuffer(content, np.uint8)
    if rows.size % (_PIXELS + 1):
        raise ValueError(f"a binary CIFAR batch has {rows.size} bytes, not a multiple of 3073")
    rows = rows.reshape(-1, _PIXELS + 1)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def _read_cifar(directory: str, names: Iterable[str]) -> Any:
    """Return images and labels of batches in a folder or archive; None if there is neither."""
    for folder, archive in zip(_FOLDERS, _ARCHIVES):
        pickled = folder == _FOLDERS[0]
        files = [name if pickled else f"{name}.bin" for name in names]
        place, packed = os.path.join(directory, folder), os.path.join(directory, archive)
        if os.path.isdir(place):
            contents = []
            for name in files:
                with open(os.path.join(place, name), "rb") as file:
                    contents.append(file.read())
        elif os.path.exists(packed):
            with tarfile.open(packed) as tar:
                contents = [tar.extractfile(f"{folder}/{name}").read() for name in files]
        else:
            continue
        images, labels = zip(*(_parse(content, pickled) for content in contents))
        return np.concatenate(images).transpose(0, 2, 3, 1), np.concatenate(labels)
    return None


def write_records(path: str, images: Any, labels: Any) -> None:
    """Write images, uint8 (n, height, width, 3), and their labels to a record file."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    part = f"{path}.part"
    records = mx.recordio.MXRecordIO(part, "w")
    for number, (image, label) in enumerate(zip(images, labels)):
        header = mx.recordio.IRHeader(0, float(label), number, 0)
        # PNG is lossless. Channels are in OpenCV's order.
        pixels = image[..., ::-1]
        records.write(mx.recordio.pack_img(header, pixels, quality=9, img_fmt=".png"))
    records.close()
    os.replace(part, path)


def cifar10_records(directory: str) -> tuple:
    """Return the paths of CIFAR-10's record files; write them if only the archive exists.

    Parameters
    ----------
    directory : str
        Holds ``cifar10_train.rec`` and ``cifar10_val.rec``, or the python or binary version of
        CIFAR-10, packed or not.

    Returns
    -------
    (str, str)
        Training, validation.

    Raises
    ------
    FileNotFoundError
        If the folder has none of them.
    """
    paths = tuple(os.path.join(directory, name) for name in CIFAR10)
    if not all(map(os.path.exists, paths)):
        for path, names in zip(paths, (_BATCHES, ["test_batch"])):
            found = _read_cifar(directory, names)
            if found is None:
                raise FileNotFoundError(
                    f"{directory!r} has neither {' and '.join(CIFAR10)} nor CIFAR-10 itself, one "
                    f"of {', '.join(_ARCHIVES + _FOLDERS)}; nothing is downloaded. "
                    "--data digits trains on pictures that come with scikit-learn"
                )
            write_records(path, *found)
    return paths


def load_digits() -> tuple:
    """Return scikit-learn's 1,797 digits, a fifth of each class held out.

    Returns
    -------
    tuple of numpy.ndarray
        Training images uint8 (n, 8, 8) and labels, validation images and labels.
    """
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    digits = datasets.load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)
    train, val, train_label, val_label = train_test_split(
        images, digits.target, test_size=0.2, random_state=1, stratify=digits.target
    )
    return train, train_label, val, val_label


def enlarge(images: Any, size: int) -> Any:
    """Return gray images enlarged by bilinear interpolation.

    Parameters
    ----------
    images : numpy.ndarray
        uint8 (n, side, side).
    size : int
        New side.

    Returns
    -------
    numpy.ndarray
        uint8 (n, size, size).
    """
    side = images.shape[1]
    place = np.clip((np.arange(size) + 0.5) * side / size - 0.5, 0, side - 1)
    low = np.minimum(place.astype(int), side - 2)
    weights = np.zeros((size, side))
    weights[np.arange(size), low] = 1 - (place - low)
    weights[np.arange(size), low + 1] = place - low
    return np.round(weights @ images @ weights.T).astype(np.uint8)


def digits_records(directory: str, size: int = 32) -> tuple:
    """Return the paths of record files of digits; write the files if they do not exist.

    Parameters
    ----------
    directory : str
    size : int
        Height and width that the 8 x 8 pixels are enlarged to.

    Returns
    -------
    (str, str)
        Training (1,437 images), validation (360).
    """
    paths = tuple(os.path.join(directory, name) for name in DIGITS)
    if not all(map(os.path.exists, paths)):
        train, train_label, val, val_label = load_digits()
        for path, images, labels in zip(paths, (train, val), (train_label, val_label)):
            gray = enlarge(images, size)
            write_records(path, np.repeat(gray[..., None], 3, axis=3), labels)
    return paths
