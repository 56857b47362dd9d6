"""Rows of the operators that index with arrays."""

from __future__ import annotations

import numpy as np
from op_table import fails, ints, op, rand, randint


def put(x: np.ndarray, index: tuple, value: np.ndarray, add: bool = False) -> np.ndarray:
    result = np.array(x)
    if add:
        np.add.at(result, index, value)
    else:
        result[index] = value
    return result


def one_hot(indices: np.ndarray, depth: int, on: float = 1, off: float = 0) -> np.ndarray:
    return np.where(indices[..., None] == np.arange(depth), on, off)


I23 = ints([[0, 2, 1], [2, 2, 0]])

CASES = [
    op("take", rand(3, 4), I23, grad=[0], ref=lambda a, i: a[i]),
    op("take", rand(2, 3, 4), I23, axis=1, grad=[0], ref=lambda a, i: a[:, i]),
    op("take", rand(2, 3, 4), ints([3, 0, 3]), axis=-1, grad=[0], ref=lambda a, i: a[..., i]),
    op("take", rand(3, 4), ints([-5, 9]), grad=[0], ref=lambda a, i: a[np.clip(i, 0, 2)]),
    op("take", rand(3, 4), ints([-5, 9]), mode="wrap", grad=[0], ref=lambda a, i: a[i % 3]),
    op("take", rand(3, 4), ints([2, 0]), mode="raise", grad=[0], ref=lambda a, i: a[i]),
    op("take", rand(5), ints(3, "int64"), grad=[0], ref=lambda a, i: a[i]),
    op("take", rand(3, 4), np.array([[1.0, 0.0]]), grad=[0], ref=lambda a, i: a[i.astype(int)]),
    op("take", rand(3, 4), np.zeros((0,), "int32"), grad=False, ref=np.zeros((0, 4))),
    op("take", rand(40, 9), randint(0, 40, 300), grad=[0], ref=lambda a, i: a[i]),
    op("take", randint(0, 9, 5, 2, dtype="uint8"), ints([4, 4]), ref=lambda a, i: a[i]),
    fails("take", rand(3, 4), ints([-1]), mode="raise", error=IndexError, match="index -1 .* 3"),
    fails("take", rand(3, 4), ints([3]), mode="raise", error=IndexError, match="index 3 .* 3"),
    fails("take", rand(3, 4), ints([0]), axis=2, error=IndexError, match="axis 2"),
    fails("take", rand(3), np.array([True]), error=TypeError, match="bool"),
    op("batch_take", rand(3, 4), ints([1, 0, 3]), grad=[0], ref=lambda a, i: a[np.arange(3), i]),
    fails("batch_take", rand(3, 4), ints([1]), error=ValueError, match="one index per row"),
    op("pick", rand(3, 4), ints([1, 0, 3]), grad=[0], ref=lambda a, i: a[np.arange(3), i]),
    op(
        "pick",
        rand(3, 4),
        ints([2, 9, -1, 0]),
        axis=0,
        grad=[0],
        ref=lambda a, i: a[np.clip(i, 0, 2), np.arange(4)],
    ),
    op(
        "pick",
        rand(3, 4),
        ints([2, 9, -1, 0]),
        axis=0,
        mode="wrap",
        grad=[0],
        ref=lambda a, i: a[i % 3, np.arange(4)],
    ),
    op(
        "pick",
        rand(2, 3, 4),
        ints([[1, 0, 3, 2]] * 2)[:, None] % 3,
        axis=1,
        keepdims=True,
        grad=[0],
        ref=lambda a, i: np.take_along_axis(a, i, 1),
    ),
    op("choose_element_0index", rand(4), ints([2]), grad=[0], ref=lambda a, i: a[i]),
    fails("pick", rand(3, 4), ints([0, 1]), error=ValueError, match=r"expected \(3,\)"),
    op(
        "gather_nd",
        rand(3, 4),
        ints([[0, 2, 2], [1, 3, 3]]),
        grad=[0],
        ref=lambda a, i: a[i[0], i[1]],
    ),
    op("gather_nd", rand(3, 4), ints([[2, 0, 2]]), grad=[0], ref=lambda a, i: a[i[0]]),
    op(
        "gather_nd",
        rand(3, 4, 2),
        ints([[[0, -1]], [[1, 2]]]),
        grad=[0],
        ref=lambda a, i: a[i[0], i[1]],
    ),
    fails("gather_nd", rand(3, 4), ints([[0], [4]]), error=IndexError, match="index 4 .* axis 1"),
    fails("gather_nd", rand(3), ints([[0], [0]]), error=ValueError, match="2 coordinates"),
    op(
        "scatter_nd",
        rand(3),
        ints([[0, 2, 1], [1, 3, 0]]),
        shape=(3, 4),
        grad=[0],
        ref=lambda d, i: put(np.zeros((3, 4)), (i[0], i[1]), d),
    ),
    op(
        "scatter_nd",
        rand(2, 4),
        ints([[2, 0]]),
        shape=(3, 4),
        grad=[0],
        ref=lambda d, i: put(np.zeros((3, 4)), (i[0],), d),
    ),
    fails("scatter_nd", rand(2), ints([[0, 1, 2]]), shape=(3,), error=ValueError, match="need"),
    op(
        "_gather_nd_backward",
        rand(3),
        ints([[0, 2, 0]]),
        shape=(4,),
        grad=[0],
        ref=lambda d, i: put(np.zeros(4), (i[0],), d, add=True),
    ),
    op(
        "_scatter_set_nd",
        rand(3, 4),
        rand(2),
        ints([[0, 2], [1, 3]]),
        shape=(3, 4),
        ref=lambda a, d, i: put(a, (i[0], i[1]), d),
    ),
    op("one_hot", ints([1, 0, 3, -1]), depth=3, ref=lambda i: one_hot(i, 3)),
    op(
        "one_hot",
        ints([[1, 0]]),
        depth=2,
        on_value=5,
        off_value=-1,
        dtype="int32",
        ref=lambda i: one_hot(i, 2, 5, -1),
    ),
    op(
        "one_hot",
        np.array([2.0, 1.0]),
        depth=3,
        out_dtype="float32",
        grad=False,
        ref=lambda i: one_hot(i, 3),
    ),
    fails("one_hot", ints([0]), depth=-1, error=ValueError, match="depth: -1 given, at least 0"),
    op(
        "ravel_multi_index",
        ints([[3, 6, 6], [4, 5, 1]]),
        shape=(7, 6),
        ref=lambda i: np.ravel_multi_index(tuple(i), (7, 6)),
    ),
    op(
        "ravel_multi_index",
        np.array([[3.0, 6.0], [4.0, 5.0]]),
        shape=(-1, 6),
        grad=False,
        ref=np.array([22, 41]),
    ),
    fails("ravel_multi_index", ints([[1]]), shape=(2, 3), error=ValueError, match="2 dimensions"),
    op(
        "unravel_index",
        ints([22, 41, 37]),
        shape=(7, 6),
        ref=lambda i: np.stack(np.unravel_index(i, (7, 6))),
    ),
    op(
        "unravel_index",
        ints([[22, 41]]),
        shape=(-1, 3, 2),
        ref=lambda i: np.stack(np.unravel_index(i, (7, 3, 2))),
    ),
    fails("unravel_index", ints([1]), shape=(0, 3), error=ValueError, match="dimension 0"),
    op(
        "fill_element_0index",
        rand(3, 4),
        rand(3),
        ints([1, 0, 3]),
        grad=False,
        ref=lambda a, v, i: put(a, (np.arange(3), i), v),
    ),
    fails(
        "fill_element_0index",
        rand(3, 4),
        rand(2),
        ints([1, 0]),
        error=ValueError,
        match="one value and index per row",
    ),
    op(
        "_contrib_index_copy",
        rand(5, 3),
        ints([0, 4]),
        rand(2, 3),
        ref=lambda a, i, b: put(a, (i,), b),
    ),
    fails(
        "_contrib_index_copy", rand(5, 3), ints([5]), rand(1, 3), error=IndexError, match="index 5"
    ),
    op(
        "_contrib_index_array",
        rand(2, 3),
        out_dtype="int64",
        grad=False,
        ref=np.stack(np.meshgrid(range(2), range(3), indexing="ij"), -1),
    ),
    op(
        "_contrib_index_array",
        rand(2, 3),
        axes=(1,),
        out_dtype="int64",
        grad=False,
        ref=np.broadcast_to(np.arange(3), (2, 3))[..., None],
    ),
    op(
        "_contrib_arange_like",
        rand(2, 3),
        start=1,
        step=2,
        grad=False,
        ref=np.arange(1, 13, 2).reshape(2, 3),
    ),
    op("_contrib_arange_like", rand(2, 3), axis=-1, grad=False, ref=np.arange(3)),
]
