"""Rows of the operators on padded sequences."""

from __future__ import annotations

import numpy as np
from op_table import fails, ints, op

LENGTHS = ints([2, 4, 1])
USED = {"use_sequence_length": True, "grad": [0]}


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


USES = np.array([2, 4, 1])
CASES = [
    op("SequenceMask", (4, 3, 2), ref=lambda x: x),
    op("SequenceMask", (4, 3, 2), LENGTHS, value=-7, **USED, ref=lambda x, n: mask(x, n, 0, -7)),
    op("SequenceMask", (3, 4), LENGTHS, axis=1, **USED, ref=lambda x, n: mask(x, n, 1, 0)),
    fails("SequenceMask", (4, 3), ints([1, 2]), use_sequence_length=True, match=r"shape \(3,\)"),
    fails("SequenceMask", (4,), match="time, batch"),
    fails("SequenceMask", (4, 3, 2), axis=2, error=IndexError, match="0 or 1"),
    op("SequenceLast", (4, 3, 2), ref=lambda x: x[-1]),
    op("SequenceLast", (4, 3, 2), LENGTHS, **USED, ref=lambda x, n: x[n - 1, np.arange(3)]),
    op("SequenceLast", (3, 4, 2), LENGTHS, axis=1, **USED, ref=lambda x, n: x[np.arange(3), n - 1]),
    fails("SequenceLast", (0, 3), match="at least 1 time step"),
    op("SequenceReverse", (4, 3, 2), ref=lambda x: x[::-1]),
    op("SequenceReverse", (4, 3, 2), LENGTHS, use_sequence_length=True, grad=[0], ref=reverse),
    op("SequenceReverse", (4, 3), USES * 1.0, **USED, ref=lambda x, n: reverse(x, USES)),
    fails("SequenceReverse", (4, 3), axis=1, error=IndexError, match="must be 0"),
]
