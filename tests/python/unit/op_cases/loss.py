"""Rows of operators that carry a loss; their gradients are tested in test_layer_ops.py."""

from __future__ import annotations

import itertools

import numpy as np
from op_table import fails, ints, no_grad, op

from .nn import np_softmax


def np_ctc(x: np.ndarray, labels: list[list[int]], blank: int, frames: list[int]) -> np.ndarray:
    """Return the CTC loss by summing over all alignments."""
    losses = []
    for n, label in enumerate(labels):
        prob = np_softmax(x[: frames[n], n])
        total = 0.0
        for path in itertools.product(range(x.shape[2]), repeat=frames[n]):
            collapsed = [k for k, _ in itertools.groupby(path) if k != blank]
            if collapsed == label:
                total += np.prod([prob[t, k] for t, k in enumerate(path)])
        losses.append(-np.log(total))
    return np.array(losses)


def _cross_entropy(x: np.ndarray, label: np.ndarray) -> np.ndarray:
    rows = np.arange(len(label))
    return -np.log(np_softmax(x)[rows, label.astype(int)]).sum().reshape(1)


_LABEL = np.array([0.0, 2.0, 1.0, 2.0])

FULL = [4, 4]
CTC = "CTCLoss"
CASES = [
    no_grad("SoftmaxOutput", (4, 3), _LABEL, ref=lambda x, y: np_softmax(x)),
    no_grad(
        "SoftmaxOutput", (4, 3, 2), (4, 2), multi_output=True, ref=lambda x, y: np_softmax(x, 1)
    ),
    no_grad(
        "SoftmaxOutput", (4, 3, 2), (4, 3), preserve_shape=True, ref=lambda x, y: np_softmax(x)
    ),
    fails(
        "SoftmaxOutput", (4, 3), (5,), match=r"SoftmaxOutput: label of shape \(5,\) given, \(4,\)"
    ),
    no_grad("LinearRegressionOutput", (4, 3), (4, 3), ref=lambda x, y: x),
    no_grad("MAERegressionOutput", (4, 1), (4,), ref=lambda x, y: x),
    no_grad("LogisticRegressionOutput", (4, 3), (4, 3), ref=lambda x, y: 1 / (1 + np.exp(-x))),
    fails(
        "LinearRegressionOutput", (4, 3), (4, 2), match=r"label of shape \(4, 2\) .* shape \(4, 3\)"
    ),
    no_grad("SVMOutput", (4, 3), _LABEL, ref=lambda x, y: x),
    no_grad("MakeLoss", (4, 3), ref=lambda x: x),
    op("softmax_cross_entropy", (4, 3), _LABEL, grad=[0], ref=_cross_entropy),
    op(CTC, (4, 2, 3), ints([[1, 2], [2, 0]]), ref=lambda x, _: np_ctc(x, [[1, 2], [2]], 0, FULL)),
    op(
        "CTCLoss",
        (4, 2, 3),
        ints([[1, 1], [0, -1]]),
        blank_label="last",
        ref=lambda x, y: np_ctc(x, [[1, 1], [0]], 2, [4, 4]),
    ),
    *(
        op(
            "CTCLoss",
            (max(frames), len(frames), 3),
            ints(labels),
            ints(frames),
            ints([len(label) for label in kept]),
            use_data_lengths=True,
            use_label_lengths=True,
            ref=lambda x, *_, kept=kept, frames=frames: np_ctc(x, kept, 0, frames),
        )
        for labels, frames, kept in [
            ([[1, 2], [1, 2]], [3, 5], [[1], [1, 2]]),
            ([[1, 2], [2, 1], [1, 2]], [1, 1, 3], [[1], [], [1]]),  # a single frame
        ]
    ),
    fails("CTCLoss", (4, 2, 3), ints([[1, 2]]), match=r"label of shape .1, 2. .* .2, labels."),
]
