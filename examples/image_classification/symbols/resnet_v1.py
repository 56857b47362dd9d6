"""Residual network, version 1 (He et al. 2015): ReLU after the sum, stride in the first layer."""

from __future__ import annotations

from typing import Any

from .layers import height, image
from .residual_parts import convolution, head, norm, plan, relu, stages, stem


def get_symbol(
    num_classes: int, num_layers: int, image_shape: Any, dtype: str = "float32", **_: Any
) -> Any:
    """Return the network; images of at most 28 pixels get the three stages of CIFAR's.

    Parameters
    ----------
    num_classes, num_layers : int
        See `residual_parts.plan`.
    image_shape : str
    dtype : str
    """
    shape = plan(num_layers, small=height(image_shape) <= 28)

    def unit(data: Any, filters: int, stride: int, project: bool, name: str) -> Any:
        narrow = filters // 4
        convolutions = [(filters, 3, stride), (filters, 3, 1)]
        if shape.bottleneck:
            convolutions = [(narrow, 1, stride), (narrow, 3, 1), (filters, 1, 1)]
        body = data
        for number, (count, kernel, step) in enumerate(convolutions, 1):
            body = norm(
                convolution(body, count, kernel, step, f"{name}_conv{number}"),
                f"{name}_bn{number}",
            )
            if number < len(convolutions):
                body = relu(body, f"{name}_relu{number}")
        shortcut = data
        if project:
            shortcut = norm(convolution(data, filters, 1, stride, f"{name}_conv1sc"), f"{name}_sc")
        return relu(body + shortcut, f"{name}_relu3")

    body = stem(image(dtype, identity=True), shape.filters[0], height(image_shape))
    if height(image_shape) <= 32:
        body = norm(body, "bn0")
    return head(stages(body, shape, unit), num_classes, dtype)
