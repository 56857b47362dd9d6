"""Files as sequences of bytes that are read on demand.

A memory map would end the process with SIGBUS if another process truncated the file.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Union

from .._files.remote import RemoteFile, is_address
from .._files.whole import open_file, read_to_end
from ..base import FileAccessError, FileFormatError, MissingFileError

_MOST_AT_ONCE = 1 << 30  # Linux reads at most 2 GiB per call


class FileBytes:
    """A file whose slices are memoryviews, each read on demand."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self._path = path
        self._size = os.fstat(descriptor).st_size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> memoryview:
        begin, end, _ = part.indices(self._size)
        size = max(end - begin, 0)
        try:
            return self._read(begin, size)
        except OSError as error:
            raise _refused(self._path, error) from error

    def _read(self, begin: int, size: int) -> memoryview:
        if size <= _MOST_AT_ONCE:
            content = os.pread(self.descriptor, size, begin)
            if len(content) == size:
                return memoryview(content)
        view = memoryview(bytearray(size))
        done = 0
        while done < size:
            piece = view[done : done + _MOST_AT_ONCE]
            count = os.preadv(self.descriptor, [piece], begin + done)
            if count == 0:
                raise FileFormatError(
                    f"load: file {self._path!r}, offset {begin + done}: the file of {self._size} "
                    "bytes was truncated while it was read"
                )
            done += count
        return view


FileContent = Union[memoryview, FileBytes, RemoteFile]


def _refused(path: str, error: OSError | ValueError) -> FileAccessError:
    reason = getattr(error, "strerror", None) or error
    return FileAccessError(f"load: cannot read file {path!r}: {reason}")


@contextlib.contextmanager
def opened_file(path: str) -> Iterator[FileContent]:
    """Open a file or an address for reading."""
    if is_address(path):
        yield RemoteFile(path)
        return
    try:
        stream = open_file(path)
    except FileNotFoundError as error:
        raise MissingFileError(
            f"load: file {path!r} does not exist (looked from {os.getcwd()!r})"
        ) from error
    except (OSError, ValueError) as error:
        raise _refused(path, error) from error
    with stream:
        data: FileContent
        try:
            if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                data = FileBytes(stream.fileno(), path)
            else:
                data = read_to_end(stream, path)
        except OSError as error:
            raise _refused(path, error) from error
        yield data
