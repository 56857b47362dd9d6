"""Inception-ResNet v2, as in MXNet's example symbols.

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

__all__ = ["InceptionResNetV2", "inception_resnet_v2"]


def _conv(
    channels: int,
    kernel: Pair,
    strides: int = 1,
    pad: Pair = 0,
    activation: str | None = "relu",
) -> nn.HybridSequential:
    return conv_norm_relu(
        channels,
        kernel,
        strides,
        pad,
        epsilon=0.001,
        use_bias=True,
        scale=False,
        activation=activation,
    )


class _Residual(HybridBlock):
    """``x + scale * project(branches(x))``, with ReLU unless ``activate`` is false."""

    def __init__(
        self,
        branches: HybridConcurrent,
        channels: int,
        scale: float,
        activate: bool = True,
    ) -> None:
        super().__init__(prefix="")
        self._scale = scale
        self._activate = activate
        self.branches = branches
        self.project = _conv(channels, 1, activation=None)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the block's output, which has the input's shape."""
        y = x + self._scale * self.project(self.branches(x))
        return F.Activation(y, act_type="relu") if self._activate else y


def _block35() -> _Residual:
    branches = parallel(
        _conv(32, 1),
        chain(_conv(32, 1), _conv(32, 3, pad=1)),
        chain(_conv(32, 1), _conv(48, 3, pad=1), _conv(64, 3, pad=1)),
    )
    return _Residual(branches, 320, 0.17)


def _block17() -> _Residual:
    # As in MXNet's symbol: 129 channels and unequal pads, which together preserve the size.
    branches = parallel(
        _conv(192, 1),
        chain(_conv(129, 1), _conv(160, (1, 7), pad=(1, 2)), _conv(192, (7, 1), pad=(2, 1))),
    )
    return _Residual(branches, 1088, 0.1)


def _block8(activate: bool = True) -> _Residual:
    branches = parallel(
        _conv(192, 1),
        chain(_conv(192, 1), _conv(224, (1, 3), pad=(0, 1)), _conv(256, (3, 1), pad=(1, 0))),
    )
    return _Residual(branches, 2080, 0.2, activate)


class InceptionResNetV2(HybridBlock):
    """Inception-ResNet v2 (MXNet 1.x: symbol ``inception-resnet-v2``).

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
                parallel(
                    _conv(96, 1),
                    chain(_conv(48, 1), _conv(64, 5, pad=2)),
                    chain(_conv(64, 1), _conv(96, 3, pad=1), _conv(96, 3, pad=1)),
                    chain(nn.AvgPool2D(3, 1, 1), _conv(64, 1)),
                ),
            )
            for _ in range(10):
                self.features.add(_block35())
            self.features.add(
                parallel(
                    _conv(384, 3, 2),
                    chain(_conv(256, 1), _conv(256, 3, pad=1), _conv(384, 3, 2)),
                    nn.MaxPool2D(3, 2),
                )
            )
            for _ in range(20):
                self.features.add(_block17())
            self.features.add(
                parallel(
                    chain(_conv(256, 1), _conv(384, 3, 2)),
                    chain(_conv(256, 1), _conv(288, 3, 2)),
                    chain(_conv(256, 1), _conv(288, 3, pad=1), _conv(320, 3, 2)),
                    nn.MaxPool2D(3, 2),
                )
            )
            for _ in range(9):
                self.features.add(_block8())
            self.features.add(
                _block8(activate=False),
                _conv(1536, 1),
                nn.GlobalAvgPool2D(),
                nn.Flatten(),
                nn.Dropout(0.2),
            )
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the class scores ``(N, classes)`` of images ``(N, 3, H, W)``."""
        return self.output(self.features(x))


inception_resnet_v2 = zoo_function("inception_resnet_v2", "Inception-ResNet v2", InceptionResNetV2)
