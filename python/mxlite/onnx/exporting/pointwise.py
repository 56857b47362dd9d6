"""Converters of operators that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from ..tables import UNARY
from .table import Call, Converter, converter, rows

__all__ = ["gelu"]

_UNARY = {**UNARY, "LogisticRegressionOutput": "Sigmoid", "_contrib_sign_ste": "Sign"}

# Operators that do nothing in inference.
_IDENTITIES = (
    "BlockGrad", "IdentityAttachKLSparseReg", "LinearRegressionOutput", "MAERegressionOutput",
    "MakeLoss", "SVMOutput", "_contrib_gradientmultiplier", "_copy", "_copyto",
    "_identity_with_attr_like_rhs", "make_loss",
)  # fmt: skip

_ARITHMETIC = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "power": "Pow", "maximum": "Max",
    "minimum": "Min",
}  # fmt: skip

_COMPARISONS = {
    "equal": "Equal", "greater": "Greater", "greater_equal": "GreaterOrEqual", "lesser": "Less",
    "lesser_equal": "LessOrEqual", "not_equal": "Equal",
}  # fmt: skip

_LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}

Binary = Callable[[Call, str, str], str]


def _truth(c: Call, value: str, dtype: str) -> str:
    """Return whether values differ from 0."""
    return c.g.cast(value, dtype, "bool")


def _arithmetic(op: str, c: Call, a: str, b: str) -> str:
    return c.op(op, a, b)


def _comparison(name: str, c: Call, a: str, b: str) -> str:
    found = c.op(_COMPARISONS[name], a, b)
    return c.g.cast(c.op("Not", found) if name == "not_equal" else found, "bool", c.dtype)


def _logic(op: str, c: Call, a: str, b: str) -> str:
    dtype = _common(c)
    return c.g.cast(c.op(op, _truth(c, a, dtype), _truth(c, b, dtype)), "bool", c.dtype)


def _mod(c: Call, a: str, b: str) -> str:
    if c.dtype.startswith(("int", "uint")):
        return c.op("Mod", a, b)
    zero = c.const(0)
    rest = c.op("Sub", a, c.op("Mul", c.op("Floor", c.op("Div", a, b)), b))
    return c.op("Where", c.op("Equal", b, zero), zero, rest)


def _hypot(c: Call, a: str, b: str) -> str:
    return c.op("Sqrt", c.op("Add", c.op("Mul", a, a), c.op("Mul", b, b)))


_BINARY: dict[str, Binary] = {
    **{name: partial(_arithmetic, op) for name, op in _ARITHMETIC.items()},
    **{name: partial(_comparison, name) for name in _COMPARISONS},
    **{name: partial(_logic, op) for name, op in _LOGIC.items()},
    "mod": _mod,
    "hypot": _hypot,
}
_SCALARS = {"plus": "add", "minus": "sub", **{name: name for name in _BINARY}}


def _common(c: Call) -> str:
    """Return the dtype in which both operands of a comparison are compared."""
    return c.dtypes[0] if c.dtype == "bool" else c.dtype


def _two(binary: Binary, c: Call) -> str:
    dtype = _common(c)
    return binary(c, c.cast(0, dtype), c.cast(1, dtype))


def _scalar(binary: Binary, swapped: bool, c: Call) -> str:
    dtype = _common(c)
    operands = [c.cast(0, dtype), c.const(c.p.scalar, dtype)]
    return binary(c, *(operands[::-1] if swapped else operands))


def _unary(op: str, c: Call) -> str:
    return c.op(op, c.cast(0, c.dtype))


def _identity(c: Call) -> str:
    return c.x[0]


rows((name, partial(_unary, op)) for name, op in _UNARY.items())
rows((name, _identity) for name in _IDENTITIES)
rows((f"broadcast_{name}", partial(_two, function)) for name, function in _BINARY.items())
rows((f"elemwise_{name}", partial(_two, _BINARY[name])) for name in ("add", "sub", "mul", "div"))
rows(
    (f"_{name}_scalar", partial(_scalar, _BINARY[target], False))
    for name, target in _SCALARS.items()
    if name not in ("add", "sub")
)
rows(
    (f"_r{name}_scalar", partial(_scalar, _BINARY[target], True))
    for name, target in (("minus", "sub"), ("div", "div"), ("power", "power"), ("mod", "mod"))
)


def _toward_zero(c: Call, magnitude: str) -> str:
    return c.op("Mul", c.op("Sign", c.x[0]), magnitude)


def _half_up(c: Call, x: str) -> str:
    whole = c.op("Floor", x)
    up = c.op("GreaterOrEqual", c.op("Sub", x, whole), c.const(0.5))
    return c.op("Add", whole, c.g.cast(up, "bool", c.dtype))


_FORMULAS: dict[str, Converter] = {
    "square": lambda c: c.op("Mul", c.x[0], c.x[0]),
    "rsqrt": lambda c: c.op("Reciprocal", c.op("Sqrt", c.x[0])),
    "cbrt": lambda c: _toward_zero(c, c.op("Pow", c.op("Abs", c.x[0]), c.const(1 / 3))),
    "rcbrt": lambda c: _toward_zero(c, c.op("Pow", c.op("Abs", c.x[0]), c.const(-1 / 3))),
    "fix": lambda c: _toward_zero(c, c.op("Floor", c.op("Abs", c.x[0]))),
    "trunc": lambda c: _toward_zero(c, c.op("Floor", c.op("Abs", c.x[0]))),
    "round": lambda c: _toward_zero(c, _half_up(c, c.op("Abs", c.x[0]))),
    # Rounds n + 1/2 down, like mxlite's rint.
    "rint": lambda c: c.op("Ceil", c.op("Sub", c.x[0], c.const(0.5))),
    "log2": lambda c: c.op("Div", c.op("Log", c.x[0]), c.const(math.log(2))),
    "log10": lambda c: c.op("Div", c.op("Log", c.x[0]), c.const(math.log(10))),
    "log1p": lambda c: c.op("Log", c.op("Add", c.x[0], c.const(1))),
    "expm1": lambda c: c.op("Sub", c.op("Exp", c.x[0]), c.const(1)),
    "degrees": lambda c: c.op("Mul", c.x[0], c.const(180 / math.pi)),
    "radians": lambda c: c.op("Mul", c.x[0], c.const(math.pi / 180)),
    "logical_not": lambda c: c.g.cast(c.op("Not", _truth(c, c.x[0], c.dtypes[0])), "bool", c.dtype),
    "_contrib_isnan": lambda c: c.g.cast(c.op("IsNaN", c.x[0]), "bool", c.dtype),
    "_contrib_isinf": lambda c: c.g.cast(c.op("IsInf", c.x[0]), "bool", c.dtype),
    "_contrib_isfinite": lambda c: c.g.cast(
        c.op("Not", c.op("Or", c.op("IsNaN", c.x[0]), c.op("IsInf", c.x[0]))), "bool", c.dtype
    ),
    "hard_sigmoid": lambda c: c.op("HardSigmoid", c.x[0], alpha=c.p.alpha, beta=c.p.beta),
    "clip": lambda c: c.op("Clip", c.x[0], c.const(c.p.a_min), c.const(c.p.a_max)),
    "add_n": lambda c: c.op("Sum", *c.x),
    "Cast": lambda c: c.cast(0, c.dtype),
    "amp_cast": lambda c: c.cast(0, c.dtype),
    "amp_multicast": lambda c: [c.cast(i, c.out_dtypes[i]) for i in range(len(c.x))],
}
_FORMULAS["_contrib_round_ste"] = _FORMULAS["round"]
rows(_FORMULAS.items())


def gelu(c: Call, x: str, dtype: str, with_tanh: bool) -> str:
    """Return the Gaussian error linear unit, exact or with tanh."""
    if c.g.opset >= 20:
        return c.op("Gelu", x, approximate="tanh" if with_tanh else "none")
    if with_tanh:
        cube = c.op("Mul", c.op("Mul", c.op("Mul", x, x), x), c.const(0.044715, dtype))
        inner = c.op("Mul", c.op("Add", x, cube), c.const(math.sqrt(2 / math.pi), dtype))
        bent = c.op("Tanh", inner)
    else:
        bent = c.op("Erf", c.op("Div", x, c.const(math.sqrt(2), dtype)))
    half = c.op("Mul", x, c.const(0.5, dtype))
    return c.op("Mul", half, c.op("Add", bent, c.const(1, dtype)))


@converter("where")
def _where(c: Call) -> str:
    condition = _truth(c, c.x[0], c.dtypes[0])
    if c.ndim == 1 and len(c.shapes[1]) > 1:  # selects rows
        condition = c.g.unsqueeze(condition, *range(1, len(c.shapes[1])))
    return c.op("Where", condition, c.x[1], c.x[2])


@converter("smooth_l1")
def _smooth_l1(c: Call) -> str:
    squared = c.p.scalar**2
    size = c.op("Abs", c.x[0])
    near = c.op("Mul", c.op("Mul", c.x[0], c.x[0]), c.const(0.5 * squared))
    far = c.op("Sub", size, c.const(0.5 / squared))
    return c.op("Where", c.op("Less", size, c.const(1 / squared)), near, far)


@converter("_contrib_quadratic")
def _quadratic(c: Call) -> str:
    inner = c.op("Add", c.op("Mul", c.x[0], c.const(c.p.a)), c.const(c.p.b))
    return c.op("Add", c.op("Mul", inner, c.x[0]), c.const(c.p.c))


@converter("Dropout")
def _dropout(c: Call) -> str:
    if c.p.mode == "always":
        raise c.refuse("mode 'always' has no equivalent, because ONNX models run in inference")
    return c.x[0]
