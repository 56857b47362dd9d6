"""VGG (Simonyan and Zisserman 2014) with 11, 13, 16 or 19 layers."""

from __future__ import annotations

from typing import Any

import mxlite as mx

from .layers import classifier, image

_FILTERS = (64, 128, 256, 512, 512)
_CONVOLUTIONS = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}


def get_symbol(
    num_classes: int,
    num_layers: Any = 11,
    batch_norm: bool = False,
    dtype: str = "float32",
    **_: Any,
) -> Any:
    """Return the network for images of 224 x 224.

    Parameters
    ----------
    num_classes : int
    num_layers : int
        11, 13, 16 or 19; None is 11.
    batch_norm : bool
        Normalize after each convolution.
    dtype : str

    Raises
    ------
    ValueError
        For another number of layers.
    """
    num_layers = num_layers or 11
    if num_layers not in _CONVOLUTIONS:
        raise ValueError(f"vgg: num_layers must be 11, 13, 16 or 19, got {num_layers}")
    body = image(dtype)
    for stage, (count, filters) in enumerate(zip(_CONVOLUTIONS[num_layers], _FILTERS), 1):
        for number in range(1, count + 1):
            place = f"{stage}_{number}"
            body = mx.sym.Convolution(
                body, kernel=(3, 3), pad=(1, 1), num_filter=filters, name=f"conv{place}"
            )
            if batch_norm:
                body = mx.sym.BatchNorm(body, name=f"bn{place}")
            body = mx.sym.Activation(body, act_type="relu", name=f"relu{place}")
        body = mx.sym.Pooling(
            body, pool_type="max", kernel=(2, 2), stride=(2, 2), name=f"pool{stage}"
        )
    body = mx.sym.Flatten(body, name="flatten")
    for number in (6, 7):
        body = mx.sym.FullyConnected(body, num_hidden=4096, name=f"fc{number}")
        body = mx.sym.Activation(body, act_type="relu", name=f"relu{number}")
        body = mx.sym.Dropout(body, p=0.5, name=f"drop{number}")
    return classifier(body, num_classes, dtype, "fc8")
