"""Reading ONNX files that may be damaged or hostile."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..._files.whole import read_file
from ...base import MissingFileError, TypeError_
from ..package import OPSETS, OnnxError, onnx

__all__ = ["array_of", "read_model"]


def read_model(model_file: str | os.PathLike[str]) -> Any:
    """Return the ModelProto in a file, with its external data loaded."""
    package = onnx()
    if not isinstance(model_file, (str, os.PathLike)):
        raise TypeError_(
            f"import_model: model_file must be a path, got a {type(model_file).__name__}"
        )
    path = os.fspath(model_file)
    try:
        data = read_file(path)
    except FileNotFoundError as error:
        raise MissingFileError(f"import_model: there is no file {path!r}") from error
    try:
        model = package.load_model_from_string(data)
    except Exception as error:  # DecodeError of protobuf
        raise OnnxError(f"import_model: {path!r} must be an ONNX file: {error}") from error
    check_model(model, path)
    for tensor in package.external_data_helper._get_all_tensors(model):
        if tensor.data_location == package.TensorProto.EXTERNAL:
            _load_external(tensor, Path(path))
    return model


def check_model(model: Any, source: str) -> None:
    """Raise OnnxError for an opset that is not known, or a file without a graph."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions or versions[0] not in OPSETS:
        raise OnnxError(
            f"import_model: {source!r}: the opset must be from {OPSETS[0]} to {OPSETS[-1]}, got "
            f"{versions[0] if versions else 'none'}"
        )
    if not model.graph.node and not model.graph.output:
        raise OnnxError(f"import_model: {source!r} must have a graph, got a model without nodes")


def _load_external(tensor: Any, model: Path) -> None:
    """Load a tensor's data from a file below the folder of the model."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    who = f"import_model: external data of {tensor.name!r}"
    folder = model.resolve().parent
    location = (folder / entries.get("location", "")).resolve()
    if folder not in location.parents:
        raise OnnxError(
            f"{who} must be a file below {str(folder)!r}, got {entries.get('location')!r}"
        )
    if not location.is_file():
        raise MissingFileError(f"{who}: there is no file {str(location)!r}")
    needed = _item_size(tensor) * prod(tensor.dims)
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", needed))
    except ValueError as error:
        raise OnnxError(f"{who}: offset and length must be integers: {error}") from error
    size = location.stat().st_size
    if length != needed or offset < 0 or offset + length > size:
        raise OnnxError(
            f"{who} must be {needed} bytes within the {size} of {location.name!r}, got {length} "
            f"from {offset} on"
        )
    with location.open("rb") as file:
        file.seek(offset)
        tensor.raw_data = file.read(length)
    tensor.data_location = onnx().TensorProto.DEFAULT
    del tensor.external_data[:]


def _item_size(tensor: Any) -> int:
    try:
        return int(np.dtype(onnx().helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize)
    except KeyError as error:
        raise OnnxError(
            f"import_model: {tensor.name!r} must have a known type, got {tensor.data_type}"
        ) from error


def array_of(tensor: Any) -> np.ndarray:
    """Return a tensor's values, whose number must be that of its shape."""
    count = prod(tensor.dims)
    if any(extent < 0 for extent in tensor.dims):
        raise OnnxError(f"import_model: {tensor.name!r} has the negative shape {list(tensor.dims)}")
    if tensor.HasField("raw_data") and len(tensor.raw_data) != count * _item_size(tensor):
        raise OnnxError(
            f"import_model: {tensor.name!r} of shape {list(tensor.dims)} must have "
            f"{count * _item_size(tensor)} bytes, got {len(tensor.raw_data)}"
        )
    try:
        return onnx().numpy_helper.to_array(tensor)
    except Exception as error:  # wrong number of values, or an unknown type
        raise OnnxError(f"import_model: {tensor.name!r} cannot be read: {error}") from error
