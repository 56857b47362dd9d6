"""Parts of the residual networks: how many units a depth has, stem, head."""

from __future__ import annotations

from typing import Any, NamedTuple

import mxlite as mx

from .layers import classifier

_UNITS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}


class Plan(NamedTuple):
    """Shape of a residual network.

    Attributes
    ----------
    units : tuple of int
        Units of each stage.
    filters : tuple of int
        Filters of the stem, then of each stage.
    bottleneck : bool
        Whether units have 1x1, 3x3 and 1x1 convolutions instead of two of 3x3.
    """

    units: tuple
    filters: tuple
    bottleneck: bool


def plan(num_layers: int, small: bool) -> Plan:
    """Return the shape that a number of layers stands for.

    Parameters
    ----------
    num_layers : int
        For small images 6n+2 below 164, 9n+2 from there; else 18, 34, 50, 101, 152, 200 or 269.
    small : bool
        Whether the network has three stages, for images such as CIFAR's.

    Raises
    ------
    ValueError
        For another number.
    """
    if small:
        if num_layers >= 164 and (num_layers - 2) % 9 == 0:
            return Plan(((num_layers - 2) // 9,) * 3, (16, 64, 128, 256), True)
        if 8 <= num_layers < 164 and (num_layers - 2) % 6 == 0:
            return Plan(((num_layers - 2) // 6,) * 3, (16, 16, 32, 64), False)
        raise ValueError(
            "resnet: num_layers must be 6n+2 below 164 or 9n+2 from 164 on for small images, such "
            f"as 20, 110, 164, got {num_layers}"
        )
    if num_layers not in _UNITS:
        raise ValueError(
            f"resnet: num_layers must be one of {', '.join(map(str, _UNITS))}, got {num_layers}"
        )
    if num_layers < 50:
        return Plan(_UNITS[num_layers], (64, 64, 128, 256, 512), False)
    return Plan(_UNITS[num_layers], (64, 256, 512, 1024, 2048), True)


def convolution(
    data: Any, filters: int, kernel: int, stride: int, name: str, num_group: int = 1
) -> Any:
    """Return a square convolution without bias that keeps the size at stride 1."""
    return mx.sym.Convolution(
        data,
        num_filter=filters,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad=(kernel // 2, kernel // 2),
        num_group=num_group,
        no_bias=True,
        name=name,
    )


def norm(data: Any, name: str, fix_gamma: bool = False) -> Any:
    """Return a batch normalization."""
    return mx.sym.BatchNorm(data, fix_gamma=fix_gamma, eps=2e-5, momentum=0.9, name=name)


def relu(data: Any, name: str) -> Any:
    """Return a ReLU."""
    return mx.sym.Activation(data, act_type="relu", name=name)


def stem(data: Any, filters: int, height: int) -> Any:
    """Return the first convolution; images above 32 pixels are then four times smaller."""
    if height <= 32:
        return convolution(data, filters, 3, 1, "conv0")
    body = relu(norm(convolution(data, filters, 7, 2, "conv0"), "bn0"), "relu0")
    return mx.sym.Pooling(body, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")


def stages(data: Any, shape: Plan, unit: Any) -> Any:
    """Return all units: ``unit(data, filters, stride, project, name)`` for each."""
    for stage, (count, filters) in enumerate(zip(shape.units, shape.filters[1:]), 1):
        for number in range(1, count + 1):
            first = number == 1
            stride = 2 if first and stage > 1 else 1
            data = unit(data, filters, stride, first, f"stage{stage}_unit{number}")
    return data


def head(data: Any, num_classes: int, dtype: str) -> Any:
    """Return average over the image, dense layer, softmax."""
    body = mx.sym.Pooling(data, global_pool=True, kernel=(7, 7), pool_type="avg", name="pool1")
    return classifier(mx.sym.Flatten(body), num_classes, dtype, "fc1")
