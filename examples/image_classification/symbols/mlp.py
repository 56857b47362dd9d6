"""Perceptron with hidden layers of 128 and 64 units."""

from __future__ import annotations

from typing import Any

import mxlite as mx

from .layers import classifier, image


def get_symbol(num_classes: int = 10, dtype: str = "float32", **_: Any) -> Any:
    """Return the network for images of any shape."""
    body = mx.sym.Flatten(image(dtype))
    for number, units in enumerate((128, 64), 1):
        body = mx.sym.FullyConnected(body, num_hidden=units, name=f"fc{number}")
        body = mx.sym.Activation(body, act_type="relu", name=f"relu{number}")
    return classifier(body, num_classes, dtype, "fc3")
