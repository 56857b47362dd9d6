"""From an ONNX graph to a symbol and its parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..._core import Node as SymbolNode
from ...symbol import Group, Symbol
from ..package import ComputedError, OnnxError, onnx, reference_evaluator
from ..zero_points import change_zero_points, names_read
from . import (  # noqa: F401 - they enter rows
    control_flow,
    einsum,
    indexing,
    nn,
    pointwise,
    quantized,
    recurrent,
    reduce,
    resize,
    sampling,
    selection,
    shape,
)  # fmt: skip
from .functions import body_of, has_body
from .int8_layers import Layer, convert_layer, find_layers
from .pointwise import dtype_of
from .reader import array_of
from .selection import check_rows, keep_rows
from .table import CONVERTERS, Node, Scope, Value, constant

__all__ = ["Imported", "Runner", "Stages", "import_graph", "import_stages", "input_infos"]

# Shapes are computed with both sizes of a pair; sizes that differ depend on the free dimension.
_FREE = ((5, 7), (11, 13), (17, 19), (23, 29), (31, 37), (41, 43), (47, 53), (59, 61))


class Imported:
    """The symbol and the parameters of an imported graph.

    Attributes
    ----------
    symbol : Symbol
    params : dict of str to array
    fixed : set of str
        Parameters that are constants of the graph, which are not trained.
    inputs : list of str
    """

    def __init__(self, symbol: Symbol, scope: Scope, inputs: list[str]) -> None:
        used = set(symbol.list_inputs())
        self.symbol, self.inputs = symbol, inputs
        self.params = {name: a for name, a in scope.params.items() if name in used}
        self.fixed = scope.fixed & used
        self.states = set(symbol.list_auxiliary_states())


def input_infos(graph: Any) -> list[Any]:
    """Return the inputs of a graph that are not initializers."""
    names = {tensor.name for tensor in graph.initializer}
    return [info for info in graph.input if info.name not in names]


class Stages:
    """Two stages of a graph, divided at the first node whose result has a size that needs values.

    Attributes
    ----------
    scope : Scope
    inputs, outputs : list of str
    values : dict of str to Value
        Values that the nodes of ``later`` read, and outputs of the graph.
    later : list of NodeProto
    """

    def __init__(self, scope: Scope, graph: Any, values: dict[str, Value], later: list[Any]):
        self.scope, self.later = scope, later
        self.inputs = [info.name for info in input_infos(graph)]
        self.outputs = [output.name for output in graph.output]
        names = [*self.inputs, *(name for node in later for name in _reads(node)), *self.outputs]
        self.values = {name: values[name] for name in names if name in values}


class Runner:
    """Converts the nodes of a graph.

    If ``later`` is given, it gets the nodes that need numbers known only at run time, and the nodes
    that depend on them.
    """

    def __init__(
        self, scope: Scope, values: dict[str, Value], absent: Collection[str] = (),
        later: list[Any] | None = None,
    ) -> None:  # fmt: skip
        self._scope, self._values, self._absent = scope, values, absent
        self._later, self._awaited = later, set[str]()

    def convert_nodes(self, graph: Any) -> None:
        """Convert the initializers and all nodes."""
        for tensor in graph.initializer:
            array = array_of(tensor)
            trained = array.dtype.kind == "f" and array.ndim > 0
            self._values[tensor.name] = constant(array, name=tensor.name, trainable=trained)
        layers = [] if self._scope.eager else list(find_layers(graph, self._values))
        ends = {layer.outputs[0]: layer for layer in layers}
        inner = {node.output[0] for layer in layers for node in layer.nodes[:-1]}
        for proto in graph.node:
            if proto.output[0] in ends:
                self._convert_layer(ends[proto.output[0]])
            elif proto.output[0] not in inner:
                self._convert(proto)

    def run(self, graph: Any) -> list[Value]:
        """Convert all nodes; return the outputs."""
        self.convert_nodes(graph)
        outputs = [self._value(output.name, "the graph") for output in graph.output]
        for info, value in zip(graph.output, outputs):
            if value.valid is not None:
                raise ComputedError(
                    f"import_model: the output {info.name!r} must have a size that does not depend "
                    "on values, got rows that NonZero or NonMaxSuppression selected"
                )
        return outputs

    def _value(self, name: str, who: str) -> Value:
        if name not in self._values:
            raise OnnxError(f"import_model: {who}: the value {name!r} is not defined")
        return self._values[name]

    def _convert_layer(self, layer: Layer) -> None:
        """Convert the nodes of a layer to one operator on int8, or else each of them."""
        made = None
        if not any(self._awaited & _reads(node) for node in layer.nodes):
            made = self._int8_layer(layer)
        if made is not None:
            self._values[layer.outputs[0]] = made
            return
        for each in layer.nodes:
            self._convert(each)

    def _int8_layer(self, layer: Layer) -> Value | None:
        proto = onnx().NodeProto()
        proto.CopyFrom(layer.head)
        proto.output[:] = layer.outputs
        node = Node(self._scope, proto, [], self._inner)
        try:
            return convert_layer(node, layer, lambda name: self._value(name, node.who))
        except OnnxError:  # a sum that broadcasts has no operator on int8
            return None

    def _convert(self, proto: Any) -> None:
        """Convert a node now, or leave it for the time when the numbers that it needs are known."""
        try:
            if not self._awaited & _reads(proto):
                self.convert(proto)
                return
        except ComputedError:
            if self._later is None:
                raise
        assert self._later is not None
        self._later.append(proto)
        self._awaited.update(proto.output)

    def convert(self, proto: Any) -> None:
        """Convert a node."""
        who = f"{proto.op_type} {proto.name or proto.output[0]!r}"
        inputs = [
            self._value(name, who) if name and name not in self._absent else None
            for name in proto.input
        ]
        check_rows(proto, inputs)
        results = self._folded(proto, inputs)
        if results is None and proto.op_type not in CONVERTERS:
            results = self._called(proto, inputs)
        if results is None:
            node = Node(self._scope, proto, inputs, self._inner)
            try:
                made = CONVERTERS[proto.op_type](node)
            except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
                if isinstance(error, OnnxError):
                    raise
                raise node.refuse(f"{type(error).__name__}: {error}") from error
            results = [made] if isinstance(made, Value) else list(made)
        keep_rows(proto, inputs, results)
        for name, value in zip(proto.output, results):
            if name:
                self._values[name] = value

    def _inner(self, graph: Any, given: Mapping[str, Value]) -> list[Value]:
        """Convert the subgraph of a node, which can read the values of the outer graph."""
        return Runner(self._scope, {**self._values, **given}, self._absent).run(graph)

    def _called(self, proto: Any, inputs: Sequence[Value | None]) -> list[Value]:
        """Convert the operators by which ONNX defines a node."""
        outer = self._scope.opset
        try:
            function = body_of(proto, outer, inputs)
        except (RuntimeError, TypeError, ValueError) as error:  # invalid attributes or types
            if isinstance(error, OnnxError):
                raise
            raise OnnxError(
                f"import_model: {proto.op_type} {proto.name!r} must fit ONNX's definition: {error}"
            ) from error
        given = dict(zip(function.input, inputs))
        values = {name: value for name, value in given.items() if value is not None}
        inner = Runner(self._scope, values, {*function.input} - {*values})
        self._scope.opset = next(e.version for e in function.opset_import if not e.domain)
        try:
            for node in function.node:
                inner.convert(node)
            empty = constant(np.zeros(0))  # placeholder for an output that the node does not name
            outputs = zip(function.output, proto.output)
            return [inner._value(own, proto.op_type) if used else empty for own, used in outputs]
        finally:
            self._scope.opset = outer

    def _folded(self, proto: Any, inputs: Sequence[Value | None]) -> list[Value] | None:
        """Return the results of a node of constants that are not trained; None for others."""
        given = [value for value in inputs if value is not None]
        if (
            not given
            or proto.op_type in _NOT_FOLDED
            or any(a.HasField("g") for a in proto.attribute)
        ):
            return None
        are_scales = proto.op_type in ("QuantizeLinear", "DequantizeLinear")
        if any(v.const is None or (v.trainable and not are_scales) for v in given):
            return None
        if proto.op_type == "Slice" and given[0].array is not None and len(given) > 2:
            if given[2].array is None:  # the end is a free size, unknown until run time
                return None
        # onnx's evaluator does not have these operators of older opsets.
        opset = max(21, self._scope.opset) if are_scales else self._scope.opset
        key = proto.SerializeToString(), opset
        if key not in self._scope.evaluators:
            self._scope.evaluators[key] = _evaluator(proto, opset)
        found = []
        for which in (0, 1):
            fed = {
                n: v.const[which] for n, v in zip(proto.input, inputs) if v is not None and v.const
            }
            try:
                found.append(self._scope.evaluators[key].run(None, fed))
            except Exception as error:
                raise OnnxError(
                    f"import_model: {proto.op_type} {proto.name!r} of constants: {error}"
                ) from error
            if all(v.const is not None and v.const[0] is v.const[1] for v in given):
                found.append(found[0])
                break
        parts = iter(zip(*found))
        return [
            constant(*(np.asarray(p) for p in next(parts))) if name else constant(np.zeros(0))
            for name in proto.output
        ]


def _evaluator(proto: Any, opset: int) -> Any:
    """Return the object that computes a node with NumPy."""
    helper = onnx().helper
    infos, outs = (
        [helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(names) if name]
        for names in (proto.input, proto.output)
    )
    graph = helper.make_graph([proto], "folded", infos, outs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return reference_evaluator()(model)


# Operators with random results, or whose converters compute constants in less memory or time.
_NOT_FOLDED = {
    "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout",
    "ConstantOfShape", "Expand", "Range",
}  # fmt: skip


def _sizes(
    info: Any, given: Sequence[int] | None, who: str, names: list[str], distinct: bool
) -> Any:
    """Return the two shapes of an input; appends the names of free dimensions to ``names``."""
    dims = info.type.tensor_type.shape.dim
    if given is not None:
        if len(given) != len(dims):
            raise OnnxError(f"import_model: {who} must have {len(dims)} axes, got {list(given)}")
        return tuple(given), tuple(given)
    pairs = []
    for dim in dims:
        if dim.HasField("dim_value") and dim.dim_value > 0:
            pairs.append((dim.dim_value, dim.dim_value))
        else:
            if dim.dim_param not in names:
                names.append(dim.dim_param)
            number = names.index(dim.dim_param) if distinct else 0
            pairs.append(_FREE[number % len(_FREE)])
    return tuple(tuple(pair[which] for pair in pairs) for which in (0, 1))


def import_graph(model: Any, input_shapes: Mapping[str, Sequence[int]] | None = None) -> Imported:
    """Return the symbol of a checked model.

    Free dimensions with different names get different sizes at first. If that fails, all get equal
    sizes, because PyTorch names the batch of each input differently.
    """
    try:
        return _imported(model, input_shapes, distinct=True)
    except OnnxError as error:
        try:
            return _imported(model, input_shapes, distinct=False)
        except OnnxError:
            if isinstance(error, ComputedError):
                raise error from None
            raise


def _imported(
    model: Any, input_shapes: Mapping[str, Sequence[int]] | None, distinct: bool
) -> Imported:
    graph = model.graph
    scope, values, names = _prepared(model, input_shapes, distinct)
    outputs = Runner(scope, values).run(graph)
    symbols = [scope.symbol(value, "the graph") for value in outputs]
    group = symbols[0] if len(symbols) == 1 else Group(symbols)
    return Imported(group, scope, names)


def import_stages(model: Any, input_shapes: Mapping[str, Sequence[int]] | None) -> Stages:
    """Return a checked model in two stages, the second of which needs numbers of a run.

    All nodes are in the second stage if a dimension of an input is free.
    """
    scope, values, _ = _prepared(model, input_shapes, distinct=True)
    scope.pads = False
    later: list[Any] = []
    runner = Runner(scope, values, later=later)
    if any(value.sizes[0] != value.sizes[1] for value in scope.inputs):
        whole = onnx().GraphProto()
        whole.initializer.extend(model.graph.initializer)
        runner.convert_nodes(whole)
        later.extend(model.graph.node)
    else:
        runner.convert_nodes(model.graph)
    return Stages(scope, model.graph, values, later)


def _prepared(
    model: Any, input_shapes: Mapping[str, Sequence[int]] | None, distinct: bool
) -> tuple[Scope, dict[str, Value], list[str]]:
    """Return the scope of a model, the values of its inputs, and their names as variables."""
    graph = model.graph
    opset = next(e.version for e in model.opset_import if e.domain in ("", "ai.onnx"))
    scope = Scope(opset)
    free: list[str] = []
    _refuse_unknown(graph, opset)
    _store_as_int8(graph)
    values: dict[str, Value] = {}
    names = []
    for info in input_infos(graph):
        if not info.type.HasField("tensor_type"):
            raise OnnxError(f"import_model: the input {info.name!r} must be a tensor")
        given = (input_shapes or {}).get(info.name)
        sizes = _sizes(info, given, f"input {info.name!r}", free, distinct)
        dtype = dtype_of(info.type.tensor_type.elem_type)
        name = scope.unique(info.name)
        names.append(name)
        symbol = Symbol([(SymbolNode(None, name, {}, []), 0)])
        values[info.name] = Value(sizes, dtype, symbol, name=name)
        scope.inputs.append(values[info.name])
    # Sizes identify the free dimensions only if each dimension has a name and no two dimensions
    # have the same sizes.
    scope.distinct = "" not in free and len(free) <= (len(_FREE) if distinct else 1)
    return scope, values, names


def _reads(node: Any) -> set[str]:
    """Return the names that a node and its subgraphs read, and those of subgraphs' outputs."""
    return set(names_read(node)) - {""}


def _store_as_int8(graph: Any) -> None:
    """Store data as int8 that has the type uint8 and the zero point 128, which is symmetric too."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    one = [(name, array_of(t)) for name, t in constants.items() if np.prod(t.dims) == 1]
    middle = [name for name, value in one if value.dtype == np.uint8 and value == 128]
    zero = "int8/zero"
    while zero in constants:
        zero += "_"
    outputs = [output.name for output in graph.output]
    if middle and change_zero_points(graph.node, outputs, middle, zero):
        graph.initializer.append(onnx().numpy_helper.from_array(np.array(0, np.int8), zero))


def _nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph and of its subgraphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def _refuse_unknown(graph: Any, opset: int) -> None:
    unknown = [
        f"{node.op_type} {node.name or node.output[0]!r}"
        for node in _nodes(graph)
        if node.domain not in ("", "ai.onnx")
        or (node.op_type not in CONVERTERS and not has_body(node.op_type, opset))
    ]
    if unknown:
        raise OnnxError(f"import_model: no equivalent is known for {', '.join(unknown)}")
