"""Inception v4 (Szegedy et al. 2016), for images of 299 x 299."""

from __future__ import annotations

from typing import Any

import mxlite as mx

from .layers import classifier, image


class _Block:
    """Names the layers of a block: ``<block>_conv3_1*7`` is its third convolution, 1 by 7.

    Parameters
    ----------
    name : str
    renamed : dict of int to str
        Kernels in names that differ from those of the layers, because 1.x swaps a few of them.
    """

    def __init__(self, name: str, renamed: Any = ()) -> None:
        self.name, self.renamed = name, dict(renamed)
        self.convolutions = self.pools = self.concats = 0

    def convolution(
        self, data: Any, filters: int, kernel: Any = (1, 1), stride: int = 1, same: bool = True
    ) -> Any:
        """Convolution, normalization, ReLU."""
        self.convolutions += 1
        number = self.convolutions
        size = self.renamed.get(number, f"{kernel[0]}*{kernel[1]}")
        name = f"{self.name}_conv{number}_{size}"
        data = mx.sym.Convolution(
            data,
            num_filter=filters,
            kernel=kernel,
            stride=(stride, stride),
            pad=tuple(side // 2 for side in kernel) if same else (0, 0),
            no_bias=True,
            name=f"{name}_conv2d",
        )
        data = mx.sym.BatchNorm(data, fix_gamma=True, name=f"{name}_batchnorm")
        return mx.sym.Activation(data, act_type="relu", name=f"{name}_relu")

    def tower(self, data: Any, *layers: Any) -> Any:
        """A sequence of convolutions; a third entry halves the image."""
        for filters, kernel, *half in layers:
            data = self.convolution(data, filters, kernel, 2 if half else 1, same=not half)
        return data

    def halved(self, data: Any) -> Any:
        """Max pool of half the size."""
        self.pools += 1
        return mx.sym.Pooling(
            data,
            kernel=(3, 3),
            stride=(2, 2),
            pool_type="max",
            name=f"{self.name}_maxpool_{self.pools}",
        )

    def average(self, data: Any) -> Any:
        """Mean of 3 x 3 pixels."""
        return mx.sym.Pooling(
            data, kernel=(3, 3), pad=(1, 1), pool_type="avg", name=f"{self.name}_avgpool_1"
        )

    def concat(self, *parts: Any) -> Any:
        """Join along the channels."""
        self.concats += 1
        return mx.sym.Concat(*parts, name=f"{self.name}_concat_{self.concats}")


ONE, THREE, WIDE, TALL = (1, 1), (3, 3), (1, 7), (7, 1)


def _stem(data: Any) -> Any:
    block = _Block("in_stem")
    body = block.convolution(data, 32, THREE, stride=2, same=False)
    body = block.convolution(body, 32, THREE, same=False)
    body = block.convolution(body, 64, THREE)
    pool = block.halved(body)
    body = block.concat(pool, block.convolution(body, 96, THREE, stride=2, same=False))
    left = block.convolution(block.convolution(body, 64), 96, THREE, same=False)
    right = block.tower(body, (64, ONE), (64, TALL), (64, WIDE))
    body = block.concat(left, block.convolution(right, 96, THREE, same=False))
    right = block.convolution(body, 192, THREE, stride=2, same=False)
    return block.concat(right, block.halved(body))


def _block_35(data: Any, name: str) -> Any:
    block = _Block(name)
    return block.concat(
        block.convolution(block.average(data), 96),
        block.convolution(data, 96),
        block.tower(data, (64, ONE), (96, THREE)),
        block.tower(data, (64, ONE), (96, THREE), (96, THREE)),
    )


def _to_17(data: Any, name: str) -> Any:
    block = _Block(name)
    return block.concat(
        block.halved(data),
        block.tower(data, (384, THREE, "half")),
        block.tower(data, (192, ONE), (224, THREE), (256, THREE, "half")),
    )


def _block_17(data: Any, name: str) -> Any:
    block = _Block(name, {5: "1*7"})
    return block.concat(
        block.convolution(block.average(data), 128),
        block.convolution(data, 384),
        block.tower(data, (192, ONE), (224, WIDE), (256, TALL)),
        block.tower(data, (192, ONE), (192, WIDE), (224, TALL), (224, WIDE), (256, TALL)),
    )


def _to_8(data: Any, name: str) -> Any:
    block = _Block(name)
    return block.concat(
        block.halved(data),
        block.tower(data, (192, ONE), (192, THREE, "half")),
        block.tower(data, (256, ONE), (256, WIDE), (320, TALL), (320, THREE, "half")),
    )


def _block_8(data: Any, name: str) -> Any:
    renamed = {4: "3*1", 5: "1*3", 7: "1*3", 8: "3*1", 9: "1*3", 10: "3*1"}
    block = _Block(name, renamed)
    wide, tall = (1, 3), (3, 1)
    parts = [block.convolution(block.average(data), 256), block.convolution(data, 256)]
    body = block.convolution(data, 384)
    parts += [block.convolution(body, 256, kernel) for kernel in (wide, tall)]
    body = block.tower(data, (384, ONE), (448, wide), (512, tall))
    parts += [block.convolution(body, 256, kernel) for kernel in (tall, wide)]
    return mx.sym.Concat(*parts, name=f"{name}_concat")


def get_symbol(num_classes: int = 1000, dtype: str = "float32", **_: Any) -> Any:
    """Return the network for images of 299 x 299."""
    body = _stem(image(dtype, identity=True))
    for number in range(1, 5):
        body = _block_35(body, f"in{number}A")
    body = _to_17(body, "re1A")
    for number in range(1, 8):
        body = _block_17(body, f"in{number}B")
    body = _to_8(body, "re1B")
    for number in range(1, 4):
        body = _block_8(body, f"in{number}C")
    body = mx.sym.Pooling(body, kernel=(8, 8), pad=(1, 1), pool_type="avg", name="global_avgpool")
    body = mx.sym.Flatten(mx.sym.Dropout(body, p=0.2), name="flatten")
    return classifier(body, num_classes, dtype, "fc1")
