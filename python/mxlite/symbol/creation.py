"""Symbols without inputs, and functions of two symbols or numbers (MXNet 1.x: ``mxnet.symbol``)."""

from __future__ import annotations

import builtins
from typing import Any, Callable

from .. import _core
from .._core import compose
from ..base import TypeError_
from .symbol import Symbol

__all__ = [
    "add", "arange", "concatenate", "divide", "equal", "eye", "full", "greater", "greater_equal",
    "hypot", "lesser", "lesser_equal", "linspace", "logical_and", "logical_or",
    "logical_xor", "maximum", "minimum", "modulo", "moveaxis", "multiply", "not_equal", "ones",
    "pow", "power", "split_v2", "subtract", "true_divide", "zeros",
]  # fmt: skip


def _made(op: str, params: dict[str, Any], kwargs: dict[str, Any]) -> Symbol:
    return compose(op, (), {**params, **kwargs})


def zeros(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Return a symbol of zeros.

    Parameters
    ----------
    shape : int or tuple of int
        0 or -1 for a dimension, None or () for a shape, that is inferred.
    dtype : dtype, optional
        Default float32.
    """
    return _made("_zeros", {"shape": shape, "dtype": dtype or "float32"}, kwargs)


def ones(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Return a symbol of ones; see `zeros`."""
    return _made("_ones", {"shape": shape, "dtype": dtype or "float32"}, kwargs)


def full(shape: Any, val: float, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Return a symbol filled with one value; see `zeros`."""
    params = {"shape": shape, "dtype": dtype or "float32", "value": float(val)}
    return _made("_full", params, kwargs)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    name: str | None = None,
    dtype: Any = None,
) -> Symbol:
    """Return evenly spaced values in [start, stop), each ``repeat`` times.

    Without stop, the values are in [0, start). With infer_range=True and without stop, they begin
    at start, and their number is inferred from the symbols that use the result.
    """
    params = {"start": start, "stop": stop, "step": step, "repeat": repeat}
    if infer_range:
        params["infer_range"] = True
    return _made("_arange", {**params, "dtype": dtype or "float32"}, {"name": name})


def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    name: str | None = None,
    dtype: Any = None,
) -> Symbol:
    """Return num evenly spaced values from start to stop."""
    params = {"start": start, "stop": stop, "num": num, "endpoint": endpoint}
    return _made("_linspace", {**params, "dtype": dtype or "float32"}, {"name": name})


def eye(N: int, M: int = 0, k: int = 0, dtype: Any = None, **kwargs: Any) -> Symbol:  # noqa: N803
    """Return a matrix with ones on the k-th diagonal; square if M is 0."""
    return _made("_eye", {"N": N, "M": M, "k": k, "dtype": dtype or "float32"}, kwargs)


_OPERANDS = """

    Parameters
    ----------
    left, right : Symbol or number
        Not two numbers, unless MXNet 1.x accepts them.

    Returns
    -------
    Symbol, or a number for two numbers
    """


def _binary(
    name: str,
    arithmetic: str,
    doc: str,
    number: Callable[[Any, Any], Any] | None = None,
) -> Callable[..., Any]:
    """Return a function of two symbols or numbers.

    Two symbols are broadcast, unless the function also accepts two numbers: as in 1.x, such
    functions compose operators for symbols of equal shape.
    """
    alike, broadcast, on_right_number, on_left_number = _core.arithmetic(arithmetic)
    on_symbols = broadcast if number is None else alike

    def function(left: Any, right: Any) -> Any:
        if isinstance(left, Symbol):
            if isinstance(right, Symbol):
                return compose(on_symbols, (left, right), {})
            if isinstance(right, (int, float)):
                return compose(on_right_number, (left,), {"scalar": right})
        elif isinstance(left, (int, float)):
            if isinstance(right, Symbol):
                return compose(on_left_number, (right,), {"scalar": left})
            if isinstance(right, (int, float)):
                if number is None:
                    raise TypeError_(f"{name}: lhs or rhs must be a Symbol, got two numbers")
                return number(left, right)
        raise TypeError_(f"{name}: types ({type(left)}, {type(right)}) not supported")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc + _OPERANDS
    return function


_power = _binary("pow", "pow", "Return left ** right.", builtins.pow)


def pow(base: Any, exp: Any) -> Any:  # noqa: A001 - name of 1.x
    """Return base ** exp."""
    return _power(base, exp)


power = pow
maximum = _binary("maximum", "maximum", "Return the larger one.", max)
minimum = _binary("minimum", "minimum", "Return the smaller one.", min)
hypot = _binary(
    "hypot",
    "hypot",
    "Return sqrt(left ** 2 + right ** 2).",
    lambda a, b: (a * a + b * b) ** 0.5,
)
add = _binary("add", "add", "Return lhs + rhs with broadcasting.")
subtract = _binary("subtract", "sub", "Return lhs - rhs.")
multiply = _binary("multiply", "mul", "Return lhs * rhs.")
divide = true_divide = _binary("divide", "truediv", "Return lhs / rhs.")
modulo = _binary("modulo", "mod", "Return lhs % rhs.")
equal = _binary("equal", "eq", "Return 1 where lhs == rhs.")
not_equal = _binary("not_equal", "ne", "Return 1 where lhs != rhs.")
greater = _binary("greater", "gt", "Return 1 where lhs > rhs.")
greater_equal = _binary("greater_equal", "ge", "Return 1 where lhs >= rhs.")
lesser = _binary("lesser", "lt", "Return 1 where lhs < rhs.")
lesser_equal = _binary("lesser_equal", "le", "Return 1 where lhs <= rhs.")
logical_and = _binary("logical_and", "logical_and", "Return 1 where both are non-zero.")
logical_or = _binary("logical_or", "logical_or", "Return 1 where one is non-zero.")
logical_xor = _binary("logical_xor", "logical_xor", "Return 1 where exactly one is non-zero.")


def concatenate(arrays: list[Symbol], axis: int = 0, **kwargs: Any) -> Symbol:
    """Join symbols along an existing axis."""
    return compose("concat", tuple(arrays), {"dim": axis, **kwargs})


def moveaxis(tensor: Symbol, source: Any, destination: Any) -> Symbol:
    """Raise TypeError, because a symbol's number of axes is unknown; use transpose instead."""
    raise TypeError_("moveaxis: the rank of a Symbol is not known; use transpose with axes")


def split_v2(
    ary: Symbol, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False
) -> Symbol:
    """Split along an axis into a number of equal sections, or at a tuple of indices."""
    params: dict[str, Any] = {"axis": axis, "squeeze_axis": squeeze_axis}
    if isinstance(indices_or_sections, int):
        params["sections"] = indices_or_sections
        params["indices"] = ()
    else:
        params["indices"] = (0, *indices_or_sections)
    return compose("_split_v2", (ary,), params)
