"""Operators that ONNX defines by other operators, which are converted in their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..package import OnnxError, onnx, tensor_type
from .table import Value

__all__ = ["body_of", "has_body"]


def _schema(op: str, opset: int) -> Any:
    try:
        return onnx().defs.get_schema(op, opset, "")
    except Exception:  # the operator is not in this opset
        return None


def has_body(op: str, opset: int) -> bool:
    """Return whether ONNX defines an operator by other operators."""
    schema = _schema(op, opset)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def body_of(proto: Any, opset: int, inputs: Sequence[Value | None]) -> Any:
    """Return the FunctionProto of a node, with the node's attributes filled in."""
    package, schema = onnx(), _schema(proto.op_type, opset)
    if not has_body(proto.op_type, opset):
        raise OnnxError(f"import_model: no equivalent is known for {proto.op_type}")
    function = package.FunctionProto()
    if schema.has_function:
        version = max(v for v in schema.function_opset_versions if v <= opset)
        function.ParseFromString(schema.get_function_with_opset_version(version))
    else:
        versions = schema.context_dependent_function_opset_versions
        version = max(v for v in versions if v <= opset)
        types = [_type_of(value) for value in inputs]
        call = proto.SerializeToString()
        function.ParseFromString(
            schema.get_context_dependent_function_with_opset_version(version, call, types)
        )
    given = {a.name: a for a in proto.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.type:
            given[name] = attribute.default_value
    for node in function.node:
        _fill_attributes(node, given)
    return function


def _type_of(value: Value | None) -> bytes:
    if value is None:
        return bytes(onnx().TypeProto().SerializeToString())
    number = tensor_type(value.dtype)
    proto = onnx().helper.make_tensor_type_proto(number, list(value.shape))
    return bytes(proto.SerializeToString())


def _fill_attributes(node: Any, given: dict[str, Any]) -> None:
    """Replace references to the call's attributes by their values, also in subgraphs."""
    kept = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                _fill_attributes(inner, given)
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in given:
                continue
            value = onnx().AttributeProto()
            value.CopyFrom(given[attribute.ref_attr_name])
            value.name = attribute.name
            attribute = value
        kept.append(attribute)
    del node.attribute[:]
    node.attribute.extend(kept)
