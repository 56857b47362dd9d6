"""Transforms that crop, resize, rotate and flip images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..... import image
from ....._typed_init import check_number
from .....base import TypeError_, ValueError_
from .....ndarray import NDArray
from ....block import Block, HybridBlock

__all__ = [
    "CenterCrop",
    "CropResize",
    "RandomCrop",
    "RandomFlipLeftRight",
    "RandomFlipTopBottom",
    "RandomResizedCrop",
    "RandomRotation",
    "Resize",
    "Rotate",
]


def _pair(size: Any) -> tuple[int, int]:
    """Return (width, height) of a number or a pair."""
    if isinstance(size, (int, float, np.number)):
        return int(size), int(size)
    if len(size) != 2:
        raise ValueError_(f"size must be a number or (width, height), got {size!r}")
    return int(size[0]), int(size[1])


def _check_float(name: str, x: NDArray) -> None:
    if x.dtype != np.float32:
        raise TypeError_(
            f"{name}: data must be float32, got {np.dtype(x.dtype).name}; call it after ToTensor"
        )


class Rotate(Block):
    """Rotates (C, H, W) or (N, C, H, W) by an angle.

    Matches ``mxnet.gluon.data.vision.transforms.Rotate``.

    Parameters
    ----------
    rotation_degrees : float
    zoom_in : bool
        Enlarge the rotated image until it has no padding.
    zoom_out : bool
        Shrink the rotated image until it is visible as a whole.
    """

    def __init__(
        self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False
    ) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def forward(self, x: NDArray) -> NDArray:
        """Return the rotated image."""
        _check_float("Rotate", x)
        return image.imrotate(x, *self._args)


class RandomRotation(Block):
    """Rotates each image by an angle drawn by ``numpy.random``.

    Matches ``mxnet.gluon.data.vision.transforms.RandomRotation``.

    Parameters
    ----------
    angle_limits : tuple of float
        Lowest and highest angle in degrees.
    zoom_in, zoom_out : bool
        As in `Rotate`.
    rotate_with_proba : float
        Probability that an image is rotated.
    """

    def __init__(
        self,
        angle_limits: Sequence[float],
        zoom_in: bool = False,
        zoom_out: bool = False,
        rotate_with_proba: float = 1.0,
    ) -> None:
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ValueError_(
                f"RandomRotation: angle_limits is {angle_limits!r}, `angle_limits` must be an "
                "ordered tuple"
            )
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError_(
                f"RandomRotation: rotate_with_proba is {rotate_with_proba}. Probability of "
                "rotating the image should be between 0 and 1"
            )
        self._args = (angle_limits, zoom_in, zoom_out)
        self._rotate_with_proba = rotate_with_proba

    def forward(self, x: NDArray) -> NDArray:
        """Return the image, perhaps rotated."""
        if np.random.random() > self._rotate_with_proba:
            return x
        _check_float("RandomRotation", x)
        return image.random_rotate(x, *self._args)


class RandomResizedCrop(Block):
    """Crops a rectangle of random area, aspect ratio and position, and resizes it.

    Matches ``mxnet.gluon.data.vision.transforms.RandomResizedCrop`` (Python's generator).

    Parameters
    ----------
    size : int or tuple of (width, height)
    scale : tuple of float
        Smallest and largest area of the rectangle, as a share of the image's area.
    ratio : tuple of float
        Smallest and largest ratio of the width to the height of the rectangle.
    interpolation : int
        As in `mx.image.imresize`.
    """

    def __init__(
        self,
        size: Any,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        self._args = (_pair(size), scale, ratio, interpolation)

    def forward(self, x: NDArray) -> NDArray:
        """Return (height, width, channels)."""
        return image.random_size_crop(x, *self._args)[0]


class CropResize(HybridBlock):
    """Crops a rectangle and optionally resizes it.

    Matches ``mxnet.gluon.data.vision.transforms.CropResize``.

    Parameters
    ----------
    x, y : int
        Left and upper edge.
    width, height : int
    size : int or tuple of (width, height), optional
    interpolation : int, optional
        As in `mx.image.imresize`; default is 1.
    """

    def __init__(
        self,
        x: int,
        y: int,
        width: int,
        height: int,
        size: Any = None,
        interpolation: int | None = None,
    ) -> None:
        super().__init__()
        self._rectangle = (x, y, width, height)
        self._size = None if size is None else _pair(size)
        self._interpolation = 1 if interpolation is None else interpolation

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return the rectangle of (H, W, C) or (N, H, W, C)."""
        out = F.image.crop(x, *self._rectangle)
        if self._size is None:
            return out
        return F.image.resize(out, self._size, False, self._interpolation)


class CenterCrop(Block):
    """Crops a rectangle from the center; enlarges smaller images.

    Matches ``mxnet.gluon.data.vision.transforms.CenterCrop``.

    Parameters
    ----------
    size : int or tuple of (width, height)
    interpolation : int
        As in `mx.image.imresize`.
    """

    def __init__(self, size: Any, interpolation: int = 1) -> None:
        super().__init__()
        self._args = (_pair(size), interpolation)

    def forward(self, x: NDArray) -> NDArray:
        """Return (height, width, channels)."""
        return image.center_crop(x, *self._args)[0]


class RandomCrop(Block):
    """Crops a rectangle at a random position, after optional padding.

    Parameters
    ----------
    size : int or tuple of (width, height)
    pad : int or tuple of (left, right, top, bottom), optional
        Width of the border.
    pad_value : int
    interpolation : int
        Used for images that are smaller than ``size``; as in `mx.image.imresize`.
    """

    def __init__(
        self, size: Any, pad: Any = None, pad_value: int = 0, interpolation: int = 1
    ) -> None:
        super().__init__()
        self._args = (_pair(size), interpolation)
        self._pad = (pad,) * 4 if isinstance(pad, int) else pad
        self._pad_value = pad_value

    def forward(self, x: NDArray) -> NDArray:
        """Return (height, width, channels)."""
        if self._pad:
            left, right, top, bottom = self._pad
            x = image.copyMakeBorder(x, top, bottom, left, right, value=self._pad_value)
        return image.random_crop(x, *self._args)[0]


class Resize(HybridBlock):
    """Resizes (H, W, C) or (N, H, W, C).

    Matches ``mxnet.gluon.data.vision.transforms.Resize``.

    Parameters
    ----------
    size : int or tuple of (width, height)
    keep_ratio : bool
        Whether an int ``size`` is the length of the shorter edge, instead of both edges.
    interpolation : int
        As in `mx.image.imresize`.
    """

    def __init__(self, size: Any, keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        for part in size if isinstance(size, (tuple, list)) else (size,):
            check_number("Resize", "size", part)
        self._args = (size, keep_ratio, interpolation)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return the resized image."""
        return F.image.resize(x, *self._args)


class RandomFlipLeftRight(HybridBlock):
    """Flips left to right with probability one half.

    Matches ``mxnet.gluon.data.vision.transforms.RandomFlipLeftRight``.
    """

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return (H, W, C), perhaps mirrored."""
        return F.image.random_flip_left_right(x)


class RandomFlipTopBottom(HybridBlock):
    """Flips top to bottom with probability one half.

    Matches ``mxnet.gluon.data.vision.transforms.RandomFlipTopBottom``.
    """

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return (H, W, C), perhaps mirrored."""
        return F.image.random_flip_top_bottom(x)
