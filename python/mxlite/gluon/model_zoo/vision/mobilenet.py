"""MobileNet (Howard et al. 2017) and MobileNetV2 (Sandler et al. 2018) in four widths each."""

from __future__ import annotations

import functools
from typing import Any

from ....ndarray import NDArray
from ... import nn
from ...block import HybridBlock
from ._build import ZooFunction, finish, zoo_function

__all__ = [
    "MobileNet",
    "MobileNetV2",
    "get_mobilenet",
    "get_mobilenet_v2",
    "mobilenet0_5",
    "mobilenet0_25",
    "mobilenet0_75",
    "mobilenet1_0",
    "mobilenet_v2_0_5",
    "mobilenet_v2_0_25",
    "mobilenet_v2_0_75",
    "mobilenet_v2_1_0",
]

# MobileNet: output channels and stride of each depthwise-separable pair.
_PAIRS = [
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
]

# MobileNetV2: expansion, output channels, repetitions and first stride of each group.
_GROUPS = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]


class RELU6(HybridBlock):
    """``min(max(x, 0), 6)`` (MXNet 1.x: ``RELU6`` of its mobilenet module)."""

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return ``x`` with its elements limited to [0, 6]."""
        return F.clip(x, a_min=0, a_max=6, name="relu6")


def _add_conv(
    out: nn.HybridSequential,
    channels: int,
    kernel: int = 1,
    stride: int = 1,
    pad: int = 0,
    groups: int = 1,
    activation: str | None = "relu",
) -> None:
    out.add(nn.Conv2D(channels, kernel, stride, pad, groups=groups, use_bias=False))
    out.add(nn.BatchNorm())
    if activation == "relu6":
        out.add(RELU6())
    elif activation is not None:
        out.add(nn.Activation(activation))


class LinearBottleneck(HybridBlock):
    """Expand, filter each channel alone, project without activation.

    MXNet 1.x: ``LinearBottleneck`` of its mobilenet module.

    Parameters
    ----------
    in_channels : int
        Input channels.
    channels : int
        Output channels.
    t : int
        Expansion factor.
    stride : int
        Stride of the depthwise convolution.
    prefix, params
        As in :class:`~mxlite.gluon.HybridBlock`.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        t: int,
        stride: int,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self.use_shortcut = stride == 1 and in_channels == channels
        wide = in_channels * t
        with self.name_scope():
            self.out = nn.HybridSequential()
            _add_conv(self.out, wide, activation="relu6")
            _add_conv(self.out, wide, 3, stride, 1, groups=wide, activation="relu6")
            _add_conv(self.out, channels, activation=None)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the output ``(N, channels, H / stride, W / stride)`` for ``(N, C, H, W)``."""
        y = self.out(x)
        return F.elemwise_add(y, x) if self.use_shortcut else y


class MobileNet(HybridBlock):
    """MobileNet (MXNet 1.x: ``model_zoo.vision.MobileNet``).

    Parameters
    ----------
    multiplier : float
        Factor of all channel counts.
    classes : int
        Size of the output's last dimension.
    prefix, params
        As in :class:`~mxlite.gluon.HybridBlock`.
    """

    def __init__(
        self,
        multiplier: float = 1.0,
        classes: int = 1000,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            channels = int(32 * multiplier)
            _add_conv(self.features, channels, 3, 2, 1)
            for width, stride in _PAIRS:
                _add_conv(self.features, channels, 3, stride, 1, groups=channels)
                channels = int(width * multiplier)
                _add_conv(self.features, channels)
            self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the class scores ``(N, classes)`` of images ``(N, 3, H, W)``."""
        return self.output(self.features(x))


class MobileNetV2(HybridBlock):
    """MobileNetV2 (MXNet 1.x: ``model_zoo.vision.MobileNetV2``).

    Parameters
    ----------
    multiplier : float
        Factor of the channel counts; the last convolution never has fewer than 1280.
    classes : int
        Size of the output's last dimension.
    prefix, params
        As in :class:`~mxlite.gluon.HybridBlock`.
    """

    def __init__(
        self,
        multiplier: float = 1.0,
        classes: int = 1000,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                channels = int(32 * multiplier)
                _add_conv(self.features, channels, 3, 2, 1, activation="relu6")
                for expansion, width, repeats, stride in _GROUPS:
                    for i in range(repeats):
                        out = int(width * multiplier)
                        step = stride if i == 0 else 1
                        self.features.add(LinearBottleneck(channels, out, expansion, step))
                        channels = out
                last = max(1280, int(1280 * multiplier))
                _add_conv(self.features, last, activation="relu6")
                self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the class scores ``(N, classes)`` of images ``(N, 3, H, W)``."""
        return self.output(self.features(x))


def _width_name(multiplier: float) -> str:
    # 1.x names the file of width 0.50 "0.5" and that of 0.25 "0.25".
    text = f"{multiplier:.2f}"
    return text[:-1] if text.endswith("0") else text


def get_mobilenet(
    multiplier: float,
    pretrained: bool = False,
    ctx: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> MobileNet:
    """Return a :class:`MobileNet`.

    Parameters
    ----------
    multiplier : float
        Factor of all channel counts.
    pretrained : bool
        Load the parameters from ``root``.
    ctx : Context, optional
        Where loaded parameters go; the CPU by default.
    root : str, optional
        Folder of parameter files.
    **kwargs
        Arguments of the class, such as ``classes``.

    Returns
    -------
    MobileNet
        The network.
    """
    name = f"mobilenet{_width_name(multiplier)}"
    return finish(MobileNet(multiplier, **kwargs), name, pretrained, ctx, root)


def get_mobilenet_v2(
    multiplier: float,
    pretrained: bool = False,
    ctx: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> MobileNetV2:
    """Return a :class:`MobileNetV2`.

    Parameters
    ----------
    multiplier : float
        Factor of the channel counts.
    pretrained : bool
        Load the parameters from ``root``.
    ctx : Context, optional
        Where loaded parameters go; the CPU by default.
    root : str, optional
        Folder of parameter files.
    **kwargs
        Arguments of the class, such as ``classes``.

    Returns
    -------
    MobileNetV2
        The network.
    """
    name = f"mobilenetv2_{_width_name(multiplier)}"
    return finish(MobileNetV2(multiplier, **kwargs), name, pretrained, ctx, root)


def _mobilenet(multiplier: float) -> ZooFunction[MobileNet]:
    width = _width_name(multiplier)
    return zoo_function(
        f"mobilenet{width.replace('.', '_')}",
        f"MobileNet of width {width}",
        MobileNet,
        get=functools.partial(get_mobilenet, multiplier),
        file=f"mobilenet{width}",
    )


def _mobilenet_v2(multiplier: float) -> ZooFunction[MobileNetV2]:
    width = _width_name(multiplier)
    return zoo_function(
        f"mobilenet_v2_{width.replace('.', '_')}",
        f"MobileNetV2 of width {width}",
        MobileNetV2,
        get=functools.partial(get_mobilenet_v2, multiplier),
        file=f"mobilenetv2_{width}",
    )


mobilenet1_0 = _mobilenet(1.0)
mobilenet0_75 = _mobilenet(0.75)
mobilenet0_5 = _mobilenet(0.5)
mobilenet0_25 = _mobilenet(0.25)
mobilenet_v2_1_0 = _mobilenet_v2(1.0)
mobilenet_v2_0_75 = _mobilenet_v2(0.75)
mobilenet_v2_0_5 = _mobilenet_v2(0.5)
mobilenet_v2_0_25 = _mobilenet_v2(0.25)
