"""Element-wise operators: one input, two inputs, a number, many inputs."""

from __future__ import annotations

import math

import numpy as np
from mxlite.base import DTypeError, ShapeError
from op_table import Case, fails, ints, no_grad, op, positive, rand, randint

DOUBLE = ("float64", "float32")

_gamma = np.vectorize(math.gamma, otypes=[float])
_lgamma = np.vectorize(math.lgamma, otypes=[float])
_erf = np.vectorize(math.erf, otypes=[float])


def _apart(*shape: int) -> np.ndarray:
    """Return values whose distance from every half and whole number is above 0.1."""
    values = rand(*shape, low=-4, high=4)
    return np.floor(values) + 0.15 + 0.2 * (values - np.floor(values)) + 0.5 * (values > 0)


def _rint_half_down(x: np.ndarray) -> np.ndarray:
    return np.where(x - np.floor(x) <= 0.5, np.floor(x), np.ceil(x))


def _round_half_away(x: np.ndarray) -> np.ndarray:
    return np.trunc(x + np.copysign(0.5, x))


def _smooth_l1(x: np.ndarray, sigma: float) -> np.ndarray:
    near = np.abs(x) < 1 / sigma**2
    return np.where(near, 0.5 * (sigma * x) ** 2, np.abs(x) - 0.5 / sigma**2)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


UNARY = {
    "identity": lambda x: x,
    "BlockGrad": lambda x: x,
    "negative": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "relu": lambda x: np.maximum(x, 0),
    "logical_not": lambda x: (x == 0).astype(float),
    "round": _round_half_away,
    "rint": _rint_half_down,
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "fix": np.fix,
    "cbrt": np.cbrt,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "exp": np.exp,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "arctan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "arcsinh": np.arcsinh,
    "degrees": np.degrees,
    "radians": np.radians,
    "reciprocal": lambda x: 1 / x,
    "sigmoid": _sigmoid,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "erf": _erf,
    "_contrib_isnan": lambda x: np.isnan(x).astype(float),
    "_contrib_isinf": lambda x: np.isinf(x).astype(float),
    "_contrib_isfinite": lambda x: np.isfinite(x).astype(float),
}
# Operators that are defined, or have a tame gradient, on a part of the numbers only.
NARROW = {
    "sqrt": (np.sqrt, 0.2, 3),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.2, 3),
    "log": (np.log, 0.2, 3),
    "log10": (np.log10, 0.2, 3),
    "log2": (np.log2, 0.2, 3),
    "log1p": (np.log1p, -0.7, 3),
    "tan": (np.tan, -1.2, 1.2),
    "arcsin": (np.arcsin, -0.9, 0.9),
    "arccos": (np.arccos, -0.9, 0.9),
    "arccosh": (np.arccosh, 1.2, 4),
    "arctanh": (np.arctanh, -0.9, 0.9),
    "gamma": (_gamma, 0.3, 4),
    "gammaln": (_lgamma, 0.3, 6),
    "hard_sigmoid": (lambda x: np.clip(0.2 * x + 0.5, 0, 1), -2, 2),
}

inf, nan = np.inf, np.nan

# Their gradient is zero, and autograd does not record them.
FLAT = {"BlockGrad", "sign", "logical_not", "round", "rint", "ceil", "floor", "trunc", "fix"}
FLAT |= {"_contrib_isnan", "_contrib_isinf", "_contrib_isfinite"}

CASES: list[Case] = [
    *[op(name, _apart(2, 3, 5), ref=f, grad=name not in FLAT) for name, f in UNARY.items()],
    *[no_grad(name, (3, 0), ref=f) for name, f in UNARY.items()],
    *[op(name, rand(4, 3, low=a, high=b), ref=f) for name, (f, a, b) in NARROW.items()],
    # Values at which the formulas change, and those that are not numbers.
    no_grad("round", np.array([0.5, 1.5, -0.5, -2.5]), ref=np.array([1, 2, -1, -3])),
    no_grad("round", np.array([0.49999997]), ref=np.array([0]), dtypes=("float32",)),
    no_grad("rint", np.array([0.5, 1.5, 2.5, -0.5, -1.5]), ref=np.array([0, 1, 2, -1, -2])),
    no_grad("sign", np.array([nan, -0.0, 3, -inf]), ref=np.array([nan, 0, 1, -1])),
    no_grad("relu", np.array([nan, -1, 2, inf]), ref=np.array([nan, 0, 2, inf])),
    no_grad("exp", np.array([nan, inf, -inf, 0, -200]), ref=np.array([nan, inf, 0, 1, 0])),
    no_grad("exp", np.array([88.5, -87.0, -95.0]), ref=np.exp, dtypes=DOUBLE),
    no_grad("expm1", np.array([nan, inf, -inf, 0, 1e-6]), ref=np.expm1),
    no_grad("log", np.array([nan, inf, 0, -1, 1]), ref=np.array([nan, inf, -inf, nan, 0])),
    no_grad("log1p", np.array([nan, inf, -1, -2, 1e-2]), ref=np.log1p, dtypes=DOUBLE),
    no_grad("log1p", np.array([1e-6, 3e-7]), magnitude=1e-6, ref=np.log1p, dtypes=DOUBLE),
    no_grad("tanh", np.array([nan, inf, -inf, 20, 1e-4]), ref=np.tanh),
    no_grad("sigmoid", np.array([nan, inf, -inf, -80, 80]), ref=_sigmoid),
    no_grad("erf", np.array([nan, inf, -inf, 0.99, 1.01, -5]), ref=_erf),
    no_grad("gamma", np.array([5, -0.5, -1]), ref=np.array([24, math.gamma(-0.5), nan])),
    no_grad("gammaln", np.array([5.0, -0.5]), ref=_lgamma),
    op("erfinv", rand(3, 4, low=-0.95, high=0.95), ref=lambda x: _erfinv(x)),
    no_grad("erfinv", np.array([1.0, -1, 2, 0]), ref=np.array([inf, -inf, nan, 0])),
    no_grad("_contrib_isnan", np.array([nan, inf, -inf, 1]), ref=np.array([1, 0, 0, 0])),
    no_grad("_contrib_isinf", np.array([nan, inf, -inf, 1]), ref=np.array([0, 1, 1, 0])),
    no_grad("_contrib_isfinite", np.array([nan, inf, -inf, 1]), ref=np.array([0, 0, 0, 1])),
    no_grad("logical_not", np.array([1, 0, 3.0]), ref=np.array([0, 1, 0])),
    # Integers: own arithmetic stays exact, the rest goes through float64 and is cut off.
    op("abs", ints([-3, 0, 2]), ref=np.array([3, 0, 2])),
    op("negative", ints([250, 0], "uint8"), ref=np.array([6, 0])),
    op("square", ints([200], "uint8"), ref=np.array([64])),
    op("exp", ints([1, 2, -7]), ref=np.array([2, 7, 0])),
    op("clip", ints([-5, 0, 9], "int64"), a_min=-1.5, a_max=3, ref=np.array([-1, 0, 3])),
    # With parameters.
    op("clip", _apart(3, 4), a_min=-1, a_max=1.0, ref=lambda x: np.clip(x, -1, 1)),
    no_grad("clip", np.array([nan, -1, 5]), a_min=0, a_max=1, ref=np.array([nan, 0, 1])),
    fails("clip", (2,), a_min=0, error=TypeError, match="clip.*a_max"),
    op("smooth_l1", rand(3, 5, low=-3, high=3), ref=lambda x: _smooth_l1(x, 1.0)),
    op("smooth_l1", rand(3, 5, low=-1, high=1), scalar=2, ref=lambda x: _smooth_l1(x, 2.0)),
    op(
        "hard_sigmoid", rand(7) * 4, alpha=0.5, beta=0.3, ref=lambda x: np.clip(0.5 * x + 0.3, 0, 1)
    ),
    no_grad("make_loss", (2, 3), ref=lambda x: x),
    op("_relu_backward", (5,), (5,), ref=lambda g, y: g * (y > 0)),
    op("_sigmoid_backward", (5,), (5,), ref=lambda g, y: g * y * (1 - y)),
    op("_tanh_backward", (5,), (5,), ref=lambda g, y: g * (1 - y * y)),
]


def _erfinv(y: np.ndarray) -> np.ndarray:
    low, high = np.full(y.shape, -6.0), np.full(y.shape, 6.0)
    for _ in range(80):
        middle = (low + high) / 2
        below = _erf(middle) < y
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


# ---- two inputs ----------------------------------------------------------------------------------


def _mod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.where(b == 0, 0, np.mod(a, np.where(b == 0, 1, b)))


def _as_given(f):
    return lambda a, b: f(a, b).astype(np.result_type(a, b))


BINARY = {
    "broadcast_add": np.add,
    "broadcast_sub": np.subtract,
    "broadcast_mul": np.multiply,
    "broadcast_div": np.divide,
    "broadcast_maximum": np.maximum,
    "broadcast_minimum": np.minimum,
    "broadcast_hypot": np.hypot,
    "broadcast_equal": _as_given(np.equal),
    "broadcast_not_equal": _as_given(np.not_equal),
    "broadcast_greater": _as_given(np.greater),
    "broadcast_greater_equal": _as_given(np.greater_equal),
    "broadcast_lesser": _as_given(np.less),
    "broadcast_lesser_equal": _as_given(np.less_equal),
    "broadcast_logical_and": _as_given(np.logical_and),
    "broadcast_logical_or": _as_given(np.logical_or),
    "broadcast_logical_xor": _as_given(np.logical_xor),
}
ARITHMETIC = list(BINARY)[:7]
INTEGER = {k: f for k, f in BINARY.items() if "div" not in k and "hypot" not in k}
# Same shape, a channel, a row, a column, both sides, more axes, one number, nothing.
SHAPES = [
    ((2, 3, 5), (2, 3, 5)),
    ((2, 3, 17), (1, 3, 1)),
    ((3, 33), (33,)),
    ((3, 5), (3, 1)),
    ((2, 1, 5), (1, 3, 1)),
    ((5,), (2, 3, 5)),
    ((2, 3), (1,)),
    ((0, 3), (1, 3)),
]

for _name, _f in BINARY.items():
    _smooth = _name in ARITHMETIC
    # Rounded terms of the divisor's gradient cancel, most of all with divisors near 0.
    _divides = _name == "broadcast_div"
    _second = positive if _divides else rand
    CASES += [
        op(_name, a, _second(*b), ref=_f, grad=_smooth and all(a), grad_tol=4 if _divides else 1)
        for a, b in SHAPES
    ]
    CASES += [
        fails(_name, (2, 3), (2, 4), error=ShapeError, match=_name + r": .*\(2, 3\).*\(2, 4\)"),
        fails(_name, (2,), ints([1, 2]), error=DTypeError, match=_name + ": .*float32.*int32"),
    ]
for _name, _f in INTEGER.items():
    for _dtype in ("int8", "uint8", "int32", "int64"):
        CASES.append(
            op(_name, randint(0, 120, 3, 4, dtype=_dtype), randint(0, 3, 4, dtype=_dtype), ref=_f)
        )

_SIGNS = np.array([[7, -7, 7, -7, 5, 0, 0], [3, 3, -3, -3, 0, 0, -1.0]])
_REST = np.array([1, 2, -2, -1, 0, 0, 0])
POWER = "broadcast_power"
CASES += [
    op("broadcast_mod", rand(4, 5) * 9, rand(5, low=1, high=3), grad=[0], dtypes=DOUBLE, ref=_mod),
    no_grad("broadcast_mod", _SIGNS[0], _SIGNS[1], ref=_REST),
    op("broadcast_mod", ints(_SIGNS[0]), ints(_SIGNS[1]), ref=_REST),
    op("broadcast_power", positive(3, 4), rand(4, low=-2, high=2), ref=np.power),
    op(POWER, ints([2, 0, 1, 3, -1]), ints([-1, -1, -1, 4, -3]), ref=ints([0, 0, 1, 81, -1])),
    op("broadcast_div", ints([7, -7, 5, 0]), ints([2, 2, 0, 0]), ref=np.array([3, -3, 0, 0])),
    op("broadcast_div", ints([-2147483648]), ints([-1]), ref=np.array([-2147483648])),
    no_grad("broadcast_div", np.array([1.0, -1, 0]), np.zeros(3), ref=np.array([inf, -inf, nan])),
    op("broadcast_hypot", ints([3, 5]), ints([4, 12]), ref=np.array([5, 13])),
    *(
        no_grad(f"broadcast_{name}", np.array([nan, 1, 2]), np.array([1, nan, 3]), ref=f)
        for name, f in [("maximum", np.maximum), ("minimum", np.minimum)]
    ),
    op("broadcast_maximum", ints([2**63], "uint64"), ints([1], "uint64"), ref=np.maximum),
    op("broadcast_add", ints([True, False], "bool"), ints([True, True], "bool"), ref=np.add),
    no_grad("broadcast_add", (70, 700), (700,), ref=np.add),
    no_grad("broadcast_mul", (300, 3), (300, 1), ref=np.multiply),
]
for _name, _f in [
    ("elemwise_add", np.add),
    ("elemwise_sub", np.subtract),
    ("elemwise_mul", np.multiply),
    ("elemwise_div", np.divide),
]:
    CASES += [
        op(_name, (2, 3), (2, 3), ref=_f),
        no_grad(_name, (0, 3), (0, 3), ref=_f),
        fails(_name, (2, 1), (1, 2), error=ShapeError, match=_name + r": .*\(2, 1\).*\(1, 2\)"),
        fails(_name, (2,), ints([1, 2]), error=DTypeError, match="float32.*int32"),
    ]

# ---- a number ------------------------------------------------------------------------------------

SCALAR = {
    "_plus_scalar": lambda x, s: x + s,
    "_minus_scalar": lambda x, s: x - s,
    "_rminus_scalar": lambda x, s: s - x,
    "_mul_scalar": lambda x, s: x * s,
    "_div_scalar": lambda x, s: x / s,
    "_rdiv_scalar": lambda x, s: s / x,
    "_maximum_scalar": np.maximum,
    "_minimum_scalar": np.minimum,
    "_hypot_scalar": np.hypot,
    "_equal_scalar": np.equal,
    "_not_equal_scalar": np.not_equal,
    "_greater_scalar": np.greater,
    "_greater_equal_scalar": np.greater_equal,
    "_lesser_scalar": np.less,
    "_lesser_equal_scalar": np.less_equal,
    "_logical_and_scalar": np.logical_and,
    "_logical_or_scalar": np.logical_or,
    "_logical_xor_scalar": np.logical_xor,
}
_SMOOTH = list(SCALAR)[:9]
for _name, _f in SCALAR.items():
    CASES += [
        op(_name, (2, 3, 5), scalar=0.5, grad=_name in _SMOOTH, ref=lambda x, f=_f: 1 * f(x, 0.5)),
        no_grad(_name, (0,), scalar=2, ref=lambda x, f=_f: f(x, 2).astype(float)),
    ]

CASES += [
    op("_power_scalar", positive(3, 4), scalar=p, ref=lambda x, p=p: x**p)
    for p in (2, 0.5, -1.5, 3)
]
CASES += [
    op("_power_scalar", (3, 4), scalar=3, ref=lambda x: x**3),
    op("_power_scalar", ints([1, -2, 7]), scalar=2, ref=np.array([1, 4, 49])),
    op("_rpower_scalar", (3, 4), scalar=1.5, ref=lambda x: 1.5**x),
    op("_mod_scalar", rand(3, 4) * 9, scalar=2, dtypes=DOUBLE, ref=lambda x: np.mod(x, 2)),
    no_grad("_mod_scalar", np.array([5.0, -1]), scalar=0, ref=np.array([0, 0])),
    op("_rmod_scalar", rand(4, low=1, high=2), scalar=7, dtypes=DOUBLE, ref=lambda x: np.mod(7, x)),
    # The number takes the array's dtype first.
    op("_mul_scalar", ints([1, 2, -7]), scalar=1.5, ref=np.array([1, 2, -7])),
    op("_plus_scalar", ints([250], "uint8"), scalar=10, ref=np.array([4])),
    op("_div_scalar", ints([1, -7]), scalar=2, ref=np.array([0, -3])),
    op("_div_scalar", ints([1, -7]), scalar=0, ref=np.array([0, 0])),
    op("_rdiv_scalar", ints([0, 2]), scalar=7, ref=np.array([0, 3])),
    op("_greater_scalar", ints([1, 2], "int8"), scalar=1.9, ref=np.array([0, 1])),
    fails("_plus_scalar", (2,), scalar="text", match="_plus_scalar.*scalar"),
]

# ---- many inputs and choices ---------------------------------------------------------------------

CASES += [
    op("add_n", (2, 3), (2, 3), (2, 3), ref=lambda *a: sum(a)),
    op("add_n", (4,), ref=lambda a: a),
    op("add_n", ints([1, 2]), ints([3, 4]), ref=np.array([4, 6])),
    no_grad("add_n", (0, 2), (0, 2), ref=np.add),
    fails("add_n", (2,), (3,), error=ShapeError, match=r"add_n: .*\(2,\).*\(3,\)"),
    op("where", randint(0, 2, 3, 4), (3, 4), (3, 4), ref=np.where),
    op("where", ints([0, 1, 2]), (3, 4), (3, 4), ref=lambda c, x, y: np.where(c[:, None], x, y)),
    no_grad(
        "where", np.array([0, 0.5]), ints([1, 2]), ints([3, 4]), out_dtype="int32", ref=np.where
    ),
    no_grad("where", ints([], "int32"), (0,), (0,), ref=np.where),
    fails("where", ints([1, 0]), (3,), (3,), error=ShapeError, match=r"condition must .* \(2,\)"),
    fails("where", ints([1, 0]), (2,), (3,), error=ShapeError, match="where: y must"),
    fails("where", ints([1, 0]), (2,), ints([1, 2]), error=DTypeError, match="where: y must"),
]
