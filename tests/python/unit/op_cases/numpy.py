"""Operators that only numpy mode calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from mxlite.base import DTypeError
from op_table import Case, fails, ints, no_grad, op, positive, rand, randint

nan, inf = np.nan, np.inf
CASES: list[Case] = []

_COMPARISONS = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
_BOOL: dict[str, Any] = {"out_dtype": "bool", "grad": False}
_EDGES = np.array([[0, 1, nan], [inf, -inf, 2]])
for _name, _f in _COMPARISONS.items():
    _op = f"_npi_{_name}"
    CASES += [
        op(_op, _EDGES, np.array([1.0, 1, 2]), ref=_f, **_BOOL),
        op(_op, randint(-2, 3, 3, 4), randint(-2, 3, 4), ref=_f, **_BOOL),
        op(f"{_op}_scalar", _EDGES, scalar=1.0, ref=lambda x, f=_f: f(x, 1), **_BOOL),
        op(f"{_op}_scalar", ints([1, 2, 3]), scalar=1.5, ref=lambda x, f=_f: f(x, 1.5), **_BOOL),
        op(f"{_op}_scalar", ints([1, 2, 3]), scalar=nan, ref=lambda x, f=_f: f(x, nan), **_BOOL),
        op(
            f"{_op}_scalar",
            np.array([0, 255], np.uint8),
            scalar=-1,
            ref=lambda x, f=_f: f(x.astype(int), -1),
            **_BOOL,
        ),
    ]

_PREDICATES = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "logical_not": np.logical_not,
    "signbit": np.signbit,
}
for _name, _f in _PREDICATES.items():
    CASES.append(op(f"_npi_{_name}", np.array([0, -0.0, nan, inf, -inf, -2]), ref=_f, **_BOOL))

_NUMBERS = np.array([-7, -3, 0, 5, 7, 8]), np.array([3, -2, 4, -5, 7, 0])
_REAL = np.array([-7.5, -3, 0.25, 5, 7]), np.array([2.0, -2, 4, -5, 1.5])
_INTEGERS = {
    "floor_divide": np.floor_divide,
    "mod": np.mod,
    "fmod": np.fmod,
    "gcd": np.gcd,
    "lcm": np.lcm,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def _quiet(f: Any) -> Any:
    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return f(a, b)

    return run


for _name, _f in _INTEGERS.items():
    CASES.append(op(f"_npi_{_name}", *_NUMBERS, ref=_quiet(_f)))
    if "divide" in _name or "mod" in _name:
        CASES.append(no_grad(f"_npi_{_name}", *_REAL, ref=_f))
    else:
        CASES.append(fails(f"_npi_{_name}", (2,), (2,), error=DTypeError, match="integers"))
CASES += [
    op("_npi_mod", np.array([5.25, -5.5]), np.array([2.0, 2.0]), ref=np.mod),
    op("_npi_fmod", np.array([5.25, -5.5]), np.array([2.0, 2.0]), ref=np.fmod),
    no_grad("_npi_floor_divide", np.array([1.0, -1, 0]), np.zeros(3), ref=_quiet(np.floor_divide)),
    no_grad("_npi_mod", np.array([1.0, -1, 0]), np.zeros(3), ref=np.full(3, nan)),
    op("_npi_left_shift", ints([1, 3, -5]), ints([0, 4, 2]), ref=np.left_shift),
    op("_npi_right_shift", ints([1, 300, -5]), ints([0, 4, 2]), ref=np.right_shift),
    op("_npi_bitwise_not", ints([0, 5, -3]), ref=np.invert),
    op("_npi_bitwise_not", np.array([True, False]), ref=np.invert),
    op("_npi_arctan2", rand(3, 4), positive(4, low=0.5), ref=np.arctan2),
    op("_npi_copysign", positive(3, 4), np.array([1.0, -1, 1, -1]), ref=np.copysign),
    op("_npi_fmax", rand(3, 4), rand(4), ref=np.fmax),
    op("_npi_fmin", rand(3, 4), rand(4), ref=np.fmin),
    op("_npi_fmax", _EDGES, np.array([nan, 1, 2]), ref=np.fmax, grad=False),
    op("_npi_fmin", np.array([True, False]), np.array([True, True]), ref=np.fmin),
    op("_npi_logaddexp", rand(3, 4), rand(4), ref=np.logaddexp),
    no_grad("_npi_logaddexp", np.array([inf, -inf]), np.array([inf, -inf]), ref=np.logaddexp),
    op("_npi_nextafter", np.array([1.0, 0]), np.array([2.0, -1]), ref=np.nextafter, grad=False,
       dtypes=("float64",)),
    no_grad("_npi_rint", np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.4]), ref=np.rint),
]  # fmt: skip

_REDUCTIONS = {
    "_np_sum": np.sum,
    "_np_prod": np.prod,
    "_npi_mean": np.mean,
    "_np_max": np.max,
    "_np_min": np.min,
}
for _name, _f in _REDUCTIONS.items():
    _values = positive(2, 3, 5, low=0.8, high=1.3) if "prod" in _name else rand(2, 3, 5)
    for _axis in (None, (), 1, (0, 2)):
        CASES.append(op(_name, _values, axis=_axis, ref=lambda x, f=_f, a=_axis: f(x, axis=a)))
    CASES.append(
        op(
            _name,
            _values,
            axis=(0, 2),
            keepdims=True,
            ref=lambda x, f=_f: f(x, (0, 2), keepdims=True),
        )
    )
for _name, _f in (("_np_sum", np.sum), ("_np_prod", np.prod)):
    CASES += [
        op(_name, np.array([[100, 2], [100, 3]], np.int8), axis=0, ref=lambda x, f=_f: f(x, 0),
           out_dtype="int64"),
        op(_name, np.array([True, True]), ref=_f, out_dtype="int64"),
        op(_name, ints([2, 3]), dtype="float32", ref=_f, out_dtype="float32"),
        no_grad(_name, np.zeros((2, 0)), axis=1, ref=lambda x, f=_f: f(x, 1)),
    ]  # fmt: skip
CASES.append(fails("_np_max", (2, 0), axis=1, match="at least 1 element"))
CASES += [
    op(f"_npi_{_f.__name__}", rand(3, 4), axis=_axis, ref=lambda x, f=_f, a=_axis: f(x, axis=a),
       out_dtype="int64", grad=False)
    for _f in (np.argmax, np.argmin) for _axis in (None, 0, 1)
]  # fmt: skip
