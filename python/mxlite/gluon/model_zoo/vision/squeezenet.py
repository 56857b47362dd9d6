"""SqueezeNet 1.0 and 1.1.

"SqueezeNet: AlexNet-level accuracy with 50x fewer parameters" (Iandola et al. 2016).
"""

from __future__ import annotations

from typing import Any

from ....ndarray import NDArray
from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent
from ._build import ZooFunction, pick, zoo_function

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

# Version: channels and kernel of the first convolution, then fire modules (squeeze channels; each
# expand branch has four times as many) and pools in their order.
_POOL = 0
_PLANS = {
    "1.0": (96, 7, [_POOL, 16, 16, 32, _POOL, 32, 48, 48, 64, _POOL, 64]),
    "1.1": (64, 3, [_POOL, 16, 16, _POOL, 32, 32, _POOL, 48, 48, 64, 64]),
}


def _conv_relu(channels: int, kernel_size: int, padding: int = 0) -> nn.HybridSequential:
    group = nn.HybridSequential(prefix="")
    group.add(nn.Conv2D(channels, kernel_size, padding=padding), nn.Activation("relu"))
    return group


def _fire(squeeze: int) -> nn.HybridSequential:
    module = nn.HybridSequential(prefix="")
    module.add(_conv_relu(squeeze, 1))
    expand = HybridConcurrent(axis=1, prefix="")
    expand.add(_conv_relu(4 * squeeze, 1))
    expand.add(_conv_relu(4 * squeeze, 3, padding=1))
    module.add(expand)
    return module


class SqueezeNet(HybridBlock):
    """SqueezeNet for images of 224 x 224 (MXNet 1.x: ``model_zoo.vision.SqueezeNet``).

    Parameters
    ----------
    version : str
        ``"1.0"`` or ``"1.1"``.
    classes : int
        Size of the output's last dimension.
    prefix, params
        As in :class:`~mxlite.gluon.HybridBlock`.

    Raises
    ------
    ValueError
        Another version.
    """

    def __init__(
        self,
        version: str,
        classes: int = 1000,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        channels, kernel_size, plan = pick("squeezenet", "version", version, _PLANS)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(channels, kernel_size, strides=2), nn.Activation("relu"))
            for step in plan:
                if step == _POOL:
                    self.features.add(nn.MaxPool2D(3, strides=2, ceil_mode=True))
                else:
                    self.features.add(_fire(step))
            self.features.add(nn.Dropout(0.5))
            self.output = nn.HybridSequential(prefix="")
            self.output.add(
                nn.Conv2D(classes, 1), nn.Activation("relu"), nn.AvgPool2D(13), nn.Flatten()
            )

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the class scores ``(N, classes)`` of images ``(N, 3, 224, 224)``."""
        return self.output(self.features(x))


def _squeezenet(version: str) -> ZooFunction[SqueezeNet]:
    return zoo_function(
        f"squeezenet{version.replace('.', '_')}",
        f"SqueezeNet {version}",
        SqueezeNet,
        version,
        file=f"squeezenet{version}",
    )


squeezenet1_0 = _squeezenet("1.0")
squeezenet1_1 = _squeezenet("1.1")
