"""Code that the networks share: the casts at both ends, shapes, a classifier."""

from __future__ import annotations

from typing import Any

import mxlite as mx


def image(dtype: str, identity: bool = False) -> Any:
    """Return the input ``data``, cast when the network computes in another dtype.

    Parameters
    ----------
    dtype : str
        ``float32``, ``float16`` or ``bfloat16``; parameters behind a cast have the same dtype.
    identity : bool
        Some networks of 1.x begin with a node ``id`` for float32.
    """
    data = mx.sym.Variable("data")
    if dtype != "float32":
        return mx.sym.Cast(data, dtype=dtype)
    return mx.sym.identity(data, name="id") if identity else data


def softmax(data: Any, dtype: str) -> Any:
    """Return the output: softmax and its loss are computed in float32."""
    if dtype != "float32":
        data = mx.sym.Cast(data, dtype="float32")
    return mx.sym.SoftmaxOutput(data, name="softmax")


def classifier(data: Any, num_classes: int, dtype: str, name: Any = None) -> Any:
    """Return a dense layer with one unit per class, and `softmax` of it."""
    return softmax(mx.sym.FullyConnected(data, num_hidden=num_classes, name=name), dtype)


def height(image_shape: Any) -> int:
    """Return the height in ``"channels,height,width"``, text or sequence."""
    parts = image_shape.split(",") if isinstance(image_shape, str) else image_shape
    return int(list(parts)[1])
