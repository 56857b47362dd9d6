"""Rows of sort, argsort and topk."""

from __future__ import annotations

import numpy as np
from op_table import FLOATS, fails, ints, no_grad, op, randint

NAN = np.array([[2.0, np.nan, -1.0, 0.5]])
TIES = np.array([[1.0, 0.0, 1.0, -0.0, 1.0]])


def distinct(*shape: int) -> np.ndarray:
    """Return values that stay distinct in every dtype."""
    n = int(np.prod(shape))
    return (np.random.RandomState(n).permutation(n).reshape(shape) - n // 2) / 4.0


def top(x: np.ndarray, k: int, axis: int = -1, ascend: bool = False) -> np.ndarray:
    order = np.argsort(x if ascend else -x, axis=axis, kind="stable")
    return np.take(order, range(k), axis=axis)


def values(x: np.ndarray, k: int, axis: int = -1, ascend: bool = False) -> np.ndarray:
    return np.take_along_axis(x, top(x, k, axis, ascend), axis)


def mask(x: np.ndarray, k: int, axis: int) -> np.ndarray:
    result = np.zeros_like(x)
    np.put_along_axis(result, top(x, k, axis), 1, axis)
    return result


def crowd(*shape: int) -> np.ndarray:
    """Return values of which many are equal, some NaN and some -0."""
    rng = np.random.RandomState(sum(shape))
    x = np.round(rng.normal(0, 40, shape)) / 4
    x[x == 0] = -0.0
    x[rng.uniform(size=shape) < 0.01] = np.nan
    return x


LONG = [
    ((2, 96), 1),
    ((97,), 0),
    ((3, 5000), 1),
    ((600, 3, 2), 0),
    ((2, 130, 20), 1),
    ((530000,), 0),
]
WIDE = {"grad": False, "dtypes": ("float32", "float64"), "hybrid": False}
INT32 = {"dtype": "int32", "out_dtype": "int32", "grad": False}
INT64 = {"dtype": "int64", "out_dtype": "int64", "grad": False}
COLUMNS = ints([[0, 1], [3, 2], [2, 0]])
F32 = {"out_dtype": "float32", "grad": False}

VALUE = {"ret_typ": "value"}
CASES = [
    op("sort", distinct(3, 5), ref=lambda x: np.sort(x, -1)),
    op("sort", distinct(3, 5, 2), axis=1, is_ascend=False, ref=lambda x: -np.sort(-x, 1)),
    op("sort", distinct(3, 4), axis=None, ref=lambda x: np.sort(x, None)),
    no_grad("sort", NAN, ref=np.array([[-1, 0.5, 2, np.nan]])),
    no_grad("sort", np.zeros((0, 3)), ref=np.zeros((0, 3))),
    op("sort", randint(-128, 127, 4, 30, dtype="int8"), ref=lambda x: np.sort(x, -1)),
    op("sort", randint(0, 255, 4, 30, dtype="uint8"), axis=0, ref=lambda x: np.sort(x, 0)),
    op("sort", ints([2**40, -(2**41), 7, -1], "int64"), ref=lambda x: np.sort(x)),
    # Lengths on both sides of each change of algorithm; values with ties, NaN and both zeros.
    *[
        op("sort", crowd(*shape), axis=axis, ref=lambda x, a=axis: np.sort(x, a), **WIDE)
        for shape, axis in LONG
    ],
    *[
        op(
            "argsort",
            crowd(*shape),
            axis=axis,
            is_ascend=False,
            dtype="int64",
            out_dtype="int64",
            ref=lambda x, a=axis: np.argsort(np.where(np.isnan(x), -np.inf, -x), a, kind="stable"),
            **WIDE,
        )
        for shape, axis in LONG
    ],
    *[
        op(
            "topk",
            crowd(*shape),
            axis=axis,
            k=k,
            is_ascend=True,
            ret_typ="both",
            dtype="int32",
            ref=lambda x, a=axis, k=k: [values(x, k, a, True), top(x, k, a, True)],
            **WIDE,
        )
        for shape, axis in LONG
        for k in (1, 20, 90)
    ],
    fails("sort", (2, 3), axis=2, error=IndexError, match="axis 2 .* 2 dimensions"),
    op("argsort", distinct(3, 5), ref=lambda x: np.argsort(x, -1), **F32),
    op("argsort", TIES, ref=np.array([[1, 3, 0, 2, 4]]), **F32),
    op("argsort", TIES, is_ascend=False, **INT64, ref=np.array([[0, 2, 4, 1, 3]])),
    op("argsort", distinct(3, 5), axis=0, **INT32, ref=lambda x: np.argsort(x, 0)),
    op("argsort", distinct(2, 3), axis=None, ref=lambda x: np.argsort(x, None), **F32),
    op("topk", distinct(3, 5), ref=lambda x: top(x, 1), **F32),
    op("topk", distinct(3, 5), k=2, axis=0, is_ascend=1, **INT32, ref=lambda x: top(x, 2, 0, 1)),
    op("topk", distinct(3, 5), k=3, ret_typ="value", ref=lambda x: values(x, 3)),
    op("topk", distinct(3, 5), k=0, ret_typ="value", ref=lambda x: values(x, 5)),
    op(
        "topk",
        distinct(2, 6, 3),
        k=2,
        axis=1,
        ret_typ="both",
        dtype="int64",
        ref=lambda x: [values(x, 2, 1), top(x, 2, 1)],
    ),
    no_grad("topk", distinct(3, 5), k=2, axis=0, ret_typ="mask", ref=lambda x: mask(x, 2, 0)),
    op("topk", distinct(3, 4), k=5, axis=None, **VALUE, ref=lambda x: -np.sort(-x, None)[:5]),
    op("topk", TIES, k=2, ref=np.array([[0, 2]]), **F32),
    no_grad("topk", distinct(2, 3000), k=7, **VALUE, ref=lambda x: values(x, 7), dtypes=FLOATS[:2]),
    fails("topk", (2, 3), k=4, match="k must be at most 3, .* got 4"),
    fails("topk", (2, 3), axis=-3, error=IndexError, match="axis -3"),
    op("_take_along_axis", (3, 4), COLUMNS, axis=1, ref=lambda x, i: np.take_along_axis(x, i, 1)),
    op("_put_along_axis", (3, 2), COLUMNS, shape=(3, 4), axis=1, ref=lambda x, i: scattered(x, i)),
]


def scattered(x: np.ndarray, i: np.ndarray) -> np.ndarray:
    result = np.zeros((3, 4))
    np.put_along_axis(result, i, x, 1)
    return result
