"""MobileNet (Howard et al. 2017): depthwise 3x3 and pointwise convolutions in turn."""

from __future__ import annotations

from typing import Any

import mxlite as mx

from .layers import classifier, height, image

# Filters of each pointwise convolution in units of the first layer's, and the stride before it.
_PAIRS = [(2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *[(16, 1)] * 5, (32, 2), (32, 1)]
_MULTIPLIERS = (0.25, 0.5, 0.75, 1.0)


def _convolution(
    data: Any, filters: int, kernel: int, name: str, stride: int = 1, groups: int = 1
) -> Any:
    data = mx.sym.Convolution(
        data,
        num_filter=filters,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad=(kernel // 2, kernel // 2),
        num_group=groups,
        no_bias=True,
        name=f"{name}_conv2d",
    )
    data = mx.sym.BatchNorm(data, fix_gamma=True, name=f"{name}_batchnorm")
    return mx.sym.Activation(data, act_type="relu", name=f"{name}_relu")


def get_symbol(
    num_classes: int,
    alpha: float = 1,
    image_shape: Any = "3,224,224",
    dtype: str = "float32",
    **_: Any,
) -> Any:
    """Return the network.

    Parameters
    ----------
    num_classes : int
    alpha : float
        Multiplier of all widths: 0.25, 0.5, 0.75 or 1.
    image_shape : str
        Height and width are multiples of 32.
    dtype : str

    Raises
    ------
    ValueError
        For another multiplier or size.
    """
    size = height(image_shape)
    if alpha not in _MULTIPLIERS:
        raise ValueError(f"mobilenet: alpha must be one of {_MULTIPLIERS}, got {alpha}")
    if size % 32:
        raise ValueError(
            f"mobilenet: the size of images must be a multiple of 32, got {size} pixels"
        )
    base = int(32 * alpha)
    filters = base
    body = _convolution(image(dtype), filters, 3, "conv_1", stride=2)
    for number, (width, stride) in enumerate(_PAIRS, 2):
        body = _convolution(body, filters, 3, f"conv_{number}_dw", stride, groups=filters)
        filters = base * width
        body = _convolution(body, filters, 1, f"conv_{number}")
    side = size // 32
    body = mx.sym.Pooling(
        body, kernel=(side, side), stride=(1, 1), pool_type="avg", name="global_pool"
    )
    return classifier(mx.sym.Flatten(body, name="flatten"), num_classes, dtype, "fc")
