"""The safetensors format, through the package ``safetensors``, which is optional."""

from __future__ import annotations

import collections
import importlib
import json
import os
import struct
from collections.abc import Mapping
from typing import Any, Callable

import numpy as np

from .. import _core
from .._core import NDArray
from .._files.whole import read_file
from ..base import (
    DTypeError,
    FileAccessError,
    FileFormatError,
    MissingFileError,
    NotSupportedError,
    TypeError_,
)
from .bits import from_bits, to_bits
from .file_bytes import FileBytes, FileContent

_LONGEST_HEADER = 100_000_000
_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "F16": "float16",
    "BF16": "bfloat16", "U32": "uint32", "I32": "int32", "F32": "float32", "U64": "uint64",
    "I64": "int64", "F64": "float64",
}  # fmt: skip


def _package(who: str) -> Any:
    try:
        importlib.import_module("safetensors.numpy")
        return importlib.import_module("safetensors")
    except ImportError as error:
        raise NotSupportedError(
            f"{who}: safetensors files need the package safetensors ({error}); "
            "pip install safetensors"
        ) from error


def to_safetensors(arrays: Mapping[str, NDArray]) -> bytes:
    """Return the bytes of a file; an array with several names is written once.

    The metadata map each further name to the first one, as the files of Hugging Face's
    ``save_model`` do, and have the format "pt", which Hugging Face's loaders demand.
    """
    package = _package("save")
    values: dict[str, np.ndarray[Any, Any]] = {}
    metadata = {"format": "pt"}
    first: dict[int, str] = {}
    for name, array in arrays.items():
        if name == "__metadata__":
            raise TypeError_("save: no array of a safetensors file can have the name __metadata__")
        if _core.array_kind(array) == "sparse":
            raise TypeError_(
                f"save: entry {name!r} must be a dense array for a safetensors file, got a "
                f"{type(array).__name__}; use tostype('default')"
            )
        if first.setdefault(id(array), name) != name:
            metadata[name] = first[id(array)]
            continue
        dtype, values[name] = to_bits(array)
        if dtype == "bfloat16":
            values[name] = values[name].view(_bfloat16())
    return package.numpy.save(values, metadata)


def _bfloat16() -> Any:
    try:
        return importlib.import_module("ml_dtypes").bfloat16
    except ImportError as error:
        raise NotSupportedError(
            f"save: bfloat16 arrays in safetensors files need the package ml_dtypes ({error}); "
            "pip install ml_dtypes"
        ) from error


def is_safetensors(data: FileContent) -> bool:
    """Return whether a file begins as safetensors: a length, then a JSON object."""
    return bytes(data[8:9]) == b"{"


def from_safetensors(data: FileContent, source: str) -> dict[str, NDArray]:
    """Return the arrays of a file, with the aliases that its metadata name."""
    package = _package("load")
    header = _header(data, source)
    try:
        found = package.deserialize(_whole(data))
    except package.SafetensorError as error:
        raise FileFormatError(f"load: {source} is a damaged safetensors file: {error}") from None
    arrays = {}
    while found:
        name, entry = found.pop()  # frees the bytes of each array when its NDArray is made
        if entry["dtype"] not in _DTYPES:
            raise DTypeError(
                f"load: {source}: array {name[:100]!r} must be of type {', '.join(_DTYPES)}, got "
                f"{entry['dtype']}"
            )
        arrays[name] = from_bits(_DTYPES[entry["dtype"]], entry["data"], tuple(entry["shape"]))
    names = [*header]
    for name, other in (header.pop("__metadata__", None) or {}).items():
        if other in arrays and name not in arrays:
            arrays[name] = arrays[other]
            names.append(name)
    return {name: arrays[name] for name in names if name in arrays}


def _header(data: FileContent, source: str) -> dict[str, Any]:
    """Return the JSON header; the package does not refuse names that occur twice."""
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(_LONGEST_HEADER, len(data) - 8):
        raise FileFormatError(
            f"load: {source}, offset 0: the header of a safetensors file must have at most "
            f"{min(_LONGEST_HEADER, len(data) - 8)} bytes here, got {length} (truncated?)"
        )

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [
            name for name, count in collections.Counter(n for n, _ in pairs).items() if count > 1
        ]
        if twice:
            raise ValueError(f"the name {twice[0][:100]!r} occurs twice")
        return dict(pairs)

    try:
        return json.loads(bytes(data[8 : 8 + length]), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"load: {source}, offset 8: a damaged header of a safetensors file: {error}"
        ) from None


def _whole(data: FileContent) -> bytes:
    if isinstance(data, FileBytes):
        with open(data.descriptor, "rb", closefd=False) as stream:
            return stream.read()
    return bytes(data[0 : len(data)])


def load_shards(path: str | bytes, load: Callable[[str], dict[str, NDArray]]) -> dict[str, NDArray]:
    """Return the arrays of the files that an index names; these must lie in its folder."""
    where = f"load: file {path!r}"
    try:
        index = json.loads(read_file(os.fsdecode(path)))
    except FileNotFoundError as error:
        raise MissingFileError(f"{where} does not exist") from error
    except OSError as error:
        raise FileAccessError(f"{where} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{where} must be valid JSON: {error}") from error
    files = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise FileFormatError(f"{where} must have a weight_map of names to files")
    arrays: dict[str, NDArray] = {}
    for file in dict.fromkeys(files.values()):
        if os.path.basename(file) != file or not file.endswith(".safetensors"):
            raise FileFormatError(
                f"{where}: a shard must be a .safetensors file in the folder of the index, got "
                f"{file[:100]!r}"
            )
        shard = load(os.path.join(os.path.dirname(os.fsdecode(path)), file))
        twice = [name for name in shard if name in arrays]
        missing = [name for name, place in files.items() if place == file and name not in shard]
        if twice or missing:
            problem = f"{missing[0]!r} is missing" if missing else f"{twice[0]!r} is in two shards"
            raise FileFormatError(f"{where}: the array {problem} in {file!r}")
        arrays.update(shard)
    return arrays
