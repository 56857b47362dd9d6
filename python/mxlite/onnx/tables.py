"""Helpers that export and import share: ONNX operator names, converter tables, gate order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

__all__ = ["FULL_SCALE", "GATES", "UNARY", "Table", "reordered"]

F = TypeVar("F")

# Functions of one array that are the same in both: mxlite's name -> ONNX's name.
UNARY = {
    "abs": "Abs", "arccos": "Acos", "arccosh": "Acosh", "arcsin": "Asin", "arcsinh": "Asinh",
    "arctan": "Atan", "arctanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh",
    "erf": "Erf", "exp": "Exp", "floor": "Floor", "log": "Log", "negative": "Neg",
    "reciprocal": "Reciprocal", "relu": "Relu", "sigmoid": "Sigmoid", "sign": "Sign",
    "sin": "Sin", "sinh": "Sinh", "softsign": "Softsign", "sqrt": "Sqrt", "tan": "Tan",
    "tanh": "Tanh",
}  # fmt: skip

# Positions of the gates of ONNX's operators in the order of 1.x.
GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}

# The quantized number that represents the end of a range, in mxlite's int8 operators.
FULL_SCALE = {"int8": 127.5, "uint8": 255.5}


class Table(dict[str, F]):
    """Converters by the name of the operator."""

    def converter(self, *names: str) -> Callable[[F], F]:
        """Return a decorator that enters a function."""

        def enter(function: F) -> F:
            self.rows((name, function) for name in names)
            return function

        return enter

    def rows(self, entries: Iterable[tuple[str, F]]) -> None:
        """Enter converters; a name can be entered once."""
        for name, function in entries:
            assert name not in self, name
            self[name] = function


def reordered(matrix: np.ndarray, gates: Sequence[int]) -> np.ndarray:
    """Return the rows of a recurrent layer with the blocks of its gates in another order."""
    blocks = matrix.reshape(len(gates), -1, *matrix.shape[1:])
    return blocks[list(gates)].reshape(matrix.shape)
