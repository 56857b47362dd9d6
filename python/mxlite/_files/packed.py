"""Unpacks gzip, zip and tar files up to a size limit; reads the idx files of MNIST."""

from __future__ import annotations

import gzip
import io
import math
import os
import struct
import zlib
from typing import IO, Any

import numpy as np

from ..base import FileFormatError, MissingFileError, MXNetError, ValueError_
from .whole import read_file

_FREE_BYTES = 256 << 20
_DEFAULT_RATIO = 200


def most_unpacked(packed: int) -> int:
    """Return the limit of the unpacked size of a file with ``packed`` bytes."""
    text = os.environ.get("MXLITE_MAX_UNPACK_RATIO") or str(_DEFAULT_RATIO)
    if not text.isdigit() or int(text) < 1:
        raise ValueError_(f"MXLITE_MAX_UNPACK_RATIO must be a number of at least 1, got {text!r}")
    return max(_FREE_BYTES, int(text) * packed)


def check_unpacked_size(
    size: int, packed: int, where: str, error: type[MXNetError] = FileFormatError
) -> None:
    """Raise if the unpacked size exceeds the limit."""
    most = most_unpacked(packed)
    if size > most:
        raise error(
            f"{where}: unpacked size of {packed} packed bytes must be at most {most} bytes "
            f"(MXLITE_MAX_UNPACK_RATIO), got {size} or more"
        )


class LimitedStream(io.RawIOBase):
    """A stream of unpacked bytes that raises if the size limit is exceeded."""

    def __init__(self, stream: IO[bytes], packed: int, where: str) -> None:
        super().__init__()
        self._stream = stream
        self._packed = packed
        self._where = where
        self._done = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes; raise `FileFormatError` beyond the limit."""
        piece = self._stream.read(min(len(buffer), 1 << 20))
        self._done += len(piece)
        check_unpacked_size(self._done, self._packed, self._where)
        buffer[: len(piece)] = piece
        return len(piece)


def unpack_gzip(raw: bytes, where: str, error: type[MXNetError] = FileFormatError) -> bytes:
    """Return the content of a gzip file."""
    pieces = []
    size = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
            while piece := stream.read(1 << 20):
                size += len(piece)
                check_unpacked_size(size, len(raw), where, error)
                pieces.append(piece)
    except (OSError, EOFError, zlib.error, struct.error, ValueError) as problem:
        if isinstance(problem, MXNetError):
            raise
        raise error(f"{where}: the gzip file is damaged: {problem}") from None
    return b"".join(pieces)


def content_of(path: str, who: str, error: type[MXNetError] = FileFormatError) -> bytes:
    """Return the bytes of a file, unpacked if it is a gzip file."""
    try:
        raw = read_file(path)
    except FileNotFoundError as problem:
        raise MissingFileError(f"{who}: there is no file {path!r}") from problem
    except OSError as problem:
        reason = problem.strerror or problem
        raise error(f"{who}: file {path!r} cannot be read: {reason}") from problem
    packed = raw[:2] == b"\x1f\x8b" or path.endswith(".gz")
    return unpack_gzip(raw, f"{who}: file {path!r}", error) if packed else raw


def read_idx(
    path: str, ndim: int, who: str, error: type[MXNetError] = FileFormatError
) -> np.ndarray[Any, Any]:
    """Return the uint8 array of an idx file, which may be gzipped."""
    content = content_of(path, who, error)
    head = 4 * (1 + ndim)
    magic = bytes([0, 0, 8, ndim])
    if len(content) < head or content[:4] != magic:
        raise error(
            f"{who}: file {path!r}, offset 0: first bytes must be {magic.hex()}, an idx file of "
            f"bytes in {ndim} dimensions with a head of {head} bytes; got {content[:4].hex()}"
        )
    shape = struct.unpack(f">{ndim}I", content[4:head])
    if len(content) - head != math.prod(shape):
        raise error(
            f"{who}: file {path!r}, offset {head}: number of values must be {math.prod(shape)} "
            f"for shape {shape}, got {len(content) - head} (truncated?)"
        )
    # NumPy multiplies the non-zero extents even if the array is empty, which may overflow.
    if math.prod(extent or 1 for extent in shape) >= 1 << 62:
        raise error(f"{who}: file {path!r}, offset 4: the shape {shape} is impossible")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)
