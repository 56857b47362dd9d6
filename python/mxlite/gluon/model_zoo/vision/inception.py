"""Inception v3 for images of 299 x 299.

"Rethinking the Inception Architecture for Computer Vision" (Szegedy et al. 2015).
"""

from __future__ import annotations

from typing import Any

from ....ndarray import NDArray
from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent
from ._build import Pair, chain, conv_norm_relu, parallel, zoo_function

__all__ = ["Inception3", "inception_v3"]


def _conv(channels: int, kernel: Pair, strides: int = 1, pad: Pair = 0) -> nn.HybridSequential:
    return conv_norm_relu(channels, kernel, strides, pad, epsilon=0.001)


def _row(channels: int, length: int) -> nn.HybridSequential:
    """Convolution of 1 x ``length`` that keeps the size."""
    return _conv(channels, (1, length), pad=(0, length // 2))


def _column(channels: int, length: int) -> nn.HybridSequential:
    """Convolution of ``length`` x 1 that keeps the size."""
    return _conv(channels, (length, 1), pad=(length // 2, 0))


def _pooled(channels: int) -> nn.HybridSequential:
    return chain(nn.AvgPool2D(3, 1, 1), _conv(channels, 1))


def _grid35(pool_features: int, prefix: str) -> HybridConcurrent:
    out = parallel(prefix=prefix)
    with out.name_scope():
        out.add(
            chain(_conv(64, 1)),
            chain(_conv(48, 1), _conv(64, 5, pad=2)),
            chain(_conv(64, 1), _conv(96, 3, pad=1), _conv(96, 3, pad=1)),
            _pooled(pool_features),
        )
    return out


def _to_grid17(prefix: str) -> HybridConcurrent:
    out = parallel(prefix=prefix)
    with out.name_scope():
        out.add(
            chain(_conv(384, 3, 2)),
            chain(_conv(64, 1), _conv(96, 3, pad=1), _conv(96, 3, 2)),
            chain(nn.MaxPool2D(3, 2)),
        )
    return out


def _grid17(inner: int, prefix: str) -> HybridConcurrent:
    out = parallel(prefix=prefix)
    with out.name_scope():
        out.add(
            chain(_conv(192, 1)),
            chain(_conv(inner, 1), _row(inner, 7), _column(192, 7)),
            chain(
                _conv(inner, 1),
                _column(inner, 7),
                _row(inner, 7),
                _column(inner, 7),
                _row(192, 7),
            ),
            _pooled(192),
        )
    return out


def _to_grid8(prefix: str) -> HybridConcurrent:
    out = parallel(prefix=prefix)
    with out.name_scope():
        out.add(
            chain(_conv(192, 1), _conv(320, 3, 2)),
            chain(_conv(192, 1), _row(192, 7), _column(192, 7), _conv(192, 3, 2)),
            chain(nn.MaxPool2D(3, 2)),
        )
    return out


def _grid8(prefix: str) -> HybridConcurrent:
    out = parallel(prefix=prefix)
    with out.name_scope():
        out.add(
            chain(_conv(320, 1)),
            chain(chain(_conv(384, 1)), parallel(chain(_row(384, 3)), chain(_column(384, 3)))),
            chain(
                chain(_conv(448, 1), _conv(384, 3, pad=1)),
                parallel(chain(_row(384, 3)), chain(_column(384, 3))),
            ),
            _pooled(192),
        )
    return out


class Inception3(HybridBlock):
    """Inception v3 (MXNet 1.x: ``model_zoo.vision.Inception3``).

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
                _conv(32, 3, 2),
                _conv(32, 3),
                _conv(64, 3, pad=1),
                nn.MaxPool2D(3, 2),
                _conv(80, 1),
                _conv(192, 3),
                nn.MaxPool2D(3, 2),
                _grid35(32, "A1_"),
                _grid35(64, "A2_"),
                _grid35(64, "A3_"),
                _to_grid17("B_"),
                _grid17(128, "C1_"),
                _grid17(160, "C2_"),
                _grid17(160, "C3_"),
                _grid17(192, "C4_"),
                _to_grid8("D_"),
                _grid8("E1_"),
                _grid8("E2_"),
                nn.AvgPool2D(8),
                nn.Dropout(0.5),
            )
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the class scores ``(N, classes)`` of images ``(N, 3, 299, 299)``."""
        return self.output(self.features(x))


inception_v3 = zoo_function("inception_v3", "Inception v3", Inception3, file="inceptionv3")
