"""Networks that embed faces: IR ResNets (arcface's third unit), MobileFaceNet, a plain one."""

from __future__ import annotations

from typing import Any

from mxlite import gluon
from mxlite.gluon import nn

# Units of the four stages, whose widths are 64, 128, 256 and 512.
UNITS = {"r18": (2, 2, 2, 2), "r34": (3, 4, 6, 3), "r50": (3, 4, 14, 3), "r100": (3, 13, 30, 3)}
NETWORKS = (*UNITS, "y1", "s4")
_SMALL = (32, 64, 128, 256)  # channels of s4, for small pictures

# MobileFaceNet: depthwise groups of a unit of stride 2, groups of the units behind it, their output
# channels and number.
_MOBILE = ((128, 128, 64, 4), (256, 256, 128, 6), (512, 256, 128, 2))


def _norm(**options: Any) -> nn.BatchNorm:
    return nn.BatchNorm(epsilon=2e-5, momentum=0.9, **options)


class Unit(gluon.HybridBlock):
    """BatchNorm, 3x3, BatchNorm, PReLU, 3x3 with the stride, BatchNorm; beside a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(
                _norm(),
                nn.Conv2D(outside, 3, 1, 1, use_bias=False, in_channels=inside),
                _norm(),
                nn.PReLU(in_channels=outside),
                nn.Conv2D(outside, 3, stride, 1, use_bias=False, in_channels=outside),
                _norm(),
            )
            self.shortcut = nn.HybridSequential()
            if stride > 1 or inside != outside:
                self.shortcut.add(
                    nn.Conv2D(outside, 1, stride, use_bias=False, in_channels=inside), _norm()
                )

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Return (batch, outside, height / stride, width / stride)."""
        return self.body(x) + (self.shortcut(x) if len(self.shortcut) else x)


def _convolution(channels: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
    """Return a convolution with BatchNorm and PReLU, of an unknown number of input channels."""
    pad = kernel // 2 if kernel < 7 else 0
    return [
        nn.Conv2D(channels, kernel, stride, pad, groups=groups, use_bias=False),
        _norm(),
        nn.PReLU(in_channels=channels),
    ]


class Bottleneck(gluon.HybridBlock):
    """MobileFaceNet's unit: 1x1, 3x3 depthwise and 1x1; a shortcut if the stride is 1."""

    def __init__(self, groups: int, outside: int, stride: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._has_shortcut = stride == 1
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(
                *_convolution(groups, 1),
                *_convolution(groups, 3, stride, groups),
                *_convolution(outside, 1)[:2],
            )

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Return (batch, outside, height / stride, width / stride)."""
        return self.body(x) + x if self._has_shortcut else self.body(x)


class Pixels(gluon.HybridBlock):
    """Scales pixels from 0..255 to -1..1."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Return float32 of the same shape."""
        return (F.cast(x, dtype="float32") - 127.5) * 0.0078125


def make_network(
    name: str, embedding: int | None = None, size: int = 112, dropout: float = 0.4
) -> nn.HybridSequential:
    """Return a network from pixels (batch, 3, size, size) to embeddings (batch, embedding).

    Parameters
    ----------
    name : str
        One of `NETWORKS`.
    embedding : int, optional
        512, for y1 and s4 128.
    size : int
        A multiple of 16.
    dropout : float
        Share of the ResNets' last features that becomes 0 in training.
    """
    if name not in NETWORKS:
        raise SystemExit(f"insightface: --network must be one of {', '.join(NETWORKS)}, got {name}")
    if size < 16 or size % 16:
        raise SystemExit(f"insightface: --image-size must be a multiple of 16, got {size}")
    net = nn.HybridSequential(prefix=f"{name}_")
    with net.name_scope():
        net.add(Pixels())
        if name == "s4":
            for channels in _SMALL:
                net.add(*_convolution(channels, 3, 2))
            net.add(nn.Dense(embedding or 128), _norm())
            return net
        if name == "y1":
            net.add(*_convolution(64, 3, 2), *_convolution(64, 3, 1, 64))
            for first, groups, channels, count in _MOBILE:
                net.add(Bottleneck(first, channels, 2))
                net.add(*(Bottleneck(groups, channels) for _ in range(count)))
            net.add(*_convolution(512, 1))
            net.add(nn.Conv2D(512, size // 16, groups=512, use_bias=False), _norm())
            net.add(nn.Dense(embedding or 128), _norm())
            return net
        net.add(*_convolution(64, 3))
        inside = 64
        for count, width in zip(UNITS[name], (64, 128, 256, 512)):
            for number in range(count):
                net.add(Unit(inside, width, 1 if number else 2))
                inside = width
        net.add(_norm(), nn.Dropout(dropout), nn.Dense(embedding or 512), _norm(scale=False))
    return net
