"""Rows of the operators that index with arrays."""

from __future__ import annotations

import numpy as np
from op_table import fails, ints, no_grad, op, randint


def put(x: np.ndarray, index: tuple, value: np.ndarray, add: bool = False) -> np.ndarray:
    result = np.array(x)
    if add:
        np.add.at(result, index, value)
    else:
        result[index] = value
    return result


def one_hot(indices: np.ndarray, depth: int, on: float = 1, off: float = 0) -> np.ndarray:
    return np.where(indices[..., None] == np.arange(depth), on, off)


def along(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.take_along_axis(x, index, 1)


def set_rows(x: np.ndarray, value: np.ndarray, column: np.ndarray) -> np.ndarray:
    return put(x, (np.arange(len(x)), column), value)


def set_nd(x: np.ndarray, value: np.ndarray, index: np.ndarray) -> np.ndarray:
    return put(x, tuple(index), value)


OUT = ints([2, 9, -1, 0])
INT64 = {"out_dtype": "int64", "grad": False}
I23 = ints([[0, 2, 1], [2, 2, 0]])

ON_OFF = {"on_value": 5, "off_value": -1}
ZEROS = np.zeros((3, 4))

GATHER = "_gather_nd_backward"
CASES = [
    op("take", (3, 4), I23, ref=lambda a, i: a[i]),
    op("take", (2, 3, 4), I23, axis=1, ref=lambda a, i: a[:, i]),
    op("take", (2, 3, 4), ints([3, 0, 3]), axis=-1, ref=lambda a, i: a[..., i]),
    op("take", (3, 4), ints([-5, 9]), ref=lambda a, i: a[np.clip(i, 0, 2)]),
    op("take", (3, 4), ints([-5, 9]), mode="wrap", ref=lambda a, i: a[i % 3]),
    op("take", (3, 4), ints([2, 0]), mode="raise", ref=lambda a, i: a[i]),
    op("take", (5,), ints(3, "int64"), ref=lambda a, i: a[i]),
    op("take", (3, 4), np.array([[1.0, 0.0]]), grad=[0], ref=lambda a, i: a[i.astype(int)]),
    no_grad("take", (3, 4), np.zeros((0,), "int32"), ref=np.zeros((0, 4))),
    op("take", (40, 9), randint(0, 40, 300), ref=lambda a, i: a[i]),
    op("take", randint(0, 9, 5, 2, dtype="uint8"), ints([4, 4]), ref=lambda a, i: a[i]),
    fails("take", (3, 4), ints([-1]), mode="raise", error=IndexError, match="index -1 .* 3"),
    fails("take", (3, 4), ints([3]), mode="raise", error=IndexError, match="index 3 .* 3"),
    fails("take", (3, 4), ints([0]), axis=2, error=IndexError, match="axis 2"),
    fails("take", (3,), np.array([True]), error=TypeError, match="bool"),
    op("batch_take", (3, 4), ints([1, 0, 3]), ref=lambda a, i: a[np.arange(3), i]),
    fails("batch_take", (3, 4), ints([1]), match="one entry per row"),
    op("pick", (3, 4), ints([1, 0, 3]), ref=lambda a, i: a[np.arange(3), i]),
    op("pick", (3, 4), OUT, axis=0, ref=lambda a, i: a[np.clip(i, 0, 2), np.arange(4)]),
    op("pick", (3, 4), OUT, axis=0, mode="wrap", ref=lambda a, i: a[i % 3, np.arange(4)]),
    op("pick", (2, 3, 2), ints([[[0, 1]], [[2, 1]]]), axis=1, keepdims=True, ref=along),
    op("choose_element_0index", (4,), ints([2]), ref=lambda a, i: a[i]),
    fails("pick", (3, 4), ints([0, 1]), match=r"shape \(3,\) .* got"),
    op("gather_nd", (3, 4), ints([[0, 2, 2], [1, 3, 3]]), ref=lambda a, i: a[i[0], i[1]]),
    op("gather_nd", (3, 4), ints([[2, 0, 2]]), ref=lambda a, i: a[i[0]]),
    op("gather_nd", (3, 4, 2), ints([[[0, -1]], [[1, 2]]]), ref=lambda a, i: a[tuple(i)]),
    fails("gather_nd", (3, 4), ints([[0], [4]]), error=IndexError, match="index 4 .* axis 1"),
    fails("gather_nd", (3,), ints([[0], [0]]), match="coordinates .*, got 2"),
    *(
        op("scatter_nd", s, index, shape=(3, 4), grad=[0], ref=lambda d, i: put(ZEROS, tuple(i), d))
        for s, index in [((3,), ints([[0, 2, 1], [1, 3, 0]])), ((2, 4), ints([[2, 0]]))]
    ),
    fails("scatter_nd", (2,), ints([[0, 1, 2]]), shape=(3,), match="data must have shape"),
    op(GATHER, (3,), ints([[0, 2, 0]]), shape=(4,), ref=lambda d, i: put(ZEROS[0], i[0], d, True)),
    op("_scatter_set_nd", (3, 4), (2,), ints([[0, 2], [1, 3]]), shape=(3, 4), ref=set_nd),
    op("one_hot", ints([1, 0, 3, -1]), depth=3, ref=lambda i: one_hot(i, 3)),
    op("one_hot", ints([[1, 0]]), depth=2, **ON_OFF, dtype="int32", ref=ints([[[-1, 5], [5, -1]]])),
    no_grad(
        "one_hot", np.array([2.0, 1.0]), depth=3, out_dtype="float32", ref=lambda i: one_hot(i, 3)
    ),
    fails("one_hot", ints([0]), depth=-1, match="depth must be at least 0"),
    op("ravel_multi_index", ints([[3, 6, 6], [4, 5, 1]]), shape=(7, 6), ref=np.array([22, 41, 37])),
    no_grad(
        "ravel_multi_index", np.array([[3.0, 6], [4, 5]]), shape=(-1, 6), ref=np.array([22, 41])
    ),
    fails("ravel_multi_index", ints([[1]]), shape=(2, 3), match="2 dimensions"),
    op("unravel_index", ints([22, 41, 37]), shape=(7, 6), ref=np.array([[3, 6, 6], [4, 5, 1]])),
    op("unravel_index", ints([[22]]), shape=(-1, 3, 2), ref=np.array([[[3]], [[2]], [[0]]])),
    fails("unravel_index", ints([1]), shape=(0, 3), match=r"above 0.* got \(0, 3\)"),
    no_grad("fill_element_0index", (3, 4), (3,), ints([1, 0, 3]), ref=set_rows),
    fails("fill_element_0index", (3, 4), (2,), ints([1, 0]), match="one entry per row"),
    op("_contrib_index_copy", (5, 3), ints([0, 4]), (2, 3), ref=lambda a, i, b: put(a, (i,), b)),
    fails("_contrib_index_copy", (5, 3), ints([5]), (1, 3), error=IndexError, match="index 5"),
    op("_contrib_index_array", (2, 3), **INT64, ref=np.moveaxis(np.indices((2, 3)), 0, -1)),
    op("_contrib_index_array", (2, 3), axes=(1,), **INT64, ref=np.indices((2, 3))[1][..., None]),
    no_grad("_contrib_arange_like", (2, 3), start=1, step=2, ref=np.array([[1, 3, 5], [7, 9, 11]])),
    no_grad("_contrib_arange_like", (2, 3), axis=-1, ref=np.arange(3)),
]
