"""AlexNet: 5 convolutions and 3 dense layers.

The one-tower form of "One weird trick for parallelizing convolutional neural networks"
(Krizhevsky 2014).
"""

from __future__ import annotations

from typing import Any

from ....ndarray import NDArray
from ... import nn
from ...block import HybridBlock
from ._build import zoo_function

__all__ = ["AlexNet", "alexnet"]


class AlexNet(HybridBlock):
    """AlexNet for images of 224 x 224 (MXNet 1.x: ``model_zoo.vision.AlexNet``).

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
                nn.Conv2D(64, 11, strides=4, padding=2, activation="relu"),
                nn.MaxPool2D(3, strides=2),
                nn.Conv2D(192, 5, padding=2, activation="relu"),
                nn.MaxPool2D(3, strides=2),
                nn.Conv2D(384, 3, padding=1, activation="relu"),
                nn.Conv2D(256, 3, padding=1, activation="relu"),
                nn.Conv2D(256, 3, padding=1, activation="relu"),
                nn.MaxPool2D(3, strides=2),
                nn.Flatten(),
                nn.Dense(4096, activation="relu"),
                nn.Dropout(0.5),
                nn.Dense(4096, activation="relu"),
                nn.Dropout(0.5),
            )
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:
        """Return the class scores ``(N, classes)`` of images ``(N, 3, 224, 224)``."""
        return self.output(self.features(x))


alexnet = zoo_function("alexnet", "an AlexNet", AlexNet)
