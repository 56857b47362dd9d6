"""Rows of bipartite_matching, Proposal and MultiProposal."""

from __future__ import annotations

from typing import Any

import numpy as np
from detection_formulas import bipartite_matching, multi_proposal
from op_table import Case, fails, no_grad, positive, rand

MATCH = "_contrib_bipartite_matching"
SINGLE = "_contrib_Proposal"
MULTI = "_contrib_MultiProposal"


def match(data: np.ndarray, threshold: float, **params: Any) -> Case:
    """Return a row of bipartite_matching."""

    def ref(x: np.ndarray) -> list[np.ndarray]:
        return bipartite_matching(x, threshold, **params)

    return no_grad(MATCH, data, ref=ref, threshold=threshold, **params)


def propose(name: str, *inputs: np.ndarray, **params: Any) -> Case:
    """Return a row of Proposal or MultiProposal; halves move boxes across the threshold."""

    def ref(*arrays: np.ndarray) -> list[np.ndarray]:
        return multi_proposal(*arrays, **params)

    dtypes = ("float32", "float64")
    return no_grad(name, *inputs, ref=ref, dtypes=dtypes, **params)


def network(batch: int, anchors: int, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and offsets of a region proposal network."""
    offsets = rand(batch, 4 * anchors, height, width, low=-0.4, high=0.4)
    return positive(batch, 2 * anchors, height, width), offsets


TIES = np.array([[0.5, 0.5, 0.25], [0.5, 0.75, 0.75], [0.25, 0.125, 0.75]])
LIMIT = np.array([[0.5, 0.25], [0.25, 0.125]])
FEW = {"scales": (2, 4), "ratios": (0.5, 1, 2), "rpn_min_size": 8}
ONE = {"scales": (1,), "ratios": (1,), "rpn_min_size": 0, "feature_stride": 4}
EQUAL = (np.full((1, 2, 2, 3), 0.5), np.zeros((1, 4, 2, 3)), np.array([[8.0, 12, 1]]))
PADDED = (*EQUAL[:2], np.array([[4.0, 8, 1]]))
NOTHING = [np.zeros((0, 2, 2, 3)), np.zeros((0, 4, 2, 3)), np.zeros((0, 3))]

CASES = [
    match(rand(4, 6), 0.1),
    match(rand(2, 3, 5, 2), -0.25),
    match(rand(6, 4), 0.5, is_ascend=True),
    match(TIES, 0.25),
    match(TIES, 0.0, topk=1),
    match(TIES, 1.0),  # nothing matches
    match(LIMIT, 0.125),  # a score exactly at the threshold does not match
    match(1 - LIMIT, 0.875, is_ascend=True),
    *(
        no_grad(MATCH, np.array(data), threshold=0.1, ref=ref)
        for data, ref in [
            ([[0.5, np.nan], [np.nan, 0.25]], [[0.0, 1.0], [0.0, 1.0]]),
            (np.zeros((2, 0, 3)), [np.zeros((2, 0)), -np.ones((2, 3))]),
            (np.zeros((0, 2, 3)), [np.zeros((0, 2)), np.zeros((0, 3))]),
        ]
    ),
    fails(MATCH, (4,), threshold=0.1, match=r"shape \(4,\)"),
    fails(MATCH, (2, 3), error=TypeError, match="threshold"),
    propose(SINGLE, *network(1, 12, 4, 5), np.array([[64.0, 80, 1]])),
    propose(
        SINGLE,
        *network(1, 6, 5, 4),
        np.array([[70.0, 60, 1.5]]),
        rpn_pre_nms_top_n=40,
        rpn_post_nms_top_n=12,
        threshold=0.5,
        **FEW,
    ),
    propose(
        MULTI,
        *network(3, 6, 3, 4),
        np.array([[48.0, 64, 1], [30, 64, 1], [48, 33, 0.5]]),
        rpn_post_nms_top_n=30,
        rpn_pre_nms_top_n=0,
        output_score=True,
        **FEW,
    ),
    propose(
        MULTI,
        *network(2, 6, 2, 3),
        np.array([[32.0, 48, 1], [32, 48, 1]]),
        rpn_post_nms_top_n=9,
        iou_loss=True,
        threshold=0.3,
        **FEW,
    ),
    propose(SINGLE, *EQUAL, rpn_post_nms_top_n=8, output_score=True, **ONE),
    propose(SINGLE, *PADDED, rpn_post_nms_top_n=6, output_score=True, **ONE),
    no_grad(
        MULTI,
        np.where(np.arange(3) == 0, np.nan, EQUAL[0]),  # a box without a score comes last
        *EQUAL[1:],
        rpn_post_nms_top_n=5,
        dtypes=("float32", "float64", "float16"),
        ref=np.array(
            [[0, 4, 0, 7, 3], [0, 8, 0, 11, 3], [0, 4, 4, 7, 7], [0, 8, 4, 11, 7], [0, 0, 0, 3, 3]]
        ),
        **ONE,
    ),
    no_grad(MULTI, *NOTHING, ref=np.zeros((0, 5)), **ONE),
    fails(SINGLE, *network(2, 1, 2, 3), np.ones((2, 3)), match="images must be 1", **ONE),
    fails(SINGLE, *network(1, 2, 2, 3), np.ones((1, 3)), match=r"\(batch, 2,", **ONE),
    fails(MULTI, EQUAL[0], EQUAL[1][:, 1:], EQUAL[2], match="bbox_pred", **ONE),
    fails(MULTI, *EQUAL[:2], np.ones((1, 2)), match="im_info", **ONE),
    fails(MULTI, *EQUAL[:2], np.array([[9.0, 16, 1]]), match="9 x 16 pixels", **ONE),
]
