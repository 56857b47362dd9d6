"""Inception v3 (Szegedy et al. 2015), for images of 299 x 299."""

from __future__ import annotations

from typing import Any

import mxlite as mx

from .layers import classifier, image

ONE, THREE, FIVE = (1, 1), (3, 3), (5, 5)
WIDE, TALL = (1, 7), (7, 1)


def _convolution(
    data: Any, name: str, filters: int, kernel: Any = ONE, stride: int = 1, same: bool = True
) -> Any:
    data = mx.sym.Convolution(
        data,
        num_filter=filters,
        kernel=kernel,
        stride=(stride, stride),
        pad=tuple(side // 2 for side in kernel) if same else (0, 0),
        no_bias=True,
        name=f"{name}_conv2d",
    )
    data = mx.sym.BatchNorm(data, fix_gamma=True, name=f"{name}_batchnorm")
    return mx.sym.Activation(data, act_type="relu", name=f"{name}_relu")


def _halve(data: Any, name: str, filters: int, number: Any = "") -> Any:
    return _convolution(data, f"{name}_conv{number}", filters, THREE, stride=2, same=False)


def _tower(data: Any, name: str, *layers: Any) -> Any:
    """Return a sequence of convolutions: ``<name>_conv``, ``<name>_conv_1``, ..."""
    for number, (filters, kernel) in enumerate(layers):
        data = _convolution(data, f"{name}_conv" + f"_{number}" * (number > 0), filters, kernel)
    return data


def _pool(data: Any, kind: str, name: str) -> Any:
    return mx.sym.Pooling(
        data,
        kernel=THREE,
        stride=(1, 1),
        pad=(1, 1),
        pool_type=kind,
        name=f"{kind}_pool_{name}_pool",
    )


def _pool_half(data: Any, name: str) -> Any:
    return mx.sym.Pooling(data, kernel=THREE, stride=(2, 2), pool_type="max", name=name)


def _concat(name: str, *parts: Any) -> Any:
    return mx.sym.Concat(*parts, name=f"ch_concat_{name}_chconcat")


def _block_35(data: Any, name: str, project: int) -> Any:
    """Towers of 1x1, 5x5 and double 3x3 on images of 35 pixels."""
    return _concat(
        name,
        _tower(data, name, (64, ONE)),
        _tower(data, f"{name}_tower", (48, ONE), (64, FIVE)),
        _tower(data, f"{name}_tower_1", (64, ONE), (96, THREE), (96, THREE)),
        _tower(_pool(data, "avg", name), f"{name}_tower_2", (project, ONE)),
    )


def _to_17(data: Any, name: str) -> Any:
    double = _tower(data, f"{name}_tower", (64, ONE), (96, THREE))
    return _concat(
        name,
        _halve(data, name, 384),
        _halve(double, f"{name}_tower", 96, "_2"),
        _pool_half(data, f"max_pool_{name}_pool"),
    )


def _block_17(data: Any, name: str, width: int) -> Any:
    """Towers of 1x1, factored 7x7 and double 7x7 on images of 17 pixels."""
    layers = [(width, TALL), (width, WIDE), (width, TALL), (192, WIDE)]
    return _concat(
        name,
        _tower(data, name, (192, ONE)),
        _tower(data, f"{name}_tower", (width, ONE), (width, WIDE), (192, TALL)),
        _tower(data, f"{name}_tower_1", (width, ONE), *layers),
        _tower(_pool(data, "avg", name), f"{name}_tower_2", (192, ONE)),
    )


def _to_8(data: Any, name: str) -> Any:
    seven = _tower(data, f"{name}_tower_1", (192, ONE), (192, WIDE), (192, TALL))
    return _concat(
        name,
        _halve(_tower(data, f"{name}_tower", (192, ONE)), f"{name}_tower", 320, "_1"),
        _halve(seven, f"{name}_tower_1", 192, "_3"),
        _pool_half(data, f"max_pool_{name}_pool"),
    )


def _block_8(data: Any, name: str, kind: str) -> Any:
    """Towers of 1x1 and of 3x3 that split into 1x3 and 3x1, on images of 8 pixels."""
    three = _tower(data, f"{name}_tower", (384, ONE))
    double = _tower(data, f"{name}_tower_1", (448, ONE), (384, THREE))
    halves = [
        _convolution(body, f"{name}_{tower}_mixed_conv{number}", 384, kernel)
        for body, tower in ((three, "tower"), (double, "tower_1"))
        for number, kernel in (("", (1, 3)), ("_1", (3, 1)))
    ]
    return _concat(
        name,
        _tower(data, name, (320, ONE)),
        *halves,
        _tower(_pool(data, kind, name), f"{name}_tower_2", (192, ONE)),
    )


def get_symbol(num_classes: int = 1000, dtype: str = "float32", **_: Any) -> Any:
    """Return the network for images of 299 x 299."""
    body = _convolution(image(dtype, identity=True), "conv", 32, THREE, stride=2, same=False)
    body = _convolution(body, "conv_1", 32, THREE, same=False)
    body = _pool_half(_convolution(body, "conv_2", 64, THREE), "pool")
    body = _convolution(body, "conv_3", 80)
    body = _pool_half(_convolution(body, "conv_4", 192, THREE, same=False), "pool1")
    for name, project in (("mixed", 32), ("mixed_1", 64), ("mixed_2", 64)):
        body = _block_35(body, name, project)
    body = _to_17(body, "mixed_3")
    for name, width in (("mixed_4", 128), ("mixed_5", 160), ("mixed_6", 160), ("mixed_7", 192)):
        body = _block_17(body, name, width)
    body = _to_8(body, "mixed_8")
    body = _block_8(body, "mixed_9", "avg")
    body = _block_8(body, "mixed_10", "max")
    body = mx.sym.Pooling(body, kernel=(8, 8), stride=(1, 1), pool_type="avg", name="global_pool")
    return classifier(mx.sym.Flatten(body, name="flatten"), num_classes, dtype, "fc1")
