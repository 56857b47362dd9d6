"""Functions of each element: arithmetic, comparisons, mathematics."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as onp

from .. import _core
from ..base import NotSupportedError, TypeError_, ValueError_
from .arguments import as_array, as_real, is_real, official, real_array, set_name, store
from .creation import full_like, ones_like, zeros_like
from .manipulation import expand_to
from .ndarray import attach, ndarray

__all__ = [
    "around", "clip", "divmod", "exp2", "fabs", "float_power", "heaviside", "imag", "isneginf",
    "isposinf", "ldexp", "logaddexp2", "modf", "nan_to_num", "real", "round", "round_",
    "sinc",
]  # fmt: skip

_copy = _core.op("_copy")
_clip = _core.op("clip")
_where = _core.op("where")

_core.attach_numpy_signs(ndarray)

# Options of official NumPy's functions; other values than these defaults are not supported.
_DEFAULTS = {"casting": "same_kind", "order": "K", "dtype": None, "subok": True}
_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def _finish(result: Any, out: Any, where: Any, options: dict[str, Any], who: str) -> ndarray:
    """Apply ``out=`` and ``where=`` of a function, and check its other options."""
    for option, value in options.items():
        if option not in _DEFAULTS:
            raise TypeError_(f"{who}() got an unexpected keyword argument {option!r}")
        if option == "dtype" and value is not None:
            onp.dtype(value)  # raises TypeError if it is not a dtype
        if option == "casting" and value not in _CASTINGS:
            raise TypeError_(f"{who}: casting must be one of {_CASTINGS}, got {value!r}")
        if value != _DEFAULTS[option]:
            raise NotSupportedError(f"{who}: {option} must be {_DEFAULTS[option]!r}, got {value!r}")
    if where is not True:
        if not isinstance(where, ndarray):
            raise NotSupportedError(
                f"{who}: where must be True or an mx.np.ndarray, got {type(where).__name__}"
            )
        other = zeros_like(result) if out is None else out.astype(result.dtype)
        result = pick_where(where, result, other)
    return store(result, out, who)


def pick_where(condition: Any, kept: Any, other: Any) -> Any:
    """Return ``kept`` where the condition holds, else ``other``, an array of the same shape."""
    if not isinstance(condition, ndarray):
        return kept if condition else other
    return _where(expand_to(condition, kept.shape), kept, other)


_PARAMETERS = """

    Parameters
    ----------
    {operands} : ndarray or number
        Arrays broadcast together; numbers alone give official NumPy's result.
    out : ndarray, optional
        Array of the result's shape that receives the result, if its dtype holds it.
    where : ndarray of bool, optional
        Where it is false, the result is the value of ``out``, or 0 without ``out``.

    Returns
    -------
    ndarray
    """


def _of_numbers(name: str, values: tuple[Any, ...]) -> Any:
    """Return official NumPy's result for Python scalars; raise TypeError for all others."""
    for value in values:
        if not isinstance(value, (int, float, complex, onp.generic)):
            as_array(value, name)
            raise TypeError_(
                f"{name}: x must be an mx.np array or a number, got {type(value).__name__}"
            )
    return getattr(onp, name)(*values)


def _unary(name: str, op: str, doc: str) -> Any:
    call = _core.op(op)

    def function(x: Any, out: Any = None, where: Any = True, **kwargs: Any) -> Any:
        if not isinstance(x, ndarray):
            return _of_numbers(name, (x,))
        result = call(x)
        if out is None and where is True and not kwargs:
            return result
        return _finish(result, out, where, kwargs, name)

    return set_name(function, name, doc + _PARAMETERS.format(operands="x"))


def _composed(name: str, compute: Callable[..., Any], doc: str) -> Any:
    """Make a function of one or two operands, after which ``out`` may be given by position."""
    count = compute.__code__.co_argcount

    def function(*operands: Any, out: Any = None, where: Any = True, **kwargs: Any) -> Any:
        if len(operands) == count + 1 and out is None:
            *operands, out = operands  # type: ignore[assignment]
        if len(operands) != count:
            raise TypeError_(f"{name}() takes {count} operands, got {len(operands)}")
        if not any(isinstance(x, ndarray) for x in operands):
            return _of_numbers(name, tuple(operands))
        return _finish(compute(*operands), out, where, kwargs, name)

    operands = "x1, x2" if count > 1 else "x"
    return set_name(function, name, doc + _PARAMETERS.format(operands=operands))


def _binary(name: str, sign: str, doc: str) -> Any:
    call, reflected = _core.numpy_operators(sign)

    def function(x1: Any, x2: Any, out: Any = None, where: Any = True, **kwargs: Any) -> Any:
        if isinstance(x1, ndarray):
            result = call(x1, x2)
        elif isinstance(x2, ndarray):
            result = reflected(x2, x1)
        else:
            return _of_numbers(name, (x1, x2))
        if out is None and where is True and not kwargs:
            return result
        return _finish(result, out, where, kwargs, name)

    return set_name(function, name, doc + _PARAMETERS.format(operands="x1, x2"))


_UNARY = {
    "absolute": ("abs", "Return the absolute value."),
    "arccos": ("arccos", "Return the inverse cosine."),
    "arccosh": ("arccosh", "Return the inverse hyperbolic cosine."),
    "arcsin": ("arcsin", "Return the inverse sine."),
    "arcsinh": ("arcsinh", "Return the inverse hyperbolic sine."),
    "arctan": ("arctan", "Return the inverse tangent."),
    "arctanh": ("arctanh", "Return the inverse hyperbolic tangent."),
    "cbrt": ("cbrt", "Return the cube root."),
    "ceil": ("ceil", "Return the smallest integer not below x."),
    "conjugate": ("_copy", "Return the complex conjugate, which is x."),
    "cos": ("cos", "Return the cosine of x in radians."),
    "cosh": ("cosh", "Return the hyperbolic cosine."),
    "degrees": ("degrees", "Convert radians to degrees."),
    "exp": ("exp", "Return e to the power x."),
    "expm1": ("expm1", "Return exp(x) - 1, without cancellation near 0."),
    "fix": ("fix", "Return the integer part."),
    "floor": ("floor", "Return the largest integer not above x."),
    "invert": ("_npi_bitwise_not", "Return x with all bits inverted; bools are negated."),
    "isfinite": ("_npi_isfinite", "Return whether x is neither NaN nor infinite."),
    "isinf": ("_npi_isinf", "Return whether x is infinite."),
    "isnan": ("_npi_isnan", "Return whether x is NaN."),
    "log": ("log", "Return the natural logarithm."),
    "log10": ("log10", "Return the logarithm to base 10."),
    "log1p": ("log1p", "Return log(1 + x), without cancellation near 0."),
    "log2": ("log2", "Return the logarithm to base 2."),
    "logical_not": ("_npi_logical_not", "Return whether x is 0."),
    "negative": ("negative", "Return -x."),
    "positive": ("_copy", "Return a copy of x."),
    "radians": ("radians", "Convert degrees to radians."),
    "reciprocal": ("reciprocal", "Return 1 / x; integers give float32."),
    "rint": ("_npi_rint", "Return the nearest integer; halves go to even integers."),
    "sign": ("sign", "Return -1, 0 or 1 by the sign of x; NaN for NaN."),
    "signbit": ("_npi_signbit", "Return whether x has a minus sign."),
    "sin": ("sin", "Return the sine of x in radians."),
    "sinh": ("sinh", "Return the hyperbolic sine."),
    "sqrt": ("sqrt", "Return the square root."),
    "square": ("square", "Return x * x."),
    "tan": ("tan", "Return the tangent of x in radians."),
    "tanh": ("tanh", "Return the hyperbolic tangent."),
    "trunc": ("trunc", "Return the integer part."),
}
_BINARY = {
    "add": ("add", "Return x1 + x2."),
    "arctan2": ("arctan2", "Return the angle of the point (x2, x1) in radians."),
    "bitwise_and": ("and", "Return the bits that are set in x1 and in x2."),
    "bitwise_or": ("or", "Return the bits that are set in x1 or in x2."),
    "bitwise_xor": ("xor", "Return the bits that are set in only one of x1 and x2."),
    "copysign": ("copysign", "Return x1 with the sign of x2."),
    "divide": ("truediv", "Return x1 / x2; integers give float32."),
    "equal": ("eq", "Return whether x1 == x2."),
    "floor_divide": ("floordiv", "Return x1 / x2 rounded down."),
    "fmax": ("fmax", "Return the larger value, ignoring NaN unless both are NaN."),
    "fmin": ("fmin", "Return the smaller value, ignoring NaN unless both are NaN."),
    "fmod": ("fmod", "Return the remainder of x1 / x2 with the sign of x1."),
    "gcd": ("gcd", "Return the greatest common divisor of integers."),
    "greater": ("gt", "Return whether x1 > x2."),
    "greater_equal": ("ge", "Return whether x1 >= x2."),
    "hypot": ("hypot", "Return sqrt(x1**2 + x2**2)."),
    "lcm": ("lcm", "Return the least common multiple of integers."),
    "left_shift": ("lshift", "Return the bits of x1 shifted left by x2."),
    "less": ("lt", "Return whether x1 < x2."),
    "less_equal": ("le", "Return whether x1 <= x2."),
    "logaddexp": ("logaddexp", "Return log(exp(x1) + exp(x2))."),
    "logical_and": ("logical_and", "Return whether neither x1 nor x2 is 0."),
    "logical_or": ("logical_or", "Return whether x1 or x2 is not 0."),
    "logical_xor": ("logical_xor", "Return whether only one of x1 and x2 is 0."),
    "maximum": ("maximum", "Return the larger value; NaN if one is NaN."),
    "minimum": ("minimum", "Return the smaller value; NaN if one is NaN."),
    "multiply": ("mul", "Return x1 * x2."),
    "nextafter": ("nextafter", "Return the next float after x1 in the direction of x2."),
    "not_equal": ("ne", "Return whether x1 != x2."),
    "power": ("pow", "Return x1 to the power x2."),
    "remainder": ("mod", "Return the remainder of x1 / x2 with the sign of x2."),
    "right_shift": ("rshift", "Return the bits of x1 shifted right by x2."),
    "subtract": ("sub", "Return x1 - x2."),
}
_functions: dict[str, Any] = {
    **{name: _unary(name, *row) for name, row in _UNARY.items()},
    **{name: _binary(name, *row) for name, row in _BINARY.items()},
}
_ALIASES = {
    "abs": "absolute",
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_not": "invert",
    "bitwise_right_shift": "right_shift",
    "conj": "conjugate",
    "deg2rad": "radians",
    "mod": "remainder",
    "pow": "power",
    "rad2deg": "degrees",
    "true_divide": "divide",
}
_functions.update({alias: _functions[name] for alias, name in _ALIASES.items()})
globals().update(_functions)
__all__ += sorted(_functions)
_f = _functions


def _as_double(x: Any) -> Any:
    return x.astype("float64") if isinstance(x, ndarray) else x


def _heaviside(x: Any, at_zero: Any) -> Any:
    ones = ones_like(as_real(_f["add"](x, at_zero)))
    left, right = ones * x, ones * at_zero
    steps = pick_where(_f["isnan"](left), left, (left > 0).astype(left.dtype))
    return pick_where(left == 0, right, steps)


def modf(x: ndarray) -> tuple[Any, Any]:
    """Return the fractional and the integer parts, both with the sign of x."""
    x = real_array(x, "modf")
    whole = _f["trunc"](x)
    infinite = _f["isinf"](x)
    return _f["copysign"](pick_where(infinite, zeros_like(x), x - whole), x), whole


def divmod(x1: Any, x2: Any) -> tuple[Any, Any]:  # noqa: A001 - NumPy's name
    """Return (x1 // x2, x1 % x2)."""
    return _f["floor_divide"](x1, x2), _f["remainder"](x1, x2)


def _sinc(x: Any) -> Any:
    scaled = as_real(x) * math.pi
    zero = _f["equal"](scaled, 0)
    safe = pick_where(zero, full_like(scaled, 1.0), scaled)
    return pick_where(zero, full_like(scaled, 1.0), _f["sin"](safe) / safe)


_LN2 = math.log(2.0)
exp2 = _composed("exp2", lambda x: 2.0 ** as_real(x), "Return 2 to the power x.")
fabs = _composed("fabs", lambda x: _f["absolute"](as_real(x)), "Return the absolute value.")
float_power = _composed(
    "float_power",
    lambda a, b: _f["power"](_as_double(a), _as_double(b)),
    "Return x1 to the power x2 in float64.",
)
heaviside = _composed("heaviside", _heaviside, "Return 0 if x1 < 0, x2 if x1 == 0, else 1.")
isneginf = _composed("isneginf", lambda x: x == -math.inf, "Return whether x is -infinity.")
isposinf = _composed("isposinf", lambda x: x == math.inf, "Return whether x is +infinity.")
ldexp = _composed("ldexp", lambda a, b: as_real(a) * 2.0 ** as_real(b), "Return x1 * 2**x2.")
logaddexp2 = _composed(
    "logaddexp2",
    lambda a, b: _f["logaddexp"](a * _LN2, b * _LN2) / _LN2,
    "Return log2(2**x1 + 2**x2).",
)
sinc = _composed("sinc", _sinc, "Return sin(pi x) / (pi x); 1 at 0.")


def real(val: Any) -> Any:
    """Return the real part, which is the array itself."""
    return val if isinstance(val, ndarray) else _of_numbers("real", (val,))


def imag(val: Any) -> Any:
    """Return the imaginary part: zeros."""
    return zeros_like(val) if isinstance(val, ndarray) else _of_numbers("imag", (val,))


def around(x: Any, decimals: int = 0, out: Any = None, **kwargs: Any) -> Any:
    """Return x rounded to a number of decimals; halves go to even digits.

    Negative ``decimals`` round to tens, hundreds, ...
    """
    if not isinstance(x, ndarray):
        return _of_numbers("around", (x, decimals))
    if not is_real(x.dtype):
        if decimals >= 0 or x.dtype == onp.bool_:
            return _finish(_copy(x), out, True, kwargs, "around")
        scale = 10.0**-decimals
        whole = _f["rint"](x.astype("float64") / scale) * scale
        return _finish(whole.astype(x.dtype), out, True, kwargs, "around")
    scale = 10.0**decimals
    rounded = _f["rint"](x) if decimals == 0 else _f["rint"](x * scale) / scale
    return _finish(rounded, out, True, kwargs, "around")


round = round_ = around  # noqa: A001 - NumPy's name


def _is_fraction(bound: Any) -> bool:
    return isinstance(bound, (float, onp.floating)) and bound != math.inf and bound != -math.inf


def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,  # noqa: A002 - NumPy's name
    max: Any = None,  # noqa: A002
) -> Any:
    """Return a with values below a_min set to a_min, and values above a_max to a_max; NaN stays.

    Limits are numbers or arrays that broadcast. A fraction as limit makes integers float32. None
    leaves a side without limit; ValueError is raised if both are None.
    """
    low, high = a_min if min is None else min, a_max if max is None else max
    if low is None and high is None:
        raise ValueError_("clip: a_min or a_max must be given, got None for both")
    if not isinstance(a, ndarray):
        return onp.clip(_of_numbers("positive", (a,)), low, high)
    arrays = isinstance(low, ndarray) or isinstance(high, ndarray)
    if not is_real(a.dtype) and (_is_fraction(low) or _is_fraction(high)):
        a = as_real(a)
    if not arrays and low is not None and high is not None and low <= high:
        return store(_clip(a, a_min=low, a_max=high), out, "clip")
    result = a
    if low is not None:
        result = _f["maximum"](result, low)
    if high is not None:
        result = _f["minimum"](result, high)
    return store(result, out, "clip")


def nan_to_num(
    x: Any,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    **kwargs: Any,
) -> Any:
    """Return x with ``nan`` for NaN, and ``posinf`` and ``neginf`` for infinities.

    By default, infinities become the largest and the smallest finite number of the dtype. With
    ``copy=False``, x itself is changed and returned.
    """
    if not isinstance(x, ndarray):
        return onp.nan_to_num(_of_numbers("positive", (x,)), copy, nan, posinf, neginf)
    result: Any = x
    if is_real(x.dtype):
        limit = float(onp.finfo(official(x.dtype)).max)
        high, low = limit if posinf is None else posinf, -limit if neginf is None else neginf
        for found, value in ((_f["isnan"](x), nan), (x == math.inf, high), (x == -math.inf, low)):
            result = pick_where(found, full_like(x, value), result)
    if not copy and not x._traced:  # a graph cannot change its inputs
        return store(result, x, "nan_to_num")
    return _finish(_copy(x) if result is x else result, kwargs.pop("out", None), True, kwargs,
                   "nan_to_num")  # fmt: skip


def _divmod(self: ndarray, other: Any) -> Any:
    return divmod(self, other)


def _rdivmod(self: ndarray, other: Any) -> Any:
    return divmod(other, self)


def _method(name: str) -> Any:
    function = _f[name]

    def method(self: ndarray) -> Any:
        return function(self)

    return set_name(method, name, function.__doc__)


def _round_method(self: ndarray, decimals: int | None = 0, out: Any = None, **kwargs: Any) -> Any:
    """Return the array rounded to a number of decimals."""
    return around(self, decimals or 0, out, **kwargs)


def _clip_method(
    self: ndarray,
    min: Any = None,
    max: Any = None,
    out: Any = None,  # noqa: A002
) -> Any:
    """Return the array limited to [min, max]."""
    return clip(self, min, max, out)


attach(
    {
        "__abs__": _method("absolute"),
        "__ceil__": _method("ceil"),
        "__divmod__": _divmod,
        "__floor__": _method("floor"),
        "__invert__": _method("invert"),
        "__rdivmod__": _rdivmod,
        "__round__": _round_method,
        "__trunc__": _method("trunc"),
        "clip": _clip_method,
        "conj": _method("conjugate"),
        "imag": property(imag),
        "real": property(real),
        "round": _round_method,
    }
)
