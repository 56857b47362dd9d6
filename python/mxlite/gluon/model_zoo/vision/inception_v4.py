"""Inception v4 for images of 299 x 299, as in MXNet's example symbols.

"Inception-v4, Inception-ResNet and the Impact of Residual Connections on Learning" (Szegedy et al.
2016).
"""

from __future__ import annotations

from typing import Any

from ....ndarray import NDArray
from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent
from ._build import Pair, chain, conv_norm_relu, parallel, zoo_function

__all__ = ["InceptionV4", "inception_v4"]


def _conv(channels: int, kernel: Pair, strides: int = 1, pad: Pair = 0) -> nn.HybridSequential:
    return conv_norm_relu(channels, kernel, strides, pad, epsilon=0.001, scale=False)


def _row(channels: int, length: int) -> nn.HybridSequential:
    """Convolution of 1 x ``length`` that keeps the size."""
    return _conv(channels, (1, length), pad=(0, length // 2))


def _column(channels: int, length: int) -> nn.HybridSequential:
    """Convolution of ``length`` x 1 that keeps the size."""
    return _conv(channels, (length, 1), pad=(length // 2, 0))


def _pooled(channels: int) -> nn.HybridSequential:
    return chain(nn.AvgPool2D(3, 1, 1), _conv(channels, 1))


def _stem() -> list[HybridBlock]:
    return [
        _conv(32, 3, 2),
        _conv(32, 3),
        _conv(64, 3, pad=1),
        parallel(nn.MaxPool2D(3, 2), _conv(96, 3, 2)),
        parallel(
            chain(_conv(64, 1), _conv(96, 3)),
            chain(_conv(64, 1), _column(64, 7), _row(64, 7), _conv(96, 3)),
        ),
        parallel(_conv(192, 3, 2), nn.MaxPool2D(3, 2)),
    ]


def _grid35() -> HybridConcurrent:
    return parallel(
        _pooled(96),
        _conv(96, 1),
        chain(_conv(64, 1), _conv(96, 3, pad=1)),
        chain(_conv(64, 1), _conv(96, 3, pad=1), _conv(96, 3, pad=1)),
    )


def _to_grid17() -> HybridConcurrent:
    return parallel(
        nn.MaxPool2D(3, 2),
        _conv(384, 3, 2),
        chain(_conv(192, 1), _conv(224, 3, pad=1), _conv(256, 3, 2)),
    )


def _grid17() -> HybridConcurrent:
    return parallel(
        _pooled(128),
        _conv(384, 1),
        chain(_conv(192, 1), _row(224, 7), _column(256, 7)),
        chain(_conv(192, 1), _row(192, 7), _column(224, 7), _row(224, 7), _column(256, 7)),
    )


def _to_grid8() -> HybridConcurrent:
    return parallel(
        nn.MaxPool2D(3, 2),
        chain(_conv(192, 1), _conv(192, 3, 2)),
        chain(_conv(256, 1), _row(256, 7), _column(320, 7), _conv(320, 3, 2)),
    )


def _grid8() -> HybridConcurrent:
    return parallel(
        _pooled(256),
        _conv(256, 1),
        chain(_conv(384, 1), parallel(_row(256, 3), _column(256, 3))),
        chain(
            _conv(384, 1), _row(448, 3), _column(512, 3), parallel(_column(256, 3), _row(256, 3))
        ),
    )


class InceptionV4(HybridBlock):
    """Inception v4 (MXNet 1.x: symbol ``inception-v4``).

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
            self.features.add(*_stem())
            for _ in range(4):
                self.features.add(_grid35())
            self.features.add(_to_grid17())
            for _ in range(7):
                self.features.add(_grid17())
            self.features.add(_to_grid8())
            for _ in range(3):
                self.features.add(_grid8())
            # As in MXNet's symbol, but not the paper, the padding leaves 3 x 3 values per channel.
            self.features.add(nn.AvgPool2D(8, 1, 1), nn.Dropout(0.2), nn.Flatten())
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the class scores ``(N, classes)`` of images ``(N, 3, 299, 299)``."""
        return self.output(self.features(x))


inception_v4 = zoo_function("inception_v4", "Inception v4", InceptionV4)
