"""The ``onnx`` package, which only this folder needs and which is imported on first use."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from ..base import NotSupportedError

__all__ = [
    "ComputedError",
    "MissingOnnxError",
    "OnnxError",
    "onnx",
    "onnxruntime",
    "reference_evaluator",
    "tensor_type",
]

# From 22 to 28, the imported operators change only their types and attributes that converters
# read.
OPSETS = range(7, 29)
EXPORT_OPSETS = range(13, 22)


class MissingOnnxError(NotSupportedError, ImportError):
    """The package onnx is not installed."""


class OnnxError(NotSupportedError, ValueError):
    """A model that cannot be written as ONNX, or an ONNX file that cannot be read."""


class ComputedError(OnnxError):
    """A node that needs numbers which are known only when the network runs."""


@cache  # errors are not cached
def onnx() -> Any:
    """Return the package onnx."""
    try:
        for module in (
            "onnx.helper",
            "onnx.numpy_helper",
            "onnx.checker",
            "onnx.defs",
            "onnx.external_data_helper",
        ):
            importlib.import_module(module)
        return importlib.import_module("onnx")
    except ImportError as error:
        raise MissingOnnxError(
            f"mxlite.onnx: the package onnx must be installed (pip install 'mxlite[onnx]'): {error}"
        ) from error


def reference_evaluator() -> Any:
    """Return onnx's class that computes nodes with NumPy."""
    onnx()
    return importlib.import_module("onnx.reference").ReferenceEvaluator


def onnxruntime() -> Any:
    """Return the package onnxruntime; None if it is not installed."""
    try:
        return importlib.import_module("onnxruntime")
    except ImportError:
        return None


def tensor_type(dtype: str) -> int:
    """Return ONNX's number of a dtype."""
    proto = onnx().TensorProto
    named = {"float64": "DOUBLE", "float32": "FLOAT", "bool": "BOOL"}
    return int(getattr(proto, named.get(dtype, dtype.upper())))
