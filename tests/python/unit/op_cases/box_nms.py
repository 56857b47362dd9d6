"""Rows of box_nms: which boxes are kept, in which order and format, and where gradients go."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from detection_formulas import box_nms
from op_table import FLOATS, Case, fails, no_grad, op, rand, randint

NMS = "_contrib_box_nms"


def rows(*shape: int, classes: int = 3) -> np.ndarray:
    """Return rows (class, score, box) of crowded boxes in corner format."""
    start = rand(*shape, 2, low=0, high=1)
    box = np.concatenate([start, start + rand(*shape, 2, low=0.2, high=0.9)], -1)
    ids = randint(0, classes, *shape, 1).astype(float)
    scores = rand(*shape, 1, low=0, high=1)
    return np.concatenate([ids, scores, box], -1)


def nms(data: np.ndarray, grad: bool = False, dtypes: Any = FLOATS, **params: Any) -> Case:
    """Return a row whose reference gets the same parameters.

    Finite differences see a gradient only where no class and no tie decides.
    """
    ref = partial(box_nms, **params)
    return op(NMS, data, ref=ref, grad=grad, dtypes=dtypes, **params)


EXACT = np.array(  # scores with ties, overlaps of exactly 1/3 and 1/2, a row dropped before
    [
        [0, 0.5, 0, 0, 2, 1],
        [1, 0.75, 0, 0, 1, 1],
        [-1, -1, -1, -1, -1, -1],
        [0, 0.5, 1, 0, 3, 1],
        [1, 0.5, 4, 4, 5, 5],
        [0, 0.75, 4, 4, 5, 5],
    ]
)
NANS = EXACT.copy()
NANS[[1, 3], 1] = np.nan
CENTER = np.array([[0.875, 0.5, 0.5, 1, 1], [0.75, 0.5, 0.75, 1, 1], [0.5, -0.5, 2, 1, 1]])
MOVED = np.array([[0.875, 0, 0, 1, 1], [0.75, 0, 0.25, 1, 1.25], [0.5, -0.5, 2, 1, 1]])
TWO = np.array([[0.75, 0.5, 1, 1.5, 4], [0.5, 0, 1, 1.5, 4]])
SCORED = {"coord_start": 1, "score_index": 0}
CROWD = {"overlap_thresh": 0.3, "id_index": 0}

CASES = [
    nms(rows(12), grad=True),
    nms(rows(2, 9), overlap_thresh=0.3, id_index=0),
    nms(rows(2, 1, 8), overlap_thresh=0.3, id_index=0, force_suppress=True, topk=5),
    nms(rows(10), overlap_thresh=0.4, id_index=0, background_id=1, valid_thresh=0.25),
    nms(rows(9)[:, [0, 2, 3, 4, 5, 1]], coord_start=1, score_index=5, id_index=0),
    nms(rows(9)[:, [2, 3, 4, 5, 1, 0]], coord_start=0, score_index=4, grad=True),
    nms(EXACT, overlap_thresh=0.5),
    nms(EXACT, overlap_thresh=0.25, id_index=0),
    nms(EXACT, overlap_thresh=0.25, id_index=0, force_suppress=True, valid_thresh=0.5),
    no_grad(NMS, NANS, overlap_thresh=0.25, ref=EXACT[[5, 0, 2, 2, 2, 2]]),
    nms(EXACT, valid_thresh=0.75),  # nothing is left
    nms(EXACT, topk=1, overlap_thresh=0.9),
    op(NMS, EXACT, topk=0, id_index=0, ref=EXACT),
    no_grad(NMS, CENTER, **SCORED, in_format="center", overlap_thresh=0.7, ref=MOVED),
    no_grad(
        NMS, TWO, **SCORED, out_format="center", ref=np.array([[0.75, 1, 2.5, 1, 3], [-1] * 5])
    ),
    nms(rows(5000, classes=20), dtypes=("float32", "float64"), topk=200, **CROWD),
    no_grad(NMS, np.zeros((0, 5, 6)), ref=np.zeros((0, 5, 6))),
    no_grad(NMS, np.zeros((2, 0, 6)), ref=np.zeros((2, 0, 6))),
    no_grad("_contrib_box_non_maximum_suppression", EXACT, ref=box_nms),
    fails(NMS, (6,), match=r"data must .* \(6,\)"),
    fails(NMS, (2, 4), match="boxes, 5 or more"),
    fails(NMS, (2, 5), id_index=0, match="boxes, 6 or more"),
    fails(NMS, (2, 6), coord_start=3, match="coord_start must leave four coordinates .*, got 3"),
    fails(
        NMS,
        (2, 6),
        score_index=4,
        match="score_index must not be one of the coordinates, 2 to 5, got 4",
    ),
    fails(NMS, (2, 6), id_index=6, match="id_index 6 is out of range"),
    fails(NMS, (2, 6), id_index=1, match="id_index must differ from score_index, got 1"),
    fails(NMS, randint(0, 9, 2, 6), error=TypeError, match="data must .* int32"),
]
