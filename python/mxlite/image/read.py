"""Decodes images from files and from bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._core import NDArray
from .._files.whole import read_file
from ..base import MissingFileError, RecordError, TypeError_
from ..numpy_mode import of_mode


def imdecode(
    buf: Any,
    flag: int = 1,
    to_rgb: bool = True,
    out: NDArray | None = None,
    *,
    apply_exif_orientation: bool | None = None,
) -> NDArray:
    """Decode an image, JPEG or PNG.

    Parameters
    ----------
    buf : bytes, bytearray, memoryview, numpy.ndarray or NDArray
        The file's bytes; an array may have any dtype and layout, with values from 0 to 255.
    flag : int
        1: three channels, 0: gray, -1: the channels of the file.
    to_rgb : bool
        RGB instead of OpenCV's BGR.
    out : NDArray, optional
        Array for the result.
    apply_exif_orientation : bool, optional
        True: turn the image upright by its Exif orientation. False: keep the pixels as stored.
        None acts as MXNet 1.9.1: JPEG files that begin with a JFIF header stay as stored, and all
        others, such as photographs from cameras, are turned; with flag -1, all stay as stored.

    Returns
    -------
    NDArray
        uint8 (height, width, 3 or 1), or 4 channels with flag -1.

    Raises
    ------
    RecordError
        If the bytes are not an image, or the image is damaged.
    TypeError
        If `buf` does not contain bytes.
    """
    return _decode(buf, flag, to_rgb, out, apply_exif_orientation, "imdecode")


def _decode(
    buf: Any, flag: int, to_rgb: bool, out: NDArray | None, upright: bool | None, name: str
) -> NDArray:
    buf = _contiguous_bytes(buf, name)
    if upright is None:
        upright = flag != -1 and not _begins_with_jfif(buf)
    channels = _core.image_info(buf, name)[2] if flag == -1 else 3 if flag else 1
    image = _core.decode_image(
        buf, channels=channels, to_rgb=bool(to_rgb), upright=bool(upright), name=name
    )
    return of_mode(image) if out is None else image.copyto(out)


def _begins_with_jfif(buf: Any) -> bool:
    head = bytes(memoryview(buf).cast("B")[:11])
    return head[2:4] == b"\xff\xe0" and head[6:] == b"JFIF\0"


def _contiguous_bytes(buf: Any, name: str) -> Any:
    """Return the object itself, or a contiguous copy of an array's bytes."""
    if isinstance(buf, (bytes, bytearray)):
        return buf
    if isinstance(buf, memoryview):
        return buf if buf.c_contiguous else buf.tobytes()
    if isinstance(buf, NDArray):
        buf = buf.asnumpy()
    if not isinstance(buf, np.ndarray):
        raise TypeError_(f"{name}: buf must be the bytes of an image, got {type(buf).__name__}")
    if buf.dtype == np.uint8:
        return np.ascontiguousarray(buf)
    with np.errstate(all="ignore"):
        numbers = buf.astype(np.uint8) if buf.dtype.kind in "biuf" else None
    if numbers is None or not np.array_equal(numbers, buf):
        raise TypeError_(
            f"{name}: buf must be the bytes of an image, got an array of {buf.dtype} with values "
            "outside 0 to 255"
        )
    return np.ascontiguousarray(numbers)


def imread(
    filename: str,
    flag: int = 1,
    to_rgb: bool = True,
    out: NDArray | None = None,
    *,
    apply_exif_orientation: bool | None = None,
) -> NDArray:
    """Read and decode an image file.

    Parameters
    ----------
    filename : str
    flag, to_rgb, out, apply_exif_orientation
        See :func:`imdecode`.

    Returns
    -------
    NDArray
        uint8 (height, width, 3 or 1), or 4 channels with flag -1.

    Raises
    ------
    MissingFileError
        If there is no such file.
    RecordError
        If the file is not an image, or the image is damaged.
    """
    try:
        data = read_file(filename)
    except FileNotFoundError as error:
        raise MissingFileError(f"imread: there is no file {filename!r}") from error
    except OSError as error:
        raise RecordError(f"imread: {filename!r} cannot be read: {error.strerror}") from error
    return _decode(data, flag, to_rgb, out, apply_exif_orientation, f"imread {filename!r}")
