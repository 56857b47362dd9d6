"""Reading and preparing images (MXNet 1.x: ``mxnet.image``).

Images are uint8 NDArrays (height, width, channels), RGB.
"""

from __future__ import annotations

from .augmenter import (
    Augmenter,
    CastAug,
    CenterCropAug,
    ForceResizeAug,
    HorizontalFlipAug,
    RandomCropAug,
    RandomOrderAug,
    RandomSizedCropAug,
    ResizeAug,
    SequentialAug,
)
from .color import (
    BrightnessJitterAug,
    ColorJitterAug,
    ColorNormalizeAug,
    ContrastJitterAug,
    HueJitterAug,
    LightingAug,
    RandomGrayAug,
    SaturationJitterAug,
)
from .create import CreateAugmenter
from .geometry import (
    _get_interp_method,
    center_crop,
    color_normalize,
    copyMakeBorder,
    fixed_crop,
    imresize,
    imrotate,
    random_crop,
    random_rotate,
    random_size_crop,
    resize_short,
    scale_down,
)
from .read import imdecode, imread

__all__ = [
    "Augmenter",
    "BrightnessJitterAug",
    "CastAug",
    "CenterCropAug",
    "ColorJitterAug",
    "ColorNormalizeAug",
    "ContrastJitterAug",
    "CreateAugmenter",
    "ForceResizeAug",
    "HorizontalFlipAug",
    "HueJitterAug",
    "LightingAug",
    "RandomCropAug",
    "RandomGrayAug",
    "RandomOrderAug",
    "RandomSizedCropAug",
    "ResizeAug",
    "SaturationJitterAug",
    "SequentialAug",
    "_get_interp_method",
    "center_crop",
    "color_normalize",
    "copyMakeBorder",
    "fixed_crop",
    "imdecode",
    "imread",
    "imresize",
    "imrotate",
    "random_crop",
    "random_rotate",
    "random_size_crop",
    "resize_short",
    "scale_down",
]
