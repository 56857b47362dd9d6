"""Symbols without inputs, and functions of two symbols or numbers (MXNet 1.x: ``mxnet.symbol``)."""

from __future__ import annotations

import builtins
from typing import Any, Callable

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
    result: Symbol = compose(op, (), {**params, **kwargs})
    return result


def zeros(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Return a symbol of zeros; 0 in shape stands for a dimension that inference finds.

    Parameters
    ----------
    shape : int or tuple of int
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
    """Return evenly spaced values in [start, stop), each ``repeat`` times."""
    if stop is None:
        start, stop = 0, start
    params = {"start": start, "stop": stop, "step": step, "repeat": repeat}
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
    """Return a matrix with ones on the k-th diagonal (M 0: square)."""
    return _made("_eye", {"N": N, "M": M, "k": k, "dtype": dtype or "float32"}, kwargs)


def _binary(
    name: str,
    on_symbols: str,
    on_right_number: str,
    on_left_number: str,
    number: Callable[[Any, Any], Any],
    doc: str,
) -> Callable[[Any, Any], Any]:
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
                return number(left, right)
        raise TypeError_(f"{name}: types ({type(left)}, {type(right)}) not supported")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


pow = _binary(  # noqa: A001 - name of 1.x
    "pow", "_Power", "_PowerScalar", "_RPowerScalar", builtins.pow, "Return left ** right."
)
power = pow
maximum = _binary(
    "maximum", "_Maximum", "_MaximumScalar", "_MaximumScalar", max, "Return the larger one."
)
minimum = _binary(
    "minimum", "_Minimum", "_MinimumScalar", "_MinimumScalar", min, "Return the smaller one."
)
hypot = _binary(
    "hypot", "_Hypot", "_HypotScalar", "_HypotScalar", lambda a, b: (a * a + b * b) ** 0.5,
    "Return sqrt(left ** 2 + right ** 2).",
)  # fmt: skip


def _broadcasting(name: str, op: str, scalar: str, reflected: str, doc: str) -> Callable[..., Any]:
    return _binary(name, op, scalar, reflected, lambda a, b: _numbers(name), doc)


def _numbers(name: str) -> Any:
    raise TypeError_(f"{name}: two numbers given, at least one Symbol expected")


add = _broadcasting(
    "add", "broadcast_add", "_PlusScalar", "_PlusScalar", "Return lhs + rhs with broadcasting."
)
subtract = _broadcasting(
    "subtract", "broadcast_sub", "_MinusScalar", "_RMinusScalar", "Return lhs - rhs."
)
multiply = _broadcasting(
    "multiply", "broadcast_mul", "_MulScalar", "_MulScalar", "Return lhs * rhs."
)
divide = true_divide = _broadcasting(
    "divide", "broadcast_div", "_DivScalar", "_RDivScalar", "Return lhs / rhs."
)
modulo = _broadcasting("modulo", "broadcast_mod", "_ModScalar", "_RModScalar", "Return lhs % rhs.")
equal = _broadcasting(
    "equal", "broadcast_equal", "_equal_scalar", "_equal_scalar", "Return 1 where lhs == rhs."
)
not_equal = _broadcasting(
    "not_equal", "broadcast_not_equal", "_not_equal_scalar", "_not_equal_scalar",
    "Return 1 where lhs != rhs.",
)  # fmt: skip
greater = _broadcasting(
    "greater", "broadcast_greater", "_greater_scalar", "_lesser_scalar",
    "Return 1 where lhs > rhs.",
)  # fmt: skip
greater_equal = _broadcasting(
    "greater_equal", "broadcast_greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar",
    "Return 1 where lhs >= rhs.",
)  # fmt: skip
lesser = _broadcasting(
    "lesser", "broadcast_lesser", "_lesser_scalar", "_greater_scalar", "Return 1 where lhs < rhs."
)
lesser_equal = _broadcasting(
    "lesser_equal", "broadcast_lesser_equal", "_lesser_equal_scalar", "_greater_equal_scalar",
    "Return 1 where lhs <= rhs.",
)  # fmt: skip
logical_and = _broadcasting(
    "logical_and", "broadcast_logical_and", "_logical_and_scalar", "_logical_and_scalar",
    "Return 1 where both are non-zero.",
)  # fmt: skip
logical_or = _broadcasting(
    "logical_or", "broadcast_logical_or", "_logical_or_scalar", "_logical_or_scalar",
    "Return 1 where one is non-zero.",
)  # fmt: skip
logical_xor = _broadcasting(
    "logical_xor", "broadcast_logical_xor", "_logical_xor_scalar", "_logical_xor_scalar",
    "Return 1 where exactly one is non-zero.",
)  # fmt: skip


def concatenate(arrays: list[Symbol], axis: int = 0, **kwargs: Any) -> Symbol:
    """Join symbols along an existing axis."""
    result: Symbol = compose("concat", tuple(arrays), {"dim": axis, **kwargs})
    return result


def moveaxis(tensor: Symbol, source: Any, destination: Any) -> Symbol:
    """Refused: the rank of a symbol is not known; use transpose."""
    raise TypeError_("moveaxis: the rank of a Symbol is not known; use transpose with axes")


def split_v2(
    ary: Symbol, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False
) -> Symbol:
    """Split along an axis into equal sections, or at given indices.

    Parameters
    ----------
    ary : Symbol
    indices_or_sections : int or tuple of int
    axis : int
    squeeze_axis : bool
    """
    params: dict[str, Any] = {"axis": axis, "squeeze_axis": squeeze_axis}
    if isinstance(indices_or_sections, int):
        params["sections"] = indices_or_sections
        params["indices"] = ()
    else:
        params["indices"] = (0, *indices_or_sections)
    result: Symbol = compose("_split_v2", (ary,), params)
    return result
