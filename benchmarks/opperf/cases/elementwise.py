"""Unary, binary and activation operators."""

from __future__ import annotations

from .case import Case, case, positive, unit

_BIG = (1024, 1024)

# Name in mxlite to the expression in PyTorch, where it is not torch.<name>(data).
_UNARY = {
    "abs": "", "sign": "", "rint": "torch.round(data)", "ceil": "", "floor": "", "trunc": "",
    "fix": "torch.fix(data)", "square": "", "exp": "", "expm1": "", "sin": "", "cos": "",
    "tan": "", "arctan": "", "sinh": "", "cosh": "", "tanh": "", "arcsinh": "",
    "degrees": "torch.rad2deg(data)", "radians": "torch.deg2rad(data)", "erf": "",
    "reciprocal": "", "negative": "", "relu": "", "sigmoid": "",
    "softsign": "F.softsign(data)", "hard_sigmoid": "torch.clamp(0.2 * data + 0.5, 0, 1)",
    "logical_not": "torch.logical_not(data).float()", "round": "torch.round(data)",
    "identity": "data.clone()", "zeros_like": "", "ones_like": "",
}  # fmt: skip
_NO_GRADIENT = {
    "sign", "rint", "ceil", "floor", "trunc", "fix", "logical_not", "round", "zeros_like",
    "ones_like",
}  # fmt: skip
_POSITIVE = {
    "sqrt": "", "rsqrt": "", "log": "", "log2": "", "log10": "", "log1p": "",
    "cbrt": "data.pow(1 / 3)", "rcbrt": "data.pow(-1 / 3)", "gammaln": "torch.lgamma(data)",
    "gamma": "torch.exp(torch.lgamma(data))",
}  # fmt: skip
_UNIT = {"arcsin": "", "arccos": "", "arctanh": "", "erfinv": ""}
_BINARY = {
    "add": "lhs + rhs", "sub": "lhs - rhs", "mul": "lhs * rhs", "div": "lhs / rhs",
    "maximum": "torch.maximum(lhs, rhs)", "minimum": "torch.minimum(lhs, rhs)",
    "hypot": "torch.hypot(lhs, rhs)", "mod": "torch.remainder(lhs, rhs)",
    "power": "torch.pow(lhs, rhs)", "equal": "(lhs == rhs).float()",
    "not_equal": "(lhs != rhs).float()", "greater": "(lhs > rhs).float()",
    "greater_equal": "(lhs >= rhs).float()", "lesser": "(lhs < rhs).float()",
    "lesser_equal": "(lhs <= rhs).float()",
    "logical_and": "torch.logical_and(lhs, rhs).float()",
    "logical_or": "torch.logical_or(lhs, rhs).float()",
    "logical_xor": "torch.logical_xor(lhs, rhs).float()",
}  # fmt: skip
_BINARY_GRADIENT = {"add", "sub", "mul", "div", "maximum", "minimum", "hypot", "power"}


def _unary() -> list[Case]:
    rows = []
    for name, torch in _UNARY.items():
        grad = "" if name in _NO_GRADIENT else "data"
        rows.append(case(name, "unary", torch or f"torch.{name}(data)", grad=grad, data=_BIG))
    rows.append(
        case("arccosh", "unary", "torch.arccosh(data + 1)", data=positive(*_BIG), grad="data")
    )
    for table, make in ((_POSITIVE, positive), (_UNIT, unit)):
        for name, torch in table.items():
            expression = torch or f"torch.{name}(data)"
            rows.append(case(name, "unary", expression, grad="data", data=make(*_BIG)))
    rows.append(
        case("clip", "unary", "torch.clamp(data, -1, 1)", grad="data", data=_BIG,
             params={"a_min": -1.0, "a_max": 1.0})
    )  # fmt: skip
    rows.append(case("cast", "unary", "data.double()", data=_BIG, params={"dtype": "float64"}))
    return rows


def _binary() -> list[Case]:
    rows = []
    for name, torch in _BINARY.items():
        grad = "lhs rhs" if name in _BINARY_GRADIENT else ""
        pair = {"lhs": positive(*_BIG), "rhs": positive(*_BIG)}
        rows.append(case(f"broadcast_{name}", "binary", torch, grad=grad, **pair))
        row = {"lhs": positive(*_BIG), "rhs": positive(1024, 1)}
        rows.append(case(f"broadcast_{name}", "binary broadcast", torch, grad=grad, **row))
    for name in ("add", "sub", "mul", "div"):
        pair = {"lhs": positive(*_BIG), "rhs": positive(*_BIG)}
        rows.append(case(f"elemwise_{name}", "binary", _BINARY[name], grad="lhs rhs", **pair))
    rows.append(case("add_n", "binary", "a + b + c", grad="a b c", a=_BIG, b=_BIG, c=_BIG))
    rows.append(
        case("where", "binary", "torch.where(condition, x, y)",
             setup="condition = (condition > 1).astype('float32')",
             torch_setup="condition = condition.bool()", condition=positive(*_BIG), x=_BIG, y=_BIG,
             grad="x y")
    )  # fmt: skip
    return rows


def _activation() -> list[Case]:
    data = (64, 64, 32, 32)
    names = {"relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "softrelu": "softplus",
             "softsign": "softsign"}  # fmt: skip
    rows = [
        case("Activation", "activation", f"F.{torch}(data)", grad="data", data=data,
             params={"act_type": name})
        for name, torch in names.items()
    ]  # fmt: skip
    leaky = {"leaky": "F.leaky_relu(data, 0.25)", "elu": "F.elu(data, 0.25)",
             "selu": "F.selu(data)", "gelu": "F.gelu(data)"}  # fmt: skip
    rows += [
        case("LeakyReLU", "activation", torch, grad="data", data=data, params={"act_type": name})
        for name, torch in leaky.items()
    ]
    rows += [
        case("LeakyReLU", "activation", "F.prelu(data, gamma)", grad="data gamma", data=data,
             gamma=(64,), params={"act_type": "prelu"}),
        case("softmax", "activation", "F.softmax(data, -1)", grad="data", data=_BIG),
        case("log_softmax", "activation", "F.log_softmax(data, -1)", grad="data", data=_BIG),
        case("softmin", "activation", "F.softmin(data, -1)", grad="data", data=_BIG),
        case("softmax", "activation", "F.softmax(data, 1)", grad="data", data=data,
             params={"axis": 1}),
    ]  # fmt: skip
    return rows


CASES = _unary() + _binary() + _activation()
