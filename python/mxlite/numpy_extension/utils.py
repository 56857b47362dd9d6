"""Files of ``mx.np`` arrays, and classes of arrays from DLPack and NumPy."""

from __future__ import annotations

import os
from typing import Any

from .. import _core
from .. import ndarray as nd
from .._core import NDArray
from .calls import check_arrays

__all__ = ["from_dlpack", "from_numpy", "load", "save", "to_dlpack_for_read", "to_dlpack_for_write"]


def save(file: str | os.PathLike[str], arr: Any) -> None:
    """Save arrays in the ``.params`` format, regardless of the file name's ending.

    Parameters
    ----------
    file : str or path
    arr : ndarray, list of ndarray, or dict of str to ndarray
        A single array is saved as a list of one.

    Raises
    ------
    TypeError
        If arr is anything else. Convert an mx.nd array with ``as_np_ndarray()`` first.
    """
    check_arrays("npx.save", arr.values() if isinstance(arr, dict) else [arr])
    nd.save(file, arr, format="params")


def load(file: str | os.PathLike[str]) -> Any:
    """Load the arrays of a file as ``mx.np`` arrays.

    Parameters
    ----------
    file : str or path
        Any file that ``mx.nd.load`` reads, npz files included.

    Returns
    -------
    list of ndarray or dict of str to ndarray
    """
    found = nd.load(file)
    if isinstance(found, dict):
        return {name: _core.with_numpy(array, True) for name, array in found.items()}
    return [_core.with_numpy(array, True) for array in found]


def from_dlpack(dlpack: Any) -> NDArray:
    """Return an array on the memory of a DLPack capsule or of an object that exports one."""
    return _core.with_numpy(nd.from_dlpack(dlpack), True)


def from_numpy(ndarray: Any, zero_copy: bool = True) -> NDArray:
    """Return an array with the values of a NumPy array; on the same memory if ``zero_copy``."""
    return _core.with_numpy(nd.from_numpy(ndarray, zero_copy), True)


def to_dlpack_for_read(data: NDArray) -> Any:
    """Return a DLPack capsule of the array for reading; waits until its value is computed."""
    return data.to_dlpack_for_read()


def to_dlpack_for_write(data: NDArray) -> Any:
    """Return a DLPack capsule of the array for writing; waits until all tasks that use it end."""
    return data.to_dlpack_for_write()
