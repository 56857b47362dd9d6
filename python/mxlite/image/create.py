"""A standard list of augmenters."""

from __future__ import annotations

from typing import Any

from ..base import ShapeError, ValueError_
from .augmenter import (
    Augmenter,
    CastAug,
    CenterCropAug,
    HorizontalFlipAug,
    RandomCropAug,
    RandomSizedCropAug,
    ResizeAug,
)
from .color import color_augmenters


def CreateAugmenter(  # noqa: N802
    data_shape: tuple[int, ...],
    resize: int = 0,
    rand_crop: bool = False,
    rand_resize: bool = False,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    hue: float = 0,
    pca_noise: float = 0,
    rand_gray: float = 0,
    inter_method: int = 2,
) -> list[Augmenter]:
    """Return a standard list of augmenters.

    Parameters
    ----------
    data_shape : tuple of int
        (channels, height, width) of the result.
    resize : int
        Size of the shorter edge before the crop; 0: no resizing.
    rand_crop, rand_resize, rand_mirror : bool
        Whether to crop at a random position, to give this crop a random size, and to mirror with
        probability one half.
    mean, std : numpy.ndarray, bool or None
        True: the values of ImageNet.
    brightness, contrast, saturation, hue, pca_noise, rand_gray : float
        Amounts of the color changes; 0 leaves them out.
    inter_method : int
        See :func:`imresize`.

    Raises
    ------
    ValueError
        If rand_resize is set without rand_crop.
    """
    steps: list[Augmenter] = []
    if resize > 0:
        steps.append(ResizeAug(resize, inter_method))
    if len(data_shape) != 3:
        raise ShapeError(
            "CreateAugmenter: data_shape must be (channels, height, width), got "
            f"{tuple(data_shape)}"
        )
    size = (data_shape[2], data_shape[1])
    if rand_resize:
        if not rand_crop:
            raise ValueError_("CreateAugmenter: rand_resize needs rand_crop=True")
        steps.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    elif rand_crop:
        steps.append(RandomCropAug(size, inter_method))
    else:
        steps.append(CenterCropAug(size, inter_method))
    if rand_mirror:
        steps.append(HorizontalFlipAug(0.5))
    steps.append(CastAug())
    return steps + color_augmenters(
        brightness, contrast, saturation, hue, pca_noise, rand_gray, mean, std
    )
