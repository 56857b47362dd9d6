"""Functions of two operands, arrays or numbers: ``mx.nd.add(a, 2)`` (MXNet 1.x names)."""

from __future__ import annotations

import operator
from typing import Any, Callable

from .. import _core
from .._core import NDArray
from ..base import TypeError_

Operand = Any  # NDArray or number
_PARAMETERS = """

    Parameters
    ----------
    lhs, rhs : NDArray or number
        Their shapes broadcast together.

    Returns
    -------
    NDArray, or a number for two numbers
    """

__all__ = [
    "add",
    "divide",
    "equal",
    "greater",
    "greater_equal",
    "lesser",
    "lesser_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "modulo",
    "multiply",
    "not_equal",
    "power",
    "subtract",
    "true_divide",
]


def _python(name: str, function: Callable[[Any, Any], Any], doc: str) -> Callable[..., Any]:
    def binary(lhs: Operand, rhs: Operand) -> Any:
        return function(lhs, rhs)

    binary.__name__ = binary.__qualname__ = name
    binary.__doc__ = doc + _PARAMETERS
    return binary


def _ops(name: str, number: Callable[[Any, Any], Any], doc: str) -> Callable[..., Any]:
    _, broadcast, scalar, reflected = (_core.op(op) for op in _core.arithmetic(name))

    def binary(lhs: Operand, rhs: Operand) -> Any:
        if lhs is None or rhs is None:  # for None, operators would use a default
            raise _refused(name, lhs, rhs)
        if isinstance(lhs, NDArray):
            return broadcast(lhs, rhs) if isinstance(rhs, NDArray) else scalar(lhs, scalar=rhs)
        if isinstance(rhs, NDArray):
            return reflected(rhs, scalar=lhs)
        try:
            return number(lhs, rhs)
        except TypeError as error:
            raise _refused(name, lhs, rhs) from error

    binary.__name__ = binary.__qualname__ = name
    binary.__doc__ = doc + _PARAMETERS
    return binary


def _refused(name: str, lhs: Any, rhs: Any) -> TypeError:
    return TypeError_(
        f"{name}: operands must be NDArrays or numbers, got {type(lhs).__name__} and "
        f"{type(rhs).__name__}"
    )


add = _python("add", operator.add, "Return lhs + rhs with broadcasting.")
subtract = _python("subtract", operator.sub, "Return lhs - rhs with broadcasting.")
multiply = _python("multiply", operator.mul, "Return lhs * rhs with broadcasting.")
divide = _python("divide", operator.truediv, "Return lhs / rhs; integers stay integers.")
true_divide = _python("true_divide", operator.truediv, "Return lhs / rhs.")
modulo = _python("modulo", operator.mod, "Return lhs % rhs with the divisor's sign.")
equal = _python("equal", operator.eq, "Return 1 where lhs == rhs, else 0, in lhs' dtype.")
not_equal = _python("not_equal", operator.ne, "Return 1 where lhs != rhs, else 0.")
greater = _python("greater", operator.gt, "Return 1 where lhs > rhs, else 0.")
greater_equal = _python("greater_equal", operator.ge, "Return 1 where lhs >= rhs, else 0.")
lesser = _python("lesser", operator.lt, "Return 1 where lhs < rhs, else 0.")
lesser_equal = _python("lesser_equal", operator.le, "Return 1 where lhs <= rhs, else 0.")


def power(base: Operand, exp: Operand) -> Any:
    """Return base ** exp with broadcasting."""
    return base**exp


maximum = _ops("maximum", max, "Return the larger of lhs and rhs.")
minimum = _ops("minimum", min, "Return the smaller of lhs and rhs.")
logical_and = _ops(
    "logical_and",
    lambda a, b: bool(a) and bool(b),
    "Return 1 where both are non-zero, else 0.",
)
logical_or = _ops(
    "logical_or",
    lambda a, b: bool(a) or bool(b),
    "Return 1 where one is non-zero, else 0.",
)
logical_xor = _ops(
    "logical_xor",
    lambda a, b: bool(a) != bool(b),
    "Return 1 where exactly one is non-zero, else 0.",
)
