"""The file format of checkpoints: arrays and a table of contents, with checksums of every byte.

Layout, little-endian: 64 bytes that begin with ``MXLCKPT1``, the rest zeros; the arrays, each at a
multiple of 64 with zeros between them; the table of contents as JSON; 32 bytes with u64 offset and
u64 length of the table, u32 its CRC32C, u32 the CRC32C of the 20 bytes before, ``MXLCKEND``. The
table has type, shape, offset and CRC32C of each array and the tree of values, in which arrays are
``{"array": number}``. A reader checks everything before it uses it: whichever bit of a file is
wrong, the error names the file and the part. There is no pickle.
"""

from __future__ import annotations

import datetime
import io
import json
import math
import struct
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._core import NDArray
from .._files.saving import replacing_file
from ..base import FileFormatError, NotSupportedError
from ..ndarray import sparse
from ..ndarray.bits import from_bits, to_bits
from ..ndarray.file_bytes import FileContent, opened_file
from ..ndarray.sparse.storage import parts

__all__ = ["UNREADABLE", "describe_file", "read_file", "write_file"]

_BEGIN = b"MXLCKPT1" + bytes(56)
_END = b"MXLCKEND"
_ALIGN = 64
_TRAILER = struct.Struct("<QQII8s")
_LARGEST_TABLE = 100 << 20
_NUMPY_KINDS = "biuf"


def write_file(path: str, tree: Any) -> int:
    """Write a tree of values to a temporary file, and rename it when it is complete."""
    arrays: list[tuple[str, Any]] = []
    encoded = _encode(tree, "", arrays)
    with replacing_file(path) as stream:
        entries = []
        stream.write(_BEGIN)
        at = len(_BEGIN)
        for name, value in arrays:
            entry, data = _array_entry(name, value)
            entry["offset"] = at
            entries.append(entry)
            stream.write(data)
            at += len(data)
            at += _pad(stream, at)
        table = json.dumps(
            {
                "saved": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "arrays": entries,
                "tree": encoded,
            }
        ).encode()
        if len(table) > _LARGEST_TABLE:
            raise NotSupportedError(
                f"checkpoint: the table of contents must have at most {_LARGEST_TABLE} bytes, got "
                f"{len(table)}; keep large data in arrays"
            )
        head = struct.pack("<QQI", at, len(table), _core.crc32c(table))
        stream.write(table)
        stream.write(head + struct.pack("<I", _core.crc32c(head)) + _END)
    return at + len(table) + _TRAILER.size


def read_file(path: str) -> Any:
    """Read and check a file."""
    with opened_file(path) as data:
        table = _Table(data, path)
        table.check()
        return table.tree()


def describe_file(path: str) -> dict[str, Any]:
    """Check a file and list its contents, without making arrays."""
    with opened_file(path) as data:
        table = _Table(data, path)
        table.check()
        arrays = {e.name: (e.dtype, e.shape) for e in table.entries}
        return {"saved": table.saved, "bytes": len(data), "arrays": arrays}


def _pad(stream: io.BufferedWriter, at: int) -> int:
    missing = -at % _ALIGN
    stream.write(bytes(missing))
    return missing


def _array_entry(name: str, value: Any) -> tuple[dict[str, Any], memoryview]:
    if isinstance(value, NDArray):
        kind, (dtype, values) = "mxlite", to_bits(value)
    else:
        kind, dtype = "numpy", value.dtype.name
        values = value.astype(value.dtype.newbyteorder("<"), copy=False)
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    entry = {
        "name": name,
        "kind": kind,
        "dtype": dtype,
        "shape": [int(n) for n in value.shape],
        "bytes": len(data),
        "crc32c": _core.crc32c(data),
    }
    return entry, data


def _encode(value: Any, place: str, arrays: list[tuple[str, Any]]) -> Any:
    """Return JSON values; append each array to ``arrays``, named by its position in the tree."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.generic) and value.dtype.kind in _NUMPY_KINDS:
        return value.item()
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, np.ndarray) and value.dtype.kind in _NUMPY_KINDS:
        arrays.append((place, value))
        return {"array": len(arrays) - 1}
    if isinstance(value, NDArray):
        if _core.array_kind(value) == "dense":
            arrays.append((place, value))
            return {"array": len(arrays) - 1}
        return _encode_sparse(value, place, arrays)
    if isinstance(value, dict):
        return {
            "dict": [
                [_encode(k, place, arrays), _encode(v, _join(place, k), arrays)]
                for k, v in value.items()
            ]
        }
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encode(v, _join(place, i), arrays) for i, v in enumerate(value)]}
    raise NotSupportedError(
        f"checkpoint: {place or 'the value'} is a {type(value).__name__}, which cannot be saved; "
        "numbers, strings, arrays, dicts, lists and tuples can, and objects with state_dict and "
        "load_state_dict"
    )


def _encode_sparse(value: Any, place: str, arrays: list[tuple[str, Any]]) -> Any:
    values, indices, indptr = parts(value)
    found: dict[str, Any] = {"sparse": value.stype, "shape": list(value.shape)}
    for label, part in (("values", values), ("indices", indices), ("indptr", indptr)):
        found[label] = None if part is None else _encode(part, f"{place}.{label}", arrays)
    return found


def _join(place: str, key: Any) -> str:
    return f"{place}.{key}" if place else str(key)


# Exceptions that reading a damaged or forged JSON table can raise.
UNREADABLE = (
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    ValueError,
    OverflowError,
    RecursionError,
)


class _Entry(NamedTuple):
    """An array in the table of contents."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    crc32c: int
    offset: int

    @classmethod
    def read(cls, value: dict[str, Any]) -> _Entry:
        """Check the types of all fields of one entry of the JSON table."""
        name, kind, dtype = value["name"], value["kind"], value["dtype"]
        for what, text in (("name", name), ("kind", kind), ("dtype", dtype)):
            if not isinstance(text, str):
                raise TypeError(f"{what} of an array must be text, got {text!r}")
        if kind not in ("mxlite", "numpy"):
            raise ValueError(f"kind of array {name!r} must be 'mxlite' or 'numpy', got {kind!r}")
        if not dtype.isalnum():  # NumPy would evaluate parentheses and commas as Python
            raise ValueError(f"array {name!r}: type must be a dtype's name, got {dtype[:100]!r}")
        if dtype != "bfloat16" and np.dtype(dtype).kind not in _NUMPY_KINDS:
            raise ValueError(f"type of array {name!r} must be numbers, got {dtype!r}")
        shape = tuple(_count(n, f"length of an axis of array {name!r}") for n in value["shape"])
        counts = [_count(value[key], f"{key} of array {name!r}") for key in cls._fields[4:]]
        return cls(name, kind, dtype, shape, *counts)

    def expected_bytes(self) -> int:
        """Return the number of bytes that the shape and the type need."""
        size = 2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize
        return math.prod(self.shape) * size


def _count(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{what} must be an integer of at least 0, got {value!r}")
    return value


class _Table:
    """The table of contents of a file."""

    def __init__(self, data: FileContent, path: str) -> None:
        self._data = data
        self._path = path
        self._read: set[int] = set()
        size = len(data)
        if size < len(_BEGIN) + _TRAILER.size:
            raise self._error(f"a checkpoint has more than {size} bytes (truncated?)")
        if data[: len(_BEGIN)] != _BEGIN:
            raise self._error(
                f"first bytes must be {_BEGIN[:8].hex(' ')} and zeros in a checkpoint, got "
                f"{bytes(data[:8]).hex(' ')}"
            )
        offset, length, checksum, own, end = _TRAILER.unpack(data[size - _TRAILER.size :])
        last = data[size - _TRAILER.size : size - 12]
        if end != _END or own != _core.crc32c(last):
            raise self._error("its last 32 bytes are damaged or missing (truncated?)")
        if length > _LARGEST_TABLE or offset + length + _TRAILER.size != size:
            raise self._error(
                f"its table of contents should have {length} bytes at offset {offset}, the file "
                f"has {size}"
            )
        raw = bytes(data[offset : offset + length])
        if _core.crc32c(raw) != checksum:
            raise self._error(
                f"its table of contents (bytes {offset} to {offset + length}) is damaged: its "
                "checksum is wrong"
            )
        self._begin = offset
        try:
            content = json.loads(raw)
            self.entries = [_Entry.read(entry) for entry in content["arrays"]]
            self._tree = content["tree"]
            self.saved: str = content["saved"]
        except UNREADABLE as error:
            raise self._error(f"its table of contents is not understood: {error!r}") from error

    def _error(self, what: str) -> FileFormatError:
        return FileFormatError(f"checkpoint: file {self._path!r}: {what}")

    def check(self) -> None:
        """Check all bytes before the table: arrays by their checksums, gaps for zeros."""
        at = len(_BEGIN)
        for entry in self.entries:
            name, end = entry.name, at + entry.bytes
            if entry.offset != at or entry.bytes != entry.expected_bytes() or end > self._begin:
                raise self._error(
                    f"array {name!r}: {entry.bytes} bytes at offset {entry.offset} "
                    f"do not fit shape {entry.shape} and type {entry.dtype}"
                )
            if _core.crc32c(self._data[at:end]) != entry.crc32c:
                raise self._error(
                    f"array {name!r} (bytes {at} to {end}) is damaged: its checksum is wrong"
                )
            at = end + -end % _ALIGN
            if any(self._data[end:at]):
                raise self._error(f"bytes {end} to {at} after array {name!r} are damaged")
        if at != self._begin:
            raise self._error(f"bytes {at} to {self._begin} are not part of an array")

    def tree(self) -> Any:
        """Return the values."""
        try:
            return self._decode(self._tree)
        except UNREADABLE as error:
            raise self._error(f"its table of contents is not understood: {error!r}") from error

    def _decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "sparse" in value:
            return self._decode_sparse(value)
        ((kind, content),) = value.items()
        if kind == "array":
            return self._array(_count(content, "number of an array"))
        if kind == "bytes":
            return bytes.fromhex(content)
        if kind == "dict":
            return {self._decode(k): self._decode(v) for k, v in content}
        entries = [self._decode(entry) for entry in content]
        return tuple(entries) if kind == "tuple" else entries

    def _decode_sparse(self, value: dict[str, Any]) -> Any:
        values, indices = self._decode(value["values"]), self._decode(value["indices"])
        shape = tuple(value["shape"])
        if value["sparse"] == "row_sparse":
            return sparse.row_sparse_array((values, indices), shape=shape)
        indptr = self._decode(value["indptr"])
        return sparse.csr_matrix((values, indices, indptr), shape=shape)

    def _array(self, number: int) -> Any:
        entry = self.entries[number]
        if number in self._read:  # forged copies of a large array could exhaust memory
            raise ValueError(f"the tree must hold array {entry.name!r} once, got it twice")
        self._read.add(number)
        raw = self._data[entry.offset : entry.offset + entry.bytes]
        if entry.kind == "mxlite":
            return from_bits(entry.dtype, raw, entry.shape)
        dtype = np.dtype(entry.dtype).newbyteorder("<")
        return np.frombuffer(raw, dtype).reshape(entry.shape).astype(entry.dtype)
