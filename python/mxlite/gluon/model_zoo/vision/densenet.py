"""DenseNet ("Densely Connected Convolutional Networks", Huang et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ndarray import NDArray
from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent, Identity
from ._build import ZooFunction, zoo_function

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]

# Depth: channels of the stem, growth rate, layers of each block.
_PLANS = {
    121: (64, 32, [6, 12, 24, 16]),
    161: (96, 48, [6, 12, 36, 24]),
    169: (64, 32, [6, 12, 32, 32]),
    201: (64, 32, [6, 12, 48, 32]),
}


def _dense_layer(growth_rate: int, bn_size: int, dropout: float) -> HybridConcurrent:
    grown = nn.HybridSequential(prefix="")
    grown.add(
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.Conv2D(bn_size * growth_rate, 1, use_bias=False),
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.Conv2D(growth_rate, 3, padding=1, use_bias=False),
    )
    if dropout:
        grown.add(nn.Dropout(dropout))
    layer = HybridConcurrent(axis=1, prefix="")
    layer.add(Identity(), grown)
    return layer


class DenseNet(HybridBlock):
    """DenseNet for images of 224 x 224 (MXNet 1.x: ``model_zoo.vision.DenseNet``).

    Parameters
    ----------
    num_init_features : int
        Channels of the first convolution.
    growth_rate : int
        Channels that each layer adds.
    block_config : sequence of int
        Layers of each block.
    bn_size : int
        Inner channels of a layer as a multiple of the growth rate.
    dropout : float
        Dropout after each layer.
    classes : int
        Size of the output's last dimension.
    prefix, params
        As in :class:`~mxlite.gluon.HybridBlock`.
    """

    def __init__(
        self,
        num_init_features: int,
        growth_rate: int,
        block_config: Sequence[int],
        bn_size: int = 4,
        dropout: float = 0,
        classes: int = 1000,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(
                nn.Conv2D(num_init_features, 7, 2, 3, use_bias=False),
                nn.BatchNorm(),
                nn.Activation("relu"),
                nn.MaxPool2D(3, 2, 1),
            )
            channels = num_init_features
            for i, depth in enumerate(block_config):
                block = nn.HybridSequential(prefix=f"stage{i + 1}_")
                with block.name_scope():
                    for _ in range(depth):
                        block.add(_dense_layer(growth_rate, bn_size, dropout))
                self.features.add(block)
                channels += depth * growth_rate
                if i + 1 < len(block_config):
                    channels //= 2
                    self.features.add(self._transition(channels))
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(7), nn.Flatten())
            self.output = nn.Dense(classes)

    @staticmethod
    def _transition(channels: int) -> nn.HybridSequential:
        halve = nn.HybridSequential(prefix="")
        halve.add(
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.Conv2D(channels, 1, use_bias=False),
            nn.AvgPool2D(2, 2),
        )
        return halve

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the class scores ``(N, classes)`` of images ``(N, 3, 224, 224)``."""
        return self.output(self.features(x))


def _densenet(depth: int) -> ZooFunction[DenseNet]:
    return zoo_function(f"densenet{depth}", f"DenseNet-{depth}", DenseNet, *_PLANS[depth])


densenet121 = _densenet(121)
densenet161 = _densenet(161)
densenet169 = _densenet(169)
densenet201 = _densenet(201)
