"""Resizing, cropping, rotation and borders of images (height, width, channels)."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .. import ndarray as nd
from .._core import NDArray
from ..base import ShapeError, TypeError_, ValueError_
from ..ndarray import array
from ..ndarray.structure import in_class_of


def _size_of(src: Any, who: str) -> tuple[int, int]:
    """Return height and width of an image; raise if it is not an image."""
    if not isinstance(src, NDArray):
        raise TypeError_(
            f"{who}: src must be an NDArray (height, width, channels), got {type(src).__name__}; "
            "mx.nd.array(image, dtype='uint8') makes one"
        )
    if src.ndim != 3:
        raise ShapeError(f"{who}: image must have shape (height, width, channels), got {src.shape}")
    return src.shape[0], src.shape[1]


def imresize(src: NDArray, w: int, h: int, interp: int = 1, out: NDArray | None = None) -> NDArray:
    """Resize an image.

    Parameters
    ----------
    src : NDArray
        uint8, float32 or float64 (height, width, channels).
    w, h : int
        New width and height.
    interp : int
        0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos; 9: area to shrink and bicubic to
        enlarge; 10: a random one.
    out : NDArray, optional
        Array for the result.

    Returns
    -------
    NDArray
        (h, w, channels), dtype of src.
    """
    height, width = _size_of(src, "imresize")
    interp = _get_interp_method(interp, (height, width, h, w))
    if src.dtype == np.uint8:
        resized = in_class_of(_core.resize_image(src, w, h, interp), src)
    else:
        resized = nd.image.resize(src, (w, h), interp=interp)
    return resized if out is None else resized.copyto(out)


def array_beside(src: NDArray, values: Any, dtype: Any = np.float32) -> NDArray:
    """Return an array on the context and of the class of an image."""
    return in_class_of(array(values, ctx=src.context, dtype=dtype), src)


def _get_interp_method(interp: int, sizes: Sequence[int] = ()) -> int:
    if interp == 9:
        if not sizes:
            return 2
        old_h, old_w, new_h, new_w = sizes
        if new_h > old_h and new_w > old_w:
            return 2
        return 3 if new_h < old_h and new_w < old_w else 1
    if interp == 10:
        return random.randint(0, 4)
    return interp


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """Return ``size`` (width, height), shrunk at the same aspect ratio to fit ``src_size``."""
    width, height = float(size[0]), float(size[1])
    src_width, src_height = src_size
    if src_height < height:
        width, height = width * src_height / height, src_height
    if src_width < width:
        width, height = src_width, height * src_width / width
    return int(width), int(height)


def resize_short(src: NDArray, size: int, interp: int = 2) -> NDArray:
    """Resize so that the shorter side has ``size`` pixels."""
    height, width = _size_of(src, "resize_short")
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
    """Crop a rectangle (w, h) at (x0, y0), and resize it to size (width, height).

    Raises ValueError if the rectangle leaves the image.
    """
    height, width = _size_of(src, "fixed_crop")
    if x0 < 0 or y0 < 0 or w <= 0 or h <= 0 or x0 + w > width or y0 + h > height:
        raise ValueError_(
            f"fixed_crop: the rectangle must be inside the image of {width} x {height}, got "
            f"x0={x0}, y0={y0}, w={w}, h={h}"
        )
    out = _core.op("slice")(src, begin=(y0, x0, 0), end=(y0 + h, x0 + w, src.shape[2]))
    if size is not None and (w, h) != tuple(size):
        out = imresize(out, size[0], size[1], interp)
    return out


def center_crop(
    src: NDArray, size: tuple[int, int], interp: int = 2
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Crop size (width, height) from the center; smaller images are enlarged.

    Returns the crop and its rectangle (x0, y0, width, height) in src.
    """
    height, width = _size_of(src, "center_crop")
    new_w, new_h = scale_down((width, height), size)
    x0, y0 = (width - new_w) // 2, (height - new_h) // 2
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def random_crop(
    src: NDArray, size: tuple[int, int], interp: int = 2
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Crop size (width, height) at a random position (Python's generator).

    Returns the crop and its rectangle (x0, y0, width, height) in src.
    """
    height, width = _size_of(src, "random_crop")
    new_w, new_h = scale_down((width, height), size)
    x0 = random.randint(0, width - new_w)
    y0 = random.randint(0, height - new_h)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def color_normalize(src: NDArray, mean: Any, std: Any = None) -> NDArray:
    """Return (src - mean) / std; a step is skipped if its argument is None."""
    mean, std = (in_class_of(v, src) if isinstance(v, NDArray) else v for v in (mean, std))
    if mean is not None:
        src = src - mean
    if std is not None:
        src = src / std
    return src


def random_size_crop(
    src: NDArray,
    size: tuple[int, int],
    area: float | tuple[float, float],
    ratio: tuple[float, float],
    interp: int = 2,
    **kwargs: Any,
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Crop a random area, aspect ratio and position (Python's generator), and resize the crop.

    Parameters
    ----------
    src : NDArray
        (height, width, channels).
    size : tuple of int
        Width and height of the result.
    area : float or tuple of float
        Least and greatest share of the image's area; a number is the least share.
    ratio : tuple of float
        Least and greatest width / height.
    interp : int
        See :func:`imresize`.

    Returns
    -------
    tuple of (NDArray, tuple)
        The crop and its rectangle (x0, y0, width, height) in src; that of `center_crop` if ten
        drawn rectangles do not fit.

    Notes
    -----
    Matches ``mxnet.image.random_size_crop``, with the deprecated ``min_area``.
    """
    if "min_area" in kwargs:
        warnings.warn(
            "`min_area` is deprecated. Please use `area` instead.", DeprecationWarning, stacklevel=2
        )
        area = kwargs.pop("min_area")
    if kwargs:
        raise TypeError_(f"random_size_crop: unexpected arguments {', '.join(sorted(kwargs))}")
    least, greatest = area if isinstance(area, (tuple, list)) else (area, 1.0)
    height, width = _size_of(src, "random_size_crop")
    for _ in range(10):
        target = random.uniform(least, greatest) * height * width
        chosen = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        new_w, new_h = round(math.sqrt(target * chosen)), round(math.sqrt(target / chosen))
        if 0 < new_w <= width and 0 < new_h <= height:
            x0 = random.randint(0, width - new_w)
            y0 = random.randint(0, height - new_h)
            return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)
    return center_crop(src, size, interp)


_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect"}


def copyMakeBorder(  # noqa: N802
    src: NDArray,
    top: int,
    bot: int,
    left: int,
    right: int,
    type: int = 0,  # noqa: A002
    value: float = 0.0,
    values: Sequence[float] = (),
    out: NDArray | None = None,
) -> NDArray:
    """Surround an image with a border.

    Parameters
    ----------
    src : NDArray
        (height, width, channels).
    top, bot, left, right : int
        Widths of the border.
    type : int
        0: filled with a value, 1: the edge repeated, 2: mirrored with the edge, 3: the opposite
        side, 4: mirrored without the edge (OpenCV's numbers).
    value : float
    values : tuple of float
        One for each channel, instead of value.
    out : NDArray, optional
        Array for the result.

    Returns
    -------
    NDArray
        (top + height + bot, left + width + right, channels), dtype of src.

    Raises
    ------
    ValueError
        If a width is negative or the type unknown.
    """
    if min(top, bot, left, right) < 0:
        raise ValueError_(
            f"copyMakeBorder: widths must be 0 or more, got {top}, {bot}, {left}, {right}"
        )
    if type not in _BORDERS:
        raise ValueError_(f"copyMakeBorder: type must be 0 to 4, got {type}")
    widths = ((top, bot), (left, right), (0, 0))
    _size_of(src, "copyMakeBorder")
    pixels = src.asnumpy()
    if type == 0:
        fill = np.asarray(values if len(values) else value)
        if fill.size not in (1, pixels.shape[2]):
            raise ValueError_(
                f"copyMakeBorder: the number of values must be 1 or that of channels, "
                f"{pixels.shape[2]}, got {fill.size}"
            )
        shape = [sum(width) + n for width, n in zip(widths, pixels.shape)]
        bordered = np.empty(shape, pixels.dtype)
        bordered[...] = fill.astype(pixels.dtype)
        bordered[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
    else:
        bordered = np.pad(pixels, widths, mode=_BORDERS[type])  # type: ignore[call-overload]
    result = array_beside(src, bordered, bordered.dtype)
    return result if out is None else result.copyto(out)


def imrotate(
    src: NDArray, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False
) -> NDArray:
    """Rotate images about their centers; pixels from outside are 0.

    Parameters
    ----------
    src : NDArray
        float32 (channels, height, width) or (n, channels, height, width).
    rotation_degrees : float or NDArray
        Angles of shape (n,), or one number for all images.
    zoom_in : bool
        Enlarge the rotated image until it has no padding.
    zoom_out : bool
        Shrink the rotated image until it is visible as a whole.

    Returns
    -------
    NDArray
        Shape of src.

    Raises
    ------
    TypeError, ValueError
    """
    if zoom_in and zoom_out:
        raise ValueError_("imrotate: `zoom_in` and `zoom_out` cannot be both True")
    if src.dtype != np.float32:
        raise TypeError_(
            f"imrotate: data of type {np.dtype(src.dtype).name} given. Only `float32` images are "
            "supported by this function"
        )
    if src.ndim not in (3, 4):
        raise ShapeError(f"imrotate: data must have 3 or 4 dimensions, got shape {src.shape}")
    single = np.isscalar(rotation_degrees)
    if src.ndim == 3:
        if not single:
            raise TypeError_(
                "imrotate: rotation_degrees must be a number for a single image, got an array"
            )
        return imrotate(nd.expand_dims(src, 0), rotation_degrees, zoom_in, zoom_out)[0]
    degrees = rotation_degrees
    if isinstance(degrees, NDArray):
        degrees = degrees.asnumpy()
    angles = np.full(src.shape[0], degrees) if single else np.asarray(degrees).reshape(-1)
    if len(angles) != src.shape[0]:
        raise ShapeError(
            f"imrotate: the number of angles must be that of images, {src.shape[0]}, got "
            f"{len(angles)}"
        )
    grid = _rotation_grid(np.deg2rad(angles), src.shape[2:], zoom_in, zoom_out)
    return _core.op("BilinearSampler")(src, array(grid, ctx=src.context, dtype=np.float32))


def _rotation_grid(
    angles: np.ndarray[Any, Any], size: tuple[int, ...], zoom_in: bool, zoom_out: bool
) -> np.ndarray[Any, Any]:
    """Return (n, 2, height, width): each pixel's source position, from -1 to 1 between edges."""
    height, width = size
    cos, sin = np.cos(angles), np.sin(angles)
    scale = np.ones_like(angles)
    if zoom_in or zoom_out:
        # Size of the bounding box of the rotated image.
        box_w = width * np.abs(cos) + height * np.abs(sin)
        box_h = width * np.abs(sin) + height * np.abs(cos)
        if zoom_out:
            scale = np.maximum(box_w / width, box_h / height)
        else:
            scale = np.minimum(width / box_w, height / box_h)
    half_h, half_w = (height - 1) / 2, (width - 1) / 2
    y, x = np.mgrid[:height, :width] - np.array([half_h, half_w]).reshape(2, 1, 1)
    cos, sin = ((scale * part).reshape(-1, 1, 1) for part in (cos, sin))
    return np.stack(
        [(x * cos - y * sin) / max(half_w, 0.5), (x * sin + y * cos) / max(half_h, 0.5)], axis=1
    )


def random_rotate(
    src: NDArray, angle_limits: Sequence[float], zoom_in: bool = False, zoom_out: bool = False
) -> NDArray:
    """Rotate each image by an angle drawn by ``numpy.random``.

    Parameters
    ----------
    src : NDArray
        float32 (channels, height, width) or (n, channels, height, width).
    angle_limits : tuple of float
        Least and greatest angle in degrees.
    zoom_in, zoom_out : bool
        See :func:`imrotate`.

    Returns
    -------
    NDArray
        Shape of src.
    """
    low, high = angle_limits
    if src.ndim == 3:
        return imrotate(src, np.random.uniform(low, high), zoom_in, zoom_out)
    return imrotate(src, array(np.random.uniform(low, high, src.shape[0])), zoom_in, zoom_out)
