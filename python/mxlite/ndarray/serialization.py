"""Saving and loading arrays: the ``.params`` format of MXNet 1.x (cpp/ndarray/params_file.h).

Files in the safetensors format are read and written, and the npz files of MXNet 2.0 are read.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, Union

from .. import _core
from .._core import NDArray
from .._files.remote import RemoteFile
from .._files.saving import replacing_file
from ..base import TypeError_, ValueError_
from .creation import array as make_array
from .dtypes import dtype_code as dtype_code
from .dtypes import dtype_name as dtype_name
from .file_bytes import FileBytes, FileContent, opened_file
from .safetensors_files import from_safetensors, is_safetensors, load_shards, to_safetensors

__all__ = ["load", "load_frombuffer", "save", "save_tobuffer"]

Buffer = Union[bytes, bytearray, memoryview]


_FORMATS = ("params", "safetensors")


def save(fname: str | os.PathLike[str], data: Any, format: str | None = None) -> None:
    """Save arrays to a file that MXNet 1.x reads, or to a safetensors file.

    Parameters
    ----------
    fname : str or path
        Destination; an existing file is replaced only after everything was written.
    data : NDArray, sequence of NDArray or dict of str to NDArray
        A single array is saved as a list of one. The safetensors format demands a dict.
    format : {'params', 'safetensors'}, optional
        Default: safetensors if the name ends with ``.safetensors``, else params.

    Raises
    ------
    TypeError
        If ``data`` is something else.
    ValueError
        If ``format`` is not one of the two.
    NotSupportedError
        For the safetensors format if the package ``safetensors`` is not installed.
    FileAccessError
        If the file cannot be written; an existing file is then unchanged, unless it has several
        hard links, because such files are written in place.
    """
    path = os.fspath(fname)
    names, arrays = _named_arrays("save", data)
    if format is None:
        format = "safetensors" if os.fsdecode(path).endswith(".safetensors") else "params"
    if format not in _FORMATS:
        raise ValueError_(f"save: format must be one of {', '.join(_FORMATS)}, got {format!r}")
    if format == "safetensors":
        if not isinstance(data, Mapping):
            raise TypeError_(
                "save: data for a safetensors file must be a dict of names to NDArrays, got "
                f"{type(data).__name__}"
            )
        content = to_safetensors(data)
        with replacing_file(path) as stream:
            stream.write(content)
        return
    with replacing_file(path) as stream:
        _core.save_arrays(arrays, names, stream.write)


def load(fname: str | os.PathLike[str]) -> Any:
    """Load the arrays of a file.

    Parameters
    ----------
    fname : str or path
        The name or address (``s3://bucket/file``) of a file written by `save` or by any MXNet 1.x,
        of a safetensors file, of the index of a sharded model (``model.safetensors.index.json``),
        or of an npz file of MXNet 2.0.

    Returns
    -------
    list of NDArray or dict of str to NDArray
        The saved arrays, on the CPU. Names that safetensors metadata calls aliases of one array,
        such as tied weights, share an NDArray.

    Raises
    ------
    MissingFileError
        If there is no such file.
    FileAccessError
        If it cannot be read.
    FileFormatError
        If the file is truncated, damaged or of another format; the message has the offset.
    """
    path = os.fspath(fname)
    if os.fsdecode(path).endswith(".safetensors.index.json"):
        return load_shards(path, load)
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
        If ``buf`` does not support the buffer protocol.
    FileFormatError
        As `load`.
    """
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise TypeError_(
            f"load_frombuffer: buf must be bytes or a memoryview, got {type(buf).__name__}"
        )
    return _parse(memoryview(buf).cast("B"), "the buffer")


def save_tobuffer(data: Any) -> bytes:
    """Return the bytes that `save` would write."""
    names, arrays = _named_arrays("save_tobuffer", data)
    stream = io.BytesIO()
    _core.save_arrays(arrays, names, stream.write)
    return stream.getvalue()


def array_from_blob(blob: Buffer) -> NDArray | None:
    """Return the array of one blob of any version."""
    return _core.load_array(blob, "the array blob")


def _named_arrays(op: str, data: Any) -> tuple[list[Any], list[NDArray]]:
    """Return names (none for a list) and arrays; names are UTF-8, which the core accepts as str."""
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
            f"{op}: data must be an NDArray, a list of NDArrays or a dict of names to NDArrays, "
            f"got {type(data).__name__}"
        )
    for position, array in enumerate(arrays):
        if not isinstance(array, NDArray):
            label = repr(names[position]) if names else f"number {position}"
            raise TypeError_(f"{op}: entry {label} must be an NDArray, got {type(array).__name__}")
    return [name.encode() for name in names], arrays


def _parse(data: FileContent, source: str) -> Any:
    if bytes(data[:4]) == b"PK\x03\x04":
        return _parse_npz(data, source)
    if is_safetensors(data):
        return from_safetensors(data, source)
    if isinstance(data, FileBytes):
        return _core.load_descriptor(data.descriptor, len(data), source)
    if isinstance(data, RemoteFile):
        return _core.load_remote(data, source)
    return _core.load_buffer(data, source)


def _parse_npz(data: FileContent, source: str) -> Any:
    """Read the zip file of ``.npy`` members that MXNet 2.0 writes."""
    from .npz import read_npz  # imported late: zip and lzma cost 4 MB that few programs need

    found = read_npz(data, source)
    values = {name: make_array(array, dtype=array.dtype) for name, array in found.items()}
    places = [f"arr_{index}" for index in range(len(values))]
    if values and set(values) == set(places):
        return [values[place] for place in places]
    return values
