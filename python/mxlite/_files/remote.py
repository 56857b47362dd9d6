"""Reads files at addresses such as ``s3://bucket/file`` through fsspec.

Sequential reads fetch blocks ahead in background threads; other reads fetch what they need. Each
fetched range is returned only if the file has not changed since it was opened.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoResultYet
from typing import Any, Callable, TypeVar

from .._native import ending  # noqa: F401 - its exit handler has to run after the one below
from ..base import FileAccessError, MissingFileError, MXNetError, NotSupportedError, ValueError_

_BLOCK = 4 << 20
_AHEAD = 4  # blocks that are fetched ahead of a sequential read
_MOST_BLOCKS = 32  # maximum number of blocks that a process keeps for all files
_ATTEMPTS = 4
_PAUSE = 0.5  # seconds before the second attempt; doubles for each further one
_TIMEOUT = 60  # seconds that an attempt may take

# Extras of mxlite by the protocols that they read.
_EXTRAS = {
    "s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "hdfs": "hdfs", "http": "http",
    "https": "http",
}  # fmt: skip
# Fields by which file systems tell that a file has changed.
_VERSION = (
    "size", "ETag", "etag", "generation", "mtime", "LastModified", "Last-Modified", "updated",
    "created", "Content-MD5",
)  # fmt: skip
# Errors that another attempt would raise again.
_LASTING = (
    FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ImportError,
    NotImplementedError, TypeError, ValueError, MXNetError,
)  # fmt: skip

T = TypeVar("T")


class _Shared:
    """State that all files of this process share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # reentrant, as the garbage collector may close files
        self.blocks: OrderedDict[tuple[int, int], Future[bytes]] = OrderedDict()
        self.ending = threading.Event()


_shared = _Shared()
_numbers = itertools.count()


def _begin_again() -> None:
    global _shared
    _shared = _Shared()


# Ends waits for remote data at exit, because threads that wait would delay the exit.
atexit.register(lambda: _shared.ending.set())
os.register_at_fork(after_in_child=_begin_again)  # a thread of the parent may hold the lock


def is_address(path: object) -> bool:
    """Return whether a path is an address such as ``s3://bucket/file``."""
    return isinstance(path, (str, bytes)) and "://" in os.fsdecode(path)


def refuse_writing(path: str, who: str) -> None:
    """Raise if a path is an address."""
    if is_address(path):
        raise NotSupportedError(
            f"{who}: {path!r} must be the name of a local file, got an address: write a local file "
            "and copy it, for example with fsspec"
        )


class RemoteFile:
    """The bytes of a file at an address; slices are memoryviews. Thread-safe.

    Parameters
    ----------
    address : str
        ``protocol://...`` for any protocol of fsspec.

    Raises
    ------
    MissingFileError
        If there is no such file.
    NotSupportedError
        If the package for the protocol is not installed.
    FileAccessError
        If the file cannot be opened; reads raise it if a range cannot be read.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._files, self._path = _file_system(address)
        self._number = next(_numbers)
        self._last = self._ahead = 0
        try:
            self._version, kind = self._attempts("the file", self._info)
        except FileAccessError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise MissingFileError(f"there is no file {address!r}") from error
            raise
        size = self._version[0]
        if kind == "directory" or size is None:
            reason = (
                "it is a folder" if kind == "directory" else "the server does not tell its size"
            )
            raise FileAccessError(f"file {address!r} cannot be read: {reason}")
        self._size = int(size)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> memoryview:
        begin, end, _ = part.indices(self._size)
        content = memoryview(bytearray(max(end - begin, 0)))
        self.read_into(begin, content)
        return content

    def __del__(self) -> None:
        if _shared is None:  # the interpreter ends
            return
        with _shared.lock:
            for key in [key for key in _shared.blocks if key[0] == getattr(self, "_number", -1)]:
                _shared.blocks.pop(key, None)

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill ``target`` with the bytes from an offset on, which are inside the file."""
        done = 0
        while done < len(target):
            piece = self._piece(offset + done, len(target) - done)
            target[done : done + len(piece)] = piece
            done += len(piece)

    def _piece(self, begin: int, size: int) -> memoryview:
        """Return at least one and at most ``size`` bytes."""
        index, skipped = divmod(begin, _BLOCK)
        with _shared.lock:
            step, self._last = index - self._last, index
            near = abs(step) <= 1
            self._ahead = min(self._ahead + (step == 1), _AHEAD) if near else 0
            if near:
                most = (self._size - 1) // _BLOCK
                blocks = range(index, min(index + self._ahead, most) + 1)
                block = [self._request(number) for number in blocks][0]
        if not near:
            return memoryview(self._fetch(begin, begin + min(size, _BLOCK)))
        try:
            return memoryview(_result(block))[skipped : skipped + size]
        except BaseException:
            with _shared.lock:  # forgets the block, so that the next read requests it again
                if block.done() and _shared.blocks.get((self._number, index)) is block:
                    del _shared.blocks[self._number, index]
            raise

    def _request(self, index: int) -> Future[bytes]:
        """Return a block that is or will be fetched; requires the lock."""
        blocks, key = _shared.blocks, (self._number, index)
        if key not in blocks:
            begin = index * _BLOCK
            blocks[key] = _started(lambda: self._fetch(begin, min(begin + _BLOCK, self._size)))
            if len(blocks) > _MOST_BLOCKS:
                blocks.popitem(last=False)
        blocks.move_to_end(key)
        return blocks[key]

    def _fetch(self, begin: int, end: int) -> bytes:
        return self._attempts(f"bytes {begin} to {end}", lambda: self._range(begin, end))

    def _range(self, begin: int, end: int) -> bytes:
        try:
            content: bytes = self._files.cat_file(self._path, start=begin, end=end)
        except Exception:
            self._check_version()  # if the file has changed, raises an error that says so
            raise
        self._check_version()
        if len(content) == self._size > end - begin:
            raise NotSupportedError("the server sends whole files where ranges are requested")
        if len(content) != end - begin:
            raise OSError(f"the server must send {end - begin} bytes, got {len(content)}")
        return content

    def _info(self) -> tuple[tuple[Any, ...], Any]:
        info = self._files.info(self._path)
        return tuple(info.get(name) for name in _VERSION), info.get("type")

    def _check_version(self) -> None:
        found, _ = self._info()
        if found != self._version:
            changes = ", ".join(
                f"{name} {before} became {after}"
                for name, before, after in zip(_VERSION, self._version, found)
                if before != after
            )
            raise FileAccessError(f"the file has changed since it was opened: {changes}")

    def _attempts(self, what: str, call: Callable[[], T]) -> T:
        """Return the result of a call, which is repeated after temporary errors."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return _result(_started(call), _TIMEOUT)
            except Exception as found:
                error = _reason(found)
            if attempt == _ATTEMPTS or isinstance(error, _LASTING):
                break
            if _shared.ending.wait(_PAUSE * 2 ** (attempt - 1)):
                break
        tried = f" ({attempt} attempts)" if attempt > 1 else ""
        hint = "; check the credentials" if isinstance(error, PermissionError) else ""
        raise FileAccessError(
            f"file {self.address!r}: {what} cannot be read{tried}: "
            f"{str(error) or type(error).__name__}{hint}"
        ) from error


def _file_system(address: str) -> tuple[Any, str]:
    """Return the file system of an address and the path in it."""
    protocol = address.partition("://")[0]
    try:
        import fsspec  # type: ignore[import-not-found,import-untyped,unused-ignore]

        # Makes a new file system, because cached listings of the program's own may be outdated.
        return fsspec.core.url_to_fs(address, use_listings_cache=False, skip_instance_cache=True)
    except ImportError as error:
        extra = _EXTRAS.get(protocol)
        package = f"mxlite[{extra}]" if extra else "fsspec"
        raise NotSupportedError(
            f"file {address!r}: {protocol}:// needs a package that is not installed ({error}): "
            f"pip install '{package}'"
        ) from error
    except ValueError as error:
        raise ValueError_(f"file {address!r} cannot be opened: {error}") from error


def _reason(error: Exception) -> Exception:
    """Return the underlying cause of an error.

    fsspec reports every failure of an HTTP request for a file's size as a missing file.
    """
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or not isinstance(cause, Exception):
        return error
    status = getattr(cause, "status", None)
    if status in (401, 403):
        return PermissionError(str(cause))
    of_http = type(cause).__module__.startswith("aiohttp")
    return cause if of_http and status != 404 else error


def _started(call: Callable[[], T]) -> Future[T]:
    """Run a function in a background thread, for which the program does not wait at exit."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="mxlite remote file").start()
    return future


def _result(future: Future[T], seconds: float = float("inf")) -> T:
    """Wait for a result; raise if that takes longer or the program ends."""
    end = time.monotonic() + seconds
    while True:
        try:
            return future.result(0.1)
        except NoResultYet:
            if future.done():
                return future.result()
            if _shared.ending.is_set():
                raise FileAccessError("the program is exiting") from None
            if time.monotonic() > end:
                raise TimeoutError(f"no answer within {seconds} s") from None
