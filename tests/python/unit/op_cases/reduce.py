"""Reductions over axes, running sums and broadcasting."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from mxlite.base import DTypeError, ShapeError
from op_table import Case, fails, ints, no_grad, op, positive, rand, randint

nan, inf = np.nan, np.inf
_SINGLE: dict[str, Any] = {"dtypes": ("float32",), "grad": False}


def _reduced(f: Callable[..., Any], axis: Any = None, keepdims: bool = False) -> Callable[..., Any]:
    """Return f over axes with 1.x's shape (1,) for a result without axes."""

    def run(x: np.ndarray) -> np.ndarray:
        result = np.asarray(f(x, axis=axis, keepdims=keepdims))
        return result.reshape(1) if result.ndim == 0 else result

    return run


def _norm1(x: np.ndarray, **kw: Any) -> np.ndarray:
    return np.abs(x).sum(**kw)


def _norm2(x: np.ndarray, **kw: Any) -> np.ndarray:
    return np.sqrt(np.square(x).sum(**kw))


REDUCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "nansum": np.nansum,
    "nanprod": np.nanprod,
    "max": np.max,
    "min": np.min,
}


def _factors(*shape: int) -> np.ndarray:
    """Return values of either sign whose product over 30 elements is neither tiny nor huge."""
    return np.sign(rand(*shape)) * positive(*shape, low=0.8, high=1.3)


AXES: list[Any] = [None, 0, 1, -1, (0, 2), (1, 2), (-1, 0), (0, 1, 2)]

AXIS = "broadcast_axis"
_MISSING = np.array([[1, 5], [nan, 2], [3, 9]])
CASES: list[Case] = []
for _name, _f in REDUCTIONS.items():
    _values = _factors if "prod" in _name else rand
    CASES += [op(_name, _values(2, 3, 5), axis=a, ref=_reduced(_f, a)) for a in AXES]
    CASES += [
        op(_name, _values(2, 3, 5), axis=1, keepdims=True, ref=_reduced(_f, 1, True)),
        op(_name, _values(2, 3, 5), keepdims=True, ref=_reduced(_f, None, True)),
        op(_name, _values(2, 3, 5), axis=1, exclude=True, ref=_reduced(_f, (0, 2))),
        op(_name, _values(2, 3), axis=(), ref=_reduced(_f)),
        op(_name, np.array(1.5), ref=_reduced(_f)),
        no_grad(_name, (3, 0, 2), axis=2, ref=_reduced(_f, 2))
        if _name not in ("max", "min")
        else no_grad(_name, (3, 0, 2), axis=2, ref=np.zeros((3, 0))),
        op(_name, randint(-3, 4, 3, 4), axis=0, ref=lambda x, f=_f: np.trunc(f(x, 0)).astype(int)),
        fails(_name, (2, 3), axis=2, error=IndexError, match=_name + ": axis 2 .* 2 dim"),
        fails(_name, (2, 3), axis=(0, -2), match=_name + ".* axis 0 twice"),
    ]


def _logsumexp(x: np.ndarray, **kw: Any) -> np.ndarray:
    return np.log(np.exp(x).sum(**kw))


CASES += [op("logsumexp", (2, 3, 5), axis=a, ref=_reduced(_logsumexp, a), terms=30) for a in AXES]
CASES += [
    op("logsumexp", (2, 3, 5), axis=1, keepdims=True, ref=_reduced(_logsumexp, 1, True)),
    op("logsumexp", (2, 3, 5), axis=1, exclude=True, ref=_reduced(_logsumexp, (0, 2))),
    no_grad("logsumexp", (70, 700), axis=0, ref=_reduced(_logsumexp, 0), terms=70),
    no_grad("logsumexp", (3, 20000), axis=1, ref=_reduced(_logsumexp, 1), terms=20000),
    no_grad("logsumexp", (3, 0, 2), axis=2, ref=np.zeros((3, 0))),
    # exp of these overflows or is 0.
    *(
        no_grad("logsumexp", np.array(values), axis=1, ref=np.array(want))
        for values, want in [
            ([[1000.0, 1000], [-900, -900]], [1000 + np.log(2), -900 + np.log(2)]),
            ([[-inf, -inf], [-inf, 1], [inf, 1], [nan, 1]], [-inf, 1, inf, nan]),
        ]
    ),
    fails("logsumexp", (2, 3), axis=2, error=IndexError, match="logsumexp: axis 2 .* 2 dim"),
    fails("logsumexp", (0, 3), axis=0, error=ShapeError, match=r"logsumexp: .*at least 1 element"),
    fails("logsumexp", ints([1, 2]), error=TypeError, match="logsumexp: data must .* int32"),
]

CASES += [
    # Every way through memory: rows, columns, tiles, folded short rows, chunks for threads.
    no_grad("sum", (5000,), ref=_reduced(np.sum), terms=5000),
    no_grad("sum", (70, 700), axis=0, ref=_reduced(np.sum, 0), terms=70),
    no_grad("sum", (700, 70), axis=1, ref=_reduced(np.sum, 1), terms=70),
    no_grad("sum", (900, 3), axis=0, ref=_reduced(np.sum, 0), terms=900),
    no_grad("sum", (4, 901, 3), axis=1, ref=_reduced(np.sum, 1), terms=901),
    no_grad("sum", (7, 5, 300), axis=(0, 2), ref=_reduced(np.sum, (0, 2)), terms=2100),
    no_grad("sum", (40000, 2), axis=0, ref=_reduced(np.sum, 0), terms=40000),
    no_grad("sum", (3, 2, 20000), axis=(0, 2), ref=_reduced(np.sum, (0, 2)), terms=60000),
    no_grad("max", (70, 700), axis=0, ref=_reduced(np.max, 0)),
    # Halves are added up in float32: 1.x gives inf and nan here.
    no_grad("sum", np.ones(60000), ref=np.array([60000]), dtypes=("float16",)),
    no_grad("mean", np.full(70000, 2.0), ref=np.array([2]), dtypes=("float16", "bfloat16")),
    op("sum", (0,), ref=np.array([0])),
    op("prod", (0, 2), axis=0, ref=np.array([1, 1])),
    no_grad("mean", (0,), ref=np.array([nan])),
    op("sum", ints([100, 100], "int8"), ref=np.array([-56], "int8")),
    op("mean", ints([1, 2, -7]), ref=np.array([-1])),
    op("max", ints([2**63, 3], "uint64"), ref=np.array([2**63], "uint64")),
    no_grad("nansum", np.array([[1, nan], [nan, nan]]), axis=1, ref=np.array([1, 0])),
    no_grad("nanprod", np.array([[2, nan], [nan, nan]]), axis=1, ref=np.array([2, 1])),
    no_grad("max", np.array([1, nan, 3]), ref=np.array([nan])),
    no_grad("min", np.array([[1, nan], [3, -inf]]), axis=0, ref=np.array([1, nan])),
    op("prod", np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0]]), axis=1, ref=np.array([0, 0])),
    fails("max", (0, 3), axis=0, error=ShapeError, match=r"max: .*\(0, 3\)"),
    fails("min", (0,), error=ShapeError, match="min: .*at least 1 element"),
]
for _a in (None, 0, (0, 1), -1):
    CASES += [
        op("norm", (3, 4), axis=_a, ref=_reduced(_norm2, _a)),
        op("norm", (3, 4), axis=_a, ord=1, ref=_reduced(_norm1, _a)),
    ]
CASES += [
    op("norm", (3, 4), axis=1, keepdims=True, ref=_reduced(_norm2, 1, True)),
    no_grad("norm", np.zeros((2, 2)), ref=np.array([0])),
    op("norm", ints([3, 4]), ref=np.array([5])),
    fails("norm", (3,), ord=3, match="norm: parameter ord must be from 1 to 2"),
    fails("norm", (3,), axis=1, error=IndexError, match="norm: axis 1"),
]


def _moments(axis: Any, keepdims: bool = False) -> Callable[..., Any]:
    return lambda x: [_reduced(np.mean, axis, keepdims)(x), _reduced(np.var, axis, keepdims)(x)]


CASES += [op("moments", (3, 4, 5), axes=a, ref=_moments(a)) for a in (None, 0, (0, 2), -1)]
CASES += [
    op("moments", (3, 4), axes=1, keepdims=True, ref=_moments(1, True)),
    no_grad("moments", 1000 + rand(3000), ref=_moments(None), dtypes=("float32", "float64")),
    fails("moments", ints([1, 2]), error=DTypeError, match="moments: data must .* int32"),
    fails("moments", (2,), axes=1, error=IndexError, match="moments: axis 1"),
]


def _arg(f: Callable[..., Any], axis: Any, keepdims: bool = False) -> Callable[..., Any]:
    return lambda x: np.asarray(f(x, axis=axis, keepdims=keepdims)).reshape(
        (1,)
        if axis is None or (x.ndim == 1 and not keepdims)
        else f(x, axis=axis, keepdims=keepdims).shape
    )


for _name, _g in [("argmax", np.argmax), ("argmin", np.argmin)]:
    for _a in (None, 0, 1, -1):
        CASES += [
            no_grad(_name, (4, 3, 5), axis=_a, ref=_arg(_g, _a), dtypes=(d,), out_dtype=o)
            for d, o in [("float32", "float32"), ("float16", "float32"), ("float64", "float64")]
        ]
    CASES += [
        op(_name, (4, 3), axis=1, keepdims=True, ref=_arg(_g, 1, True), **_SINGLE),
        no_grad(_name, (9000,), axis=0, ref=_arg(_g, 0), dtypes=("float32",)),
        no_grad(_name, (3, 700), axis=0, ref=_arg(_g, 0), dtypes=("float32",)),
        op(_name, ints([3, 9, 9, 1, 1]), axis=0, ref=_arg(_g, 0)),
        op(_name, np.array([1, nan, 5, nan]), axis=0, ref=np.array([1]), **_SINGLE),
        op(_name, _MISSING, axis=0, **_SINGLE, ref=lambda x, g=_g: g(x, 0)),
        no_grad(_name, np.full(3, -inf), axis=0, ref=np.array([0]), dtypes=("float32",)),
        fails(_name, (2, 0), axis=1, error=ShapeError, match=_name + ": .*at least 1 element"),
        fails(_name, (2,), axis=1, error=IndexError, match=_name + ": axis 1"),
    ]
CASES += [
    no_grad("argmax_channel", (2, 5), ref=lambda x: x.argmax(1), dtypes=("float32",)),
    no_grad("argmax_channel", (2, 5, 3), ref=lambda x: x.argmax(1), dtypes=("float32",)),
    fails("argmax_channel", (3,), error=ShapeError, match="argmax_channel: .*2 dim"),
]

for _name, _flip in [("cumsum", False), ("_cumsum_reverse", True)]:

    def _cumsum(x: np.ndarray, axis: Any, flip: bool = _flip) -> np.ndarray:
        if axis is None:
            x, axis = x.ravel(), 0
        return np.flip(np.flip(x, axis).cumsum(axis), axis) if flip else x.cumsum(axis)

    CASES += [
        op(_name, (3, 4, 5), axis=a, ref=lambda x, a=a, f=_cumsum: f(x, a))
        for a in (None, 0, 1, -1)
    ]
    CASES += [
        no_grad(_name, (1300,), axis=0, ref=lambda x, f=_cumsum: f(x, 0), terms=1300),
        no_grad(_name, (3, 700), axis=0, ref=lambda x, f=_cumsum: f(x, 0), terms=3),
        no_grad(_name, (0, 2), axis=0, ref=lambda x: x),
        op(_name, ints([100] * 3, "int8"), dtype="int32", ref=lambda x, f=_cumsum: f(x, 0)),
        fails(_name, (2,), axis=1, error=IndexError, match=_name + ": axis 1"),
    ]

CASES += [
    op("broadcast_to", (1, 3, 1), shape=(2, 3, 4), ref=lambda x: np.broadcast_to(x, (2, 3, 4))),
    op("broadcast_to", (2, 1), shape=(0, 3), ref=lambda x: np.broadcast_to(x, (2, 3))),
    op("broadcast_to", (3,), shape=(2, 3), ref=lambda x: np.broadcast_to(x, (2, 3))),
    op("broadcast_to", ints([[1], [2]], "int8"), shape=(2, 2), ref=np.array([[1, 1], [2, 2]])),
    fails("broadcast_to", (2, 3), shape=(2, 4), error=ShapeError, match=r"\(2, 3\).*\(2, 4\)"),
    fails("broadcast_to", (2,), shape=(-2,), match=r"shape must be at least 0, got .-2"),
    op(AXIS, (1, 2, 1), axis=(0, 2), size=(3, 4), ref=lambda x: x.repeat(3, 0).repeat(4, 2)),
    op("broadcast_axis", (2, 1), axis=-1, size=5, ref=lambda x: np.broadcast_to(x, (2, 5))),
    fails(AXIS, (2, 1), axis=0, size=5, error=ShapeError, match="axis 0 .* length 1"),
    fails(AXIS, (2, 1), axis=(0, 1), size=5, match="equal leng"),
    op("broadcast_like", (1, 3), (2, 3), grad=[0], ref=lambda x, y: np.broadcast_to(x, y.shape)),
    op(
        "broadcast_like",
        (2, 1, 1),
        positive(4, 5),
        lhs_axes=(1, 2),
        rhs_axes=(0, 1),
        grad=[0],
        ref=lambda x, y: np.broadcast_to(x, (2, 4, 5)),
    ),
    fails("broadcast_like", (2, 3), (2, 4), error=ShapeError, match=r"\(2, 3\).*\(2, 4\)"),
    fails("broadcast_like", (2, 1), (2, 4), lhs_axes=(1,), match="given together"),
    fails("broadcast_like", (2, 1), (2, 4), lhs_axes=(), rhs_axes=(), match="at least 1 axis"),
]
