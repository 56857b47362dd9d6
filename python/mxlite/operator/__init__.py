"""Operators written in Python: ``CustomOp``, ``CustomOpProp``, ``register`` (``mx.operator``).

``forward`` and ``backward`` run in a separate thread once the arrays that they read are computed,
while the caller of ``mx.nd.Custom`` continues. They may use any operator, wait for arrays, convert
to NumPy and call other custom operators. Waiting for the results raises their errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._names_1x import attributes as _attributes
from .. import ndarray as _nd
from .classes import CustomOp, CustomOpProp
from .custom_op import (
    Custom,
    OperatorArguments,
    get_all_registered_operators,
    get_operator_arguments,
    register,
)
from .python_op import NDArrayOp, NumpyOp, PythonOp

__all__ = [
    "Custom",
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "OperatorArguments",
    "PythonOp",
    "get_all_registered_operators",
    "get_operator_arguments",
    "register",
]

# mx.nd cannot import this package, which imports mx.nd, so its functions are set here.
for _place in (_nd, _nd.op, _nd._internal):
    vars(_place)["Custom"] = Custom

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
