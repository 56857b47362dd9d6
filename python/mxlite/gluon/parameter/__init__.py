"""Parameters: the names of ``mxnet.gluon.parameter``."""

from __future__ import annotations

from .parameter import (
    Constant,
    DeferredInitializationError,
    Parameter,
    UninitializedParameterError,
    tensor_types,
)
from .parameter_dict import ParameterDict

__all__ = [
    "Constant",
    "DeferredInitializationError",
    "Parameter",
    "ParameterDict",
    "UninitializedParameterError",
    "tensor_types",
]
