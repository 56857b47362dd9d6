"""Write detection.npz: what the detection operators of MXNet 1.9.1 give for crowded random boxes.

Run in an environment with MXNet 1.9.1 (Python 3.8, NumPy below 1.24):

    python tests/data/make_detection.py tests/data/mxnet_1_9_1/detection.npz
"""

import json
import sys

import mxnet as mx
import numpy as np

rng = np.random.RandomState(11)
cases = []


def boxes(*shape, steps=None):
    """Return boxes in corner format; with steps they lie on a grid, where many overlap equally."""
    start, size = rng.uniform(0, 0.7, shape + (2,)), rng.uniform(0.1, 0.4, shape + (2,))
    if steps:
        start, size = np.floor(start * steps) / steps, np.ceil(size * steps) / steps
    return np.concatenate([start, start + size], -1)


def add(op, *inputs, **params):
    """Run one case."""
    arrays = [np.asarray(a, "float32") for a in inputs]
    result = getattr(mx.nd.contrib, op)(*[mx.nd.array(a) for a in arrays], **params)
    outputs = [r.asnumpy() for r in (result if isinstance(result, list) else [result])]
    cases.append((op, params, arrays, outputs))


for n, steps in enumerate([None, 4, 8]):
    add("box_iou", boxes(2, 4, steps=steps), boxes(3, steps=steps))
    add("box_iou", boxes(4, steps=steps), boxes(3, steps=steps), format="center")
    for rest in (
        {"overlap_thresh": 0.3, "id_index": 0},
        {"overlap_thresh": 0.5, "id_index": 0, "background_id": 0, "force_suppress": True},
        {"overlap_thresh": 0.25, "topk": 12, "valid_thresh": 0.25, "out_format": "center"},
    ):
        scores = np.round(rng.uniform(0, 1, (2, 30, 1)) * 8) / 8
        rows = [rng.randint(-1, 3, (2, 30, 1)), scores, boxes(2, 30, steps=steps)]
        data = np.concatenate(rows, -1)
        data[rng.uniform(size=(2, 30)) < 0.1] = -1
        add("box_nms", data, **rest)
    samples, matches = rng.randint(-1, 2, (2, 9)), rng.randint(0, 4, (2, 9))
    means, stds = (0.1, 0, 0, 0.2), (0.1, 0.1, 0.2, 0.2)
    add("box_encode", samples, matches, boxes(2, 9), boxes(2, 4), means, stds)
    add("box_decode", rng.normal(0, 1, (2, 9, 4)), boxes(1, 9), std0=0.1, clip=0.5, format="corner")
    scores = np.round(rng.uniform(0, 1, (2, 6, 5)) * 8) / 8
    add("bipartite_matching", scores, threshold=0.3)
    add("bipartite_matching", scores, threshold=0.6, is_ascend=True, topk=2)
    add("MultiBoxPrior", np.zeros((1, 1, 3, 4)), sizes=(0.3, 0.5), ratios=(1, 2, 0.5), clip=n == 1)
    anchors = boxes(1, 40, steps=steps)
    labels = np.concatenate([rng.randint(0, 3, (3, 5, 1)), boxes(3, 5, steps=steps)], -1)
    labels[0, 3:], labels[1] = -1, -1
    logits = np.round(rng.normal(0, 1, (3, 4, 40)) * 2) / 2
    add("MultiBoxTarget", anchors, labels, logits)
    add("MultiBoxTarget", anchors, labels, logits, overlap_threshold=0.3, negative_mining_ratio=1.5)
    probability = np.round(rng.uniform(0, 1, (2, 4, 40)) * 16) / 16
    offsets = np.zeros((2, 160)) if steps else rng.normal(0, 0.5, (2, 160))
    add("MultiBoxDetection", probability, offsets, anchors, nms_threshold=0.5)
    add("MultiBoxDetection", probability, offsets, anchors, force_suppress=True, nms_topk=20)
    probability = np.round(rng.uniform(0, 1, (2, 12, 4, 5)) * 16) / 16
    offsets = rng.normal(0, 0.3, (2, 24, 4, 5))
    info = [[64, 80, 1], [50, 70, 1.5]]
    rpn = {"scales": (2, 4), "ratios": (0.5, 1, 2), "rpn_post_nms_top_n": 25, "output_score": True}
    add("MultiProposal", probability, offsets, info, **rpn)
    add("Proposal", probability[:1], offsets[:1], info[:1], threshold=0.5, iou_loss=True, **rpn)

arrays = {"cases": json.dumps([(op, params) for op, params, _, _ in cases])}
for i, (_, _, inputs, outputs) in enumerate(cases):
    arrays.update({f"{i}_input_{k}": a for k, a in enumerate(inputs)})
    arrays.update({f"{i}_output_{k}": a for k, a in enumerate(outputs)})
np.savez_compressed(sys.argv[1], **arrays)
