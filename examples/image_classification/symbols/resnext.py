"""ResNeXt (Xie et al. 2017): version 1 units whose 3x3 convolutions are grouped."""

from __future__ import annotations

from typing import Any

from .layers import height, image
from .residual_parts import convolution, head, norm, plan, relu, stages, stem


def get_symbol(
    num_classes: int,
    num_layers: int,
    image_shape: Any,
    num_group: int = 32,
    dtype: str = "float32",
    **_: Any,
) -> Any:
    """Return the network; images of at most 32 pixels get three stages.

    Parameters
    ----------
    num_classes, num_layers : int
        See `residual_parts.plan`.
    image_shape : str
    num_group : int
        Groups of the 3x3 convolutions of bottlenecks.
    dtype : str
    """
    shape = plan(num_layers, small=height(image_shape) <= 32)

    def unit(data: Any, filters: int, stride: int, project: bool, name: str) -> Any:
        half = filters // 2
        convolutions = [(filters, 3, stride, 1), (filters, 3, 1, 1)]
        if shape.bottleneck:
            convolutions = [(half, 1, 1, 1), (half, 3, stride, num_group), (filters, 1, 1, 1)]
        body = data
        for number, (count, kernel, step, groups) in enumerate(convolutions, 1):
            body = norm(
                convolution(body, count, kernel, step, f"{name}_conv{number}", groups),
                f"{name}_bn{number}",
            )
            if number < len(convolutions):
                body = relu(body, f"{name}_relu{number}")
        shortcut = data
        if project:
            shortcut = norm(convolution(data, filters, 1, stride, f"{name}_sc"), f"{name}_sc_bn")
        return relu(body + shortcut, f"{name}_relu")

    body = norm(image(dtype, identity=True), "bn_data", fix_gamma=True)
    body = stages(stem(body, shape.filters[0], height(image_shape)), shape, unit)
    return head(body, num_classes, dtype)
