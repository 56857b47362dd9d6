"""Converts layers between DequantizeLinear and QuantizeLinear to operators on int8.

A layer is either a product (Conv, Gemm or MatMul) with any bias, sum, relu and QuantizeLinear that
follow it, or one node that mxlite computes on quantized numbers, with its QuantizeLinear. Only
nodes of a layer may read the values between its nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..package import onnx
from ..tables import FULL_SCALE
from .nn import convolution_params
from .quantized import ends_of, range_of, unit_of
from .table import Node, Value, constant

__all__ = ["Layer", "convert_layer", "find_layers"]

_QUANTIZED = {  # float operators and their int8 counterparts, which keep the input's range
    "Pooling": "_contrib_quantized_pooling", "Flatten": "_contrib_quantized_flatten",
    "relu": "_contrib_quantized_act",
}  # fmt: skip
_PRODUCTS = ("Conv", "Gemm", "MatMul")
_ONE_NODE = ("MaxPool", "AveragePool", "GlobalAveragePool", "Flatten", "Relu", "Add", "Concat")

Attrs = dict[str, Any]


def _attrs(proto: Any) -> Attrs:
    return {a.name: onnx().helper.get_attribute_value(a) for a in proto.attribute}


class Layer(NamedTuple):
    """Nodes that become one operator; only convolutions and linear layers use weight to has_act."""

    head: Any  # the product, or the only node between DequantizeLinear and QuantizeLinear
    nodes: list[Any]  # in the order of the graph; no other node reads their inner values
    data: list[Any]  # DequantizeLinear nodes of the inputs, then of an int8 operand of a sum
    weight: Any = None  # a DequantizeLinear, or None if the layer is no product
    bias: str = ""
    other: str = ""  # name of the other operand of a sum
    act_max: float | None = None
    has_act: bool = False
    quantizer: Any = None

    @property
    def outputs(self) -> list[str]:
        """Names of the last node's outputs."""
        return list(self.nodes[-1].output)


class _Finder:
    def __init__(self, graph: Any, constants: Mapping[str, np.ndarray]) -> None:
        self._constants = constants
        self._taken: set[str] = set()  # outputs of the nodes that are in a layer
        self._maker = {name: node for node in graph.node for name in node.output}
        self._readers: dict[str, list[Any]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self._readers[name].append(node)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    for inner in attribute.g.node:
                        for name in inner.input:
                            self._readers[name].append(inner)
        for info in graph.output:
            self._readers[info.name].append(None)

    def _reader(self, name: str) -> Any:
        """Return the node that reads a value; None if there are several or it is in a layer."""
        readers = self._readers[name]
        if len(readers) != 1 or (readers[0] is not None and readers[0].output[0] in self._taken):
            return None
        return readers[0]

    def _constant(self, node: Any, index: int) -> np.ndarray | None:
        name = node.input[index] if index < len(node.input) else ""
        return self._constants.get(name)

    def unit(self, node: Any) -> float | None:
        """Return the scale of a node that quantizes or dequantizes with a zero point of 0."""
        if len(node.input) > 2 and node.input[2] and self._constant(node, 2) is None:
            return None
        scale, zero = (
            None if array is None else constant(array)
            for array in (self._constant(node, 1), self._constant(node, 2))
        )
        return unit_of(scale, zero)

    def _dequantizer(self, name: str) -> Any:
        """Return the DequantizeLinear that computes a value from quantized data, else None."""
        node = self._maker.get(name)
        if node is None or node.op_type != "DequantizeLinear" or node.input[0] in self._constants:
            return None
        return node if self.unit(node) is not None else None

    def _is_bias(self, name: str, units: int) -> bool:
        node = self._maker.get(name)
        if node is not None and node.op_type == "DequantizeLinear":
            return all(part in self._constants for part in node.input if part)
        shape = self._constants[name].shape if name in self._constants else ()
        return shape != () and shape == (*(len(shape) - 1) * [1], units)

    def _weight(self, head: Any) -> tuple[Any, int] | None:
        """Return the DequantizeLinear of a product's int8 weight, and the number of outputs."""
        attrs, node = _attrs(head), self._maker.get(head.input[1])
        if node is None or node.op_type != "DequantizeLinear":
            return None
        array, scale, zero = (self._constant(node, i) for i in range(3))
        if array is None or scale is None or array.dtype != np.int8 or scale.dtype != np.float32:
            return None
        if len(node.input) > 2 and node.input[2] and (zero is None or np.any(zero)):
            return None
        if head.op_type == "Conv":
            pads = list(attrs.get("pads") or ())
            half, axis = len(pads) // 2, 0
            fits = attrs.get("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID")
            fits = fits and pads[:half] == pads[half:]
        elif head.op_type == "Gemm":
            axis = 0 if attrs.get("transB", 0) else 1
            fits = not attrs.get("transA", 0) and {attrs.get("alpha", 1), attrs.get("beta", 1)} == {
                1
            }
        else:
            fits, axis = array.ndim == 2, 1
        own = _attrs(node)
        along = own.get("axis", 1) % array.ndim
        fits = fits and not own.get("block_size")
        if not fits or not (scale.size == 1 or (scale.ndim, along) == (1, axis)):
            return None
        return node, array.shape[axis]

    def layers(self, graph: Any) -> Iterator[Layer]:
        """Yield the layers; of two products that are added, the later one gets the sum."""
        for node in reversed(graph.node):
            if node.op_type not in (*_PRODUCTS, *_ONE_NODE) or node.output[0] in self._taken:
                continue
            found = self._layer(node)
            if found is not None:
                self._taken.update(name for part in found.nodes for name in part.output)
                yield found

    def _layer(self, head: Any) -> Layer | None:
        """Return the layer that begins with a node; None if it has no equivalent on int8."""
        if head.op_type in _ONE_NODE:
            return self._single(head)
        name = head.input[0]
        if head.op_type == "Gemm" and (flat := self._maker.get(name)) is not None:
            if flat.op_type == "Flatten" and _attrs(flat).get("axis", 1) == 1:
                name = flat.input[0]  # mxlite's linear layer flattens its input itself
        data, found = self._dequantizer(name), self._weight(head)
        if data is None or found is None:
            return None
        weight, units = found
        own = [weight] if self._reader(weight.output[0]) is not None else []
        layer = Layer(head, [*own, head], [data], weight)
        if len(head.input) > 2 and head.input[2]:
            if not self._is_bias(head.input[2], units):
                return None
            layer = layer._replace(bias=head.input[2])
        while (grown := self._grown(layer, units)) is not None:
            layer = grown
        return layer

    def _grown(self, layer: Layer, units: int) -> Layer | None:
        """Return a layer with the node that reads its result; None if that node does not fit."""
        name = layer.outputs[0]
        node = None if layer.quantizer is not None else self._reader(name)
        if node is None:
            return None
        nodes = [*layer.nodes, node]
        if node.op_type == "Add" and not layer.has_act and not layer.other:
            other = next((i for i in node.input if i != name), "")
            op = layer.head.op_type
            if op == "MatMul" and not layer.bias and self._is_bias(other, units):
                return layer._replace(nodes=nodes, bias=other)
            if op == "Conv" and other and other not in self._constants:
                return layer._replace(nodes=nodes, other=other)
        if node.op_type == "Relu" and not layer.has_act:
            return layer._replace(nodes=nodes, has_act=True)
        if node.op_type == "Clip" and not layer.has_act:
            limits = [self._limit(node, i, key) for i, key in ((1, "min"), (2, "max"))]
            if limits[0] == 0 and limits[1] is not None and limits[1] > 0:
                return layer._replace(nodes=nodes, has_act=True, act_max=limits[1])
        if node.op_type == "Min" and layer.has_act and layer.act_max is None:
            bound = self._constants.get(next((i for i in node.input if i != name), ""))
            if bound is not None and bound.size == 1 and bound > 0:
                return layer._replace(nodes=nodes, act_max=float(bound.reshape(-1)[0]))
        if node.op_type == "QuantizeLinear" and self.unit(node) is not None:
            data = [*layer.data, *([self._dequantizer(layer.other)] if layer.other else [])]
            if None not in data:
                return layer._replace(nodes=nodes, quantizer=node, data=data)
        return None

    def _limit(self, clip: Any, index: int, key: str) -> float | None:
        array = self._constant(clip, index)
        found = _attrs(clip).get(key) if array is None else float(array.reshape(-1)[0])
        return None if found is None else float(found)

    def _single(self, head: Any) -> Layer | None:
        """Return a layer of one node; None if its inputs or its result are not quantized."""
        data = [self._dequantizer(name) for name in head.input]
        quantizer = self._reader(head.output[0])
        if any(node is None for node in data) or len(head.output) > 1:
            return None
        if quantizer is None or quantizer.op_type != "QuantizeLinear":
            return None
        return Layer(head, [head, quantizer], data, quantizer=quantizer)


def find_layers(graph: Any, values: Mapping[str, Value]) -> Iterator[Layer]:
    """Yield the layers of a graph that have an equivalent on int8."""
    if not any(node.op_type == "QuantizeLinear" for node in graph.node):
        return
    constants = {name: v.array for name, v in values.items() if v.array is not None}
    for node in graph.node:
        if node.op_type == "Constant" and (tensor := _attrs(node).get("value")) is not None:
            constants[node.output[0]] = onnx().numpy_helper.to_array(tensor)
    yield from _Finder(graph, constants).layers(graph)


def convert_layer(n: Node, layer: Layer, value_of: Callable[[str], Value]) -> Value | None:
    """Return the result of a layer; None if shapes or types have no equivalent.

    ``n`` has the attributes of the layer's first node and the outputs of the last one.
    """

    def unit(node: Any) -> float:
        found = unit_of(value_of(node.input[1]), None)
        assert found is not None  # the finder requires it
        return found

    data = [value_of(node.input[0]) for node in layer.data]
    units = [unit(node) for node in layer.data]
    if any(value.dtype not in FULL_SCALE for value in data):
        return None
    params: Attrs = {}
    if layer.quantizer is not None:
        zero = layer.quantizer.input[2] if len(layer.quantizer.input) > 2 else ""
        dtype = value_of(zero).dtype if zero else "uint8"
        if dtype not in FULL_SCALE:
            return None
        low, high = range_of(unit(layer.quantizer), dtype)
        params = {"out_type": dtype, "min_calib_range": low, "max_calib_range": high}
    if layer.weight is None:
        return _convert_single(n, data, units, params)
    return _convert_product(n, layer, data, units, params, value_of)


def _convert_product(
    n: Node, layer: Layer, data: list[Value], units: list[float], params: Attrs,
    value_of: Callable[[str], Value],
) -> Value | None:  # fmt: skip
    array, scale = (value_of(name).array for name in layer.weight.input[:2])
    assert array is not None and scale is not None
    is_conv = n.op == "Conv"
    if not is_conv and not n.get("transB", 0):
        array = np.ascontiguousarray(array.T)
    weight = constant(array, name=value_of(layer.weight.input[0]).name)
    scales = np.broadcast_to(scale.reshape(-1), array.shape[:1]).astype("float32")
    inputs = [data[0], weight]
    if layer.bias:
        bias = value_of(layer.bias)
        if bias.array is not None and 1 < bias.ndim <= data[0].ndim:
            bias = constant(bias.array.reshape(-1), name=bias.name, trainable=bias.trainable)
        if bias.dtype != "float32" or bias.shape != scales.shape:
            return None
        inputs.append(bias)
    inputs += [constant(scales), *ends_of(units[0], data[0].dtype)]
    params = {**params, "no_bias": not layer.bias}
    if layer.other:
        if layer.quantizer is not None:
            params["sum_range"] = units[1] * FULL_SCALE[data[1].dtype]
        inputs.append(value_of(layer.other) if layer.quantizer is None else data[1])
        params["with_sum"] = True
    if layer.has_act:
        params.update(with_act=True, act_max=layer.act_max)
    if is_conv:
        pads = n.get("pads") or [0] * (2 * (array.ndim - 2))
        params.update(convolution_params(n, pads[: len(pads) // 2], weight))
        return n.mx("_sg_mkldnn_conv", *inputs, **params)
    return n.mx("_sg_mkldnn_fully_connected", *inputs, num_hidden=array.shape[0],
                flatten=n.op == "Gemm", **params)  # fmt: skip


def _convert_single(n: Node, data: list[Value], units: list[float], params: Attrs) -> Value | None:
    pairs = [end for value, own in zip(data, units) for end in ends_of(own, value.dtype)]
    if n.op == "Add":
        dtype = params.pop("out_type")
        if len(data) != 2 or data[0].sizes != data[1].sizes:
            return None
        total = n.mx("_contrib_quantized_elemwise_add", *data, *pairs, **params)
        return total if total.dtype == dtype else None
    dtype, high = params["out_type"], params["max_calib_range"]
    if n.op == "Concat":
        ends = [own * FULL_SCALE[value.dtype] for value, own in zip(data, units)]
        types = {value.dtype for value in data}
        if not np.isclose(max(ends), high, 1e-6) or types != {dtype}:
            return None
        return n.mx("_contrib_quantized_concat", *data, *pairs, dim=n.get("axis", 1),
                    num_args=3 * len(data))  # fmt: skip
    if data[0].dtype != dtype or not np.isclose(units[0] * FULL_SCALE[dtype], high, 1e-6):
        return None
    # Converts the node as if its input were float32. The operator for quantized input has the same
    # parameters.
    source = Value(data[0].sizes, "float32", data[0].symbol)
    result = n.convert_as(n.op, [source])
    assert result.symbol is not None
    node = result.symbol._outputs[0][0]
    if node.op not in _QUANTIZED or node.inputs[0] != n.entry(data[0]):
        return None
    more = {"act_type": "relu"} if node.op == "relu" else dict(node.attrs)
    return n.mx(_QUANTIZED[node.op], data[0], *pairs, sizes=result.sizes, **more)
