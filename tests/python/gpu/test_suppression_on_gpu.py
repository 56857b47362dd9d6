"""Suppression of boxes at sizes where its method changes: tiles, parts of sorts, panels, passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from test_matching_on_gpu import on_both


def rows(images: int, boxes: int, classes: int, extent: int) -> np.ndarray:
    """Return rows (class, score, corners) of whole numbers, whose overlaps are exact quotients.

    All scores of an image differ, so that only one order is right.
    """
    rng = np.random.default_rng(boxes + images)
    low = rng.integers(0, extent, (images, boxes, 2))
    high = low + rng.integers(1, 12, (images, boxes, 2))
    ids = rng.integers(0, classes, (images, boxes, 1))
    order = np.argsort(rng.random((images, boxes)), axis=-1)[..., None]
    return np.concatenate([ids, (order + 1) / boxes, low, high], -1).astype("float32")


def compare(function: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    expected, found = on_both(function, *inputs)
    for e, f in zip(expected, found):
        np.testing.assert_array_equal(f, e)
    return found


# One box, tiles that are not full, several tiles, lists that need several parts to be sorted.
@pytest.mark.parametrize("boxes", [1, 2, 63, 64, 65, 128, 500, 2049, 5000])
@pytest.mark.parametrize("topk", [-1, 1, 65, 700])
def test_box_nms(boxes: int, topk: int) -> None:
    data = rows(3, boxes, 4, 40)
    for options in (
        {"overlap_thresh": 0.5},
        {"overlap_thresh": 0.3, "id_index": 0, "background_id": 2, "valid_thresh": 0.25},
    ):
        kept = compare(lambda x, o=options: nd.contrib.box_nms(x, topk=topk, **o), data)[0]
        assert (kept[..., 1] > 0).any() or "valid_thresh" in options


@pytest.mark.parametrize("id_index", [-1, 0])
def test_box_nms_of_images_with_few_valid_boxes(id_index: int) -> None:
    data = rows(6, 300, 3, 60)
    for image, valid in enumerate((0, 1, 63, 64, 65, 300)):
        data[image, :, 1] -= (300 - valid) / 300
    data[..., 1] = np.round(data[..., 1] * 300) / 512
    options = {"overlap_thresh": 0.4, "id_index": id_index, "valid_thresh": 0}
    kept = compare(lambda x: nd.contrib.box_nms(x, **options), data)[0]
    assert (kept[0] == -1).all() and (kept[5, :2, 1] > 0).all()


def test_box_nms_beyond_one_panel_of_the_overlap_matrix() -> None:
    # 24,000 boxes have a matrix of 69 MiB. Most stay, so that both panels have something to drop.
    data = rows(1, 24000, 1, 1500)
    kept = compare(lambda x: nd.contrib.box_nms(x, overlap_thresh=0.2), data)[0]
    assert 20000 < (kept[..., 1] > 0).sum() < 23950


def test_box_nms_of_more_images_than_one_pass_takes() -> None:
    # Lists of 2048 entries, boxes and the least panel are 66 kB an image: a pass takes 504 images.
    data = rows(520, 1025, 2, 60)
    compare(lambda x: nd.contrib.box_nms(x, overlap_thresh=0.3, id_index=0), data)


def test_gradients_of_box_nms_follow_the_kept_rows() -> None:
    data = rows(2, 200, 2, 30)
    gradients = []
    for ctx in (mx.cpu(), mx.gpu(0)):
        x = nd.array(data, ctx=ctx)
        x.attach_grad()
        with autograd.record():
            y = nd.contrib.box_nms(x, overlap_thresh=0.3)
        y.backward(nd.arange(y.size, ctx=ctx).reshape(y.shape))
        gradients.append(x.grad.asnumpy())
    np.testing.assert_array_equal(gradients[1], gradients[0])
    assert (gradients[0] != 0).any()


@pytest.mark.parametrize("topk", [-1, 100, 129])
@pytest.mark.parametrize("force", [False, True])
def test_multibox_detection(topk: int, force: bool) -> None:
    rng = np.random.default_rng(3)
    anchors = rows(1, 700, 1, 40)[..., 2:] / 64
    scores = rng.integers(1, 4000, (2, 4, 700)) / 4096  # ties: the first anchor comes first
    scores[1, 0, 100:] = 1  # the second image has 100 detections at most
    offsets = np.zeros((2, 4 * 700), "float32")
    options = {"nms_threshold": 0.3, "nms_topk": topk, "force_suppress": force, "clip": False}

    def detect(*inputs: Any) -> Any:
        return nd.contrib.MultiBoxDetection(*inputs, **options)

    found = compare(detect, scores.astype("float32"), offsets, anchors)[0]
    assert (found[0, :, 0] >= 0).any() and (found[0, :, 0] < 0).any()


# Ends within the first tile of boxes, at the border of a tile, after all boxes with repeated rows.
@pytest.mark.parametrize("wanted", [3, 64, 65, 300, 3000])
@pytest.mark.parametrize("compared", [100, 1000, 6000])
def test_proposals(wanted: int, compared: int) -> None:
    rng = np.random.default_rng(wanted)
    kinds, height, width = 6, 14, 12
    scores = rng.permutation(2 * 2 * kinds * height * width).reshape(2, 2 * kinds, height, width)
    offsets = np.zeros((2, 4 * kinds, height, width), "float32")
    info = np.array([[200, 180, 1], [220, 190, 1]], "float32")
    options = {"rpn_pre_nms_top_n": compared, "rpn_post_nms_top_n": wanted, "threshold": 0.6}
    options |= {"rpn_min_size": 4, "scales": (2, 4), "ratios": (0.5, 1, 2), "output_score": True}

    def propose(*inputs: Any) -> Any:
        return nd.contrib.MultiProposal(*inputs, **options)

    compare(propose, (scores / scores.size).astype("float32"), offsets, info)


def test_one_image_is_compared_by_many_blocks(most_blocks: Callable[[], int]) -> None:
    data = nd.array(rows(1, 1500, 1, 40), ctx=mx.gpu(0))
    data.wait_to_read()
    most_blocks()
    nd.contrib.box_nms(data, overlap_thresh=0.5).wait_to_read()
    assert most_blocks() > 1
