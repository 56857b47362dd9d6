"""MobileNet v2 (Sandler et al. 2018): inverted residuals with linear bottlenecks."""

from __future__ import annotations

from typing import Any

import mxlite as mx

from .layers import classifier, image

# Expansion, filters, units, stride of the first unit.
_STAGES = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]


def _convolution(
    data: Any,
    filters: int,
    kernel: int,
    name: str,
    stride: int = 1,
    groups: int = 1,
    activate: bool = True,
) -> Any:
    data = mx.sym.Convolution(
        data,
        num_filter=filters,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad=(kernel // 2, kernel // 2),
        num_group=groups,
        no_bias=True,
        name=f"{name}-conv2d",
    )
    data = mx.sym.BatchNorm(
        data, fix_gamma=False, use_global_stats=False, eps=1e-5, name=f"{name}-batchnorm"
    )
    return mx.sym.clip(data, 0, 6, name=f"{name}-relu6") if activate else data


def get_symbol(
    num_classes: int = 1000, multiplier: float = 1.0, dtype: str = "float32", **_: Any
) -> Any:
    """Return the network for images of 224 x 224.

    Parameters
    ----------
    num_classes : int
    multiplier : float
        Factor on all widths; that of the last layer does not shrink.
    dtype : str
    """
    filters = round(32 * multiplier)
    body = _convolution(image(dtype), filters, 3, "first-3x3-conv", stride=2)
    for stage, (expansion, width, count, first_stride) in enumerate(_STAGES):
        width = round(width * multiplier)
        for number in range(count):
            name = f"seq-{stage}-block{number}"
            wide = filters * expansion
            unit = _convolution(body, wide, 1, f"{name}-exp")
            stride = 1 if number else first_stride
            unit = _convolution(unit, wide, 3, f"{name}-depthwise", stride, groups=wide)
            unit = _convolution(unit, width, 1, f"{name}-linear", activate=False)
            if number:
                unit = mx.sym.elemwise_add(body, unit, name=f"{name}-shortcut")
            body, filters = unit, width
    body = _convolution(body, int(1280 * max(multiplier, 1.0)), 1, "last-1x1-conv")
    body = mx.sym.Pooling(
        body, kernel=(7, 7), stride=(1, 1), pool_type="avg", global_pool=True, name="global_pool"
    )
    return classifier(mx.sym.Flatten(body, name="flatten"), num_classes, dtype, "fc")
