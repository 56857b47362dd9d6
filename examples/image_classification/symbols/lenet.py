"""LeNet (LeCun et al. 1998) with tanh and max pooling; optionally after a spatial transformer."""

from __future__ import annotations

from typing import Any

import mxlite as mx

from .layers import classifier, image


def _localization(data: Any) -> Any:
    """Return the six numbers of an affine map; they learn a hundred times slower."""
    body = mx.sym.Convolution(data, num_filter=30, kernel=(5, 5), stride=(2, 2))
    body = mx.sym.Activation(body, act_type="relu")
    body = mx.sym.Pooling(body, kernel=(2, 2), stride=(2, 2), pool_type="max")
    body = mx.sym.Convolution(body, num_filter=60, kernel=(3, 3), stride=(1, 1), pad=(1, 1))
    body = mx.sym.Activation(body, act_type="relu")
    body = mx.sym.Pooling(body, global_pool=True, kernel=(2, 2), pool_type="avg")
    body = mx.sym.Flatten(body)
    return mx.sym.FullyConnected(body, num_hidden=6, name="stn_loc", attr={"lr_mult": "0.01"})


def get_symbol(
    num_classes: int = 10, add_stn: bool = False, dtype: str = "float32", **_: Any
) -> Any:
    """Return the network for images of 28 x 28.

    Parameters
    ----------
    num_classes : int
    add_stn : bool
        Put a spatial transformer in front.
    dtype : str
    """
    body = image(dtype)
    if add_stn:
        body = mx.sym.SpatialTransformer(
            body,
            loc=_localization(body),
            target_shape=(28, 28),
            transform_type="affine",
            sampler_type="bilinear",
        )
    for filters in (20, 50):
        body = mx.sym.Convolution(body, kernel=(5, 5), num_filter=filters)
        body = mx.sym.Activation(body, act_type="tanh")
        body = mx.sym.Pooling(body, pool_type="max", kernel=(2, 2), stride=(2, 2))
    body = mx.sym.FullyConnected(mx.sym.Flatten(body), num_hidden=500)
    body = mx.sym.Activation(body, act_type="tanh")
    return classifier(body, num_classes, dtype)
