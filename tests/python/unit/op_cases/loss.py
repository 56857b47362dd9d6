"""Rows of operators that carry a loss; their gradients are tested in test_layer_ops.py."""

from __future__ import annotations

import itertools

import numpy as np
from op_table import fails, ints, op, rand

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

CASES = [
    op("SoftmaxOutput", rand(4, 3), _LABEL, ref=lambda x, y: np_softmax(x), grad=False),
    op(
        "SoftmaxOutput",
        rand(4, 3, 2),
        rand(4, 2),
        multi_output=True,
        ref=lambda x, y: np_softmax(x, 1),
        grad=False,
    ),
    op(
        "SoftmaxOutput",
        rand(4, 3, 2),
        rand(4, 3),
        preserve_shape=True,
        ref=lambda x, y: np_softmax(x, -1),
        grad=False,
    ),
    fails(
        "SoftmaxOutput",
        rand(4, 3),
        rand(5),
        error=ValueError,
        match=r"SoftmaxOutput: label of shape \(5,\) given, \(4,\)",
    ),
    op("LinearRegressionOutput", rand(4, 3), rand(4, 3), ref=lambda x, y: x, grad=False),
    op("MAERegressionOutput", rand(4, 1), rand(4), ref=lambda x, y: x, grad=False),
    op(
        "LogisticRegressionOutput",
        rand(4, 3),
        rand(4, 3),
        ref=lambda x, y: 1 / (1 + np.exp(-x)),
        grad=False,
    ),
    fails(
        "LinearRegressionOutput",
        rand(4, 3),
        rand(4, 2),
        error=ValueError,
        match=r"label of shape \(4, 2\) given, data of shape \(4, 3\)",
    ),
    op("SVMOutput", rand(4, 3), _LABEL, ref=lambda x, y: x, grad=False),
    op("MakeLoss", rand(4, 3), ref=lambda x: x, grad=False),
    op("softmax_cross_entropy", rand(4, 3), _LABEL, grad=[0], ref=_cross_entropy),
    op(
        "CTCLoss",
        rand(4, 2, 3),
        ints([[1, 2], [2, 0]]),
        ref=lambda x, y: np_ctc(x, [[1, 2], [2]], 0, [4, 4]),
    ),
    op(
        "CTCLoss",
        rand(4, 2, 3),
        ints([[1, 1], [0, -1]]),
        blank_label="last",
        ref=lambda x, y: np_ctc(x, [[1, 1], [0]], 2, [4, 4]),
    ),
    op(
        "CTCLoss",
        rand(5, 2, 3),
        ints([[1, 2], [1, 2]]),
        ints([3, 5]),
        ints([1, 2]),
        use_data_lengths=True,
        use_label_lengths=True,
        ref=lambda x, y, n, m: np_ctc(x, [[1], [1, 2]], 0, [3, 5]),
    ),
    op(
        "CTCLoss",  # a single frame, for a single label and for none
        rand(3, 3, 3),
        ints([[1, 2], [2, 1], [1, 2]]),
        ints([1, 1, 3]),
        ints([1, 0, 1]),
        use_data_lengths=True,
        use_label_lengths=True,
        ref=lambda x, y, n, m: np_ctc(x, [[1], [], [1]], 0, [1, 1, 3]),
    ),
    fails(
        "CTCLoss",
        rand(4, 2, 3),
        ints([[1, 2]]),
        error=ValueError,
        match=r"CTCLoss: label of shape \(1, 2\) given, .* needs \(2, labels\)",
    ),
]
