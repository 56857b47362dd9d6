"""Transforms of brightness, contrast and color of (height, width, channels) images."""

from __future__ import annotations

import random
from typing import Any

from ..... import ndarray as nd
from .....base import ValueError_
from .....ndarray import NDArray
from ....block import Block, HybridBlock

__all__ = [
    "RandomBrightness",
    "RandomColorJitter",
    "RandomContrast",
    "RandomGray",
    "RandomHue",
    "RandomLighting",
    "RandomSaturation",
]


class _Jitter(HybridBlock):
    """Base of the transforms with one factor, uniform in ``[max(0, 1 - amount), 1 + amount]``."""

    _operator = ""

    def __init__(self, amount: float) -> None:
        super().__init__()
        if amount < 0:
            raise ValueError_(f"{type(self).__name__}: the amount must be 0 or more, got {amount}")
        self._args = (max(0, 1 - amount), 1 + amount)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return the changed image."""
        return getattr(F.image, self._operator)(x, *self._args)


class RandomBrightness(_Jitter):
    """Multiplies the image by a factor from ``[max(0, 1 - brightness), 1 + brightness]``.

    Matches ``mxnet.gluon.data.vision.transforms.RandomBrightness``.
    """

    _operator = "random_brightness"

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness)


class RandomContrast(_Jitter):
    """Blends with the mean gray by a factor from ``[max(0, 1 - contrast), 1 + contrast]``.

    Matches ``mxnet.gluon.data.vision.transforms.RandomContrast``.
    """

    _operator = "random_contrast"

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast)


class RandomSaturation(_Jitter):
    """Blends with the gray image by a factor from ``[max(0, 1 - saturation), 1 + saturation]``.

    Matches ``mxnet.gluon.data.vision.transforms.RandomSaturation``.
    """

    _operator = "random_saturation"

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation)


class RandomHue(_Jitter):
    """Rotates the hue by a factor from ``[max(0, 1 - hue), 1 + hue]``.

    Matches ``mxnet.gluon.data.vision.transforms.RandomHue``.
    """

    _operator = "random_hue"

    def __init__(self, hue: float) -> None:
        super().__init__(hue)


class RandomColorJitter(HybridBlock):
    """Changes brightness, contrast, saturation and hue in random order.

    Matches ``mxnet.gluon.data.vision.transforms.RandomColorJitter``.

    Parameters
    ----------
    brightness, contrast, saturation, hue : float
        Factors are from ``[max(0, 1 - x), 1 + x]``; 0 leaves a step out.
    """

    def __init__(
        self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0
    ) -> None:
        super().__init__()
        self._args = (brightness, contrast, saturation, hue)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return the changed image."""
        return F.image.random_color_jitter(x, *self._args)


class RandomLighting(HybridBlock):
    """Adds noise along the principal components of ImageNet's colors (AlexNet).

    Matches ``mxnet.gluon.data.vision.transforms.RandomLighting``.

    Parameters
    ----------
    alpha : float
        Standard deviation of the noise.
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return the changed image."""
        return F.image.random_lighting(x, self._alpha)


class RandomGray(Block):
    """Makes the image gray with a probability (Python's generator), with the same channel count."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError_(f"RandomGray: the probability must be 0 to 1, got {p}")
        self._p = p

    def forward(self, x: NDArray) -> NDArray:
        """Return (height, width, 3), perhaps gray."""
        if random.random() >= self._p:
            return x
        weights = nd.array([0.21, 0.72, 0.07], ctx=x.context).reshape((1, 1, 3))
        gray = nd.sum(nd.broadcast_mul(x.astype("float32"), weights), axis=2, keepdims=True)
        return nd.broadcast_to(gray, shape=x.shape).astype(x.dtype)
