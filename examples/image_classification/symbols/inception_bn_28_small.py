"""Inception with batch normalization for images of 28 pixels, with the layer names before 1.0.

``--network inception-bn --image-shape 3,28,28`` is the same with the later names and gammas.
"""

from __future__ import annotations

from typing import Any

import mxlite as mx

from .inception_bn import _SMALL
from .layers import classifier, image


def _convolution(data: Any, filters: int, kernel: int, stride: int = 1) -> Any:
    data = mx.sym.Convolution(
        data,
        num_filter=filters,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad=(kernel // 2, kernel // 2),
    )
    return mx.sym.Activation(mx.sym.BatchNorm(data), act_type="relu")


def get_symbol(num_classes: int = 10, dtype: str = "float32", **_: Any) -> Any:
    """Return the network for images of 28 x 28."""
    body = _convolution(image(dtype), 96, 3)
    for filters in _SMALL.values():
        if len(filters) == 1:
            convolution = _convolution(body, filters[0], 3, stride=2)
            other = mx.sym.Pooling(body, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")
        else:
            convolution = _convolution(body, filters[0], 1)
            other = _convolution(body, filters[1], 3)
        body = mx.sym.Concat(convolution, other)
    body = mx.sym.Pooling(body, pool_type="avg", kernel=(7, 7), name="global_pool")
    return classifier(mx.sym.Flatten(body, name="flatten1"), num_classes, dtype, "fc1")
