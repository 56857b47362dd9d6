"""Find out which pixels belong to an object: a small U-Net on pictures drawn by this program.

    python examples/gallery/segmentation.py
    python examples/gallery/segmentation.py --epochs 20 --picture segmentation.png

Prints the mean over classes of intersection over union on pictures that were held out.
"""

from __future__ import annotations

import argparse
import sys

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn

SIDE = 32
CLASSES = ("background", "disk", "square")


def draw(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy pictures (count, 1, 32, 32) and the class of each pixel (count, 32, 32)."""
    random = np.random.default_rng(seed)
    masks = np.zeros((count, SIDE, SIDE), "float32")
    rows, columns = np.mgrid[:SIDE, :SIDE]
    for mask in masks:
        for kind in (1, 2):
            radius = random.integers(4, 8)
            row, column = random.integers(radius, SIDE - radius, 2)
            y, x = np.abs(rows - row), np.abs(columns - column)
            inside = x**2 + y**2 <= radius**2 if kind == 1 else np.maximum(x, y) <= radius * 0.9
            mask[inside] = kind
    pictures = (masks > 0) * 0.5 + random.normal(0, 0.25, masks.shape)
    return pictures[:, None].astype("float32"), masks


def convolutions(channels: int) -> nn.HybridSequential:
    """Return two convolutions with normalization."""
    block = nn.HybridSequential()
    for _ in range(2):
        block.add(nn.Conv2D(channels, 3, padding=1, use_bias=False))
        block.add(nn.BatchNorm(), nn.Activation("relu"))
    return block


class UNet(nn.HybridBlock):
    """Goes down to a quarter of the size and up again; skip connections keep details."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.down = nn.HybridSequential()
        self.down.add(*(convolutions(width * factor) for factor in (1, 2, 4)))
        self.up, self.merge = nn.HybridSequential(), nn.HybridSequential()
        for factor in (2, 1):
            self.up.add(nn.Conv2DTranspose(width * factor, kernel_size=2, strides=2))
            self.merge.add(convolutions(width * factor))
        self.pool = nn.MaxPool2D()
        self.scores = nn.Conv2D(classes, 1)

    def hybrid_forward(self, F, x):  # noqa: N803
        """Return scores (batch, classes, height, width)."""
        first = self.down[0](x)
        second = self.down[1](self.pool(first))
        x = self.down[2](self.pool(second))
        x = self.merge[0](F.concat(self.up[0](x), second, dim=1))
        x = self.merge[1](F.concat(self.up[1](x), first, dim=1))
        return self.scores(x)


def intersection_over_union(answers: np.ndarray, masks: np.ndarray) -> list[float]:
    """Return the share of each class: pixels that both name, over pixels that either names."""
    pairs = [(answers == kind, masks == kind) for kind in range(len(CLASSES))]
    return [float((a & b).sum() / (a | b).sum()) for a, b in pairs]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--width", type=int, default=12, help="channels of the first level")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="fewer pictures and epochs")
    parser.add_argument("--picture", metavar="FILE", help="write pictures with their classes")
    args = parser.parse_args()
    if args.smoke:
        args.pictures, args.epochs, args.width = 320, 6, 8
    mx.random.seed(args.seed)
    np.random.seed(args.seed)
    net = UNet(len(CLASSES), args.width)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss(axis=1)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    dataset = gluon.data.ArrayDataset(*draw(args.pictures, args.seed))
    for epoch in range(args.epochs):
        total = 0.0
        batches = gluon.data.DataLoader(dataset, batch_size=16, shuffle=True)
        for data, masks in batches:
            with autograd.record():
                loss = loss_function(net(data), masks)
            loss.backward()
            trainer.step(data.shape[0])
            total += loss.mean().asscalar()
        print(f"epoch {epoch}: loss {total / len(batches):.4f}", flush=True)

    pictures, masks = draw(50, args.seed + 1)
    answers = net(nd.array(pictures)).asnumpy().argmax(axis=1)
    shares = intersection_over_union(answers, masks)
    if args.picture:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(3, 6, figsize=(7, 3.6))
        for column in range(6):
            for row, shown in enumerate((pictures[column, 0], masks[column], answers[column])):
                axes[row, column].imshow(shown, cmap="gray" if row == 0 else "viridis")
                axes[row, column].axis("off")
        figure.suptitle("picture, truth, answer")
        figure.savefig(args.picture, dpi=80, bbox_inches="tight")
    detail = ", ".join(f"{name} {share:.3f}" for name, share in zip(CLASSES, shares))
    print(f"mean intersection over union {np.mean(shares):.3f} ({detail})")
    return 0 if np.mean(shares) > (0.5 if args.smoke else 0.8) else 1


if __name__ == "__main__":
    sys.exit(main())
