"""Residual networks of 18 to 152 layers.

Version 1 is "Deep Residual Learning for Image Recognition" (He et al. 2015) with the stride in a
bottleneck's first 1 x 1 convolution, version 2 "Identity Mappings in Deep Residual Networks" (He et
al. 2016), where BatchNorm and ReLU come before the convolutions. See resnet_v1b.py for the stride
in the 3 x 3 convolution.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ....base import ValueError_
from ....ndarray import NDArray
from ... import nn
from ...block import HybridBlock
from ._build import ZooFunction, chain, finish, pick, zoo_function

__all__ = [
    "BasicBlockV1",
    "BasicBlockV2",
    "BottleneckV1",
    "BottleneckV2",
    "ResNetV1",
    "ResNetV2",
    "get_resnet",
    "resnet18_v1",
    "resnet18_v2",
    "resnet34_v1",
    "resnet34_v2",
    "resnet50_v1",
    "resnet50_v2",
    "resnet101_v1",
    "resnet101_v2",
    "resnet152_v1",
    "resnet152_v2",
]


def _conv3x3(channels: int, stride: int, in_channels: int) -> nn.Conv2D:
    return nn.Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=in_channels)


def _conv1x1(channels: int, stride: int = 1, in_channels: int = 0) -> nn.Conv2D:
    return nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels)


class _Block(HybridBlock):
    """A residual block; a subclass adds the convolutions and the shortcut's layers."""

    def __init__(
        self,
        channels: int,
        stride: int,
        downsample: bool = False,
        in_channels: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._add_layers(channels, stride, in_channels)
        self.downsample: HybridBlock | None = None
        if downsample:
            self.downsample = self._shortcut(channels, stride, in_channels)

    def _add_layers(self, channels: int, stride: int, in_channels: int) -> None:
        raise NotImplementedError

    def _shortcut(self, channels: int, stride: int, in_channels: int) -> HybridBlock:
        return _conv1x1(channels, stride, in_channels)


class _BlockV1(_Block):
    def _add_layers(self, channels: int, stride: int, in_channels: int) -> None:
        self.body = chain(*self._layers(channels, stride, in_channels))

    def _layers(self, channels: int, stride: int, in_channels: int) -> list[HybridBlock]:
        raise NotImplementedError

    def _shortcut(self, channels: int, stride: int, in_channels: int) -> HybridBlock:
        return chain(_conv1x1(channels, stride, in_channels), nn.BatchNorm())

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the output ``(N, channels, H / stride, W / stride)`` for ``(N, C, H, W)``."""
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.Activation(self.body(x) + shortcut, act_type="relu")


class BasicBlockV1(_BlockV1):
    """Two 3 x 3 convolutions and a shortcut (MXNet 1.x: ``BasicBlockV1``).

    Parameters
    ----------
    channels : int
        Output channels.
    stride : int
        Stride of the first convolution.
    downsample : bool
        Put a 1 x 1 convolution into the shortcut.
    in_channels : int
        Input channels; 0 finds them in the first batch.
    prefix, params
        As in :class:`~mxlite.gluon.HybridBlock`.
    """

    def _layers(self, channels: int, stride: int, in_channels: int) -> list[HybridBlock]:
        return [
            _conv3x3(channels, stride, in_channels),
            nn.BatchNorm(),
            nn.Activation("relu"),
            _conv3x3(channels, 1, channels),
            nn.BatchNorm(),
        ]


class BottleneckV1(_BlockV1):
    """1 x 1 (with the stride), 3 x 3 and 1 x 1 convolutions and a shortcut.

    MXNet 1.x: ``BottleneckV1``. The parameters are those of :class:`BasicBlockV1`; the inner
    convolutions have a quarter of the output channels.
    """

    def _layers(self, channels: int, stride: int, in_channels: int) -> list[HybridBlock]:
        inner = channels // 4
        # The 1 x 1 convolutions have biases in 1.x; without them its files would not load.
        return [
            nn.Conv2D(inner, 1, stride),
            nn.BatchNorm(),
            nn.Activation("relu"),
            _conv3x3(inner, 1, inner),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.Conv2D(channels, 1),
            nn.BatchNorm(),
        ]


class BasicBlockV2(_Block):
    """Two 3 x 3 convolutions, each after BatchNorm and ReLU (MXNet 1.x: ``BasicBlockV2``).

    The parameters are those of :class:`BasicBlockV1`.
    """

    def _add_layers(self, channels: int, stride: int, in_channels: int) -> None:
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv3x3(channels, stride, in_channels)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(channels, 1, channels)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the output ``(N, channels, H / stride, W / stride)`` for ``(N, C, H, W)``."""
        active = F.Activation(self.bn1(x), act_type="relu")
        shortcut = x if self.downsample is None else self.downsample(active)
        y = F.Activation(self.bn2(self.conv1(active)), act_type="relu")
        return self.conv2(y) + shortcut


class BottleneckV2(_Block):
    """1 x 1, 3 x 3 (with the stride) and 1 x 1 convolutions, each after BatchNorm and ReLU.

    MXNet 1.x: ``BottleneckV2``. The parameters are those of :class:`BasicBlockV1`; the inner
    convolutions have a quarter of the output channels.
    """

    def _add_layers(self, channels: int, stride: int, in_channels: int) -> None:
        inner = channels // 4
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv1x1(inner)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(inner, stride, inner)
        self.bn3 = nn.BatchNorm()
        self.conv3 = _conv1x1(channels)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the output ``(N, channels, H / stride, W / stride)`` for ``(N, C, H, W)``."""
        active = F.Activation(self.bn1(x), act_type="relu")
        shortcut = x if self.downsample is None else self.downsample(active)
        y = F.Activation(self.bn2(self.conv1(active)), act_type="relu")
        y = F.Activation(self.bn3(self.conv2(y)), act_type="relu")
        return self.conv3(y) + shortcut


class _ResNet(HybridBlock):
    _norms_first = False  # version 2: BatchNorm and ReLU before the convolutions

    def __init__(
        self,
        block: type[_Block],
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        if len(channels) != len(layers) + 1:
            raise ValueError_(
                f"{block.__name__}: channels must have {len(layers) + 1} entries for "
                f"{len(layers)} stages, got {list(channels)}"
            )
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            if self._norms_first:
                # Normalizes the images, so that inputs may have any scale.
                self.features.add(nn.BatchNorm(scale=False, center=False))
            if thumbnail:
                self.features.add(_conv3x3(channels[0], 1, 0))
            else:
                self.features.add(
                    nn.Conv2D(channels[0], 7, 2, 3, use_bias=False),
                    nn.BatchNorm(),
                    nn.Activation("relu"),
                    nn.MaxPool2D(3, 2, 1),
                )
            for i, depth in enumerate(layers):
                self.features.add(self._stage(block, depth, i + 1, channels[i + 1], channels[i]))
            if self._norms_first:
                self.features.add(nn.BatchNorm(), nn.Activation("relu"))
            self.features.add(nn.GlobalAvgPool2D())
            if self._norms_first:
                self.features.add(nn.Flatten())
            self.output = nn.Dense(classes, in_units=channels[-1])

    @staticmethod
    def _stage(
        block: type[_Block], depth: int, index: int, channels: int, in_channels: int
    ) -> nn.HybridSequential:
        stride = 1 if index == 1 else 2
        stage = nn.HybridSequential(prefix=f"stage{index}_")
        with stage.name_scope():
            stage.add(block(channels, stride, channels != in_channels, in_channels, prefix=""))
            for _ in range(depth - 1):
                stage.add(block(channels, 1, False, channels, prefix=""))
        return stage

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the class scores ``(N, classes)`` of images ``(N, 3, H, W)``."""
        return self.output(self.features(x))


class ResNetV1(_ResNet):
    """Residual network, version 1 (MXNet 1.x: ``ResNetV1``).

    Parameters
    ----------
    block : class
        :class:`BasicBlockV1` or :class:`BottleneckV1`.
    layers : sequence of int
        Blocks in each stage.
    channels : sequence of int
        Channels of the stem and then of each stage.
    classes : int
        Size of the output's last dimension.
    thumbnail : bool
        A stem for small images (32 x 32): one 3 x 3 convolution, no pooling.
    prefix, params
        As in :class:`~mxlite.gluon.HybridBlock`.

    Raises
    ------
    ValueError
        ``channels`` is not one longer than ``layers``.
    """


class ResNetV2(_ResNet):
    """Residual network, version 2 (MXNet 1.x: ``ResNetV2``).

    The parameters and errors are those of :class:`ResNetV1`, with a ``block`` of
    :class:`BasicBlockV2` or :class:`BottleneckV2`.
    """

    _norms_first = True


_NARROW = [64, 64, 128, 256, 512]
_WIDE = [64, 256, 512, 1024, 2048]
# For each depth: whether it uses bottlenecks, and the number of blocks of each stage.
DEPTHS = {
    18: (False, [2, 2, 2, 2]),
    34: (False, [3, 4, 6, 3]),
    50: (True, [3, 4, 6, 3]),
    101: (True, [3, 4, 23, 3]),
    152: (True, [3, 8, 36, 3]),
}


def get_resnet(
    version: int,
    num_layers: int,
    pretrained: bool = False,
    ctx: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> ResNetV1 | ResNetV2:
    """Return a residual network.

    Parameters
    ----------
    version : int
        1 or 2.
    num_layers : int
        18, 34, 50, 101 or 152.
    pretrained : bool
        Load the parameters from ``root``.
    ctx : Context, optional
        Where loaded parameters go; the CPU by default.
    root : str, optional
        Folder of parameter files.
    **kwargs
        Arguments of the class, such as ``classes`` and ``thumbnail``.

    Returns
    -------
    ResNetV1 or ResNetV2
        The network.

    Raises
    ------
    ValueError
        Another version or number of layers.
    """
    wide, layers = pick("resnet", "num_layers", num_layers, DEPTHS)
    pick("resnet", "version", version, {1: None, 2: None})
    channels = _WIDE if wide else _NARROW
    net: ResNetV1 | ResNetV2
    if version == 1:
        net = ResNetV1(BottleneckV1 if wide else BasicBlockV1, layers, channels, **kwargs)
    else:
        net = ResNetV2(BottleneckV2 if wide else BasicBlockV2, layers, channels, **kwargs)
    return finish(net, f"resnet{num_layers}_v{version}", pretrained, ctx, root)


def _resnet(version: int, num_layers: int) -> ZooFunction[ResNetV1 | ResNetV2]:
    return zoo_function(
        f"resnet{num_layers}_v{version}",
        f"ResNet-{num_layers}, version {version}",
        ResNetV1 if version == 1 else ResNetV2,
        get=functools.partial(get_resnet, version, num_layers),
        options="``classes`` and ``thumbnail``",
    )


resnet18_v1 = _resnet(1, 18)
resnet34_v1 = _resnet(1, 34)
resnet50_v1 = _resnet(1, 50)
resnet101_v1 = _resnet(1, 101)
resnet152_v1 = _resnet(1, 152)
resnet18_v2 = _resnet(2, 18)
resnet34_v2 = _resnet(2, 34)
resnet50_v2 = _resnet(2, 50)
resnet101_v2 = _resnet(2, 101)
resnet152_v2 = _resnet(2, 152)
