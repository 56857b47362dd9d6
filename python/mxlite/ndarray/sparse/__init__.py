"""Sparse arrays: ``mx.nd.sparse`` (MXNet 1.x: ``mxnet.ndarray.sparse``).

A csr or row-sparse array is an `NDArray` whose memory is two or three dense arrays. Operators of
``mx.nd`` accept them; they keep results sparse if they can, and else run on dense copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._names_1x import attributes as _attributes
from ... import _core
from ..._core import NDArray as NDArray
from ..arithmetic import add as add
from ..arithmetic import divide as divide
from ..arithmetic import multiply as multiply
from ..arithmetic import subtract as subtract
from . import dispatch, functions, updates
from .arrays import BaseSparseNDArray as BaseSparseNDArray
from .arrays import CSRNDArray as CSRNDArray
from .arrays import RowSparseNDArray as RowSparseNDArray
from .arrays import cast_storage as cast_storage
from .creation import array as array
from .creation import csr_matrix as csr_matrix
from .creation import empty as empty
from .creation import row_sparse_array as row_sparse_array
from .creation import zeros as zeros
from .functions import retain as retain

if TYPE_CHECKING:
    from ..op import *  # noqa: F403 - more than _OPERATORS, with the same signatures

# Operators of this module in 1.x; they are the same objects as in mx.nd.
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


_core.set_sparse_types(RowSparseNDArray, CSRNDArray, dispatch.run)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
