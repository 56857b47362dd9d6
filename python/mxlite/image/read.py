"""Images from files and their bytes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from .. import _core
from .._core import NDArray
from ..base import MissingFileError, RecordError
from ..ndarray import array

__all__ = ["imdecode", "imread"]

_PNG = b"\x89PNG\r\n\x1a\n"


def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True, out: NDArray | None = None) -> NDArray:
    """Decode an image: JPEG, and what Pillow reads where it is installed (PNG).

    Parameters
    ----------
    buf : bytes, bytearray, numpy.ndarray or NDArray of uint8
        The file's bytes.
    flag : int
        1: three channels, 0: gray.
    to_rgb : bool
        RGB instead of OpenCV's BGR.
    out : NDArray, optional
        Where to write the result.

    Returns
    -------
    NDArray
        uint8 (height, width, 3 or 1).

    Raises
    ------
    RecordError
        If the bytes are no image or a damaged one.
    """
    return _decode(buf, flag, to_rgb, out, "imdecode")


def _decode(buf: Any, flag: int, to_rgb: bool, out: NDArray | None, name: str) -> NDArray:
    if isinstance(buf, NDArray):
        buf = buf.asnumpy()
    if bytes(memoryview(buf).cast("B")[:8]) == _PNG:
        image = _decode_with_pillow(buf, bool(flag), bool(to_rgb), name)
        return image if out is None else image.copyto(out)
    image = _core.decode_jpeg(buf, color=bool(flag), to_rgb=bool(to_rgb), name=name)
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
        uint8 (height, width, 3 or 1).

    Raises
    ------
    MissingFileError
        If there is no such file.
    RecordError
        If the file is no image or a damaged one.
    """
    try:
        with open(filename, "rb") as file:
            data = file.read()
    except FileNotFoundError as error:
        raise MissingFileError(f"imread: there is no file {filename!r}") from error
    except OSError as error:
        raise RecordError(f"imread: {filename!r} cannot be read: {error.strerror}") from error
    return _decode(data, flag, to_rgb, out, f"imread {filename!r}")


def _decode_with_pillow(buf: Any, color: bool, to_rgb: bool, name: str) -> NDArray:
    try:
        from PIL import Image
    except ImportError as error:
        raise RecordError(f"{name}: this is a PNG image; install Pillow to read it") from error
    try:
        with Image.open(io.BytesIO(bytes(memoryview(buf).cast("B")))) as file:
            picture: Image.Image = file
            if file.mode.startswith("I"):  # 16 bits
                picture = Image.fromarray((np.asarray(file) >> 8).astype(np.uint8))
            pixels = np.asarray(picture.convert("RGB" if color else "L"))
    except Exception as error:  # noqa: BLE001 - Pillow raises many kinds for damaged files
        raise RecordError(f"{name}: the PNG image is damaged: {error}") from error
    if not color:
        pixels = pixels[..., np.newaxis]
    elif not to_rgb:
        pixels = pixels[..., ::-1]
    return array(np.ascontiguousarray(pixels), dtype=np.uint8)
