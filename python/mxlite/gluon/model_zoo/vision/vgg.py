"""VGG: 8 to 16 convolutions of 3 x 3 and 3 dense layers.

"Very Deep Convolutional Networks for Large-Scale Image Recognition" (Simonyan and Zisserman 2015).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from .... import initializer
from ....ndarray import NDArray
from ... import nn
from ...block import HybridBlock
from ._build import ZooFunction, finish, pick, zoo_function

__all__ = [
    "VGG",
    "get_vgg",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
]

_WIDTHS = [64, 128, 256, 512, 512]
_DEPTHS = {
    11: [1, 1, 2, 2, 2],
    13: [2, 2, 2, 2, 2],
    16: [2, 2, 3, 3, 3],
    19: [2, 2, 4, 4, 4],
}


class VGG(HybridBlock):
    """VGG for images of 224 x 224 (MXNet 1.x: ``model_zoo.vision.VGG``).

    Parameters
    ----------
    layers : sequence of int
        Number of convolutions in each stage.
    filters : sequence of int
        Channels of each stage.
    classes : int
        Size of the output's last dimension.
    batch_norm : bool
        Put BatchNorm after each convolution.
    prefix, params
        As in :class:`~mxlite.gluon.HybridBlock`.
    """

    def __init__(
        self,
        layers: Sequence[int],
        filters: Sequence[int],
        classes: int = 1000,
        batch_norm: bool = False,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            for depth, width in zip(layers, filters):
                for _ in range(depth):
                    self.features.add(
                        nn.Conv2D(
                            width,
                            3,
                            padding=1,
                            weight_initializer=initializer.Xavier(
                                rnd_type="gaussian", factor_type="out", magnitude=2
                            ),
                        )
                    )
                    if batch_norm:
                        self.features.add(nn.BatchNorm())
                    self.features.add(nn.Activation("relu"))
                self.features.add(nn.MaxPool2D(strides=2))
            for _ in range(2):
                self.features.add(nn.Dense(4096, activation="relu", weight_initializer="normal"))
                self.features.add(nn.Dropout(0.5))
            self.output = nn.Dense(classes, weight_initializer="normal")

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the class scores ``(N, classes)`` of images ``(N, 3, 224, 224)``."""
        return self.output(self.features(x))


def get_vgg(
    num_layers: int,
    pretrained: bool = False,
    ctx: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> VGG:
    """Return a :class:`VGG` of 11, 13, 16 or 19 layers.

    Parameters
    ----------
    num_layers : int
        Convolutions and dense layers together.
    pretrained : bool
        Load the parameters from ``root``.
    ctx : Context, optional
        Where loaded parameters go; the CPU by default.
    root : str, optional
        Folder of parameter files.
    **kwargs
        Arguments of the class, such as ``classes`` and ``batch_norm``.

    Returns
    -------
    VGG
        The network.

    Raises
    ------
    ValueError
        Another number of layers.
    """
    depths = pick("vgg", "num_layers", num_layers, _DEPTHS)
    suffix = "_bn" if kwargs.get("batch_norm") else ""
    return finish(VGG(depths, _WIDTHS, **kwargs), f"vgg{num_layers}{suffix}", pretrained, ctx, root)


def _vgg(num_layers: int, suffix: str = "", **fixed: Any) -> ZooFunction[VGG]:
    title = f"VGG-{num_layers}{' with BatchNorm' if fixed else ''}"
    get = functools.partial(get_vgg, num_layers)
    return zoo_function(f"vgg{num_layers}{suffix}", title, VGG, get=get, **fixed)


vgg11 = _vgg(11)
vgg11_bn = _vgg(11, "_bn", batch_norm=True)
vgg13 = _vgg(13)
vgg13_bn = _vgg(13, "_bn", batch_norm=True)
vgg16 = _vgg(16)
vgg16_bn = _vgg(16, "_bn", batch_norm=True)
vgg19 = _vgg(19)
vgg19_bn = _vgg(19, "_bn", batch_norm=True)
