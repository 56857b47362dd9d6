"""Saving and loading arrays: the ``.params`` format of MXNet 1.x.

A file is a header, a list of array blobs and a list of names (`dict` files only). All versions
that MXNet ever wrote are read: blobs V0 to V3, dense and sparse, and the npz files of
MXNet 2.0. What is written is version 2, byte for byte what 1.9.1 writes.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np

from .._core import NDArray
from .._files.saving import replacing_file
from ..base import (
    FileFormatError,
    MXNetError,
    NotSupportedError,
    TypeError_,
    ValueError_,
)
from . import sparse
from .creation import array as make_array
from .file_bytes import FileBytes, opened_file
from .sparse.storage import is_sparse, parts

__all__ = ["load", "load_frombuffer", "save", "save_tobuffer"]

Buffer = Union[bytes, bytearray, memoryview]

_LIST_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_DENSE, _ROW_SPARSE, _CSR = 0, 1, 2
_BFLOAT16 = 12
_DTYPES = {
    0: "float32",
    1: "float64",
    2: "float16",
    3: "uint8",
    4: "int32",
    5: "int8",
    6: "int64",
    7: "bool",
    8: "int16",
    9: "uint16",
    10: "uint32",
    11: "uint64",
    _BFLOAT16: "bfloat16",
}
_CODES = {name: code for code, name in _DTYPES.items()}
_MAX_NDIM = 32


def save(fname: str | os.PathLike[str], data: Any) -> None:
    """Save arrays to a file that MXNet 1.x reads.

    Parameters
    ----------
    fname : str or path
        Destination; an existing file is replaced only after everything was written.
    data : NDArray, sequence of NDArray or dict of str to NDArray
        A single array is saved as a list of one.

    Raises
    ------
    TypeError
        If ``data`` is something else.
    FileAccessError
        If the file cannot be written; an old file of that name is unchanged then, unless it has
        several hard links: these files are written in place.

    Notes
    -----
    Matches ``mxnet.nd.save``.
    """
    path = os.fspath(fname)
    names, arrays = _named_arrays("save", data)
    with replacing_file(path) as stream:
        for chunk in _chunks(names, arrays):
            stream.write(chunk)


def load(fname: str | os.PathLike[str]) -> Any:
    """Load the arrays of a file.

    Parameters
    ----------
    fname : str or path
        A file written by `save`, by any MXNet 1.x, or an npz file of MXNet 2.0.

    Returns
    -------
    list of NDArray or dict of str to NDArray
        The saved arrays, on the CPU.

    Raises
    ------
    MissingFileError
        If there is no such file.
    FileAccessError
        If it cannot be read.
    FileFormatError
        If it is truncated, damaged or something else; the message has the offset.

    Notes
    -----
    Matches ``mxnet.nd.load``.
    """
    path = os.fspath(fname)
    with opened_file(path) as data:
        return _parse(data, f"file {path!r}")


def load_frombuffer(buf: Buffer) -> Any:
    """Load arrays from bytes in memory.

    Parameters
    ----------
    buf : bytes, bytearray or memoryview
        The content of a file that `load` reads.

    Returns
    -------
    list of NDArray or dict of str to NDArray

    Raises
    ------
    TypeError
        If ``buf`` has no bytes.
    FileFormatError
        As `load`.

    Notes
    -----
    Matches ``mxnet.nd.load_frombuffer``.
    """
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise TypeError_(
            f"load_frombuffer: {type(buf).__name__} was given, expected bytes or a memoryview"
        )
    return _parse(memoryview(buf).cast("B"), "the buffer")


def save_tobuffer(data: Any) -> bytes:
    """Return the bytes that `save` would write.

    Parameters
    ----------
    data : NDArray, sequence of NDArray or dict of str to NDArray

    Returns
    -------
    bytes
    """
    return b"".join(bytes(chunk) for chunk in _chunks(*_named_arrays("save_tobuffer", data)))


def array_to_blob(array: NDArray) -> bytes:
    """Return one array as a version 2 blob, the raw bytes in MXNet's pickles.

    Parameters
    ----------
    array : NDArray

    Returns
    -------
    bytes
    """
    return b"".join(bytes(chunk) for chunk in _array_chunks(array))


def array_from_blob(blob: Buffer) -> NDArray | None:
    """Return the array of one blob of any version.

    Parameters
    ----------
    blob : bytes-like

    Returns
    -------
    NDArray or None
        None for the blob of an array without value.
    """
    return _Reader(memoryview(blob).cast("B"), "the array blob").array("array")


def array_to_bits(array: NDArray) -> tuple[str, np.ndarray[Any, Any]]:
    """Return the name of a dense array's type and its values; those of bfloat16 as uint16.

    Parameters
    ----------
    array : NDArray

    Returns
    -------
    dtype : str
    values : numpy.ndarray
    """
    return dtype_name(array.dtype), _to_storage(array)[1]


def array_from_bits(dtype: str, raw: memoryview, shape: tuple[int, ...]) -> NDArray:
    """Return a dense array from the bytes of the values of `array_to_bits`.

    Parameters
    ----------
    dtype : str
    raw : memoryview
    shape : tuple of int

    Returns
    -------
    NDArray
        Array on the CPU, with memory of its own.
    """
    return _from_storage(_CODES[dtype], raw, shape)


def _named_arrays(op: str, data: Any) -> tuple[list[str], list[NDArray]]:
    if isinstance(data, NDArray):
        return [], [data]
    if isinstance(data, Mapping):
        names, arrays = list(data.keys()), list(data.values())
        for name in names:
            if not isinstance(name, str):
                raise TypeError_(f"{op}: the name {name!r} is not a string")
    elif isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        names, arrays = [], list(data)
    else:
        raise TypeError_(
            f"{op}: data of type {type(data).__name__} was given, expected an NDArray, a list of "
            "NDArrays or a dict of names to NDArrays"
        )
    for position, array in enumerate(arrays):
        if not isinstance(array, NDArray):
            label = repr(names[position]) if names else f"number {position}"
            raise TypeError_(
                f"{op}: entry {label} is of type {type(array).__name__}, expected an NDArray"
            )
    return names, arrays


def _chunks(names: list[str], arrays: list[NDArray]) -> Iterator[Buffer]:
    yield struct.pack("<QQQ", _LIST_MAGIC, 0, len(arrays))
    for array in arrays:
        yield from _array_chunks(array)
    yield struct.pack("<Q", len(names))
    for name in names:
        encoded = name.encode("utf-8")
        yield struct.pack("<Q", len(encoded)) + encoded


def _array_chunks(array: NDArray) -> Iterator[Buffer]:
    if is_sparse(array):
        yield from _sparse_chunks(array)
        return
    shape = tuple(int(extent) for extent in array.shape)
    code, values = _to_storage(array)
    # MXNet 1.x has neither scalars nor empty arrays outside of numpy mode, which version 3 marks.
    magic = _V2 if shape and 0 not in shape else _V3
    yield struct.pack("<IiI", magic, _DENSE, len(shape))
    yield struct.pack(f"<{len(shape)}q", *shape)
    yield struct.pack("<iii", 1, 0, code)
    if values.size:
        yield np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _sparse_chunks(array: NDArray) -> Iterator[Buffer]:
    """Yield values and index arrays; csr stores indptr before the columns."""
    values, indices, indptr = parts(array)
    stype = _ROW_SPARSE if indptr is None else _CSR
    code, raw = _to_storage(values)
    index_arrays = [(_to_storage(i)) for i in (indptr, indices) if i is not None]
    yield struct.pack("<Ii", _V2, stype)
    for shape in (values.shape, array.shape):
        yield struct.pack(f"<I{len(shape)}q", len(shape), *shape)
    yield struct.pack("<iii", 1, 0, code)
    for index_code, numbers in index_arrays:
        yield struct.pack(f"<iI{numbers.ndim}q", index_code, numbers.ndim, *numbers.shape)
    for part in (raw, *(numbers for _, numbers in index_arrays)):
        if part.size:
            yield np.ascontiguousarray(part).reshape(-1).view(np.uint8).data


def _to_storage(array: NDArray) -> tuple[int, np.ndarray[Any, Any]]:
    """Return the type code and the values as an array of a type that NumPy has itself."""
    name = dtype_name(array.dtype)
    if name == "bfloat16":
        bits = array.astype("float32").asnumpy().view(np.uint32)
        return _BFLOAT16, (bits >> 16).astype(np.uint16)
    if name not in _CODES:
        raise NotSupportedError(f"save: arrays of type {name} have no code in the .params format")
    values = array.asnumpy()
    return _CODES[name], values.astype(values.dtype.newbyteorder("<"), copy=False)


def dtype_name(dtype: Any) -> str:
    """Return the name of an element type given as name, NumPy type or scalar class.

    Parameters
    ----------
    dtype : str, numpy.dtype or type

    Returns
    -------
    str
        Such as ``"float32"`` or ``"bfloat16"``.
    """
    if isinstance(dtype, str):
        return dtype if dtype == "bfloat16" else str(np.dtype(dtype).name)
    if getattr(dtype, "__name__", "") == "bfloat16" or getattr(dtype, "name", "") == "bfloat16":
        return "bfloat16"
    dtype = np.dtype(dtype)
    return "bfloat16" if dtype.names == ("bfloat16",) else str(dtype.name)  # 1.x has it as a field


def dtype_code(dtype: Any) -> int:
    """Return the code that files have for an element type.

    Parameters
    ----------
    dtype : str, numpy.dtype or type

    Returns
    -------
    int

    Raises
    ------
    ValueError
        For a type that arrays do not have.
    """
    name = dtype_name(dtype)
    if name not in _CODES:
        raise ValueError_(f"dtype {name} given, one of {', '.join(_CODES)} expected")
    return _CODES[name]


def _parse(data: memoryview | FileBytes, source: str) -> Any:
    if bytes(data[:4]) == b"PK\x03\x04":
        return _parse_npz(data, source)
    reader = _Reader(data, source)
    if len(data) < 8 or reader.peek("<Q") != _LIST_MAGIC:
        found = bytes(data[:8]).hex(" ") or "nothing"
        raise FileFormatError(
            f"load: {source} is no .params file: at offset 0 the bytes 12 01 00 00 00 00 00 00 "
            f"were expected, found {found} ({len(data)} bytes in all)"
        )
    reader.take("<QQ", "header")
    count = reader.count("number of arrays", smallest=4)
    arrays = [reader.array(f"array {index} of {count}") for index in range(count)]
    name_count = reader.count("number of names", smallest=8)
    if name_count not in (0, count):
        raise reader.error(f"{count} names or none were expected, found {name_count}")
    names = [reader.text(f"name {index} of {count}") for index in range(name_count)]
    if reader.offset != len(data):
        raise reader.error(f"the end of the file was expected, {reader.left()} more bytes found")
    if not names:
        return arrays
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise reader.error(f"distinct names were expected, found twice: {', '.join(twice)}")
    return dict(zip(names, arrays))


def _parse_npz(data: memoryview | FileBytes, source: str) -> Any:
    """Read the zip file of ``.npy`` members that MXNet 2.0 writes."""
    from .npz import read_npz  # here: zip and lzma take 4 MB that few programs need

    values = {name: _core_array(array) for name, array in read_npz(data, source).items()}
    places = [f"arr_{index}" for index in range(len(values))]
    if values and set(values) == set(places):
        return [values[place] for place in places]
    return values


def _core_array(values: np.ndarray[Any, Any]) -> NDArray:
    return make_array(values, dtype=values.dtype)


def _from_storage(code: int, raw: memoryview, shape: tuple[int, ...]) -> NDArray:
    if code == _BFLOAT16:
        bits = np.frombuffer(raw, np.dtype("<u2")).astype(np.uint32) << 16
        return make_array(bits.view(np.float32).reshape(shape), dtype="float32").astype("bfloat16")
    if _DTYPES[code] == "bool":  # any byte but 0 and 1 would give wrong counts
        return make_array((np.frombuffer(raw, np.uint8) != 0).reshape(shape), dtype="bool")
    dtype = np.dtype(_DTYPES[code]).newbyteorder("<")
    return make_array(np.frombuffer(raw, dtype).reshape(shape), dtype=_DTYPES[code])


class _Reader:
    """A position in a buffer; every read checks the size of the buffer."""

    def __init__(self, data: memoryview | FileBytes, source: str) -> None:
        self._data = data
        self._source = source
        self.offset = 0

    def left(self) -> int:
        """Return the number of bytes after the position."""
        return len(self._data) - self.offset

    def error(self, what: str) -> FileFormatError:
        """Return an error that names source and offset."""
        return FileFormatError(f"load: {self._source}, offset {self.offset}: {what}")

    def peek(self, layout: str) -> int:
        """Return one number without moving."""
        end = self.offset + struct.calcsize(layout)
        return int(struct.unpack(layout, self._data[self.offset : end])[0])

    def take(self, layout: str, what: str) -> tuple[Any, ...]:
        """Read the values of a `struct` layout."""
        return struct.unpack(layout, self.bytes(struct.calcsize(layout), what))

    def bytes(self, size: int, what: str) -> memoryview:
        """Read ``size`` bytes."""
        if size > self.left():
            raise self.error(
                f"{what} needs {size} bytes, {self.left()} are left (the file is truncated or "
                "damaged)"
            )
        piece = self._data[self.offset : self.offset + size]
        self.offset += size
        return piece

    def count(self, what: str, smallest: int) -> int:
        """Read a count of items of at least ``smallest`` bytes, refusing more than can follow."""
        (value,) = self.take("<Q", what)
        if value * smallest > self.left():
            self.offset -= 8
            raise self.error(
                f"{what} is {value}, but {self.left() - 8} bytes follow (the file is truncated or "
                "damaged)"
            )
        return int(value)

    def text(self, what: str) -> str:
        """Read a length and that many bytes of UTF-8."""
        size = self.count(f"length of {what}", smallest=1)
        raw = self.bytes(size, what)
        try:
            return bytes(raw).decode("utf-8")
        except UnicodeDecodeError as error:
            self.offset -= size
            raise self.error(f"{what} is not UTF-8 text: {error.reason}") from None

    def shape(self, what: str, extent: str = "q") -> tuple[int, ...]:
        """Read a number of dimensions and the dimensions; ndim -1 (unknown) gives ``(-1,)``."""
        (ndim,) = self.take("<i", f"shape of {what}")
        if ndim == -1:
            return (-1,)
        return self.extents(ndim, what, extent)

    def extents(self, ndim: int, what: str, extent: str = "q") -> tuple[int, ...]:
        """Read ``ndim`` dimensions."""
        if not 0 <= ndim <= _MAX_NDIM:
            self.offset -= 4
            raise self.error(
                f"{what} has {ndim} dimensions, 0 to {_MAX_NDIM} were expected (the file is "
                "damaged or no .params file)"
            )
        return tuple(int(size) for size in self.take(f"<{ndim}{extent}", f"shape of {what}"))

    def array(self, what: str) -> NDArray | None:
        """Read one array blob of any version."""
        (magic,) = self.take("<I", what)
        if magic in (_V2, _V3):
            (stype,) = self.take("<i", f"storage type of {what}")
            if stype in (_ROW_SPARSE, _CSR) and magic == _V2:
                return self._sparse(stype, what)
            if stype != _DENSE:
                self.offset -= 4
                raise self.error(
                    f"{what} has storage type {stype}, expected 0 (dense), 1 (row_sparse) or 2 "
                    "(csr)"
                )
            shape = self.shape(what)
            absent = shape == (-1,) if magic == _V3 else not shape
        elif magic == _V1:
            shape = self.shape(what)
            absent = not shape
        else:
            # Version 0 has no magic: the word is the number of dimensions.
            shape = self.extents(magic, what, "I")
            absent = not shape
        if absent:
            return None
        code = self._context_and_code(what)
        return _from_storage(code, self._values(code, shape, what), shape)

    def _context_and_code(self, what: str) -> int:
        self.take("<ii", f"context of {what}")
        return self._code(what)

    def _code(self, what: str) -> int:
        (code,) = self.take("<i", f"type of {what}")
        if code not in _DTYPES:
            self.offset -= 4
            raise self.error(f"{what} has type code {code}, expected 0 to 12")
        return int(code)

    def _values(self, code: int, shape: tuple[int, ...], what: str) -> memoryview:
        size = 2 if code == _BFLOAT16 else np.dtype(_DTYPES[code]).itemsize
        if any(extent < 0 for extent in shape):
            raise self.error(f"{what} has shape {shape} with a negative dimension")
        if math.prod(extent or 1 for extent in shape) * size >= 1 << 62:
            raise self.error(f"{what} has the impossible shape {shape}")
        for extent in shape:
            size *= extent
        return self.bytes(size, f"data of {what} with shape {shape}")

    def _sparse(self, stype: int, what: str) -> NDArray | None:
        """Read a row_sparse or csr blob."""
        storage = self.shape(f"values of {what}")
        shape = self.shape(what)
        if not shape:
            return None
        code = self._context_and_code(what)
        descriptions = []
        for position in range(1 if stype == _ROW_SPARSE else 2):
            label = f"index array {position} of {what}"
            index_code = self._code(label)
            descriptions.append((index_code, self.shape(label), label))
        values = _from_storage(code, self._values(code, storage, what), storage)
        indices = [
            _from_storage(index_code, self._values(index_code, extent, label), extent)
            for index_code, extent, label in descriptions
        ]
        try:
            array: sparse.BaseSparseNDArray
            if stype == _ROW_SPARSE:
                array = sparse.row_sparse_array((values, indices[0]), shape=shape)
            else:
                array = sparse.csr_matrix((values, indices[1], indices[0]), shape=shape)
            # 1.9.1 writes the columns of a row in any order (csr + csr): only ranges are checked.
            array.check_format(full_check=False)
            numbers = array.indices.asnumpy()
            extent = shape[0] if stype == _ROW_SPARSE else shape[1]
            if ((numbers < 0) | (numbers >= extent)).any():
                raise MXNetError(f"indices from 0 to {extent - 1} were expected")
        except (MXNetError, IndexError) as error:
            raise self.error(f"{what} is sparse with indices that do not fit: {error}") from None
        return array
