"""Reading npz files: zip archives of ``.npy`` members, as MXNet 2.0 and NumPy write them.

`numpy.load` allocates the size in a header before it reads the data. Here the sizes in the
archive's directory are compared with a limit, and the headers with the directory.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
from typing import Any, Callable

import numpy as np

from .._files.packed import check_unpacked_size
from .._files.whole import SlicedStream
from .._files.zipped import ZIP_DAMAGE
from ..base import FileFormatError
from .file_bytes import FileContent

_MOST_MEMBERS = 1_000_000
_LONGEST_HEADER = 10_000
_TYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248])")
Objects = Callable[[bytes], Any]


def read_npz(
    data: FileContent, source: str, objects: Objects | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of an npz file."""
    where = f"load: {source} is a damaged npz file"
    try:
        with zipfile.ZipFile(io.BufferedReader(SlicedStream(data))) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise ValueError(
                    f"number of members must be at most {_MOST_MEMBERS}, got {len(members)}"
                )
            size = sum(member.file_size for member in members)
            check_unpacked_size(size, len(data), f"load: {source}")
            values: dict[str, np.ndarray[Any, Any]] = {}
            for member in members:
                name = member.filename
                name = name[:-4] if name.endswith(".npy") else name
                if name in values:
                    raise ValueError(f"members must have distinct names, got {name[:100]!r} twice")
                values[name] = _array(archive, member, objects)
            return values
    except FileFormatError:
        raise
    except ZIP_DAMAGE as error:
        raise FileFormatError(f"{where}: {str(error)[:300] or type(error).__name__}") from None


def _array(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, objects: Objects | None
) -> np.ndarray[Any, Any]:
    label = f"member {member.filename[:100]!r}"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(
            f"{label}: compression method must be 0 (stored) or 8 (deflate), which NumPy writes, "
            f"got {member.compress_type}"
        )
    with archive.open(member) as stream:
        shape, fortran, dtype = _header(stream, label, objects is not None)
        if objects is not None and dtype.hasobject:
            made = objects(stream.read())
            if not isinstance(made, np.ndarray) or made.shape != shape:
                raise ValueError(f"{label}: its pickle must hold an array of shape {shape}")
            return made
        size = math.prod(shape) * dtype.itemsize
        left = member.file_size - stream.tell()
        if size != left:
            raise ValueError(
                f"{label}, offset {stream.tell()}: the {size} bytes of shape {shape} and type "
                f"{dtype} must follow, got {left}"
            )
        raw = stream.read(size)
        if len(raw) != size or stream.read(1):
            amount = "fewer" if len(raw) != size else "more"
            raise ValueError(f"{label}: it must unpack to {size} bytes, got {amount}")
    values = np.frombuffer(raw, np.uint8 if dtype.kind == "b" else dtype)
    if dtype.kind == "b":  # bytes other than 0 and 1 would give wrong sums
        values = values != 0
    return values.reshape(shape, order="F" if fortran else "C")


def _header(
    stream: Any, label: str, with_objects: bool
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    import ast

    magic = stream.read(8)
    if len(magic) < 8 or magic[:6] != b"\x93NUMPY" or magic[6] not in (1, 2, 3):
        raise ValueError(f"{label}, offset 0: the bytes must be 93 4e 55 4d 50 59 and a version")
    layout = "<H" if magic[6] == 1 else "<I"
    (length,) = struct.unpack(layout, stream.read(struct.calcsize(layout)))
    if length > _LONGEST_HEADER:
        raise ValueError(f"{label}: header must have at most {_LONGEST_HEADER} bytes, got {length}")
    text = stream.read(length).decode("latin1")
    try:
        header = ast.literal_eval(text.strip())
    except (MemoryError, RecursionError) as error:
        raise ValueError(f"{label}: its header is nested too deeply") from error
    code, shape = header["descr"], header["shape"]
    if type(code) is not str or not (_TYPE.fullmatch(code) or (with_objects and code == "|O")):
        raise ValueError(f"{label}: arrays of type {str(code)[:100]} are not read")
    if type(shape) is not tuple or len(shape) > 32:
        raise ValueError(f"{label}: its shape must be a tuple of sizes, got {str(shape)[:100]}")
    if any(type(extent) is not int or extent < 0 for extent in shape):
        raise ValueError(f"{label}: its shape must be a tuple of sizes, got {str(shape)[:100]}")
    return shape, header["fortran_order"] is True, np.dtype(code)
