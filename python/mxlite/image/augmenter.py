"""Augmenters, which change images before training.

Each takes an image (height, width, channels) and returns one. As in MXNet 1.x, random numbers come
from Python's generator, in `LightingAug` from NumPy's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._core import NDArray
from ..base import TypeError_
from ..ndarray import flip
from .geometry import (
    center_crop,
    imresize,
    random_crop,
    random_size_crop,
    resize_short,
)


def plain(value: Any) -> Any:
    """Return a parameter as a value that JSON supports."""
    if isinstance(value, NDArray):
        value = value.asnumpy()
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


class Described:
    """Base of objects that can show their class and options as JSON.

    Subclasses that are dataclasses declare each option once: a field is a constructor parameter, an
    attribute and an entry of `dumps`. Others pass the options as keywords.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {key: plain(value) for key, value in kwargs.items()}

    def __post_init__(self) -> None:
        options = fields(self)  # type: ignore[arg-type] # only dataclasses call this
        Described.__init__(self, **{field.name: getattr(self, field.name) for field in options})

    def dumps(self) -> Any:
        """Return class and parameters as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])


class Augmenter(Described):
    """Base of the augmenters: defines ``__call__(src)``; `dumps` shows the keywords."""

    def __call__(self, src: NDArray) -> NDArray:
        """Return the changed image."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")


class _Group(Augmenter):
    """Base of the augmenters that contain other augmenters."""

    def __init__(self, ts: Sequence[Augmenter]) -> None:
        super().__init__()
        self.ts = list(ts)

    def dumps(self) -> Any:
        """Return class and augmenters."""
        return [type(self).__name__.lower(), [part.dumps() for part in self.ts]]


class SequentialAug(_Group):
    """Applies augmenters one after another.

    Parameters
    ----------
    ts : list of Augmenter
    """

    def __call__(self, src: NDArray) -> NDArray:
        """Return the image after all of them."""
        for part in self.ts:
            src = part(src)
        return src


class RandomOrderAug(_Group):
    """Applies augmenters in random order.

    Parameters
    ----------
    ts : list of Augmenter
    """

    def __call__(self, src: NDArray) -> NDArray:
        """Return the image after all of them."""
        random.shuffle(self.ts)
        for part in self.ts:
            src = part(src)
        return src


@dataclass(eq=False, repr=False)
class ResizeAug(Augmenter):
    """Resizes the shorter edge to a given size (`resize_short`)."""

    size: int
    interp: int = 2

    def __call__(self, src: NDArray) -> NDArray:
        """Return the resized image."""
        return resize_short(src, self.size, self.interp)


@dataclass(eq=False, repr=False)
class ForceResizeAug(Augmenter):
    """Resizes to (width, height), ignoring the aspect ratio."""

    size: tuple[int, int]
    interp: int = 2

    def __call__(self, src: NDArray) -> NDArray:
        """Return the resized image."""
        return imresize(src, self.size[0], self.size[1], self.interp)


@dataclass(eq=False, repr=False)
class RandomCropAug(Augmenter):
    """Crops (width, height) at a random position (`random_crop`)."""

    size: tuple[int, int]
    interp: int = 2

    def __call__(self, src: NDArray) -> NDArray:
        """Return the crop."""
        return random_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """Crops a rectangle of random area, aspect ratio and position (`random_size_crop`)."""

    def __init__(
        self,
        size: tuple[int, int],
        area: float | tuple[float, float],
        ratio: tuple[float, float],
        interp: int = 2,
        **kwargs: Any,
    ) -> None:
        if "min_area" in kwargs:
            area = kwargs.pop("min_area")
        if kwargs:
            raise TypeError_(
                f"RandomSizedCropAug: unexpected arguments {', '.join(sorted(kwargs))}"
            )
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size = size
        self.area = area
        self.ratio = ratio
        self.interp = interp

    def __call__(self, src: NDArray) -> NDArray:
        """Return the crop."""
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


@dataclass(eq=False, repr=False)
class CenterCropAug(Augmenter):
    """Crops (width, height) from the center (`center_crop`)."""

    size: tuple[int, int]
    interp: int = 2

    def __call__(self, src: NDArray) -> NDArray:
        """Return the crop."""
        return center_crop(src, self.size, self.interp)[0]


@dataclass(eq=False, repr=False)
class HorizontalFlipAug(Augmenter):
    """Flips left to right with a probability."""

    p: float

    def __call__(self, src: NDArray) -> NDArray:
        """Return the image, perhaps flipped."""
        return flip(src, axis=1) if random.random() < self.p else src


class CastAug(Augmenter):
    """Converts to a type."""

    def __init__(self, typ: str = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: NDArray) -> NDArray:
        """Return the image as the type."""
        return src.astype(self.typ)
