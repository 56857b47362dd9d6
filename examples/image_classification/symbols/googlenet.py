"""GoogLeNet (Szegedy et al. 2014) without its side classifiers."""

from __future__ import annotations

from typing import Any

import mxlite as mx

from .layers import classifier, image

# Filters: 1x1; reduction and 3x3; reduction and 5x5; projection of the pool.
_BLOCKS = {
    "in3a": (64, 96, 128, 16, 32, 32),
    "in3b": (128, 128, 192, 32, 96, 64),
    "in4a": (192, 96, 208, 16, 48, 64),
    "in4b": (160, 112, 224, 24, 64, 64),
    "in4c": (128, 128, 256, 24, 64, 64),
    "in4d": (112, 144, 288, 32, 64, 64),
    "in4e": (256, 160, 320, 32, 128, 128),
    "in5a": (256, 160, 320, 32, 128, 128),
    "in5b": (384, 192, 384, 48, 128, 128),
}
_POOL_BEHIND = ("in3b", "in4e")


def _convolution(data: Any, filters: int, kernel: int, name: str, stride: int = 1) -> Any:
    data = mx.sym.Convolution(
        data,
        num_filter=filters,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad=(kernel // 2, kernel // 2),
        name=f"conv_{name}",
    )
    return mx.sym.Activation(data, act_type="relu", name=f"relu_{name}")


def _pool(data: Any) -> Any:
    return mx.sym.Pooling(data, kernel=(3, 3), stride=(2, 2), pool_type="max")


def _block(data: Any, name: str) -> Any:
    one, reduce3, three, reduce5, five, project = _BLOCKS[name]
    pool = mx.sym.Pooling(
        data,
        kernel=(3, 3),
        stride=(1, 1),
        pad=(1, 1),
        pool_type="max",
        name=f"max_pool_{name}_pool",
    )
    return mx.sym.Concat(
        _convolution(data, one, 1, f"{name}_1x1"),
        _convolution(_convolution(data, reduce3, 1, f"{name}_3x3_reduce"), three, 3, f"{name}_3x3"),
        _convolution(_convolution(data, reduce5, 1, f"{name}_5x5_reduce"), five, 5, f"{name}_5x5"),
        _convolution(pool, project, 1, f"{name}_proj"),
        name=f"ch_concat_{name}_chconcat",
    )


def get_symbol(num_classes: int = 1000, dtype: str = "float32", **_: Any) -> Any:
    """Return the network for images of 224 x 224."""
    body = _pool(_convolution(image(dtype), 64, 7, "conv1", stride=2))
    body = _convolution(_convolution(body, 64, 1, "conv2"), 192, 3, "conv3")
    body = _pool(body)
    for name in _BLOCKS:
        body = _block(body, name)
        if name in _POOL_BEHIND:
            body = _pool(body)
    body = mx.sym.Pooling(body, kernel=(7, 7), stride=(1, 1), global_pool=True, pool_type="avg")
    return classifier(mx.sym.Flatten(body), num_classes, dtype)
