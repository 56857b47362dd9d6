"""Augmenters of brightness, contrast and color."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._core import NDArray
from ..base import ValueError_
from ..ndarray import array, dot
from .augmenter import Augmenter, RandomOrderAug, plain
from .geometry import array_beside, color_normalize

_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])
_GRAY = _TO_YIQ[0].astype(np.float32).reshape(1, 1, 3)


def _gray(src: NDArray) -> NDArray:
    return src * array_beside(src, _GRAY)


@dataclass(eq=False, repr=False)
class BrightnessJitterAug(Augmenter):
    """Multiplies the image by a factor from ``1 - brightness`` to ``1 + brightness``."""

    brightness: float

    def __call__(self, src: NDArray) -> NDArray:
        """Return the float image."""
        return src * (1.0 + random.uniform(-self.brightness, self.brightness))


@dataclass(eq=False, repr=False)
class ContrastJitterAug(Augmenter):
    """Blends with the mean gray by a factor from ``1 - contrast`` to ``1 + contrast``."""

    contrast: float

    def __call__(self, src: NDArray) -> NDArray:
        """Return the float image."""
        factor = 1.0 + random.uniform(-self.contrast, self.contrast)
        mean = _gray(src).sum() * (3.0 * (1.0 - factor) / src.size)
        return src * factor + mean.reshape((1, 1, 1))


@dataclass(eq=False, repr=False)
class SaturationJitterAug(Augmenter):
    """Blends with the gray image by a factor from ``1 - saturation`` to ``1 + saturation``."""

    saturation: float

    def __call__(self, src: NDArray) -> NDArray:
        """Return the float image."""
        factor = 1.0 + random.uniform(-self.saturation, self.saturation)
        return src * factor + _gray(src).sum(axis=2, keepdims=True) * (1.0 - factor)


@dataclass(eq=False, repr=False)
class HueJitterAug(Augmenter):
    """Rotates the hue by an angle from ``-hue`` to ``hue`` half turns, in the YIQ space."""

    hue: float

    def __call__(self, src: NDArray) -> NDArray:
        """Return the float image."""
        angle = random.uniform(-self.hue, self.hue) * np.pi
        cos, sin = np.cos(angle), np.sin(angle)
        turn = np.array([[1.0, 0.0, 0.0], [0.0, cos, -sin], [0.0, sin, cos]])
        matrix = (_FROM_YIQ @ turn @ _TO_YIQ).T
        return dot(src, array_beside(src, matrix))


class ColorJitterAug(RandomOrderAug):
    """Changes brightness, contrast and saturation in random order.

    Parameters
    ----------
    brightness, contrast, saturation : float
        0 leaves a step out.
    """

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        steps: list[Augmenter] = []
        if brightness > 0:
            steps.append(BrightnessJitterAug(brightness))
        if contrast > 0:
            steps.append(ContrastJitterAug(contrast))
        if saturation > 0:
            steps.append(SaturationJitterAug(saturation))
        super().__init__(steps)


@dataclass(eq=False, repr=False)
class LightingAug(Augmenter):
    """Adds noise along the principal components of colors (AlexNet).

    Parameters
    ----------
    alphastd : float
        Standard deviation of the noise.
    eigval, eigvec : numpy.ndarray
        (3,) and (3, 3).
    """

    alphastd: float
    eigval: Any
    eigvec: Any

    def __call__(self, src: NDArray) -> NDArray:
        """Return the float image."""
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        shift = np.dot(np.asarray(self.eigvec) * alpha, self.eigval)
        return src + array_beside(src, shift)


def _channels(values: Any) -> NDArray | None:
    if values is None or isinstance(values, NDArray):
        return values
    return array(np.asarray(values), dtype=np.float32)


class ColorNormalizeAug(Augmenter):
    """Returns ``(src - mean) / std``.

    Parameters
    ----------
    mean, std : NDArray, numpy.ndarray or None
    """

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__(mean=mean, std=std)
        self.mean = _channels(mean)
        self.std = _channels(std)

    def __call__(self, src: NDArray) -> NDArray:
        """Return the float image."""
        return color_normalize(src, self.mean, self.std)


_LUMA = np.tile(np.array([[0.21], [0.72], [0.07]], np.float32), (1, 3))


@dataclass(eq=False, repr=False)
class RandomGrayAug(Augmenter):
    """Makes the image gray with a probability."""

    p: float

    def __call__(self, src: NDArray) -> NDArray:
        """Return the float image."""
        if random.random() < self.p:
            return dot(src, array_beside(src, _LUMA))
        return src


IMAGENET_MEAN = np.array([123.68, 116.28, 103.53])
IMAGENET_STD = np.array([58.395, 57.12, 57.375])
# Principal components of ImageNet's colors, in units of 0 to 255.
IMAGENET_EIGENVALUES, IMAGENET_EIGENVECTORS = map(np.array, _core.principal_colors())


def color_augmenters(
    brightness: float,
    contrast: float,
    saturation: float,
    hue: float,
    pca_noise: float,
    rand_gray: float,
    mean: Any,
    std: Any,
) -> list[Augmenter]:
    """Return the augmenters of color that `CreateAugmenter` and `CreateDetAugmenter` append."""
    steps: list[Augmenter] = []
    if brightness or contrast or saturation:
        steps.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        steps.append(HueJitterAug(hue))
    if pca_noise > 0:
        steps.append(LightingAug(pca_noise, IMAGENET_EIGENVALUES, IMAGENET_EIGENVECTORS))
    if rand_gray > 0:
        steps.append(RandomGrayAug(rand_gray))
    mean = IMAGENET_MEAN if mean is True else mean
    std = IMAGENET_STD if std is True else std
    for name, values in (("mean", mean), ("std", std)):
        if values is not None and np.shape(plain(values)) not in ((1,), (3,)):
            raise ValueError_(
                f"CreateAugmenter: {name} must be 1 or 3 numbers, got shape "
                f"{np.shape(plain(values))}"
            )
    if mean is not None or std is not None:
        steps.append(ColorNormalizeAug(_channels(mean), _channels(std)))
    return steps
