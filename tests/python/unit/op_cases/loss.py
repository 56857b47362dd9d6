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

_POSITION = np.array([1, 4, -1, 5])  # two are outside of the five classes
_MARGIN = {"factor": 1.1, "angle": 0.2, "distance": 0.1, "scale": 3.0}
_TWO = ("float32", "float64")


def _margin_logits(x: np.ndarray, position: np.ndarray) -> np.ndarray:
    z = x.copy()
    for row, at in enumerate(position.astype(int)):
        if 0 <= at < x.shape[1]:
            z[row, at] = np.cos(1.1 * np.arccos(x[row, at]) + 0.2) - 0.1
    return 3 * z


def _margin_logsumexp(x: np.ndarray, position: np.ndarray) -> list[np.ndarray]:
    z = _margin_logits(x, position)
    highest = z.max(axis=1)
    shifted = z - highest[:, None]
    inside = (position >= 0) & (position < x.shape[1])
    target = shifted[np.arange(len(x)), position.astype(int) % x.shape[1]]
    return [highest, np.log(np.exp(shifted).sum(axis=1)), np.where(inside, target, -np.inf)]


def _margin_backward(
    x: np.ndarray, position: np.ndarray, highest: np.ndarray, total: np.ndarray, *grads: np.ndarray
) -> np.ndarray:
    """Return 3 * p * dz / dx, and at the position the target's gradient besides."""
    p = np.exp(_margin_logits(x, position) - (highest + total)[:, None]) * grads[0][:, None]
    for row, at in enumerate(position.astype(int)):
        if 0 <= at < x.shape[1]:
            p[row, at] += grads[1][row]
            t = np.arccos(x[row, at])
            p[row, at] *= 1.1 * np.sin(1.1 * t + 0.2) / np.sin(t)
    return 3 * p


_SHARD = {"classes": 9, "first": 2, "size": 6, "count": 6}
_ROWS = ints([4, 0, 2])
_SINGLE = {"dtypes": ("float32",), "grad": False}


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _updated(
    w: np.ndarray, m: np.ndarray, rows: np.ndarray, x: np.ndarray, grad: np.ndarray
) -> np.ndarray:
    norm, unit, g = np.linalg.norm(w[rows], axis=1, keepdims=True), _unit(w[rows]), grad.T @ x
    slope = (g - unit * (g * unit).sum(axis=1, keepdims=True)) / norm
    result = w.copy()
    result[rows] += 0.9 * m[rows] - 0.1 * (0.5 * slope + 0.2 * w[rows])
    return result


CASES = [
    # Gradients are tested in test_partial_fc.py: the first result counts as a constant.
    no_grad(
        "_contrib_margin_logsumexp",
        (4, 5),
        _POSITION,
        dtypes=_TWO,
        ref=_margin_logsumexp,
        **_MARGIN,
    ),
    no_grad(
        "_contrib_margin_logsumexp_backward",
        (4, 5),
        _POSITION,
        (4,),
        (4,),
        (4,),
        (4,),
        dtypes=_TWO,
        magnitude=30.0,
        ref=_margin_backward,
        **_MARGIN,
    ),
    *(
        op(
            "_contrib_pick_log_softmax",
            shape,
            ints(label),
            ref=lambda x, label: np.take_along_axis(
                np.log(np_softmax(x)),
                np.clip(label.reshape(*x.shape[:-1], 1), 0, x.shape[-1] - 1),
                -1,
            ),
        )
        for shape, label in [
            ((4, 5), [1, 4, 0, 2]),
            ((3, 37), [[36], [-1], [99]]),  # rows that begin between packs, labels outside
            ((2, 2, 700), [[5, 699], [0, 3]]),
        ]
    ),
    fails("_contrib_pick_log_softmax", (4, 5), ints([1, 2]), match=r"index must .*\(4,\) .* got"),
    fails("_contrib_margin_logsumexp", (4, 5), (3,), match=r"position must .*, got \(3,\)"),
    op(
        "_contrib_sample_classes",
        ints([3, 8, 3]),
        ints([0]),
        ref=lambda label, step: [np.arange(6), np.array([1, -1, 1])],
        **_SHARD,
    ),
    fails(
        "_contrib_sample_classes",
        ints([3, 9]),
        ints([0]),
        error=IndexError,
        match=r"label\[1\] must be from 0 to 8, got 9",
        **_SHARD,
    ),
    fails(
        "_contrib_sample_classes",
        ints([3]),
        ints([0]),
        match=r"first \+ size must be at most the 9 classes, got 4 \+ 6",
        **{**_SHARD, "first": 4},
    ),
    op(
        "_contrib_class_cosines",
        (2, 4),
        (5, 4),
        _ROWS,
        dtypes=("float32",),
        grad=False,
        ref=lambda x, w, rows: x @ _unit(w[rows]).T,
    ),
    fails(
        "_contrib_class_cosines",
        np.ones((2, 4), "float32"),
        np.ones((5, 4), "float32"),
        ints([5]),
        error=IndexError,
        match=r"rows\[0\] must be from 0 to 4, got 5",
    ),
    op(
        "_contrib_class_cosines_backward",
        (2, 3),
        (5, 4),
        _ROWS,
        ref=lambda g, w, rows: g @ _unit(w[rows]),
        **_SINGLE,
    ),
    op(
        "_contrib_class_centres_update",
        (5, 4),
        (5, 4),
        _ROWS,
        (2, 4),
        (2, 3),
        lr=0.1,
        momentum=0.9,
        wd=0.2,
        rescale_grad=0.5,
        mutates=(1,),
        ref=_updated,
        **_SINGLE,
    ),
    no_grad("SoftmaxOutput", (4, 3), _LABEL, ref=lambda x, y: np_softmax(x)),
    no_grad(
        "SoftmaxOutput", (4, 3, 2), (4, 2), multi_output=True, ref=lambda x, y: np_softmax(x, 1)
    ),
    no_grad(
        "SoftmaxOutput", (4, 3, 2), (4, 3), preserve_shape=True, ref=lambda x, y: np_softmax(x)
    ),
    fails("SoftmaxOutput", (4, 3), (5,), match=r"SoftmaxOutput: label .* \(4,\) .*\(5,\)"),
    no_grad("LinearRegressionOutput", (4, 3), (4, 3), ref=lambda x, y: x),
    no_grad("MAERegressionOutput", (4, 1), (4,), ref=lambda x, y: x),
    no_grad("LogisticRegressionOutput", (4, 3), (4, 3), ref=lambda x, y: 1 / (1 + np.exp(-x))),
    fails(
        "LinearRegressionOutput", (4, 3), (4, 2), match=r"label .* shape \(4, 3\), got .*\(4, 2\)"
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
    fails("CTCLoss", (4, 2, 3), ints([[1, 2]]), match=r"label .* .2, labels. .*, got .1, 2."),
]
