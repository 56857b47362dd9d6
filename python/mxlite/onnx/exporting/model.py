"""From a symbol to an ONNX model: the walk over the nodes, inputs, outputs and parameters."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...base import MXNetError
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from ...symbol import Symbol
from ...symbol.inference import infer
from ...symbol.node import Entry, Node
from ..package import EXPORT_OPSETS, OnnxError, onnx, tensor_type
from ..zero_points import names_read
from . import (  # noqa: F401 - they enter rows
    control_flow,
    detection,
    matrix,
    nn,
    pointwise,
    quantized,
    reduce,
    rnn,
    tensor,
)
from .graph import Dim, Graph, Shape, to_tensor
from .quantized import store_as_uint8
from .table import CONVERTERS, Call, Source

__all__ = ["Free", "build", "converter_names"]

Free = Mapping[str, Mapping[int, str]]  # names of the free dimensions of each input, by axis
_PRIMES = (37, 41, 43, 47, 53, 59, 61, 67, 71)  # sizes that are added to those of free dimensions


class _Specs:
    """Shapes, with pairs of sizes for free dimensions, and dtypes of all values of a symbol."""

    def __init__(self, symbol: Symbol, shapes: Mapping[str, Shape], dtypes: Mapping[str, str]):
        first, second = (
            {
                name: tuple(d if isinstance(d, int) else d[which] for d in shape)
                for name, shape in shapes.items()
            }
            for which in (0, 1)
        )
        self._first = infer(symbol._outputs, first, dtypes)
        self._second = self._first
        if first != second:
            try:
                self._second = infer(symbol._outputs, second, dtypes)
            except MXNetError as error:
                raise OnnxError(
                    f"mxlite.onnx.export: dynamic_axes must name dimensions that the network "
                    f"accepts in other sizes: {error}"
                ) from error

    def shape(self, node: Node, index: int = 0) -> Shape:
        first, second = (run.shape(node, index) for run in (self._first, self._second))
        if first is None or -1 in first:
            raise OnnxError(f"mxlite.onnx.export: the shape of {node.label} is unknown")
        pairs: list[Dim] = [a if a == b else (a, b) for a, b in zip(first, second)]
        return tuple(pairs)

    def dtype(self, node: Node, index: int = 0) -> str:
        return self._first.type(node, index) or "float32"


def _with_free(shapes: Mapping[str, tuple[int, ...]], free: Free) -> dict[str, Shape]:
    """Return shapes with a pair of sizes for each free dimension; equal names get equal pairs."""
    names = sorted({name for axes in free.values() for name in axes.values()})
    added = dict(zip(names, _PRIMES * (1 + len(names) // len(_PRIMES))))
    found: dict[str, Shape] = {}
    for key, shape in shapes.items():
        own = free.get(key, {})
        found[key] = tuple(
            (extent, extent + added[own[axis]]) if axis in own else extent
            for axis, extent in enumerate(shape)
        )
    return found


class _Exporter:
    """Converts the nodes of one symbol."""

    def __init__(
        self, symbol: Symbol, specs: _Specs, params: Mapping[str, NDArray], g: Graph, verbose: bool
    ) -> None:
        self._symbol, self._specs, self._params, self._g = symbol, specs, params, g
        self._verbose = verbose
        self._names: dict[tuple[Node, int], str] = {}

    def run(self, inputs: Mapping[str, str]) -> list[str]:
        """Convert all nodes; ``inputs`` and the result are the ONNX names of inputs and outputs."""
        nodes = self._symbol._nodes()
        self._refuse_unsupported(nodes)
        for number, node in enumerate(nodes):
            if node.op is None:
                if node.name in inputs:
                    self._names[node, 0] = inputs[node.name]
                continue
            if self._verbose:
                logging.info("Converting idx: %d, op: %s, name: %s", number, node.op, node.name)
            self._convert(node)
        return [self._value(entry) for entry in self._symbol._outputs]

    def _refuse_unsupported(self, nodes: list[Node]) -> None:
        missing = [n for n in nodes if n.op is not None and converter_name(n) not in CONVERTERS]
        if missing:
            listed = ", ".join(f"{node.op} of {node.label}" for node in missing)
            raise OnnxError(f"mxlite.onnx.export: no ONNX equivalent is known for {listed}")

    def _value(self, entry: Entry) -> str:
        """Return the name of a value; a parameter becomes an initializer when it is first used."""
        node, index = entry
        if node.op is not None and (node, index) not in self._names:
            raise OnnxError(
                f"mxlite.onnx.export: output {index} of {node.op} {node.label} has no equivalent"
            )
        if (node, index) not in self._names:
            array = self._params.get(node.name) if node.op is None else None
            if array is None:
                raise OnnxError(
                    f"mxlite.onnx.export: {node.label} must be an input or have a value in params"
                )
            name = self._g.unique(node.name)
            dtype = dtype_name(array.dtype)
            self._g.initializers[name] = to_tensor(array.asnumpy(), name, dtype)
            self._names[node, 0] = name
        return self._names[node, index]

    def _constant(self, entry: Entry) -> NDArray | None:
        """Return a value that is computed from parameters only; None for others."""
        node, index = entry
        if node.op is None:
            return self._params.get(node.name)
        arrays = [self._constant(source) for source in node.inputs]
        if not arrays or any(array is None for array in arrays):
            return None
        return node.call.run(arrays)[index]

    def _convert(self, node: Node) -> None:
        g, specs = self._g, self._specs
        g.prefix = node.name
        count = node.num_outputs

        def value_of(index: int) -> np.ndarray | None:
            array = self._constant(node.inputs[index])
            return None if array is None else array.asnumpy()

        label_missing = [
            source.op is None and (source, 0) not in self._names and source.name not in self._params
            for source, _ in node.inputs
        ]
        used = [entry for entry, skip in zip(node.inputs, label_missing) if not skip]
        if len(used) < len(node.inputs) and not is_loss(node):
            used = list(node.inputs)  # `_value` names the variable that has no value
        call = Call(
            g,
            node,
            [self._value(entry) for entry in used],
            ([specs.shape(*entry) for entry in used], [specs.dtype(*entry) for entry in used]),
            (
                [specs.shape(node, i) for i in range(count)],
                [specs.dtype(node, i) for i in range(count)],
            ),
            value_of,
            [self._params.get(s.name) if s.op is None else None for s, _ in used],
            self._inlined,
        )
        before = len(g.nodes)
        results = CONVERTERS[converter_name(node)](call)
        results = [results] if isinstance(results, str) else results
        for index, name in enumerate(results):
            wanted = node.name if len(results) == 1 else f"{node.name}{index}"
            self._names[node, index] = self._renamed(name, wanted, before)

    def _inlined(self, g: Graph, symbol: Symbol, sources: Mapping[int, Source]) -> list[Source]:
        """Convert a subgraph of control flow into a graph; return its outputs."""
        names = symbol.list_inputs()
        given = {names[index]: source for index, source in sources.items()}
        specs = _Specs(
            symbol,
            {name: source.shape for name, source in given.items()},
            {name: source.dtype for name, source in given.items()},
        )
        params = {name: s.array for name, s in given.items() if s.array is not None}
        prefix = g.prefix
        inner = _Exporter(symbol, specs, params, g, self._verbose)
        outputs = inner.run({name: source.name for name, source in given.items()})
        g.prefix = prefix
        return [
            Source(name, specs.shape(*entry), specs.dtype(*entry), None)
            for name, entry in zip(outputs, symbol._outputs)
        ]

    def _renamed(self, name: str, wanted: str, before: int) -> str:
        """Give a value that the converter made the name of its layer."""
        new = self._g.nodes[before:]
        if not any(name in made.output for made in new):
            return name
        wanted = self._g.unique(wanted)
        if name in self._g.units:
            self._g.units[wanted] = self._g.units.pop(name)
        for made in new:
            for part in (made.input, made.output):
                for i, value in enumerate(part):
                    if value == name:
                        part[i] = wanted
        return wanted


def converter_name(node: Node) -> str:
    """Return the name by which the table knows a node's operator."""
    return getattr(node.call, "name", node.op) or ""


def converter_names() -> list[str]:
    """Return the sorted names of the operators in the table."""
    return sorted(CONVERTERS)


def is_loss(node: Node) -> bool:
    """Return whether a node is a loss, whose label a model without training does not have."""
    return len(node.inputs) == 2 and node.input_name(1).endswith("label")


def build(
    symbol: Symbol,
    params: Mapping[str, NDArray],
    inputs: Mapping[str, tuple[tuple[int, ...], str]],
    opset: int,
    free: Free,
    graph_name: str = "mxlite",
    verbose: bool = False,
) -> Any:
    """Return the model of a symbol.

    Parameters
    ----------
    symbol : Symbol
    params : dict of str to NDArray
        Become initializers.
    inputs : dict of str to (shape, dtype)
    opset : int
    free : dict of str to dict of int to str
        Names of free dimensions by input and axis.
    """
    if opset not in EXPORT_OPSETS:
        raise OnnxError(
            f"mxlite.onnx.export: opset must be from {EXPORT_OPSETS[0]} to {EXPORT_OPSETS[-1]}, "
            f"got {opset}"
        )
    helper = onnx().helper
    variables = {node.name: node for node in symbol._nodes() if node.op is None}
    given = {name: (tuple(array.shape), dtype_name(array.dtype)) for name, array in params.items()}
    known = {name: spec for name, spec in {**given, **inputs}.items() if name in variables}
    specs = _Specs(
        symbol,
        _with_free({name: shape for name, (shape, _) in known.items()}, free),
        {name: dtype for name, (_, dtype) in known.items()},
    )
    of_inputs = {
        name: specs.shape(variables[name]) if name in variables else spec[0]
        for name, spec in inputs.items()
    }
    g = Graph(opset, of_inputs)
    for name in inputs:
        g.unique(name)
    names = _Exporter(symbol, specs, params, g, verbose).run({name: name for name in inputs})
    outputs = _outputs(symbol, specs, g, names)
    output_names = [name for name, _, _ in outputs]
    store_as_uint8(g, output_names)
    _prune(g, output_names)
    free_names = {
        of_inputs[key][axis]: name for key, axes in free.items() for axis, name in axes.items()
    }

    def info(name: str, shape: Shape, dtype: str) -> Any:
        dims = [d if isinstance(d, int) else free_names.get(d) for d in shape]
        return helper.make_tensor_value_info(name, tensor_type(dtype), dims)

    graph = helper.make_graph(
        g.nodes,
        graph_name,
        [info(name, of_inputs[name], dtype) for name, (_, dtype) in inputs.items()],
        [info(*output) for output in outputs],
        list(g.initializers.values()),
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(
        graph,
        opset_imports=opsets,
        producer_name="mxlite",
        ir_version=helper.find_min_ir_version_for(opsets),
    )


def _outputs(
    symbol: Symbol, specs: _Specs, g: Graph, names: list[str]
) -> list[tuple[str, Shape, str]]:
    """Return name, shape and dtype of each output, which are values of nodes of their own."""
    made = {name for node in g.nodes for name in node.output}
    outputs, seen = [], set()
    g.prefix = "output"
    for name, entry in zip(names, symbol._outputs):
        if name in seen or name not in made:
            name = g.node("Identity", name)
        seen.add(name)
        outputs.append((name, specs.shape(*entry), specs.dtype(*entry)))
    return outputs


def _prune(g: Graph, outputs: list[str]) -> None:
    """Remove nodes and initializers that no output needs."""
    needed, kept = set(outputs), []
    for node in reversed(g.nodes):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(names_read(node))
    g.nodes = kept[::-1]
    g.initializers = {name: t for name, t in g.initializers.items() if name in needed}
