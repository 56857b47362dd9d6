"""AlexNet (Krizhevsky et al. 2012) on one device, with both local response normalizations."""

from __future__ import annotations

from typing import Any

import mxlite as mx

from .layers import classifier, image

# Filters, kernel, stride, padding, and whether normalization and pooling follow.
_CONVOLUTIONS = [
    (96, 11, 4, 0, True, True),
    (256, 5, 1, 2, True, True),
    (384, 3, 1, 1, False, False),
    (384, 3, 1, 1, False, False),
    (256, 3, 1, 1, False, True),
]


def get_symbol(num_classes: int, dtype: str = "float32", **_: Any) -> Any:
    """Return the network for images of 224 x 224."""
    body = image(dtype)
    for number, (filters, kernel, stride, pad, normalize, pool) in enumerate(_CONVOLUTIONS, 1):
        body = mx.sym.Convolution(
            body,
            num_filter=filters,
            kernel=(kernel, kernel),
            stride=(stride, stride),
            pad=(pad, pad),
            name=f"conv{number}",
        )
        body = mx.sym.Activation(body, act_type="relu")
        if normalize:
            body = mx.sym.LRN(body, alpha=0.0001, beta=0.75, knorm=2, nsize=5)
        if pool:
            body = mx.sym.Pooling(body, pool_type="max", kernel=(3, 3), stride=(2, 2))
    body = mx.sym.Flatten(body)
    for name in ("fc1", "fc2"):
        body = mx.sym.FullyConnected(body, num_hidden=4096, name=name)
        body = mx.sym.Activation(body, act_type="relu")
        body = mx.sym.Dropout(body, p=0.5)
    return classifier(body, num_classes, dtype, "fc3")
