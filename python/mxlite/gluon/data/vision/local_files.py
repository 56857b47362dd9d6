"""Readers of the files that MNIST and CIFAR are published in; nothing is downloaded."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._files.packed import LimitedStream, read_idx
from ...._files.whole import read_file
from ....base import FileFormatError, MissingFileError

__all__ = ["idx_array", "read_cifar"]

Array = np.ndarray[Any, Any]
_PIXELS = 3 * 32 * 32


def idx_array(folder: str, name: str, ndim: int) -> Array:
    """Return the array of an IDX file of bytes, packed (``.gz``) or not."""
    packed, plain = os.path.join(folder, name + ".gz"), os.path.join(folder, name)
    path = packed if os.path.exists(packed) else plain
    if not os.path.exists(path):
        raise MissingFileError(
            f"there is no file {packed!r} (nor {plain!r}); put a copy of the data set there, "
            "nothing is downloaded"
        )
    return read_idx(path, ndim, "MNIST")


def read_cifar(folder: str, files: Sequence[str], archive: str, labels: int) -> tuple[Array, Array]:
    """Return the images and labels of CIFAR's binary files."""
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
                f"{name} in {folder!r}: number of bytes must be a multiple of {labels + _PIXELS}, "
                f"got {rows.size}: truncated?"
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
            return [read_file(path) for path in paths]
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
        with contextlib.ExitStack() as opened:
            file = opened.enter_context(open(archive, "rb"))
            packed: Any = file
            if file.peek(2)[:2] == b"\x1f\x8b":
                packed = opened.enter_context(gzip.open(file, "rb"))
            # The size limit also counts the members of the archive that are not requested.
            limited = LimitedStream(packed, os.path.getsize(archive), repr(archive))
            stream = io.BufferedReader(limited)
            tar = opened.enter_context(tarfile.open(fileobj=stream, mode="r|"))
            for member in tar:
                name = os.path.basename(member.name)
                content = tar.extractfile(member) if name in files else None
                if content is not None:
                    found[name] = content.read()
    except FileFormatError:
        raise
    except (
        tarfile.TarError, ArithmeticError, EOFError, LookupError, OSError, RuntimeError, ValueError,
        struct.error, zlib.error,
    ) as error:  # fmt: skip
        raise FileFormatError(f"{archive!r} is a damaged archive: {error}") from error
    missing = [name for name in files if name not in found]
    if missing:
        raise FileFormatError(f"{archive!r} has no file {missing[0]}")
    return [found[name] for name in files]
