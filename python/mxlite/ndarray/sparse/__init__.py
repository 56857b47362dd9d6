"""Sparse arrays: ``mx.nd.sparse`` (MXNet 1.x: ``mxnet.ndarray.sparse``).

A csr or row-sparse array is an `NDArray` whose memory is two or three dense arrays. Operators of
``mx.nd`` take them; where a result can stay sparse it does, elsewhere they run on dense copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._names_1x import attributes as _attributes
from ... import _core
from ..._core import NDArray as NDArray
from . import aliases, dispatch, functions, products, rules, updates
from .arrays import BaseSparseNDArray as BaseSparseNDArray
from .arrays import CSRNDArray as CSRNDArray
from .arrays import RowSparseNDArray as RowSparseNDArray
from .arrays import cast_storage as cast_storage
from .creation import array as array
from .creation import csr_matrix as csr_matrix
from .creation import empty as empty
from .creation import row_sparse_array as row_sparse_array
from .creation import zeros as zeros
from .functions import add as add
from .functions import divide as divide
from .functions import multiply as multiply
from .functions import retain as retain
from .functions import subtract as subtract
from .storage import assign

if TYPE_CHECKING:
    from ..op import *  # noqa: F403 - more than _OPERATORS, with the same signatures

# The operators that 1.x has in this module; they are the same objects as in mx.nd.
_OPERATORS = """
ElementWiseSum Embedding FullyConnected LinearRegressionOutput LogisticRegressionOutput
MAERegressionOutput abs adam_update add_n arccos arccosh arcsin arcsinh arctan arctanh
broadcast_add broadcast_div broadcast_minus broadcast_mul broadcast_plus broadcast_sub cbrt ceil
clip concat cos cosh degrees dot elemwise_add elemwise_div elemwise_mul elemwise_sub exp expm1 fix
floor ftrl_update gamma gammaln log log10 log1p log2 make_loss mean negative norm radians relu rint
round rsqrt sgd_mom_update sgd_update sigmoid sign sin sinh slice sqrt square stop_gradient sum tan
tanh trunc where zeros_like
""".split()

globals().update((_name, _core.op(_name)) for _name in _OPERATORS)
adagrad_update = _core.op("_sparse_adagrad_update")


def _swapped(name: str, function: Any) -> Any:
    def operator(self: NDArray, other: Any) -> Any:
        return function(other, self)

    operator.__name__ = name
    return operator


def _in_place(name: str, function: Any) -> Any:
    def operator(self: NDArray, other: Any) -> Any:
        assign(self, function(self, other))
        return self

    operator.__name__ = name
    return operator


def _comparison(name: str, array_op: str, scalar_op: str) -> Any:
    def operator(self: NDArray, other: Any) -> Any:
        if isinstance(other, NDArray):
            return _core.op(array_op)(self, other)
        if other is None or isinstance(other, str):
            return NotImplemented
        return _core.op(scalar_op)(self, scalar=other)

    operator.__name__ = name
    return operator


def _attach_operators() -> None:
    for label, function in (
        ("add", add),
        ("sub", subtract),
        ("mul", multiply),
        ("truediv", divide),
    ):
        setattr(BaseSparseNDArray, f"__{label}__", lambda a, b, f=function: f(a, b))
        setattr(BaseSparseNDArray, f"__r{label}__", _swapped(f"__r{label}__", function))
        setattr(BaseSparseNDArray, f"__i{label}__", _in_place(f"__i{label}__", function))
    for label in ("equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal"):
        short = "".join(word[0] for word in label.split("_"))
        name = {"e": "eq", "ne": "ne", "g": "gt", "ge": "ge", "l": "lt", "le": "le"}[short]
        method = f"__{name}__"
        operator = _comparison(method, f"broadcast_{label}", f"_{label}_scalar")
        setattr(BaseSparseNDArray, method, operator)
    for label, op in (("pow", "power"), ("mod", "mod")):
        operator = _comparison(f"__{label}__", f"broadcast_{op}", f"_{op}_scalar")
        setattr(BaseSparseNDArray, f"__{label}__", operator)
        reflected = _comparison(f"__r{label}__", f"broadcast_{op}", f"_r{op}_scalar")
        setattr(BaseSparseNDArray, f"__r{label}__", reflected)


_attach_operators()
_core.set_sparse_types(RowSparseNDArray, CSRNDArray, dispatch.run)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
