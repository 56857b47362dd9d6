"""Saves files: replaces them atomically, or writes in place if that is not possible."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterator

from ..base import FileAccessError, MXNetError
from .remote import refuse_writing

# Paths of open files, which cannot be replaced by renaming a file to such a path.
_OPEN_FILES = ("/dev/fd/", "/dev/std", "/proc/")


@contextlib.contextmanager
def replacing_file(path: str) -> Iterator[io.BufferedWriter]:
    """Open a file whose content replaces ``path`` only if the block ends without error.

    These files are written in place, because renaming could not replace them: an empty file, which
    may be a temporary file that a program has open; a file with several hard links; ``/dev/stdout``
    and ``/dev/fd/N``; pipes and devices; a file in a folder without write permission.
    """
    path = os.fsdecode(path)
    refuse_writing(path, "save")
    kept = ""
    try:
        status = _status(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, "Is a directory")
        target = os.path.realpath(path)
        folder = os.path.dirname(target)
        if status is not None and _stays_in_place(path, folder, status):
            with open(path, "wb") as stream:
                yield stream
                stream.flush()
                if stat.S_ISREG(status.st_mode):
                    os.fsync(stream.fileno())
            return
        if status is not None:
            kept = "; the old file is unchanged"
        temporary = f"{target}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                if status is not None:
                    os.fchmod(stream.fileno(), stat.S_IMODE(status.st_mode))
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_folder(folder)
    except MXNetError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileAccessError(f"save: cannot write file {path!r}: {reason}{kept}") from error


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _stays_in_place(path: str, folder: str, status: os.stat_result) -> bool:
    replaceable = (
        stat.S_ISREG(status.st_mode)
        and status.st_size > 0
        and status.st_nlink == 1
        and not path.startswith(_OPEN_FILES)
        and os.access(folder, os.W_OK)
    )
    return not replaceable


def _sync_folder(folder: str) -> None:
    """Make a rename durable; ignores file systems that cannot open folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
