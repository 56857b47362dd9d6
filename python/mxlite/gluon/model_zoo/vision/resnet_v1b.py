"""Residual networks with the stride in a bottleneck's 3 x 3 convolution ("v1.5").

Layer names are GluonCV's (``conv1``, ``layer1`` ... ``fc``), so that its parameter files load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ndarray import NDArray
from ... import nn
from ...block import HybridBlock
from ._build import ZooFunction, finish, zoo_function
from .resnet import DEPTHS

__all__ = [
    "BasicBlockV1b",
    "BottleneckV1b",
    "ResNetV1b",
    "resnet18_v1b",
    "resnet34_v1b",
    "resnet50_v1b",
    "resnet101_v1b",
    "resnet152_v1b",
]


class _Block(HybridBlock):
    expansion = 1
    conv1: nn.Conv2D
    conv2: nn.Conv2D
    bn1: nn.BatchNorm
    bn2: nn.BatchNorm
    relu1: nn.Activation
    relu2: nn.Activation

    def __init__(
        self,
        planes: int,
        strides: int = 1,
        downsample: HybridBlock | None = None,
        in_channels: int = 0,
        last_gamma: bool = False,
        use_global_stats: bool = False,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        layers = self._layers(planes, strides)
        for i, (channels, kernel_size, stride, padding) in enumerate(layers, 1):
            gamma = "zeros" if last_gamma and i == len(layers) else "ones"
            conv = nn.Conv2D(
                channels, kernel_size, stride, padding, use_bias=False, in_channels=in_channels
            )
            norm = nn.BatchNorm(
                in_channels=channels, use_global_stats=use_global_stats, gamma_initializer=gamma
            )
            for name, layer in (("conv", conv), ("bn", norm), ("relu", nn.Activation("relu"))):
                setattr(self, f"{name}{i}", layer)
            in_channels = channels
        self.downsample = downsample

    def _layers(self, planes: int, strides: int) -> list[tuple[int, int, int, int]]:
        """Return channels, kernel size, stride and padding of each convolution."""
        raise NotImplementedError


class BasicBlockV1b(_Block):
    """Two 3 x 3 convolutions and a shortcut (GluonCV: ``BasicBlockV1b``).

    Parameters
    ----------
    planes : int
        Output channels.
    strides : int
        Stride of the first convolution.
    downsample : HybridBlock, optional
        Block that the shortcut applies.
    in_channels : int
        Input channels.
    last_gamma : bool
        Start the last BatchNorm's gamma at zero.
    use_global_stats : bool
        BatchNorm uses its running statistics in training, too.
    prefix, params
        As in :class:`~mxlite.gluon.HybridBlock`.
    """

    def _layers(self, planes: int, strides: int) -> list[tuple[int, int, int, int]]:
        return [(planes, 3, strides, 1), (planes, 3, 1, 1)]

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the output ``(N, planes, H / strides, W / strides)`` for ``(N, C, H, W)``."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu1(self.bn1(self.conv1(x)))
        return self.relu2(self.bn2(self.conv2(y)) + shortcut)


class BottleneckV1b(_Block):
    """1 x 1, 3 x 3 (with the stride) and 1 x 1 convolutions and a shortcut.

    GluonCV: ``BottleneckV1b``. The parameters are those of :class:`BasicBlockV1b`, but ``planes``
    counts the inner channels; the output has four times as many.
    """

    expansion = 4
    conv3: nn.Conv2D
    bn3: nn.BatchNorm
    relu3: nn.Activation

    def _layers(self, planes: int, strides: int) -> list[tuple[int, int, int, int]]:
        return [(planes, 1, 1, 0), (planes, 3, strides, 1), (planes * self.expansion, 1, 1, 0)]

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the output ``(N, 4 planes, H / strides, W / strides)`` for ``(N, C, H, W)``."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.relu2(self.bn2(self.conv2(y)))
        return self.relu3(self.bn3(self.conv3(y)) + shortcut)


class ResNetV1b(HybridBlock):
    """Residual network, version 1b (GluonCV: ``ResNetV1b``).

    Parameters
    ----------
    block : class
        :class:`BasicBlockV1b` or :class:`BottleneckV1b`.
    layers : sequence of int
        Blocks in each of the four stages.
    classes : int
        Size of the output's last dimension.
    last_gamma : bool
        Start the gamma of each block's last BatchNorm at zero.
    final_drop : float
        Dropout before the classifier.
    use_global_stats : bool
        BatchNorm uses its running statistics in training, too.
    name_prefix : str
        Prefix of all parameter names.
    params
        As in :class:`~mxlite.gluon.HybridBlock`.
    """

    def __init__(
        self,
        block: type[_Block],
        layers: Sequence[int],
        classes: int = 1000,
        last_gamma: bool = False,
        final_drop: float = 0.0,
        use_global_stats: bool = False,
        name_prefix: str = "",
        params: Any = None,
    ) -> None:
        super().__init__(prefix=name_prefix, params=params)
        self._options = {"last_gamma": last_gamma, "use_global_stats": use_global_stats}
        with self.name_scope():
            self.conv1 = nn.Conv2D(64, 7, 2, 3, use_bias=False, in_channels=3)
            self.bn1 = nn.BatchNorm(in_channels=64, use_global_stats=use_global_stats)
            self.relu = nn.Activation("relu")
            self.maxpool = nn.MaxPool2D(3, 2, 1)
            self.layer1 = self._stage(block, 1, 64, layers[0], 64)
            self.layer2 = self._stage(block, 2, 128, layers[1], 64 * block.expansion)
            self.layer3 = self._stage(block, 3, 256, layers[2], 128 * block.expansion)
            self.layer4 = self._stage(block, 4, 512, layers[3], 256 * block.expansion)
            self.avgpool = nn.GlobalAvgPool2D()
            self.flat = nn.Flatten()
            self.drop = nn.Dropout(final_drop) if final_drop > 0.0 else None
            self.fc = nn.Dense(classes, in_units=512 * block.expansion)

    def _stage(
        self,
        block: type[_Block],
        index: int,
        planes: int,
        depth: int,
        in_channels: int,
    ) -> nn.HybridSequential:
        strides = 1 if index == 1 else 2
        wide = planes * block.expansion
        shortcut: nn.HybridSequential | None = None
        if strides != 1 or in_channels != wide:
            shortcut = nn.HybridSequential(prefix=f"down{index}_")
            with shortcut.name_scope():
                shortcut.add(
                    nn.Conv2D(wide, 1, strides, use_bias=False, in_channels=in_channels),
                    nn.BatchNorm(
                        in_channels=wide, use_global_stats=self._options["use_global_stats"]
                    ),
                )
        stage = nn.HybridSequential(prefix=f"layers{index}_")
        with stage.name_scope():
            stage.add(block(planes, strides, shortcut, in_channels, prefix="", **self._options))
            for _ in range(depth - 1):
                stage.add(block(planes, 1, None, wide, prefix="", **self._options))
        return stage

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the class scores ``(N, classes)`` of images ``(N, 3, H, W)``."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = self.flat(self.avgpool(x))
        if self.drop is not None:
            x = self.drop(x)
        return self.fc(x)


def _resnet_v1b(num_layers: int) -> ZooFunction[ResNetV1b]:
    wide, layers = DEPTHS[num_layers]
    name = f"resnet{num_layers}_v1b"

    def get(pretrained: bool, ctx: Any, root: str | None, **kwargs: Any) -> ResNetV1b:
        kwargs.setdefault("name_prefix", "resnetv1b_")
        net = ResNetV1b(BottleneckV1b if wide else BasicBlockV1b, layers, **kwargs)
        return finish(net, name, pretrained, ctx, root)

    title, options = f"ResNet-{num_layers} v1b", "``classes`` and ``last_gamma``"
    return zoo_function(name, title, ResNetV1b, get=get, options=options)


resnet18_v1b = _resnet_v1b(18)
resnet34_v1b = _resnet_v1b(34)
resnet50_v1b = _resnet_v1b(50)
resnet101_v1b = _resnet_v1b(101)
resnet152_v1b = _resnet_v1b(152)
