"""Quantized networks in files that MXNet 1.9.1 wrote with its oneDNN backend."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import ndarray as nd
from ..._files.whole import read_file
from ...base import ValueError_
from ...ndarray import NDArray
from ...symbol import load_json
from .collectors import Ranges
from .graphs import calibrated_symbol, quantize_params, quantize_symbol
from .symbols import Model, split

_FUSED = ("_sg_mkldnn_conv", "_sg_mkldnn_fully_connected")
# Operators on int8, and the float operators that replace them.
_FLOAT = {
    f"_contrib_quantized_{name}": op
    for name, op in {
        "act": "Activation", "batch_norm": "BatchNorm", "concat": "Concat", "conv": "Convolution",
        "elemwise_add": "elemwise_add", "elemwise_mul": "elemwise_mul", "embedding": "Embedding",
        "flatten": "Flatten", "fully_connected": "FullyConnected", "pooling": "Pooling",
    }.items()
}  # fmt: skip
# Conversions between float and int8. The float network uses their input instead of their output.
_CONVERSIONS = ("_contrib_quantize_v2", "_contrib_requantize", "_contrib_dequantize")
_NOT_FLOAT = ("min_calib_range", "max_calib_range", "enable_float_output", "quantized", "num_args")
_LARGEST = 127  # int8 number that represents the end of a parameter's range
Entry = tuple[int, int]


class _FloatGraph:
    """Nodes of the float network, and the ranges of its values."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.nodes: list[dict[str, Any]] = []
        self.ranges: Ranges = {}
        self.float_layers: list[str] = []
        self.replaced: dict[str, str] = {}  # names of int8 parameters -> names of float ones
        # Element i replaces node i of the file: an entry of the float network if the node has one
        # output, else the number of the float node that has the same outputs.
        self._values: list[Entry | int] = []

    def add_all(self, nodes: list[dict[str, Any]]) -> None:
        """Add the nodes of a file."""
        for node in nodes:
            inputs = [self.entry(pair) for pair in node["inputs"]]
            self._values.append(self._added(node, inputs))

    def entry(self, pair: list[int]) -> Entry:
        """Return the value of the float network for an output of a node in the file."""
        value = self._values[pair[0]]
        return (value, pair[1]) if isinstance(value, int) else value

    def _added(self, node: dict[str, Any], inputs: list[Entry]) -> Entry | int:
        op, name, attrs = node["op"], node["name"], dict(node.get("attrs", {}))
        if op in _CONVERSIONS:
            self._note(attrs, inputs[0])
            return inputs[0]
        if op in _FUSED:
            if len(node.get("subgraphs", ())) != 1:
                raise ValueError_(
                    f"load_quantized: {self.source!r}: the node {name!r} of {op} must have one "
                    f"subgraph, got {len(node.get('subgraphs', ()))}"
                )
            made = self._inlined(node["subgraphs"][0], inputs)
            self._note(attrs, made)
            return made
        if op in _FLOAT:
            count = {"batch_norm": 5, "embedding": 2}.get(op.removeprefix("_contrib_quantized_"))
            inputs = inputs[: len(inputs) // 3 if count is None else count]
            kept = {key: value for key, value in attrs.items() if key not in _NOT_FLOAT}
            if op == "_contrib_quantized_concat":
                kept["num_args"] = str(len(inputs))
            made = self._node(_FLOAT[op], name.removeprefix("quantized_"), kept, inputs)
            self._note(attrs, made)
            return made
        if op == "null" and name.endswith("_quantize"):
            own = self._node("null", name.removesuffix("_quantize"), {}, [])
            self.replaced[name] = self.nodes[own[0]]["name"]
            return own
        if op != "null":
            self.float_layers.append(name)
        number, _ = self._node(op, name, attrs, inputs, node.get("subgraphs"))
        return number

    def _inlined(self, graph: dict[str, Any], inputs: list[Entry]) -> Entry:
        """Add the operators of a fused node; return its result."""
        given = dict(zip(graph["arg_nodes"], inputs))
        values: list[Entry] = []
        for number, node in enumerate(graph["nodes"]):
            if number in given:
                values.append(given[number])
                continue
            own = [values[pair[0]] for pair in node["inputs"]]
            values.append(self._node(node["op"], node["name"], node.get("attrs", {}), own))
        return values[graph["heads"][0][0]]

    def _node(
        self, op: str, name: str, attrs: Mapping[str, str], inputs: list[Entry],
        subgraphs: Any = None,
    ) -> Entry:  # fmt: skip
        node: dict[str, Any] = {"op": op, "name": name, "attrs": dict(attrs)}
        node["inputs"] = [[*entry, 0] for entry in inputs]
        if subgraphs:
            node["subgraphs"] = subgraphs
        self.nodes.append(node)
        return len(self.nodes) - 1, 0

    def _note(self, attrs: Mapping[str, str], entry: Entry) -> None:
        """Record the range of a value if the attributes of the node have one."""
        if "min_calib_range" in attrs:
            node = self.nodes[entry[0]]
            name = node["name"] if node["op"] == "null" else f"{node['name']}_output"
            low, high = (float(attrs[f"{end}_calib_range"]) for end in ("min", "max"))
            self.ranges[name] = (low, high)

    def json(self, heads: list[list[int]]) -> str:
        """Return the symbol file of the float network."""
        variables = [i for i, node in enumerate(self.nodes) if node["op"] == "null"]
        return json.dumps(
            {
                "nodes": self.nodes,
                "arg_nodes": variables,
                "heads": [[*self.entry(head), 0] for head in heads],
                "attrs": {"mxnet_version": ["int", 10901]},
            }
        )


def _floats(params: Mapping[str, NDArray], replaced: Mapping[str, str]) -> dict[str, NDArray]:
    """Return the parameters; int8 parameters are converted to float32."""
    found = {}
    for name, array in params.items():
        if name in replaced:
            ends = [params[f"{name}_{end}"].asnumpy() for end in ("min", "max")]
            unit = np.abs(np.concatenate(ends)).max() / _LARGEST
            found[replaced[name]] = nd.array(array.asnumpy().astype("float32") * unit)
        elif not any(name == f"{own}_{end}" for own in replaced for end in ("min", "max")):
            found[name] = array
    return found


def load_quantized(
    symbol_file: str | os.PathLike[str], params_file: str | os.PathLike[str]
) -> Model:
    """Read a quantized network that MXNet 1.9.1 wrote with its oneDNN backend.

    1.9.1 stores fused layers as float networks, with the ranges of their results. They are
    quantized again with the same ranges, and each filter gets a scale of its own.

    Parameters
    ----------
    symbol_file, params_file : str or path
        Files of ``export`` or ``save_checkpoint``.

    Returns
    -------
    sym : Symbol
    arg_params, aux_params : dict of str to NDArray

    Raises
    ------
    FileNotFoundError
        If a file does not exist.
    ValueError
        If the file is no symbol, or a fused layer has no subgraph.

    Examples
    --------
    >>> sym, args, aux = mx.contrib.quantization.load_quantized(
    ...     "net-int8-symbol.json", "net-int8-0000.params")
    >>> mx.model.save_checkpoint("net", 0, sym, args, aux)
    """
    source = os.fspath(symbol_file)
    try:
        content = json.loads(read_file(source))
        nodes, heads = content["nodes"], content["heads"]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError_(f"load_quantized: {source!r} must be a symbol file: {error}") from error
    graph = _FloatGraph(source)
    graph.add_all(nodes)
    arrays = {name.split(":", 1)[-1]: a for name, a in nd.load(os.fspath(params_file)).items()}
    params = _floats(arrays, graph.replaced)
    qsym, _ = quantize_symbol(
        load_json(graph.json(heads)),
        params,
        excluded_names=graph.float_layers,
        excluded_ops=(),
        calibrated=True,
        dtype="auto",
        mode="full",
        granularity="channel-wise",
    )
    qsym = calibrated_symbol(qsym, graph.ranges)
    return split(qsym, quantize_params(qsym, params))
