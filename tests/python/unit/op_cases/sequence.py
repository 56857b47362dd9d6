"""Rows of the operators on padded sequences."""

from __future__ import annotations

import numpy as np
from op_table import fails, ints, op, rand

LENGTHS = ints([2, 4, 1])


def mask(x: np.ndarray, lengths: np.ndarray, axis: int, value: float) -> np.ndarray:
    result = np.array(np.moveaxis(x, axis, 0))
    for i, n in enumerate(lengths):
        result[n:, i] = value
    return np.moveaxis(result, 0, axis)


def reverse(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    result = np.array(x)
    for i, n in enumerate(lengths):
        result[:n, i] = x[:n, i][::-1]
    return result


CASES = [
    op("SequenceMask", rand(4, 3, 2), ref=lambda x: x),
    op(
        "SequenceMask",
        rand(4, 3, 2),
        LENGTHS,
        use_sequence_length=True,
        value=-7,
        grad=[0],
        ref=lambda x, n: mask(x, n, 0, -7),
    ),
    op(
        "SequenceMask",
        rand(3, 4),
        LENGTHS,
        use_sequence_length=True,
        axis=1,
        grad=[0],
        ref=lambda x, n: mask(x, n, 1, 0),
    ),
    fails(
        "SequenceMask",
        rand(4, 3),
        ints([1, 2]),
        use_sequence_length=True,
        error=ValueError,
        match=r"needs \(3,\)",
    ),
    fails("SequenceMask", rand(4), error=ValueError, match="time, batch"),
    fails("SequenceMask", rand(4, 3, 2), axis=2, error=IndexError, match="0 or 1"),
    op("SequenceLast", rand(4, 3, 2), ref=lambda x: x[-1]),
    op(
        "SequenceLast",
        rand(4, 3, 2),
        LENGTHS,
        use_sequence_length=True,
        grad=[0],
        ref=lambda x, n: x[n - 1, np.arange(3)],
    ),
    op(
        "SequenceLast",
        rand(3, 4, 2),
        LENGTHS,
        use_sequence_length=True,
        axis=1,
        grad=[0],
        ref=lambda x, n: x[np.arange(3), n - 1],
    ),
    fails("SequenceLast", rand(0, 3), error=ValueError, match="no time steps"),
    op("SequenceReverse", rand(4, 3, 2), ref=lambda x: x[::-1]),
    op("SequenceReverse", rand(4, 3, 2), LENGTHS, use_sequence_length=True, grad=[0], ref=reverse),
    op(
        "SequenceReverse",
        rand(4, 3),
        np.array([2.0, 4.0, 1.0]),
        use_sequence_length=True,
        grad=[0],
        ref=lambda x, n: reverse(x, n.astype(int)),
    ),
    fails("SequenceReverse", rand(4, 3), axis=1, error=IndexError, match="0 expected"),
]
