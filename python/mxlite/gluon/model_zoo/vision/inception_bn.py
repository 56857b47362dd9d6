"""Inception with batch normalization, as on MXNet's performance page.

"Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift"
(Ioffe and Szegedy 2015).
"""

from __future__ import annotations

from typing import Any

from ....ndarray import NDArray
from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent
from ._build import Pair, chain, conv_norm_relu, parallel, zoo_function

__all__ = ["InceptionBN", "inception_bn"]

# Module name; channels of 1 x 1; of 3 x 3 reduce and 3 x 3; of double 3 x 3 reduce and double 3 x
# 3; kind of pool and channels of its projection.
_STAGES = [
    [("3a", 64, 64, 64, 64, 96, "avg", 32), ("3b", 64, 64, 96, 64, 96, "avg", 64)],
    [
        ("4a", 224, 64, 96, 96, 128, "avg", 128),
        ("4b", 192, 96, 128, 96, 128, "avg", 128),
        ("4c", 160, 128, 160, 128, 160, "avg", 128),
        ("4d", 96, 128, 192, 160, 192, "avg", 128),
    ],
    [("5a", 352, 192, 320, 160, 224, "avg", 128), ("5b", 352, 192, 320, 192, 224, "max", 128)],
]
# Modules of stride 2 after the first two stages: name; channels of 3 x 3 reduce and 3 x 3; channels
# of double 3 x 3 reduce and double 3 x 3.
_REDUCTIONS = [("3c", 128, 160, 64, 96), ("4e", 128, 192, 192, 256)]


def _conv(channels: int, kernel: Pair, strides: int = 1, pad: Pair = 0) -> nn.HybridSequential:
    return conv_norm_relu(channels, kernel, strides, pad, use_bias=True)


def _module(
    name: str, one: int, reduce3: int, three: int, reduce33: int, double: int, pool: str, proj: int
) -> HybridConcurrent:
    pooling = nn.AvgPool2D if pool == "avg" else nn.MaxPool2D
    out = parallel(prefix=f"{name}_")
    with out.name_scope():
        out.add(
            _conv(one, 1),
            chain(_conv(reduce3, 1), _conv(three, 3, pad=1)),
            chain(_conv(reduce33, 1), _conv(double, 3, pad=1), _conv(double, 3, pad=1)),
            chain(pooling(3, 1, 1), _conv(proj, 1)),
        )
    return out


def _reduction(name: str, reduce3: int, three: int, reduce33: int, double: int) -> HybridConcurrent:
    out = parallel(prefix=f"{name}_")
    with out.name_scope():
        out.add(
            chain(_conv(reduce3, 1), _conv(three, 3, 2, 1)),
            chain(_conv(reduce33, 1), _conv(double, 3, pad=1), _conv(double, 3, 2, 1)),
            nn.MaxPool2D(3, 2, 1),
        )
    return out


class InceptionBN(HybridBlock):
    """Inception-BN for images of 224 x 224 (MXNet 1.x: symbol ``inception-bn``).

    Parameters
    ----------
    classes : int
        Size of the output's last dimension.
    prefix, params
        As in :class:`~mxlite.gluon.HybridBlock`.
    """

    def __init__(self, classes: int = 1000, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(
                _conv(64, 7, 2, 3),
                nn.MaxPool2D(3, 2),
                _conv(64, 1),
                _conv(192, 3, pad=1),
                nn.MaxPool2D(3, 2),
            )
            for i, stage in enumerate(_STAGES):
                for module in stage:
                    self.features.add(_module(*module))
                if i < len(_REDUCTIONS):
                    self.features.add(_reduction(*_REDUCTIONS[i]))
            self.features.add(nn.AvgPool2D(7, 1), nn.Flatten())
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the class scores ``(N, classes)`` of images ``(N, 3, 224, 224)``."""
        return self.output(self.features(x))


inception_bn = zoo_function("inception_bn", "Inception-BN", InceptionBN)
