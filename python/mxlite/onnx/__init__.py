"""ONNX files: networks of mxlite written for other runtimes, and files read as symbols or blocks.

It needs the package ``onnx`` (``pip install 'mxlite[onnx]'``), and ONNX Runtime to compare results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._names_1x import attributes as _attributes
from .export import export as export
from .export_1x import export_model as export_model
from .export_1x import get_operator_support as get_operator_support
from .import_1x import get_model_metadata as get_model_metadata
from .import_1x import import_model as import_model
from .import_1x import import_to_gluon as import_to_gluon
from .package import MissingOnnxError as MissingOnnxError
from .package import OnnxError as OnnxError

__all__ = [
    "MissingOnnxError", "OnnxError", "export", "export_model", "get_model_metadata",
    "get_operator_support", "import_model", "import_to_gluon",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
