"""Rows of box_iou, box_encode and box_decode."""

from __future__ import annotations

import numpy as np
from detection_formulas import box_decode, box_encode, box_iou
from op_table import fails, op, positive, rand

IOU = "_contrib_box_iou"
ENCODE = "_contrib_box_encode"
DECODE = "_contrib_box_decode"


def boxes(*shape: int) -> np.ndarray:
    """Return boxes in corner format, none empty."""
    start = rand(*shape, 2)
    return np.concatenate([start, start + positive(*shape, 2)], -1)


SPECIAL = np.array(
    [
        [0.0, 0, 2, 2],
        [1, 1, 3, 3],
        [2, 2, 3, 3],  # touches the first
        [1, 1, 1, 1],  # empty
        [3, 3, 1, 1],  # inside out
    ]
)
SAMPLES = np.array([[1.0, -1, 0], [1, 1, -1]])
MATCHES = np.array([[1.0, -1, 0], [0, 1, 7]])
MEANS, STDS = np.array([0.1, 0, -0.1, 0.2]), np.array([0.1, 0.2, 0.3, 0.4])
ENCODE_INPUTS = (SAMPLES, MATCHES, boxes(2, 3), boxes(2, 2), MEANS, STDS)

CASES = [
    op(IOU, boxes(3), boxes(2), ref=box_iou, grad=False),
    op(IOU, boxes(2, 3), boxes(5), ref=box_iou, grad=False),
    op(IOU, boxes(1), boxes(2, 2, 3), ref=box_iou, grad=False),
    op(
        IOU,
        positive(4, 4),
        positive(3, 4),
        format="center",
        grad=False,
        ref=lambda a, b: box_iou(a, b, "center"),
    ),
    op(IOU, SPECIAL, SPECIAL, ref=box_iou, grad=False),
    op(IOU, boxes(2), boxes(70000), ref=lambda a, b: many(a, b), dtypes=("float32",), grad=False),
    op(IOU, np.zeros((0, 4)), boxes(3), ref=np.zeros((0, 3)), grad=False),
    fails(IOU, rand(2, 3), boxes(2), error=ValueError, match=r"lhs of shape \(2, 3\)"),
    fails(IOU, boxes(2), rand(4), error=ValueError, match=r"rhs of shape \(4,\)"),
    fails(IOU, boxes(2).astype("int32"), boxes(2), error=TypeError, match="lhs .*int32"),
    fails(IOU, boxes(2), boxes(2), format="corners", error=ValueError, match="'corner', 'center'"),
    op(ENCODE, *ENCODE_INPUTS, ref=box_encode, grad=False),
    op(
        ENCODE,
        np.ones((1, 2)),
        np.zeros((1, 2)),
        boxes(1, 2),
        np.zeros((1, 0, 4)),
        MEANS,
        STDS,
        ref=[np.zeros((1, 2, 4)), np.ones((1, 2, 4))],  # nothing to match with
        grad=False,
    ),
    op(
        ENCODE,
        np.zeros((0, 3)),
        np.zeros((0, 3)),
        np.zeros((0, 3, 4)),
        np.zeros((0, 2, 4)),
        MEANS,
        STDS,
        ref=[np.zeros((0, 3, 4)), np.zeros((0, 3, 4))],
        grad=False,
    ),
    fails(
        ENCODE,
        SAMPLES,
        MATCHES,
        boxes(2, 4),
        boxes(2, 2),
        MEANS,
        STDS,
        error=ValueError,
        match=r"samples of shape \(2, 3\) given, \(2, 4\) expected",
    ),
    fails(
        ENCODE,
        *ENCODE_INPUTS[:3],
        boxes(3, 2),
        MEANS,
        STDS,
        error=ValueError,
        match=r"refs of shape \(3, 2, 4\) given, \(2, boxes, 4\)",
    ),
    op(DECODE, rand(2, 3, 4), positive(1, 3, 4), ref=box_decode, grad=False),
    op(
        DECODE,
        rand(2, 3, 4),
        boxes(1, 3),
        std0=0.5,
        std1=0.25,
        std2=2,
        std3=0.125,
        clip=0.5,
        format="corner",
        grad=False,
        ref=lambda x, a: box_decode(x, a, (0.5, 0.25, 2, 0.125), 0.5, "corner"),
    ),
    op(DECODE, np.zeros((2, 0, 4)), np.zeros((1, 0, 4)), ref=np.zeros((2, 0, 4)), grad=False),
    fails(
        DECODE,
        rand(2, 3, 4),
        boxes(2, 3),
        error=ValueError,
        match=r"anchors of shape \(2, 3, 4\) given, \(1, 3, 4\) expected",
    ),
    fails(DECODE, rand(2, 3), boxes(1, 3), error=ValueError, match=r"data of shape \(2, 3\)"),
]


def many(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Return box_iou in corner format, vectorized."""
    a, b = lhs[:, None], rhs[None]
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    common = np.prod(np.maximum(sides, 0), -1)
    sizes = np.prod(a[..., 2:] - a[..., :2], -1) + np.prod(b[..., 2:] - b[..., :2], -1)
    return common / (sizes - common)
