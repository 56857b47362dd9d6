"""The detection operators: values of MXNet 1.9.1, gradients, a single-shot detector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn
from pairing import assert_all_close
from recording import differentiated

GOLDEN = np.load(Path(__file__).parents[2] / "data" / "mxnet_1_9_1" / "detection.npz")
CASES = json.loads(str(GOLDEN["cases"]))

ZERO_GRADIENT = [
    ("box_iou", [(3, 4), (2, 4)], {}),
    ("box_encode", [(1, 3), (1, 3), (1, 3, 4), (1, 2, 4), (4,), (4,)], {}),
    ("box_decode", [(2, 3, 4), (1, 3, 4)], {}),
    ("bipartite_matching", [(3, 4)], {"threshold": 0.1}),
    ("MultiBoxPrior", [(1, 2, 3, 3)], {}),
    ("MultiBoxTarget", [(1, 3, 4), (2, 2, 5), (2, 4, 3)], {}),
    ("MultiBoxDetection", [(2, 4, 3), (2, 12), (1, 3, 4)], {}),
    ("Proposal", [(1, 2, 2, 2), (1, 4, 2, 2), (1, 3)], {"scales": (1,), "ratios": (1,)}),
    ("MultiProposal", [(2, 2, 2, 2), (2, 4, 2, 2), (2, 3)], {"scales": (1,), "ratios": (1,)}),
]


def golden(case: int, kind: str) -> list[np.ndarray]:
    """Return the inputs or outputs of a case that MXNet 1.9.1 ran."""
    names = [n for n in GOLDEN.files if n.startswith(f"{case}_{kind}_")]
    return [GOLDEN[n] for n in sorted(names)]


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: f"{i}_{CASES[i][0]}")
def test_ties_and_crowds_are_resolved_as_in_mxnet_1_9_1(case: int) -> None:
    name, params = CASES[case]
    result = getattr(nd.contrib, name)(*map(nd.array, golden(case, "input")), **params)
    result = result if isinstance(result, list) else [result]
    expected = golden(case, "output")
    assert len(result) == len(expected)
    assert_all_close(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "shapes", "params"), ZERO_GRADIENT, ids=lambda v: str(v)[:20])
def test_operators_that_choose_have_zero_gradients(
    name: str, shapes: list[tuple[int, ...]], params: dict[str, Any]
) -> None:
    rng = np.random.RandomState(0)
    inputs = [nd.array(rng.uniform(0.1, 1, s)) for s in shapes]
    for x in inputs:
        x.attach_grad()
    with autograd.record():
        result = getattr(nd.contrib, name)(*inputs, **params)
        head = sum((r.sum() for r in result), nd.zeros(1)) if isinstance(result, list) else result
    head.backward()
    for x in inputs:
        np.testing.assert_array_equal(x.grad.asnumpy(), np.zeros(x.shape))


def test_the_gradient_of_box_nms_goes_to_the_rows_that_were_kept() -> None:
    data = nd.array([[0, 0.5, 0, 0, 2, 2], [1, 0.9, 0, 0, 2, 2], [0, 0.7, 0, 0, 2, 2]])
    out = differentiated(
        lambda data: nd.contrib.box_nms(data, id_index=0),
        data,
        head=nd.array(np.arange(18).reshape(3, 6)),
    )
    np.testing.assert_array_equal(out[:, 1].asnumpy(), np.float32([0.9, 0.7, -1]))
    want = [np.zeros(6), np.arange(6), np.arange(6, 12)]
    np.testing.assert_array_equal(data.grad.asnumpy(), want)


class SingleShotDetector(gluon.HybridBlock):
    """Two feature maps, each with anchors, class and location predictions."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.stages = nn.HybridSequential()
            self.class_heads = nn.HybridSequential()
            self.box_heads = nn.HybridSequential()
            for channels in (8, 16):
                stage = nn.HybridSequential()
                stage.add(nn.Conv2D(channels, 3, padding=1, activation="relu"), nn.MaxPool2D(2))
                self.stages.add(stage)
                self.class_heads.add(nn.Conv2D(3 * 2, 3, padding=1))
                self.box_heads.add(nn.Conv2D(3 * 4, 3, padding=1))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        anchors, classes, boxes = [], [], []
        for i, stage in enumerate(self.stages):
            x = stage(x)
            sizes = (0.3, 0.4) if i == 0 else (0.6, 0.8)
            anchors.append(F.contrib.MultiBoxPrior(x, sizes=sizes, ratios=(1, 2), clip=True))
            classes.append(F.flatten(F.transpose(self.class_heads[i](x), axes=(0, 2, 3, 1))))
            boxes.append(F.flatten(F.transpose(self.box_heads[i](x), axes=(0, 2, 3, 1))))
        scores = F.reshape(F.concat(*classes, dim=1), shape=(0, -1, 2))
        return F.concat(*anchors, dim=1), scores, F.concat(*boxes, dim=1)


def detected(anchor: Any, scores: Any, boxes: Any) -> Any:
    probabilities = nd.softmax(nd.transpose(scores, axes=(0, 2, 1)), axis=1)
    return nd.contrib.MultiBoxDetection(probabilities, boxes, anchor, nms_threshold=0.4)


def squares(count: int, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Return images with one bright square and their labels (0, box), padded with -1."""
    images, labels = np.zeros((count, 1, 16, 16), "float32"), np.full((count, 2, 5), -1, "float32")
    for image, label in zip(images, labels):
        size = rng.randint(5, 9)
        top, left = rng.randint(0, 16 - size, 2)
        image[0, top : top + size, left : left + size] = 1
        label[0] = [0, left / 16, top / 16, (left + size) / 16, (top + size) / 16]
    return images, labels


def test_a_single_shot_detector_learns_to_find_a_square() -> None:
    mx.random.seed(1)
    rng = np.random.RandomState(1)
    net = SingleShotDetector()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    class_loss = gluon.loss.SoftmaxCrossEntropyLoss()
    images, labels = squares(24, rng)
    for _ in range(50):
        with autograd.record():
            anchor, scores, boxes = net(nd.array(images))
            with autograd.pause():
                location, mask, classes = nd.contrib.MultiBoxTarget(
                    anchor,
                    nd.array(labels),
                    nd.transpose(scores, axes=(0, 2, 1)),
                    negative_mining_ratio=3,
                )
            counted = nd.expand_dims(classes >= 0, axis=-1)
            loss = class_loss(scores, nd.maximum(classes, 0), counted).sum()
            loss = loss + nd.smooth_l1((boxes - location) * mask, scalar=1).sum() * 0.05
        loss.backward()
        trainer.step(len(images))
    images, labels = squares(16, rng)
    best = detected(*net(nd.array(images)))[:, 0].asnumpy()
    assert (best[:, 0] == 0).all()
    ious = nd.contrib.box_iou(nd.array(best[:, 2:]), nd.array(labels[:, 0, 1:])).asnumpy()
    assert np.diag(ious).mean() > 0.6
