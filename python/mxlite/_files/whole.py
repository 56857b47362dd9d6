"""Reads whole files: regular files, pipes and addresses, up to a size limit.

Devices such as ``/dev/zero`` may never end, so they are refused before anything is read.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import IO, Any, cast

from ..base import ValueError_
from .remote import RemoteFile, is_address

_DEFAULT_MIB = 2048
_PIECE = 16 << 20


def most_read() -> int:
    """Return the largest number of bytes that is read from a file."""
    text = os.environ.get("MXLITE_MAX_FILE_MB") or str(_DEFAULT_MIB)
    if not text.isdigit() or int(text) < 1:
        raise ValueError_(f"MXLITE_MAX_FILE_MB must be a number of at least 1, got {text!r}")
    return int(text) << 20


def open_file(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file, a pipe or an address for reading."""
    if is_address(path):
        return cast(
            IO[bytes], io.BufferedReader(SlicedStream(RemoteFile(os.fspath(path))), 1 << 16)
        )
    stream = open(path, "rb")  # noqa: SIM115
    kind = os.fstat(stream.fileno()).st_mode
    if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
        stream.close()
        reason = "it must be a regular file or a pipe, got a device"
        raise OSError(errno.EINVAL, reason, os.fspath(path))
    return stream


class SlicedStream(io.RawIOBase):
    """A stream of bytes that have a length and slices."""

    def __init__(self, data: Any) -> None:
        super().__init__()
        self.data = data
        self._at = 0

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: the stream has `seek`."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to an offset; raise `ValueError` if it is negative."""
        base = {0: 0, 1: self._at, 2: len(self.data)}[whence]
        if base + offset < 0:
            raise ValueError(f"offset must be at least 0, got {base + offset}")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Return the offset."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read bytes."""
        piece = self.data[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


def size_of(stream: IO[bytes]) -> int:
    """Return the size of a file that `open_file` opened; 0 for a pipe."""
    raw = getattr(stream, "raw", None)
    return len(raw.data) if isinstance(raw, SlicedStream) else os.fstat(stream.fileno()).st_size


class _Limited(io.RawIOBase):
    """A stream that raises if the size limit is exceeded."""

    def __init__(self, stream: IO[bytes], path: str) -> None:
        super().__init__()
        self._stream = stream
        self._path = path
        self._left = self._most = most_read()
        if size_of(stream) > self._most:
            stream.close()
            raise self._too_large()

    def _too_large(self) -> OSError:
        reason = f"more than {self._most >> 20} MiB, the most that is read (MXLITE_MAX_FILE_MB)"
        return OSError(errno.EFBIG, reason, self._path)

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes; raise `OSError` beyond the limit."""
        piece = self._stream.read(min(len(buffer), self._left + 1))
        self._left -= len(piece)
        if self._left < 0:
            raise self._too_large()
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        """Close this object and the stream."""
        self._stream.close()
        super().close()


def open_text(
    path: str | os.PathLike[str], encoding: str = "utf-8", errors: str = "strict"
) -> IO[str]:
    """Open a text file for reading; see `open_file`."""
    raw = _Limited(open_file(path), os.fspath(path))
    return io.TextIOWrapper(io.BufferedReader(raw, 1 << 16), encoding=encoding, errors=errors)


def read_to_end(stream: IO[bytes], path: str | os.PathLike[str]) -> memoryview:
    """Return the rest of a file."""
    content = io.BytesIO()
    with _Limited(stream, os.fspath(path)) as limited:
        while piece := limited.read(_PIECE):
            content.write(piece)
    return content.getbuffer()


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a regular file, a pipe or an address."""
    with open_file(path) as stream:
        if 0 < size_of(stream) <= most_read():
            return stream.read()
        return bytes(read_to_end(stream, path))
