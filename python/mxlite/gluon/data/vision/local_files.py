"""Readers of the files that MNIST and CIFAR are published in; nothing is downloaded."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base import FileFormatError, MissingFileError

__all__ = ["read_cifar", "read_idx"]

Array = np.ndarray[Any, Any]
_PIXELS = 3 * 32 * 32


def read_idx(folder: str, name: str, ndim: int) -> Array:
    """Return the array of an IDX file of bytes, packed (``.gz``) or not.

    Parameters
    ----------
    folder : str
    name : str
        Without ``.gz``.
    ndim : int

    Returns
    -------
    numpy.ndarray
        uint8.

    Raises
    ------
    MissingFileError, FileFormatError
    """
    packed, plain = os.path.join(folder, name + ".gz"), os.path.join(folder, name)
    path = packed if os.path.exists(packed) else plain
    if not os.path.exists(path):
        raise MissingFileError(
            f"there is no file {packed!r} (nor {plain!r}); put a copy of the data set there, "
            "nothing is downloaded"
        )
    try:
        if path == packed:
            with gzip.open(path, "rb") as file:
                content = file.read()
        else:
            with open(path, "rb") as file:
                content = file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileFormatError(f"{path!r} is a damaged gzip file: {error}") from error
    head = 4 * (1 + ndim)
    if len(content) < head or content[:4] != bytes([0, 0, 8, ndim]):
        raise FileFormatError(
            f"{path!r} begins with {content[:4].hex()}, expected 000008{ndim:02x}: an IDX file of "
            f"bytes in {ndim} dimensions"
        )
    shape = struct.unpack(f">{ndim}I", content[4:head])
    if len(content) - head != int(np.prod(shape, dtype=np.int64)):
        raise FileFormatError(
            f"{path!r} has {len(content) - head} values, its header says {shape}: truncated?"
        )
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def read_cifar(folder: str, files: Sequence[str], archive: str, labels: int) -> tuple[Array, Array]:
    """Return the images and labels of CIFAR's binary files.

    Parameters
    ----------
    folder : str
    files : list of str
        Looked for in the folder, in a folder in it, and in the archive in it.
    archive : str
    labels : int
        Bytes of labels before each image.

    Returns
    -------
    tuple of numpy.ndarray
        uint8 (n, 32, 32, 3) and uint8 (n, labels).

    Raises
    ------
    MissingFileError, FileFormatError
    """
    contents = _plain_files(folder, files)
    if contents is None:
        contents = _archived_files(os.path.join(folder, archive), files)
    if contents is None:
        raise MissingFileError(
            f"there are no files {', '.join(files)} in {folder!r}, nor {archive} with them; put a "
            "copy of the data set there, nothing is downloaded"
        )
    parts = []
    for name, content in zip(files, contents):
        rows = np.frombuffer(content, np.uint8)
        if rows.size == 0 or rows.size % (labels + _PIXELS):
            raise FileFormatError(
                f"{name} in {folder!r} has {rows.size} bytes, expected a multiple of "
                f"{labels + _PIXELS}: truncated?"
            )
        parts.append(rows.reshape(-1, labels + _PIXELS))
    rows = np.concatenate(parts)
    images = rows[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), rows[:, :labels]


def _plain_files(folder: str, files: Sequence[str]) -> list[bytes] | None:
    inner = [os.path.join(folder, name) for name in _folders(folder)]
    for place in [folder, *inner]:
        paths = [os.path.join(place, name) for name in files]
        if all(map(os.path.isfile, paths)):
            contents = []
            for path in paths:
                with open(path, "rb") as file:
                    contents.append(file.read())
            return contents
    return None


def _folders(folder: str) -> list[str]:
    if not os.path.isdir(folder):
        return []
    return sorted(name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name)))


def _archived_files(archive: str, files: Sequence[str]) -> list[bytes] | None:
    if not os.path.exists(archive):
        return None
    import tarfile

    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = os.path.basename(member.name)
                stream = tar.extractfile(member) if name in files else None
                if stream is not None:
                    found[name] = stream.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise FileFormatError(f"{archive!r} is a damaged archive: {error}") from error
    missing = [name for name in files if name not in found]
    if missing:
        raise FileFormatError(f"{archive!r} has no file {missing[0]}")
    return [found[name] for name in files]
