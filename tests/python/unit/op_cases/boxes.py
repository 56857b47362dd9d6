"""Rows of box_iou, box_encode and box_decode."""

from __future__ import annotations

from functools import partial

import numpy as np
from detection_formulas import box_decode, box_encode, box_iou
from op_table import fails, no_grad, positive, rand

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
SCALES = (np.array([0.1, 0, -0.1, 0.2]), np.array([0.1, 0.2, 0.3, 0.4]))  # means, deviations
ENCODE_INPUTS = (SAMPLES, MATCHES, boxes(2, 3), boxes(2, 2), *SCALES)
NO_IMAGES = [np.zeros((0, *shape)) for shape in ((3,), (3,), (3, 4), (2, 4))]
center_iou = partial(box_iou, fmt="center")
DECODE_STDS = (0.5, 0.25, 2, 0.125)

CASES = [
    no_grad(IOU, boxes(3), boxes(2), ref=box_iou),
    no_grad(IOU, boxes(2, 3), boxes(5), ref=box_iou),
    no_grad(IOU, boxes(1), boxes(2, 2, 3), ref=box_iou),
    no_grad(IOU, positive(4, 4), positive(3, 4), format="center", ref=center_iou),
    no_grad(IOU, SPECIAL, SPECIAL, ref=box_iou),
    no_grad(IOU, boxes(2), boxes(70000), ref=lambda a, b: many(a, b), dtypes=("float32",)),
    no_grad(IOU, np.zeros((0, 4)), boxes(3), ref=np.zeros((0, 3))),
    fails(IOU, (2, 3), boxes(2), match=r"lhs must .*, got \(2, 3\)"),
    fails(IOU, boxes(2), (4,), match=r"rhs must .*, got \(4,\)"),
    fails(IOU, boxes(2).astype("int32"), boxes(2), error=TypeError, match="lhs .*int32"),
    fails(IOU, boxes(2), boxes(2), format="corners", match="'corner', 'center'"),
    no_grad(ENCODE, *ENCODE_INPUTS, ref=box_encode),
    # Nothing to match with, and no boxes.
    no_grad(
        ENCODE,
        np.ones((1, 2)),
        np.zeros((1, 2)),
        boxes(1, 2),
        np.zeros((1, 0, 4)),
        *SCALES,
        ref=[np.zeros((1, 2, 4)), np.ones((1, 2, 4))],
    ),
    no_grad(ENCODE, *NO_IMAGES, *SCALES, ref=[np.zeros((0, 3, 4))] * 2),
    fails(ENCODE, SAMPLES, MATCHES, boxes(2, 4), boxes(2, 2), *SCALES, match=r"samples .* .2, 3."),
    fails(ENCODE, *ENCODE_INPUTS[:3], boxes(3, 2), *SCALES, match=r"refs must .*, got \(3, 2, 4\)"),
    no_grad(DECODE, (2, 3, 4), positive(1, 3, 4), ref=box_decode),
    no_grad(
        DECODE,
        (2, 3, 4),
        boxes(1, 3),
        **{f"std{i}": std for i, std in enumerate(DECODE_STDS)},
        clip=0.5,
        format="corner",
        ref=lambda x, a: box_decode(x, a, DECODE_STDS, 0.5, "corner"),
    ),
    no_grad(DECODE, np.zeros((2, 0, 4)), np.zeros((1, 0, 4)), ref=np.zeros((2, 0, 4))),
    fails(DECODE, (2, 3, 4), boxes(2, 3), match=r"anchors .* \(1, 3, 4\), got \(2, 3, 4\)"),
    fails(DECODE, (2, 3), boxes(1, 3), match=r"data must .*, got \(2, 3\)"),
]


def many(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Return box_iou in corner format, vectorized."""
    a, b = lhs[:, None], rhs[None]
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    common = np.prod(np.maximum(sides, 0), -1)
    sizes = np.prod(a[..., 2:] - a[..., :2], -1) + np.prod(b[..., 2:] - b[..., :2], -1)
    return common / (sizes - common)
