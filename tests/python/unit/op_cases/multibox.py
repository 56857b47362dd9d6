"""Rows of MultiBoxPrior, MultiBoxTarget and MultiBoxDetection."""

from __future__ import annotations

from typing import Any

import numpy as np
from detection_formulas import multibox_detection, multibox_prior, multibox_target
from op_table import Case, fails, no_grad, positive, rand

PRIOR = "_contrib_MultiBoxPrior"
TARGET = "_contrib_MultiBoxTarget"
DETECTION = "_contrib_MultiBoxDetection"
PRECISE = ("float32", "float64")  # halves move overlaps across the thresholds


def boxes(*shape: int) -> np.ndarray:
    """Return crowded boxes in corner format."""
    start = rand(*shape, 2, low=0, high=0.7)
    return np.concatenate([start, start + rand(*shape, 2, low=0.1, high=0.5)], -1)


def labels(batch: int, count: int, classes: int, *valid: int) -> np.ndarray:
    """Return labels of which the first valid[b] of image b count."""
    rows = np.full((batch, count, 5), -1.0)
    for b, n in enumerate(valid):
        rows[b, :n] = np.concatenate([np.arange(n)[:, None] % classes, boxes(n)], 1)
    return rows


def prior(height: int, width: int, **params: Any) -> Case:
    """Return a row of MultiBoxPrior."""
    want = multibox_prior(height, width, **params)
    return no_grad(PRIOR, np.zeros((2, 3, height, width)), ref=want, **params)


def target(*inputs: np.ndarray, dtypes: tuple[str, ...] = PRECISE, **params: Any) -> Case:
    """Return a row of MultiBoxTarget."""

    def ref(*arrays: np.ndarray) -> list[np.ndarray]:
        return multibox_target(*arrays, **params)

    return no_grad(TARGET, *inputs, ref=ref, dtypes=dtypes, **params)


def detection(*inputs: np.ndarray, dtypes: tuple[str, ...] = PRECISE, **params: Any) -> Case:
    """Return a row of MultiBoxDetection."""

    def ref(*arrays: np.ndarray) -> np.ndarray:
        return multibox_detection(*arrays, **params)

    return no_grad(DETECTION, *inputs, ref=ref, dtypes=dtypes, **params)


GRID = multibox_prior(4, 4, (0.25, 0.5), (1, 2))  # equal overlaps on all sides of a label
MIDDLE = np.array([[[2, 0.375, 0.375, 0.625, 0.625], [0, 0.25, 0.25, 0.75, 0.75], [-1] * 5]])
TIES = np.zeros((1, 3, 48))  # all anchors look equally like background
FAR = np.array([[[0, 2.0, 2, 3, 3]]])  # overlaps no anchor
EQUAL = np.array([[[0.25] * 4, [0.5, 0.25, 0.5, 0.125], [0.25, 0.5, 0.5, 0.5]]])
SQUARES = np.array([[[0, 0, 0.5, 0.5], [0, 0, 0.5, 1], [0.5, 0, 1, 0.5], [0, 0, 0.5, 0.5]]])
NAN_SCORE = np.where(np.arange(4) == 2, np.nan, EQUAL)
STILL = np.zeros((1, 16))
NOTHING = [np.zeros((0, 192)), np.zeros((0, 192)), np.zeros((0, 48))]

CASES = [
    prior(3, 2),
    prior(2, 5, sizes=(0.5, 0.25), ratios=(1, 2, 0.5)),
    prior(3, 3, sizes=(0.9,), ratios=(3, 0.25), clip=True),
    prior(2, 3, sizes=(0.3,), steps=(0.25, 0.5), offsets=(0, 1)),
    fails(PRIOR, (2, 3, 4), match=r"data must .*, got \(2, 3, 4\)"),
    fails(PRIOR, np.zeros((1, 2, 0, 4)), match="height and width of"),
    fails(PRIOR, (1, 2, 3, 4), offsets=(0.5, 1.5), match="offsets must be from 0 to 1, got .*1.5"),
    fails(PRIOR, (1, 2, 3, 4), ratios=(1, 0), match="ratios must be above 0, got .*0"),
    fails(PRIOR, (1, 2, 3, 4), steps=(1,), match="steps must be two"),
    target(boxes(1, 9), labels(2, 3, 4, 3, 1), rand(2, 4, 9)),
    target(boxes(1, 40), labels(3, 5, 2, 5, 0, 2), rand(3, 3, 40), ignore_label=-2),
    target(boxes(1, 30), labels(2, 4, 2, 2, 4), rand(2, 3, 30), overlap_threshold=0.25),
    target(boxes(1, 30), labels(2, 4, 2, 2, 4), rand(2, 3, 30), overlap_threshold=-1),
    target(GRID, MIDDLE, TIES, dtypes=("float32", "float64", "float16")),
    target(GRID, MIDDLE, TIES, negative_mining_ratio=1.5),  # ties: the first anchors are mined
    target(
        boxes(1, 60),
        labels(2, 4, 2, 2, 3),
        rand(2, 3, 60),
        negative_mining_ratio=3,
        negative_mining_thresh=0.3,
        variances=(0.2, 0.25, 0.5, 1),
    ),
    target(boxes(1, 300), labels(1, 2, 2, 1), rand(1, 3, 300), negative_mining_ratio=2),
    target(
        boxes(1, 20),
        labels(1, 2, 2, 1),
        rand(1, 3, 20),
        negative_mining_ratio=1,
        minimum_negative_samples=7,
    ),
    target(boxes(1, 6), labels(1, 2, 2, 2), rand(1, 3, 6), negative_mining_ratio=100),
    target(GRID, FAR, TIES),
    no_grad(TARGET, GRID, np.zeros((0, 2, 5)), np.zeros((0, 3, 48)), ref=NOTHING),
    no_grad(
        TARGET,
        boxes(1, 2),
        np.zeros((1, 0, 5)),
        (1, 3, 2),
        ref=[np.zeros((1, 8)), np.zeros((1, 8)), np.full((1, 2), -1)],
    ),
    fails(TARGET, boxes(2, 3), FAR, (1, 2, 3), match=r"\(1, anchors, 4\)"),
    fails(TARGET, GRID, FAR[0], TIES, match=r"label must .*, got \(1, 5\)"),
    fails(TARGET, GRID, FAR, TIES[..., 1:], match=r"\(1, classes, 48\), got"),
    fails(TARGET, GRID, FAR, TIES, variances=(1,), match="variances must .* got 1"),
    fails(
        TARGET,
        GRID,
        FAR,
        TIES,
        negative_mining_ratio=3,
        negative_mining_thresh=0,
        match="thresh must",
    ),
    detection(positive(2, 3, 8), rand(2, 32), boxes(1, 8)),
    detection(positive(2, 4, 30), rand(2, 120), boxes(1, 30), threshold=0.9, force_suppress=True),
    detection(positive(1, 3, 300), rand(1, 1200), boxes(1, 300), nms_threshold=0.3, nms_topk=50),
    detection(positive(1, 3, 12), rand(1, 48), boxes(1, 12), nms_threshold=-1, clip=False),
    detection(positive(1, 3, 12), rand(1, 48), boxes(1, 12), variances=(0.2, 0.3, 0.4, 0.5)),
    detection(EQUAL, STILL, SQUARES, dtypes=("float32", "float64", "float16", "bfloat16")),
    detection(EQUAL, STILL, SQUARES, force_suppress=True, nms_topk=3),  # overlap is exactly 0.5
    detection(EQUAL, STILL, SQUARES, threshold=0.5),  # scores exactly at the threshold stay
    detection(EQUAL[:, :1], STILL, SQUARES),  # nothing but background
    no_grad(
        DETECTION,
        NAN_SCORE,
        STILL,
        SQUARES,
        nms_threshold=1.5,
        ref=np.array(
            [[[0, 0.5, 0, 0, 0.5, 0.5], [1, 0.5, 0, 0, 0.5, 1], [1, 0.5, 0, 0, 0.5, 0.5], [-1] * 6]]
        ),
    ),
    no_grad(DETECTION, np.zeros((0, 3, 4)), np.zeros((0, 16)), SQUARES, ref=np.zeros((0, 4, 6))),
    fails(DETECTION, EQUAL, STILL[:, 1:], SQUARES, match=r"loc_pred .*\(1, 16\)"),
    fails(DETECTION, EQUAL[..., 1:], STILL, SQUARES, match="cls_prob must have"),
    fails(DETECTION, EQUAL, STILL, SQUARES[0], match="anchor must have"),
]
