"""Reads weights of any format, and writes those that mxlite has."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import ndarray as nd
from .._files.saving import replacing_file
from .._files.torch_files import is_torch, read_torch
from .._progress import track
from ..base import DTypeError, TypeError_, ValueError_
from ..ndarray import NDArray
from ..ndarray.bits import from_bits
from ..ndarray.dtypes import dtype_name

SUFFIXES = (".params", ".safetensors", ".npz")


def read_weights(path: str) -> dict[str, NDArray]:
    """Return the named arrays of a file; names of tied weights share an array."""
    if not is_torch(path):
        arrays = nd.load(path)
        if not isinstance(arrays, dict):
            raise TypeError_(
                f"convert: file {path!r} must hold arrays with names, got a list of {len(arrays)}"
            )
        for name, array in arrays.items():
            if array is None:
                raise ValueError_(f"convert: array {name!r} of file {path!r} has no value")
        return arrays
    made: dict[int, NDArray] = {}
    found = read_torch(path)
    for dtype, bits in found.values():
        if id(bits) not in made:
            made[id(bits)] = from_bits(dtype, np.ascontiguousarray(bits), bits.shape)
    return {name: made[id(bits)] for name, (_, bits) in found.items()}


def check_suffix(path: str) -> None:
    """Raise ValueError if no format has the suffix of a name."""
    if not path.endswith(SUFFIXES):
        raise ValueError_(f"convert: OUT must end with one of {', '.join(SUFFIXES)}, got {path!r}")


def write_weights(path: str, arrays: Mapping[str, NDArray]) -> None:
    """Write named arrays in the format of the suffix."""
    if not path.endswith(".npz"):
        nd.save(path, arrays)
        return
    for name, array in arrays.items():
        if dtype_name(array.dtype) == "bfloat16":
            raise DTypeError(
                f"convert: array {name!r} must be of a type of NumPy for a .npz file, got bfloat16"
            )
    with replacing_file(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for name, array in track(arrays.items(), path, "array"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                values: np.ndarray[Any, Any] = array.asnumpy()
                np.lib.format.write_array(member, values, allow_pickle=False)
