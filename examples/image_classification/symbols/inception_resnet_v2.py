"""Inception-ResNet v2 (Szegedy et al. 2016), for images of 299 x 299."""

from __future__ import annotations

from typing import Any

import mxlite as mx

from .layers import classifier, image

ONE, THREE, FIVE = (1, 1), (3, 3), (5, 5)


def _norm(data: Any, filters: int, kernel: Any, stride: int = 1, pad: Any = (0, 0)) -> Any:
    data = mx.sym.Convolution(
        data, num_filter=filters, kernel=kernel, stride=(stride, stride), pad=pad
    )
    return mx.sym.BatchNorm(data)


def _convolution(data: Any, filters: int, kernel: Any, stride: int = 1, pad: Any = (0, 0)) -> Any:
    return mx.sym.Activation(_norm(data, filters, kernel, stride, pad), act_type="relu")


def _tower(data: Any, *layers: Any) -> Any:
    """Return a sequence of convolutions: filters, kernel, stride, padding."""
    for layer in layers:
        data = _convolution(data, *layer)
    return data


def _residual(data: Any, filters: int, scale: float, towers: Any, activate: bool = True) -> Any:
    """Add the scaled sum of towers to the data."""
    mixed = mx.sym.Concat(*[_tower(data, *layers) for layers in towers])
    data = data + scale * _norm(mixed, filters, ONE)
    return mx.sym.Activation(data, act_type="relu") if activate else data


def _max_pool(data: Any) -> Any:
    return mx.sym.Pooling(data, kernel=THREE, stride=(2, 2), pool_type="max")


_BLOCK_35 = [
    [(32, ONE)],
    [(32, ONE), (32, THREE, 1, (1, 1))],
    [(32, ONE), (48, THREE, 1, (1, 1)), (64, THREE, 1, (1, 1))],
]
# The paddings of both layers together keep the size.
_BLOCK_17 = [[(192, ONE)], [(129, ONE), (160, (1, 7), 1, (1, 2)), (192, (7, 1), 1, (2, 1))]]
_BLOCK_8 = [[(192, ONE)], [(192, ONE), (224, (1, 3), 1, (0, 1)), (256, (3, 1), 1, (1, 0))]]


def get_symbol(num_classes: int = 1000, dtype: str = "float32", **_: Any) -> Any:
    """Return the network for images of 299 x 299."""
    body = _tower(image(dtype), (32, THREE, 2), (32, THREE), (64, THREE, 1, (1, 1)))
    body = _max_pool(body)
    body = _max_pool(_tower(body, (80, ONE), (192, THREE)))
    towers = [
        _tower(body, (96, ONE)),
        _tower(body, (48, ONE), (64, FIVE, 1, (2, 2))),
        _tower(body, (64, ONE), (96, THREE, 1, (1, 1)), (96, THREE, 1, (1, 1))),
    ]
    pool = mx.sym.Pooling(body, kernel=THREE, stride=(1, 1), pad=(1, 1), pool_type="avg")
    body = mx.sym.Concat(*towers, _tower(pool, (64, ONE)))
    for _number in range(10):
        body = _residual(body, 320, 0.17, _BLOCK_35)
    towers = [
        _tower(body, (384, THREE, 2)),
        _tower(body, (256, ONE), (256, THREE, 1, (1, 1)), (384, THREE, 2)),
    ]
    body = mx.sym.Concat(*towers, _max_pool(body))
    for _number in range(20):
        body = _residual(body, 1088, 0.1, _BLOCK_17)
    towers = [
        _tower(body, (256, ONE), (384, THREE, 2)),
        _tower(body, (256, ONE), (288, THREE, 2)),
        _tower(body, (256, ONE), (288, THREE, 1, (1, 1)), (320, THREE, 2)),
    ]
    body = mx.sym.Concat(*towers, _max_pool(body))
    for _number in range(9):
        body = _residual(body, 2080, 0.2, _BLOCK_8)
    body = _residual(body, 2080, 1.0, _BLOCK_8, activate=False)
    body = _convolution(body, 1536, ONE)
    body = mx.sym.Pooling(body, kernel=ONE, global_pool=True, stride=(2, 2), pool_type="avg")
    return classifier(mx.sym.Dropout(mx.sym.Flatten(body), p=0.2), num_classes, dtype)
