"""Reading and preparing images (MXNet 1.x: ``mxnet.image``).

Images are uint8 NDArrays (height, width, channels), RGB.
"""

from __future__ import annotations

import random
from typing import Any

from . import _core
from ._core import NDArray
from .base import MissingFileError, RecordError, ValueError_

__all__ = [
    "center_crop",
    "color_normalize",
    "fixed_crop",
    "imdecode",
    "imread",
    "imresize",
    "random_crop",
    "resize_short",
    "scale_down",
]


def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True, out: NDArray | None = None) -> NDArray:
    """Decode a JPEG image.

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
        If the bytes are no JPEG image or a damaged one.
    """
    return _decode(buf, flag, to_rgb, out, "imdecode")


def _decode(buf: Any, flag: int, to_rgb: bool, out: NDArray | None, name: str) -> NDArray:
    if isinstance(buf, NDArray):
        buf = buf.asnumpy()
    image = _core.decode_jpeg(buf, color=bool(flag), to_rgb=bool(to_rgb), name=name)
    return image if out is None else image.copyto(out)


def imread(
    filename: str, flag: int = 1, to_rgb: bool = True, out: NDArray | None = None
) -> NDArray:
    """Read and decode a JPEG file.

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
        If the file is no JPEG image or a damaged one.
    """
    try:
        with open(filename, "rb") as file:
            data = file.read()
    except FileNotFoundError as error:
        raise MissingFileError(f"imread: there is no file {filename!r}") from error
    except OSError as error:
        raise RecordError(f"imread: {filename!r} cannot be read: {error.strerror}") from error
    return _decode(data, flag, to_rgb, out, f"imread {filename!r}")


def imresize(src: NDArray, w: int, h: int, interp: int = 1) -> NDArray:
    """Resize an image.

    Parameters
    ----------
    src : NDArray
        uint8 or float32 (height, width, channels).
    w, h : int
        New width and height.
    interp : int
        0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos; 9 picks area for shrinking and bicubic
        for enlarging; 10 picks one at random.

    Returns
    -------
    NDArray
        (h, w, channels), dtype of src.
    """
    height, width = src.shape[0], src.shape[1]
    return _core.resize_image(src, w, h, _interpolation(interp, (height, width, h, w)))


def _interpolation(interp: int, sizes: tuple[int, int, int, int]) -> int:
    if interp == 9:
        old_h, old_w, new_h, new_w = sizes
        if new_h > old_h and new_w > old_w:
            return 2
        return 3 if new_h < old_h and new_w < old_w else 1
    if interp == 10:
        return random.randint(0, 4)
    return interp


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """Return ``size`` (width, height) shrunk, keeping its ratio, to fit into ``src_size``."""
    width, height = float(size[0]), float(size[1])
    src_width, src_height = src_size
    if src_height < height:
        width, height = width * src_height / height, src_height
    if src_width < width:
        width, height = src_width, height * src_width / width
    return int(width), int(height)


def resize_short(src: NDArray, size: int, interp: int = 2) -> NDArray:
    """Resize so that the shorter side has ``size`` pixels."""
    height, width = src.shape[0], src.shape[1]
    if height > width:
        return imresize(src, size, size * height // width, interp)
    return imresize(src, size * width // height, size, interp)


def fixed_crop(
    src: NDArray,
    x0: int,
    y0: int,
    w: int,
    h: int,
    size: tuple[int, int] | None = None,
    interp: int = 2,
) -> NDArray:
    """Cut the rectangle at (x0, y0) of width w and height h and resize it to size (width, height).

    Raises
    ------
    ValueError
        If the rectangle leaves the image.
    """
    height, width = src.shape[0], src.shape[1]
    if x0 < 0 or y0 < 0 or w <= 0 or h <= 0 or x0 + w > width or y0 + h > height:
        raise ValueError_(
            f"fixed_crop: rectangle x0={x0}, y0={y0}, w={w}, h={h} is not inside an image of "
            f"{width} x {height}"
        )
    out = _core.op("slice")(src, begin=(y0, x0, 0), end=(y0 + h, x0 + w, src.shape[2]))
    if size is not None and (w, h) != tuple(size):
        out = imresize(out, size[0], size[1], interp)
    return out


def center_crop(
    src: NDArray, size: tuple[int, int], interp: int = 2
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Cut size (width, height) from the center; enlarges if the image is smaller.

    Returns
    -------
    tuple of (NDArray, tuple)
        The crop and its rectangle (x0, y0, width, height) in src.
    """
    height, width = src.shape[0], src.shape[1]
    new_w, new_h = scale_down((width, height), size)
    x0, y0 = (width - new_w) // 2, (height - new_h) // 2
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def random_crop(
    src: NDArray, size: tuple[int, int], interp: int = 2
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Cut size (width, height) at a random place (Python's generator).

    Returns
    -------
    tuple of (NDArray, tuple)
        The crop and its rectangle (x0, y0, width, height) in src.
    """
    height, width = src.shape[0], src.shape[1]
    new_w, new_h = scale_down((width, height), size)
    x0 = random.randint(0, width - new_w)
    y0 = random.randint(0, height - new_h)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def color_normalize(src: NDArray, mean: Any, std: Any = None) -> NDArray:
    """Return (src - mean) / std; None leaves a step out."""
    if mean is not None:
        src = src - mean
    if std is not None:
        src = src / std
    return src
