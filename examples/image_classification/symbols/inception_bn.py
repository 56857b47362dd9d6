"""Inception with batch normalization (Ioffe and Szegedy 2015)."""

from __future__ import annotations

from typing import Any

import mxlite as mx

from .layers import classifier, height, image

# Filters: 1x1; reduction, 3x3; reduction, double 3x3; pool and its projection.
_BLOCKS = {
    "3a": (64, 64, 64, 64, 96, "avg", 32),
    "3b": (64, 64, 96, 64, 96, "avg", 64),
    "4a": (224, 64, 96, 96, 128, "avg", 128),
    "4b": (192, 96, 128, 96, 128, "avg", 128),
    "4c": (160, 128, 160, 128, 160, "avg", 128),
    "4d": (96, 128, 192, 160, 192, "avg", 128),
    "5a": (352, 192, 320, 160, 224, "avg", 128),
    "5b": (352, 192, 320, 192, 224, "max", 128),
}
# Blocks that halve the image: reduction, 3x3; reduction, double 3x3.
_HALVING = {"3c": (128, 160, 64, 96), "4e": (128, 192, 192, 256)}
_ORDER = ("3a", "3b", "3c", "4a", "4b", "4c", "4d", "4e", "5a", "5b")

# For images of 28 pixels: filters of 1x1 and 3x3, or of the 3x3 that halves the image.
_SMALL = {
    "in3a": (32, 32),
    "in3b": (32, 48),
    "in3c": (80,),
    "in4a": (112, 48),
    "in4b": (96, 64),
    "in4c": (80, 80),
    "in4d": (48, 96),
    "in4e": (96,),
    "in5a": (176, 160),
    "in5b": (176, 160),
}


def _convolution(data: Any, filters: int, kernel: int, name: str, stride: int = 1) -> Any:
    data = mx.sym.Convolution(
        data,
        num_filter=filters,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad=(kernel // 2, kernel // 2),
        name=f"conv_{name}",
    )
    # This is the smallest epsilon of cuDNN plus 1e-10.
    data = mx.sym.BatchNorm(
        data, fix_gamma=False, eps=1e-10 + 1e-5, momentum=0.9, name=f"bn_{name}"
    )
    return mx.sym.Activation(data, act_type="relu", name=f"relu_{name}")


def _three(data: Any, reduction: int, filters: int, name: str, stride: int = 1) -> Any:
    data = _convolution(data, reduction, 1, f"{name}_3x3_reduce")
    return _convolution(data, filters, 3, f"{name}_3x3", stride)


def _double_three(data: Any, reduction: int, filters: int, name: str, stride: int = 1) -> Any:
    data = _convolution(data, reduction, 1, f"{name}_double_3x3_reduce")
    data = _convolution(data, filters, 3, f"{name}_double_3x3_0")
    return _convolution(data, filters, 3, f"{name}_double_3x3_1", stride)


def _pool(data: Any, kind: str, name: str, stride: int = 1) -> Any:
    return mx.sym.Pooling(
        data, kernel=(3, 3), stride=(stride, stride), pad=(1, 1), pool_type=kind, name=name
    )


def _block(data: Any, name: str) -> Any:
    concat = f"ch_concat_{name}_chconcat"
    if name in _HALVING:
        reduce3, three, reduce_double, double = _HALVING[name]
        return mx.sym.Concat(
            _three(data, reduce3, three, name, stride=2),
            _double_three(data, reduce_double, double, name, stride=2),
            _pool(data, "max", f"max_pool_{name}_pool", stride=2),
            name=concat,
        )
    one, reduce3, three, reduce_double, double, kind, project = _BLOCKS[name]
    return mx.sym.Concat(
        _convolution(data, one, 1, f"{name}_1x1"),
        _three(data, reduce3, three, name),
        _double_three(data, reduce_double, double, name),
        _convolution(_pool(data, kind, f"{kind}_pool_{name}_pool"), project, 1, f"{name}_proj"),
        name=concat,
    )


def _large(data: Any) -> Any:
    body = _convolution(data, 64, 7, "1", stride=2)
    body = mx.sym.Pooling(body, kernel=(3, 3), stride=(2, 2), pool_type="max", name="pool_1")
    body = _convolution(_convolution(body, 64, 1, "2_red"), 192, 3, "2")
    body = mx.sym.Pooling(body, kernel=(3, 3), stride=(2, 2), pool_type="max", name="pool_2")
    for name in _ORDER:
        body = _block(body, name)
    return body


def _small(data: Any) -> Any:
    body = _convolution(data, 96, 3, "1")
    for name, filters in _SMALL.items():
        if len(filters) == 1:
            parts = [
                _convolution(body, filters[0], 3, f"{name}_conv", stride=2),
                _pool(body, "max", f"{name}_pool", stride=2),
            ]
        else:
            parts = [
                _convolution(body, filters[0], 1, f"{name}_1x1"),
                _convolution(body, filters[1], 3, f"{name}_3x3"),
            ]
        body = mx.sym.Concat(*parts, name=f"{name}_ch_concat")
    return body


def get_symbol(num_classes: int, image_shape: Any, dtype: str = "float32", **_: Any) -> Any:
    """Return the network for images of 224 pixels, or a smaller one for at most 28."""
    data = image(dtype)
    body = _small(data) if height(image_shape) <= 28 else _large(data)
    body = mx.sym.Pooling(body, kernel=(7, 7), stride=(1, 1), pool_type="avg", name="global_pool")
    return classifier(mx.sym.Flatten(body), num_classes, dtype)
