"""Augmenters that transform an image together with its boxes.

Labels are arrays (objects, 5 or more): class, then left, top, right and bottom as shares of width
and height, then any further values. Random numbers come from Python's generator.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core import NDArray
from ..base import TypeError_, ValueError_
from ..ndarray import flip
from .augmenter import Augmenter, CastAug, Described, ForceResizeAug, ResizeAug
from .color import color_augmenters
from .geometry import copyMakeBorder, fixed_crop

Label = np.ndarray[Any, Any]


class DetAugmenter(Described):
    """Base of the augmenters for detection: defines ``__call__(src, label)``.

    `dumps` shows the keywords.
    """

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        """Return the changed image and label."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")


class DetBorrowAug(DetAugmenter):
    """Wraps an augmenter that does not move objects, so that boxes are not changed."""

    def __init__(self, augmenter: Augmenter) -> None:
        if not isinstance(augmenter, Augmenter):
            raise TypeError_(
                f"DetBorrowAug: augmenter must be an Augmenter, got {type(augmenter).__name__}"
            )
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> Any:
        """Return class and augmenter."""
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        """Return the changed image and the label."""
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """Applies one of several augmenters, chosen at random, or none.

    Parameters
    ----------
    aug_list : DetAugmenter or list of DetAugmenter
    skip_prob : float
        Probability of none.
    """

    def __init__(self, aug_list: Any, skip_prob: float = 0) -> None:
        super().__init__(skip_prob=skip_prob)
        self.aug_list = list(aug_list) if isinstance(aug_list, (list, tuple)) else [aug_list]
        for augmenter in self.aug_list:
            if not isinstance(augmenter, DetAugmenter):
                raise ValueError_(
                    "DetRandomSelectAug: aug_list must hold only DetAugmenter, got "
                    f"{type(augmenter).__name__}"
                )
        self.skip_prob = skip_prob if self.aug_list else 1

    def dumps(self) -> Any:
        """Return class and augmenters."""
        return [type(self).__name__.lower(), [part.dumps() for part in self.aug_list]]

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        """Return image and label, perhaps changed."""
        if random.random() < self.skip_prob or not self.aug_list:
            return src, label
        random.shuffle(self.aug_list)
        return self.aug_list[0](src, label)


@dataclass(eq=False, repr=False)
class DetHorizontalFlipAug(DetAugmenter):
    """Flips left to right with a probability."""

    p: float

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        """Return image and label, perhaps flipped."""
        if random.random() >= self.p:
            return src, label
        mirrored = label.copy()
        mirrored[:, 1], mirrored[:, 3] = 1.0 - label[:, 3], 1.0 - label[:, 1]
        return flip(src, axis=1), mirrored


def _range(value: Any) -> tuple[float, float]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


def _is_range(name: str, what: str, limits: tuple[float, float], above: float) -> bool:
    fine = limits[0] <= limits[1] and limits[1] > above
    if not fine:
        warnings.warn(f"Skip {name} due to invalid {what}: {limits}", stacklevel=4)
    return fine


def _areas(boxes: Label) -> Label:
    return np.maximum(0, boxes[:, 2] - boxes[:, 0]) * np.maximum(0, boxes[:, 3] - boxes[:, 1])


@dataclass(eq=False, repr=False)
class DetRandomCropAug(DetAugmenter):
    """Crops a random rectangle that covers enough of the objects.

    Parameters
    ----------
    min_object_covered : float
        Least visible share of each object that overlaps the rectangle.
    aspect_ratio_range, area_range : tuple of float
        Width / height and share of the image's area.
    min_eject_coverage : float
        Objects with a smaller visible share are dropped.
    max_attempts : int
        Number of rectangles that are tried; the image is kept if none is suitable.
    """

    min_object_covered: float = 0.1
    aspect_ratio_range: Any = (0.75, 1.33)
    area_range: Any = (0.05, 1.0)
    min_eject_coverage: float = 0.3
    max_attempts: int = 50

    def __post_init__(self) -> None:
        self.aspect_ratio_range = _range(self.aspect_ratio_range)
        self.area_range = _range(self.area_range)
        super().__post_init__()
        self.enabled = _is_range("DetRandomCropAug", "area_range", self.area_range, 0)
        if self.enabled:
            ratios = self.aspect_ratio_range
            self.enabled = _is_range("DetRandomCropAug", "aspect_ratio_range", ratios, 0)

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        """Return the crop and the boxes in it."""
        height, width = src.shape[0], src.shape[1]
        for _ in range(self.max_attempts if self.enabled else 0):
            box = self._propose(height, width)
            kept = None if box is None else self._cut_labels(label, box, height, width)
            if box is not None and kept is not None:
                return fixed_crop(src, *box), kept
        return src, label

    def _propose(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        """Draw a rectangle (x, y, width, height); None if its area or ratio is not allowed."""
        ratio = random.uniform(*self.aspect_ratio_range)
        if ratio <= 0:
            return None
        least, greatest = (share * height * width for share in self.area_range)
        h, highest = (round(math.sqrt(area / ratio)) for area in (least, greatest))
        if round(highest * ratio) > width:
            highest = int((width + 0.4999999) / ratio)
        highest = min(highest, height)
        h = random.randint(h, highest) if h < highest else highest
        w = round(h * ratio)
        if w * h < least:  # rounding has made it too small
            h += 1
            w = round(h * ratio)
        if w * h > greatest:
            h -= 1
            w = round(h * ratio)
        if not (least <= w * h <= greatest and 0 < w <= width and 0 < h <= height):
            return None
        y = random.randint(0, height - h)
        x = random.randint(0, width - w)
        return x, y, w, h

    def _cut_labels(
        self, label: Label, box: tuple[int, int, int, int], height: int, width: int
    ) -> Label | None:
        """Return the boxes inside a rectangle, or None if it covers too little of an object."""
        x, y, w, h = box
        if w * h < 2:
            return None
        scale = np.array([width, height, width, height])
        corner, extent = np.array([x, y, x, y]) / scale, np.array([w, h, w, h]) / scale
        inside = np.clip((label[:, 1:5] - corner) / extent, 0, 1)
        areas = _areas(label[:, 1:5])
        with np.errstate(divide="ignore", invalid="ignore"):
            shown = _areas(inside) * (extent[0] * extent[1]) / areas
        seen = shown[(areas * width * height > 2) & (shown > 0)]
        if seen.size == 0 or seen.min() <= self.min_object_covered:
            return None
        kept = (inside[:, 2] > inside[:, 0]) & (inside[:, 3] > inside[:, 1])
        kept &= shown > self.min_eject_coverage
        if not kept.any():
            return None
        cut = label.copy()
        cut[:, 1:5] = inside
        return cut[kept]


@dataclass(eq=False, repr=False)
class DetRandomPadAug(DetAugmenter):
    """Places the image at a random position in a larger image of one color.

    Parameters
    ----------
    aspect_ratio_range, area_range : tuple of float
        Width / height of the larger image, and its area as a multiple of the image's area.
    max_attempts : int
    pad_val : tuple of float
        Value of each channel around the image.
    """

    aspect_ratio_range: Any = DetRandomCropAug.aspect_ratio_range
    area_range: Any = (1.0, 3.0)
    max_attempts: int = DetRandomCropAug.max_attempts
    pad_val: Any = (128, 128, 128)

    def __post_init__(self) -> None:
        given = self.pad_val
        self.pad_val = given if isinstance(given, (tuple, list)) else (given,)
        self.aspect_ratio_range = _range(self.aspect_ratio_range)
        self.area_range = _range(self.area_range)
        super().__post_init__()
        self.enabled = _is_range("DetRandomPadAug", "area_range", self.area_range, 1)
        if self.enabled:
            ratios = self.aspect_ratio_range
            self.enabled = _is_range("DetRandomPadAug", "aspect_ratio_range", ratios, 0)

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        """Return the larger image and the boxes in it."""
        height, width = src.shape[0], src.shape[1]
        for _ in range(self.max_attempts if self.enabled else 0):
            size = self._propose(height, width)
            if size is None:
                continue
            w, h = size
            y, x = random.randint(0, h - height), random.randint(0, w - width)
            moved = label.copy()
            moved[:, (1, 3)] = (label[:, (1, 3)] * width + x) / w
            moved[:, (2, 4)] = (label[:, (2, 4)] * height + y) / h
            borders = (y, h - y - height, x, w - x - width)
            return copyMakeBorder(src, *borders, values=self.pad_val), moved
        return src, label

    def _propose(self, height: int, width: int) -> tuple[int, int] | None:
        """Draw a larger (width, height); None if its area or aspect ratio is not allowed."""
        ratio = random.uniform(*self.aspect_ratio_range)
        if ratio <= 0:
            return None
        h, highest = (round(math.sqrt(s * height * width / ratio)) for s in self.area_range)
        if round(h * ratio) < width:
            h = int((width + 0.499999) / ratio)
        h = max(h, height)
        h = random.randint(h, highest) if h < highest else highest
        w = round(h * ratio)
        return None if h - height < 2 or w - width < 2 else (w, h)


def CreateMultiRandCropAugmenter(  # noqa: N802
    min_object_covered: Any = DetRandomCropAug.min_object_covered,
    aspect_ratio_range: Any = DetRandomCropAug.aspect_ratio_range,
    area_range: Any = DetRandomCropAug.area_range,
    min_eject_coverage: Any = DetRandomCropAug.min_eject_coverage,
    max_attempts: Any = DetRandomCropAug.max_attempts,
    skip_prob: float = 0,
) -> DetRandomSelectAug:
    """Return an augmenter that applies one of several `DetRandomCropAug`, chosen at random.

    Parameters
    ----------
    min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts
        As in `DetRandomCropAug`; lists have one value for each augmenter.
    skip_prob : float
        Probability of none.

    Raises
    ------
    ValueError
        If the lists have different lengths.
    """
    given = (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts)
    columns = [value if isinstance(value, list) else [value] for value in given]
    count = max(map(len, columns))
    if any(len(column) not in (1, count) for column in columns):
        raise ValueError_(
            f"CreateMultiRandCropAugmenter: lists must have 1 or {count} entries, got "
            f"{', '.join(str(len(column)) for column in columns)}"
        )
    rows = zip(*(column * count if len(column) == 1 else column for column in columns))
    return DetRandomSelectAug([DetRandomCropAug(*row) for row in rows], skip_prob)


def CreateDetAugmenter(  # noqa: N802
    data_shape: tuple[int, ...],
    resize: int = 0,
    rand_crop: float = 0,
    rand_pad: float = 0,
    rand_gray: float = 0,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    pca_noise: float = 0,
    hue: float = 0,
    inter_method: int = 2,
    min_object_covered: Any = DetRandomCropAug.min_object_covered,
    aspect_ratio_range: Any = DetRandomCropAug.aspect_ratio_range,
    area_range: Any = (0.05, 3.0),
    min_eject_coverage: Any = DetRandomCropAug.min_eject_coverage,
    max_attempts: Any = DetRandomCropAug.max_attempts,
    pad_val: Sequence[float] = (127, 127, 127),
) -> list[DetAugmenter]:
    """Return a standard list of augmenters for detection.

    Parameters
    ----------
    data_shape : tuple of int
        (channels, height, width) of the result.
    resize : int
        Size of the shorter edge before all other steps; 0: no resizing.
    rand_crop, rand_pad, rand_gray : float
        Probabilities of cropping, padding and gray.
    rand_mirror : bool
        Mirror with probability one half.
    mean, std : numpy.ndarray, bool or None
        True: the values of ImageNet.
    brightness, contrast, saturation, pca_noise, hue : float
        Amounts of the color changes; 0 leaves them out.
    inter_method : int
        See :func:`imresize`.
    min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts
        See `CreateMultiRandCropAugmenter` and `DetRandomPadAug`.
    pad_val : tuple of float
    """
    steps: list[DetAugmenter] = []
    if resize > 0:
        steps.append(DetBorrowAug(ResizeAug(resize, inter_method)))
    if rand_crop > 0:
        steps.append(
            CreateMultiRandCropAugmenter(
                min_object_covered,
                aspect_ratio_range,
                area_range,
                min_eject_coverage,
                max_attempts,
                skip_prob=1 - rand_crop,
            )
        )
    if rand_mirror:
        steps.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        enlarged = (1.0, area_range[1])
        pad = DetRandomPadAug(aspect_ratio_range, enlarged, max_attempts, pad_val)
        steps.append(DetRandomSelectAug([pad], 1 - rand_pad))
    steps.append(DetBorrowAug(ForceResizeAug((data_shape[2], data_shape[1]), inter_method)))
    steps.append(DetBorrowAug(CastAug()))
    colors = color_augmenters(
        brightness, contrast, saturation, hue, pca_noise, rand_gray, mean, std
    )
    return steps + [DetBorrowAug(augmenter) for augmenter in colors]
