"""Converters of operators that work element by element."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import numpy as np

from ..package import onnx
from ..tables import UNARY
from .table import Node, Sizes, Value, converter, rows

__all__ = [
    "ACTIVATIONS",
    "activation",
    "binary",
    "broadcast_sizes",
    "dtype_of",
    "leading",
    "scalar",
]

_UNARY = {
    **{name: own for own, name in UNARY.items()},
    "Not": "logical_not",
    "IsNaN": "_contrib_isnan",
}

# Each activation has an operator of mxlite, fixed parameters of it, and those that ONNX's alpha
# and beta set, with their defaults.
ACTIVATIONS: dict[str, tuple[str, dict[str, Any], dict[str, float]]] = {
    **{name: (_UNARY[name], {}, {}) for name in ("Sigmoid", "Tanh", "Relu", "Softsign")},
    "Softplus": ("Activation", {"act_type": "softrelu"}, {}),
    "HardSigmoid": ("hard_sigmoid", {}, {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": ("LeakyReLU", {"act_type": "leaky"}, {"slope": 0.01}),
    "Elu": ("LeakyReLU", {"act_type": "elu"}, {"slope": 1.0}),
}

# mxlite's operator of two arrays, that of an array and a number, and that of a number and an array.
_BINARY = {
    "Add": ("broadcast_add", "_plus_scalar", "_plus_scalar"),
    "Sub": ("broadcast_sub", "_minus_scalar", "_rminus_scalar"),
    "Mul": ("broadcast_mul", "_mul_scalar", "_mul_scalar"),
    "Div": ("broadcast_div", "_div_scalar", "_rdiv_scalar"),
    "Pow": ("broadcast_power", "_power_scalar", "_rpower_scalar"),
    "Max": ("broadcast_maximum", "_maximum_scalar", "_maximum_scalar"),
    "Min": ("broadcast_minimum", "_minimum_scalar", "_minimum_scalar"),
    "Equal": ("broadcast_equal", "_equal_scalar", "_equal_scalar"),
    "Greater": ("broadcast_greater", "_greater_scalar", "_lesser_scalar"),
    "GreaterOrEqual": (
        "broadcast_greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar"
    ),
    "Less": ("broadcast_lesser", "_lesser_scalar", "_greater_scalar"),
    "LessOrEqual": ("broadcast_lesser_equal", "_lesser_equal_scalar", "_greater_equal_scalar"),
    "And": ("broadcast_logical_and", "_logical_and_scalar", "_logical_and_scalar"),
    "Or": ("broadcast_logical_or", "_logical_or_scalar", "_logical_or_scalar"),
    "Xor": ("broadcast_logical_xor", "_logical_xor_scalar", "_logical_xor_scalar"),
}  # fmt: skip
_TRUTHS = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor"}


def broadcast_sizes(*all_sizes: Sizes) -> Sizes:
    """Return the sizes of the result of NumPy's broadcasting."""
    first, second = (np.broadcast_shapes(*(s[which] for s in all_sizes)) for which in (0, 1))
    return first, second


def _number(value: Value, other: Value) -> float | None:
    """Return a constant that can be a parameter of an operator with the other value."""
    array = None if value.trainable else value.array
    if array is None or array.size != 1 or array.ndim > other.ndim:
        return None
    number = array.reshape(-1)[0]
    exact = abs(number) < 2**53 if array.dtype.kind in "iu" else True
    return float(number) if exact else None


def leading(n: Node, value: Value, ndim: int) -> Value:
    """Return a value with axes of length 1 in front."""
    if value.ndim >= ndim or value.ndim == 0:
        return value
    missing = (1,) * (ndim - value.ndim)
    return n.reshape(value, (missing + value.sizes[0], missing + value.sizes[1]))


def binary(n: Node, op: str, a: Value, b: Value) -> Value:
    """Return the result of one of ONNX's operators on two values."""
    array_op, right_op, left_op = _BINARY[op]
    sizes = broadcast_sizes(a.sizes, b.sizes)
    right, left = _number(b, a), _number(a, b)
    if right is not None:
        out = n.mx(right_op, a, sizes=sizes, scalar=right)
    elif left is not None:
        out = n.mx(left_op, b, sizes=sizes, scalar=left)
    else:
        ndim = len(sizes[0])
        out = n.mx(array_op, leading(n, a, ndim), leading(n, b, ndim), sizes=sizes)
    return n.cast(out, "bool" if op in _TRUTHS else a.dtype)


def scalar(n: Node, op: str, value: Value, number: float) -> Value:
    """Return the result of mxlite's operator ``_<op>_scalar``."""
    return n.mx(f"_{op}_scalar", value, sizes=value.sizes, scalar=float(number))


def _unary(op: str, n: Node) -> Value:
    out = n.mx(op, n.x[0], sizes=n.x[0].sizes)
    return n.cast(out, "bool" if n.op in ("Not", "IsNaN") else n.x[0].dtype)


def _of_two(n: Node) -> Value:
    base, other = n.x
    return binary(n, n.op, base, n.cast(other, base.dtype))  # Pow accepts two dtypes


def _of_many(n: Node) -> Value:
    return reduce(partial(binary, n, n.op), n.x)


rows((name, partial(_unary, op)) for name, op in _UNARY.items())
rows((name, _of_two) for name in _BINARY if name not in ("Max", "Min", "Div"))
rows((name, _of_many) for name in ("Max", "Min"))


@converter("Sum", "Mean")
def _sum(n: Node) -> Value:
    total = reduce(partial(binary, n, "Add"), n.x)
    if n.op == "Sum":
        return total
    return scalar(n, "div", total, len(n.x))


@converter("Div")
def _div(n: Node) -> Value:
    if n.x[0].dtype.startswith(("int", "uint")):  # ONNX rounds toward zero
        a, b = (n.cast(value, "float64") for value in n.x)
        return n.cast(n.mx("trunc", binary(n, "Div", a, b)), n.x[0].dtype)
    return binary(n, "Div", *n.x)


@converter("Mod")
def _mod(n: Node) -> Value:
    a, b = n.x
    sizes = broadcast_sizes(a.sizes, b.sizes)
    ndim = len(sizes[0])
    if n.get("fmod", 0):
        quotient = n.mx("trunc", binary(n, "Div", n.cast(a, "float64"), n.cast(b, "float64")))
        whole = binary(n, "Mul", quotient, n.cast(b, "float64"))
        return n.cast(binary(n, "Sub", n.cast(a, "float64"), whole), a.dtype)
    out = n.mx("_npi_mod", leading(n, a, ndim), leading(n, b, ndim), sizes=sizes)
    return n.cast(out, a.dtype)


@converter("Where")
def _where(n: Node) -> Value:
    sizes = broadcast_sizes(*(value.sizes for value in n.x))
    ndim = len(sizes[0])
    parts = [_expanded(n, leading(n, value, ndim), sizes) for value in n.x]
    return n.mx("where", *parts, sizes=sizes)


def _expanded(n: Node, value: Value, sizes: Sizes) -> Value:
    """Return a value repeated to the sizes."""
    if value.sizes == sizes:
        return value
    if sizes[0] == sizes[1]:
        return n.mx("broadcast_to", value, sizes=sizes, shape=sizes[0] or (1,))
    like = next((v for v in n.x if v.sizes == sizes), None)
    if like is not None:
        return n.mx("broadcast_like", value, like, sizes=sizes)
    ones = reduce(partial(binary, n, "Add"), [_zeros(n, v) for v in n.x])
    return n.mx("broadcast_like", value, ones, sizes=sizes)


def _zeros(n: Node, value: Value) -> Value:
    return n.cast(n.mx("zeros_like", value, sizes=value.sizes), "float32")


@converter("Identity", "Dropout")
def _identity(n: Node) -> list[Value]:
    out = n.x[0]
    if n.op == "Dropout" and n.has(2) and bool(np.any(n.array(2))):
        raise n.refuse("training_mode must be False, got True")
    if n.op == "Dropout" and n.count > 1:
        return [out, n.cast(n.mx("ones_like", out, sizes=out.sizes), "bool")]
    return [out]


@converter("Cast", "CastLike")
def _cast(n: Node) -> Value:
    if n.op == "CastLike":
        return n.cast(n.x[0], n.x[1].dtype)
    return n.cast(n.x[0], dtype_of(n.get("to")))


def dtype_of(number: int) -> str:
    """Return the dtype of one of ONNX's types."""
    return str(np.dtype(onnx().helper.tensor_dtype_to_np_dtype(number)).name)


@converter("Clip")
def _clip(n: Node) -> Value:
    limits = [n.array(1, "min"), n.array(2, "max")]
    low, high = (
        fallback if limit is None else float(limit.reshape(-1)[0])
        for limit, fallback in zip(limits, (-np.inf, np.inf))
    )
    if np.isinf(low) and np.isinf(high):
        return n.x[0]
    if np.isinf(high):
        return scalar(n, "maximum", n.x[0], low)
    if np.isinf(low):
        return scalar(n, "minimum", n.x[0], high)
    return n.mx("clip", n.x[0], sizes=n.x[0].sizes, a_min=min(low, high), a_max=high)


def activation(kind: str, alpha: float | None, beta: float | None) -> tuple[str, dict[str, Any]]:
    """Return mxlite's operator for an activation, and its parameters; None means the default."""
    op, params, named = ACTIVATIONS[kind]
    given = zip(named.items(), (alpha, beta))
    return op, {**params, **{key: usual if v is None else v for (key, usual), v in given}}


@converter("Softplus", "HardSigmoid", "LeakyRelu", "Elu")
def _activation(n: Node) -> Value:
    op, params = activation(n.op, n.get("alpha"), n.get("beta"))
    return n.mx(op, n.x[0], **params)


@converter("Celu")
def _celu(n: Node) -> Value:
    alpha = n.get("alpha", 1.0)
    small = n.mx("expm1", scalar(n, "mul", scalar(n, "minimum", n.x[0], 0), 1 / alpha))
    return binary(n, "Add", n.mx("relu", n.x[0]), scalar(n, "mul", small, alpha))


@converter("Selu")
def _selu(n: Node) -> Value:
    alpha, gamma = n.get("alpha", 1.6732632423543772), n.get("gamma", 1.0507009873554805)
    return scalar(n, "mul", n.mx("LeakyReLU", n.x[0], act_type="elu", slope=alpha), gamma)


@converter("PRelu")
def _prelu(n: Node) -> Value:
    x, slope = n.x
    negative = scalar(n, "minimum", x, 0)
    scaled = binary(n, "Mul", negative, slope)
    return binary(n, "Add", n.mx("relu", x, sizes=x.sizes), scaled)


@converter("ThresholdedRelu")
def _thresholded_relu(n: Node) -> Value:
    above = scalar(n, "greater", n.x[0], n.get("alpha", 1.0))
    return binary(n, "Mul", n.x[0], above)


@converter("HardSwish")
def _hard_swish(n: Node) -> Value:
    return binary(n, "Mul", n.x[0], n.mx("hard_sigmoid", n.x[0], alpha=1 / 6, beta=0.5))


@converter("Mish")
def _mish(n: Node) -> Value:
    grown = n.mx("tanh", n.mx("Activation", n.x[0], act_type="softrelu"))
    return binary(n, "Mul", n.x[0], grown)


@converter("Gelu")
def _gelu(n: Node) -> Value:
    kind = "gelu_tanh" if n.get("approximate", "none") == "tanh" else "gelu"
    return n.mx("LeakyReLU", n.x[0], act_type=kind)


@converter("Shrink")
def _shrink(n: Node) -> Value:
    bias, limit = n.get("bias", 0.0), n.get("lambd", 0.5)
    x = n.cast(n.x[0], "float32")
    above = scalar(n, "greater", x, limit)
    below = scalar(n, "lesser", x, -limit)
    parts = (binary(n, "Mul", above, scalar(n, "plus", x, -bias)),
             binary(n, "Mul", below, scalar(n, "plus", x, bias)))  # fmt: skip
    return n.cast(binary(n, "Add", *parts), n.x[0].dtype)


@converter("Round")
def _round(n: Node) -> Value:
    # Numbers whose fraction is one half are rounded to the even number, which is twice the rounded
    # half of the number.
    x = n.x[0]
    nearest = n.mx("floor", scalar(n, "plus", x, 0.5))
    even = scalar(n, "mul", n.mx("floor", scalar(n, "mul", scalar(n, "plus", x, 0.5), 0.5)), 2.0)
    fraction = binary(n, "Sub", x, n.mx("floor", x))
    is_half = scalar(n, "equal", fraction, 0.5)
    return n.mx("where", is_half, even, nearest)


@converter("IsInf")
def _is_inf(n: Node) -> Value:
    positive, negative = n.get("detect_positive", 1), n.get("detect_negative", 1)
    if positive and negative:
        return n.cast(n.mx("_contrib_isinf", n.x[0]), "bool")
    wanted = np.inf if positive else -np.inf
    if not positive and not negative:
        return n.cast(n.mx("zeros_like", n.x[0]), "bool")
    return n.cast(scalar(n, "equal", n.x[0], wanted), "bool")
