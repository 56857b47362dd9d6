"""Detect objects with SSD: boxes and classes in one pass, on pictures drawn by this program.

    python examples/gallery/ssd.py
    python examples/gallery/ssd.py --epochs 40 --picture ssd.png

Pictures have one to three squares, disks and crosses. The network looks at grids of 8 x 8 and
4 x 4 places; small objects are found on the first grid, large ones on the second. Prints the mean
average precision on pictures that were held out.
"""

from __future__ import annotations

import argparse
import sys

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn

SIDE, OBJECTS = 48, 3
CLASSES = ("square", "disk", "cross")
SIZES = ((0.2, 0.28, 0.36), (0.4, 0.5))  # anchors of each grid, as shares of the picture
RATIOS = (1.0,)


def draw(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures (count, 3, 48, 48) and labels (count, 3, 5) that are padded with -1."""
    random = np.random.default_rng(seed)
    pictures = random.uniform(0, 0.3, (count, 3, SIDE, SIDE)).astype("float32")
    labels = np.full((count, OBJECTS, 5), -1, "float32")
    rows, columns = np.mgrid[:SIDE, :SIDE]
    for picture, label in zip(pictures, labels):
        for number in range(random.integers(1, OBJECTS + 1)):
            kind, side = random.integers(0, 3), random.integers(9, 24)
            top, left = random.integers(0, SIDE - side, 2)
            middle = (side - 1) / 2
            y, x = np.abs(rows - top - middle), np.abs(columns - left - middle)
            inside = np.maximum(x, y) <= middle
            if kind == 1:
                inside &= x**2 + y**2 <= middle**2 + 1
            elif kind == 2:
                inside &= np.minimum(x, y) <= side / 6
            picture[:, inside] = random.uniform(0.5, 1, (3, 1))
            box = np.array([left, top, left + side, top + side]) / SIDE
            label[number] = (kind, *box)
    return pictures, labels


class SSD(nn.HybridBlock):
    """Returns anchors (1, N, 4), scores (batch, N, classes + 1), offsets (batch, N * 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.second = nn.HybridSequential(), nn.HybridSequential()
        for channels in (16, 32, 64):
            self.body.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm())
            self.body.add(nn.Activation("relu"), nn.MaxPool2D())
        self.body.add(nn.Conv2D(64, 3, padding=1, activation="relu"))
        self.second.add(nn.MaxPool2D(), nn.Conv2D(64, 3, padding=1, activation="relu"))
        self.scores, self.offsets = nn.HybridSequential(), nn.HybridSequential()
        for sizes in SIZES:
            anchors = len(sizes) + len(RATIOS) - 1
            self.scores.add(nn.Conv2D(anchors * (len(CLASSES) + 1), 3, padding=1))
            self.offsets.add(nn.Conv2D(anchors * 4, 3, padding=1))

    def hybrid_forward(self, F, x):  # noqa: N803
        """Run on pictures (batch, 3, height, width)."""
        first = self.body(x)
        anchors, scores, offsets = [], [], []
        for grid, number in ((first, 0), (self.second(first), 1)):
            anchors.append(F.contrib.MultiBoxPrior(grid, sizes=SIZES[number], ratios=RATIOS))
            score = self.scores[number](grid).transpose((0, 2, 3, 1))
            scores.append(score.reshape((0, -1, len(CLASSES) + 1)))
            offsets.append(self.offsets[number](grid).transpose((0, 2, 3, 1)).reshape((0, -1)))
        return F.concat(*anchors, dim=1), F.concat(*scores, dim=1), F.concat(*offsets, dim=1)


def train(net: SSD, pictures: np.ndarray, labels: np.ndarray, epochs: int, rate: float) -> None:
    """Train on all pictures."""
    class_loss = gluon.loss.SoftmaxCrossEntropyLoss()
    offset_loss = gluon.loss.HuberLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": rate})
    dataset = gluon.data.ArrayDataset(pictures, labels)
    for epoch in range(epochs):
        if epoch == epochs * 3 // 4:
            trainer.set_learning_rate(rate / 5)
        total = 0.0
        batches = gluon.data.DataLoader(dataset, batch_size=32, shuffle=True)
        for data, label in batches:
            with autograd.record():
                anchors, scores, offsets = net(data)
                with autograd.pause():
                    target, mask, classes = nd.contrib.MultiBoxTarget(
                        anchors,
                        label,
                        scores.transpose((0, 2, 1)),
                        negative_mining_ratio=3,
                        negative_mining_thresh=0.5,
                        ignore_label=-1,
                    )
                loss = 10 * class_loss(scores, classes, (classes >= 0).expand_dims(2))
                loss = loss + 10 * offset_loss(offsets * mask, target * mask)
            loss.backward()
            trainer.step(data.shape[0])
            total += loss.mean().asscalar()
        print(f"epoch {epoch}: loss {total / len(batches):.4f}", flush=True)


def detect(net: SSD, pictures: np.ndarray) -> np.ndarray:
    """Return rows (class, score, left, top, right, bottom) for each picture, the best first."""
    anchors, scores, offsets = net(nd.array(pictures))
    found = nd.contrib.MultiBoxDetection(
        nd.softmax(scores).transpose((0, 2, 1)), offsets, anchors, nms_threshold=0.4
    )
    return found.asnumpy()


def mean_average_precision(found: np.ndarray, labels: np.ndarray, overlap: float = 0.5) -> float:
    """Return the mean over classes of the area under the curve of precision and recall."""
    areas = []
    for kind in range(len(CLASSES)):
        hits, total = [], int((labels[:, :, 0] == kind).sum())
        for rows, truth in zip(found, labels):
            boxes = truth[truth[:, 0] == kind, 1:]
            free = np.ones(len(boxes), bool)
            rows = rows[rows[:, 0] == kind]
            for row in rows[np.argsort(-rows[:, 1])][:20]:
                low = np.maximum(row[2:4], boxes[:, :2])
                high = np.minimum(row[4:], boxes[:, 2:])
                common = np.prod(np.maximum(high - low, 0), axis=1)
                areas_of = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
                shares = common / (areas_of + np.prod(row[4:] - row[2:4]) - common) * free
                hit = len(shares) > 0 and shares.max() >= overlap
                if hit:
                    free[shares.argmax()] = False
                hits.append((row[1], hit))
        right = np.cumsum([hit for _, hit in sorted(hits, reverse=True)])
        recall, precision = right / total, right / np.arange(1, len(right) + 1)
        best = np.maximum.accumulate(precision[::-1])[::-1]
        areas.append(np.sum(np.diff(recall, prepend=0) * best))
    return float(np.mean(areas))


def draw_boxes(file: str, pictures: np.ndarray, found: np.ndarray) -> None:
    """Draw the detections above a score of 0.5 into pictures."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 5, figsize=(8, 1.8))
    for axis, picture, rows in zip(axes, pictures, found):
        axis.imshow(picture.transpose(1, 2, 0))
        axis.axis("off")
        for row in rows[(rows[:, 0] >= 0) & (rows[:, 1] > 0.5)]:
            left, top, right, bottom = row[2:] * SIDE - 0.5
            axis.add_patch(
                plt.Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor="red")
            )
            axis.text(left, top, CLASSES[int(row[0])], color="white", fontsize=7)
    figure.savefig(file, dpi=64, bbox_inches="tight")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=1500)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--lr", type=float, default=0.004)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="fewer pictures and epochs")
    parser.add_argument("--picture", metavar="FILE", help="write pictures with boxes")
    args = parser.parse_args()
    if args.smoke:
        args.pictures, args.epochs = 480, 5
    mx.random.seed(args.seed)
    np.random.seed(args.seed)
    net = SSD()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    train(net, *draw(args.pictures, args.seed), args.epochs, args.lr)
    pictures, labels = draw(100, args.seed + 1)
    found = detect(net, pictures)
    if args.picture:
        draw_boxes(args.picture, pictures, found)
    precision = mean_average_precision(found, labels)
    print(f"mean average precision {precision:.3f}")
    return 0 if precision > (0.15 if args.smoke else 0.7) else 1


if __name__ == "__main__":
    sys.exit(main())
