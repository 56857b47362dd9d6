"""Residual network, version 2 (He et al. 2016): normalization and ReLU before each convolution."""

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
            convolutions = [(narrow, 1, 1), (narrow, 3, stride), (filters, 1, 1)]
        body, shortcut = data, data
        for number, (count, kernel, step) in enumerate(convolutions, 1):
            active = relu(norm(body, f"{name}_bn{number}"), f"{name}_relu{number}")
            if number == 1 and project:
                shortcut = convolution(active, filters, 1, stride, f"{name}_sc")
            body = convolution(active, count, kernel, step, f"{name}_conv{number}")
        return body + shortcut

    # The first normalization replaces subtraction of the mean and division by the deviation.
    body = norm(image(dtype, identity=True), "bn_data", fix_gamma=True)
    body = stages(stem(body, shape.filters[0], height(image_shape)), shape, unit)
    return head(relu(norm(body, "bn1"), "relu1"), num_classes, dtype)
