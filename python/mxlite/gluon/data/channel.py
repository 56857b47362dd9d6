"""Messages between DataLoader and workers over a socket, with large ones in shared memory.

Note [Nothing to leak]: shared memory has no name. It is a memory file whose descriptor
is sent with the message, so that the system frees it whenever a process is killed.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import struct
import tempfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from ... import _core
from ... import ndarray as nd
from ...ndarray import NDArray

__all__ = ["Channel", "dumps", "loads"]

_INLINE_BYTES = 16384  # two messages fit into a socket's buffer, so sends never block
_MAX_BUFFERS = 1000  # maximum number of buffer sizes in an inline message
_ALIGNMENT = 64
_LENGTH = struct.Struct("<Q")


class _Pickler(pickle.Pickler):
    """Pickles dense arrays as buffers outside of the stream."""

    def reducer_override(self, obj: Any) -> Any:
        if _core.array_kind(obj) == "dense":
            values = obj.asnumpy()
            if values.dtype.isbuiltin == 1 and values.dtype.isnative:
                return _from_numpy, (np.ascontiguousarray(values).reshape(values.shape), obj._numpy)
        return NotImplemented


def _from_numpy(values: np.ndarray[Any, Any], numpy: bool) -> NDArray:
    # Arrays that arrived inside the message are read-only; copy those.
    array = nd.from_numpy(values if values.flags.writeable else values.copy())
    return _core.with_numpy(array, numpy)


def dumps(value: Any) -> list[memoryview]:
    """Return the pickle of a value and the buffers of the arrays in it."""
    buffers: list[pickle.PickleBuffer] = []

    def into_stream(buffer: pickle.PickleBuffer) -> bool:
        if len(buffers) < _MAX_BUFFERS:
            buffers.append(buffer)
            return False
        return True

    stream = io.BytesIO()
    _Pickler(stream, 5, buffer_callback=into_stream).dump(value)
    return [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]


def loads(parts: Sequence[Any]) -> Any:
    """Return the value passed to `dumps`; its arrays share the memory of the parts."""
    return pickle.loads(parts[0], buffers=parts[1:])


class Channel:
    """One end of a connection that preserves message boundaries."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    @staticmethod
    def pair() -> tuple[Channel, Channel]:
        """Return two connected ends."""
        first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return Channel(first), Channel(second)

    def close(self) -> None:
        """End the connection, so that the other end reads end of file."""
        self.socket.close()

    def send(self, value: Any) -> None:
        """Send a picklable value."""
        parts = dumps(value)
        offsets, size = _layout([part.nbytes for part in parts])
        head = _LENGTH.pack(len(parts)) + b"".join(_LENGTH.pack(part.nbytes) for part in parts)
        if size + len(head) <= _INLINE_BYTES:
            body = bytearray(size)
            for part, offset in zip(parts, offsets):
                body[offset : offset + part.nbytes] = part
            self.socket.sendmsg([head, body])
            return
        with _memory_file() as file:
            for part, offset in zip(parts, offsets):
                _write(file.fileno(), part, offset)
            rights = struct.pack("i", file.fileno())
            self.socket.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def receive(self) -> Any:
        """Return the next value."""
        try:
            message, rights, _, _ = self.socket.recvmsg(
                _INLINE_BYTES, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionError as error:
            raise EOFError("the connection was closed") from error
        if not message:
            raise EOFError("the connection was closed")
        (count,) = _LENGTH.unpack_from(message)
        sizes = [_LENGTH.unpack_from(message, 8 * (i + 1))[0] for i in range(count)]
        offsets, size = _layout(sizes)
        if rights:
            (descriptor,) = struct.unpack("i", rights[0][2])
            try:
                body = memoryview(mmap.mmap(descriptor, size))
            finally:
                os.close(descriptor)
        else:
            body = memoryview(message)[8 * (count + 1) :]
        return loads([body[begin : begin + n] for begin, n in zip(offsets, sizes)])


def _layout(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return aligned offsets for parts of these sizes, and the end of the last."""
    offsets, end = [], 0
    for size in sizes:
        begin = -(-end // _ALIGNMENT) * _ALIGNMENT
        offsets.append(begin)
        end = begin + size
    return offsets, end


def _memory_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("mxlite-batch"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _write(descriptor: int, part: memoryview, offset: int) -> None:
    written = 0
    while written < part.nbytes:  # one call writes at most 2 GiB
        written += os.pwrite(descriptor, part[written:], offset + written)
