"""Images from files and their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._core import NDArray
from ..base import MissingFileError, RecordError, TypeError_

__all__ = ["imdecode", "imread"]


def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True, out: NDArray | None = None) -> NDArray:
    """Decode an image, JPEG or PNG, turned upright as its Exif tag says.

    Parameters
    ----------
    buf : bytes, bytearray, numpy.ndarray or NDArray of uint8
        The file's bytes.
    flag : int
        1: three channels, 0: gray, -1: the channels of the file, not turned.
    to_rgb : bool
        RGB instead of OpenCV's BGR.
    out : NDArray, optional
        Array for the result.

    Returns
    -------
    NDArray
        uint8 (height, width, 3 or 1), or 4 channels with flag -1.

    Raises
    ------
    RecordError
        If the bytes are not an image, or a damaged one.
    """
    return _decode(buf, flag, to_rgb, out, "imdecode")


def _decode(buf: Any, flag: int, to_rgb: bool, out: NDArray | None, name: str) -> NDArray:
    if isinstance(buf, NDArray):
        buf = buf.asnumpy()
    if not isinstance(buf, (bytes, bytearray, memoryview, np.ndarray)):
        raise TypeError_(f"{name}: a {type(buf).__name__} given, the bytes of an image expected")
    channels = _core.image_info(buf, name)[2] if flag == -1 else 3 if flag else 1
    image = _core.decode_image(
        buf, channels=channels, to_rgb=bool(to_rgb), upright=flag != -1, name=name
    )
    return image if out is None else image.copyto(out)


def imread(
    filename: str, flag: int = 1, to_rgb: bool = True, out: NDArray | None = None
) -> NDArray:
    """Read and decode an image file.

    Parameters
    ----------
    filename : str
    flag, to_rgb, out
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
        If the file is not an image, or a damaged one.
    """
    try:
        with open(filename, "rb") as file:
            data = file.read()
    except FileNotFoundError as error:
        raise MissingFileError(f"imread: there is no file {filename!r}") from error
    except OSError as error:
        raise RecordError(f"imread: {filename!r} cannot be read: {error.strerror}") from error
    return _decode(data, flag, to_rgb, out, f"imread {filename!r}")
