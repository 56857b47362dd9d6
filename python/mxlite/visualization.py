"""Tables and drawings of symbols (MXNet 1.x: ``mxnet.visualization``, ``mx.viz``)."""

from __future__ import annotations

import importlib
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from . import _core
from .base import NotSupportedError, TypeError_, ValueError_, suggestion
from .ndarray.serialization import dtype_name
from .symbol import Symbol
from .symbol.inference import Inference, Shape, infer, parse_shape
from .symbol.node import Node, schema_of

__all__ = ["plot_network", "print_summary"]


def _check(symbol: Any, who: str) -> None:
    if not isinstance(symbol, Symbol):
        raise TypeError_(f"{who}: symbol must be a Symbol, got {type(symbol).__name__}")


def _inference(
    symbol: Symbol, shapes: Mapping[str, Any], types: Mapping[str, Any] | None = None
) -> Inference:
    return infer(
        symbol._outputs,
        {name: parse_shape(shape, name) for name, shape in shapes.items()},
        {name: dtype_name(dtype) for name, dtype in (types or {}).items()},
    )


def _complete(inference: Inference, who: str) -> None:
    unknown = [
        node.name
        for node in inference.nodes
        for i in range(node.num_outputs)
        if (shape := inference.shape(node, i)) is None or -1 in shape
    ]
    if unknown:
        raise ValueError_(f"{who}: input shape is incomplete: that of {unknown[0]} is not known")


def print_summary(
    symbol: Symbol,
    shape: Mapping[str, Sequence[int]] | None = None,
    line_length: int = 120,
    positions: Sequence[float] = (0.44, 0.64, 0.74, 1.0),
) -> None:
    """Print a table of a network's nodes: output shape, number of parameters, inputs.

    Parameters
    ----------
    symbol : Symbol
    shape : dict of str to tuple of int, optional
        Shapes of the inputs; without them shapes stay empty and parameters uncounted, with a
        warning.
    line_length : int
    positions : sequence of float
        Right ends of the four columns, as parts of the line.

    Raises
    ------
    TypeError
        If symbol is not a Symbol.
    ValueError
        If the shapes are not enough to infer all others.
    """
    _check(symbol, "print_summary")
    inference = None
    if shape is None:
        warnings.warn(
            "print_summary: parameters are not counted without the shapes of the inputs; pass "
            "shape={'data': (1, 3, 224, 224)} or the like",
            stacklevel=2,
        )
    elif not isinstance(shape, Mapping):
        raise TypeError_(
            f"print_summary: shape must be a dict of shapes by input name, got {shape!r}"
        )
    else:
        known = symbol.list_inputs()
        for name in shape:
            if name not in known:
                raise ValueError_(
                    f"print_summary: the symbol has no input {name!r}"
                    f"{suggestion(name, known) or '; it has ' + ', '.join(known)}"
                )
        inference = _inference(symbol, shape)
        _complete(inference, "print_summary")
    ends = [int(line_length * p) if p <= 1 else int(p) for p in positions]
    variables, is_state = _core.symbol_variables(symbol._outputs)
    written = {node for node, state in zip(variables, is_state) if state}
    counted = written.union(node for node, _ in symbol._outputs)  # nodes not to be counted
    total = 0
    rule = "_" * line_length
    print(rule)
    print(_row(["Layer (type)", "Output Shape", "Param #", "Previous Layer"], ends))
    print("=" * line_length)
    rows = [n for i, n in enumerate(symbol._nodes()) if n.op is not None or i == 0]
    for position, node in enumerate(rows):
        count = 0
        previous = []
        for source, _ in node.inputs:
            if source.op is not None or source == rows[0]:
                previous.append(source.name)
            elif (
                inference is not None
                and source not in counted
                and source.name not in (shape or {})
                and not source.name.endswith("label")
            ):
                counted.add(source)
                count += _size(inference.shape(source, 0))
        total += count
        output = "" if inference is None else _shown(inference.shape(node, 0))
        first = previous[0] if previous else ""
        print(_row([f"{node.name}({node.op or 'null'})", output, str(count), first], ends))
        for name in previous[1:]:
            print(_row(["", "", "", name], ends))
        print(("=" if position == len(rows) - 1 else "_") * line_length)
    print(f"Total params: {total}")
    print(rule)


def _row(fields: Sequence[str], ends: Sequence[int]) -> str:
    line = ""
    for field, end in zip(fields, ends):
        line = (line + field)[:end].ljust(end)
    return line


def _size(shape: Shape) -> int:
    return math.prod(shape) if shape is not None else 0


def _shown(shape: Shape) -> str:
    """Show a shape without its batch dimension."""
    return "x".join(str(extent) for extent in (shape or ())[1:])


# Fill colours by the kind of drawing that schemas state.
_COLOURS = {
    "layer": "#fb8072", "activation": "#ffffb3", "normalization": "#bebada", "pooling": "#80b1d3",
    "shape": "#fdb462", "softmax": "#b3de69",
}  # fmt: skip
_VARIABLE, _OTHER = "#8dd3c7", "#fccde5"
_HIDDEN = re.compile(r".*_(weight|bias|beta|gamma|moving_(mean|var)|running_(mean|var))$")


def _drawn(node: Node) -> tuple[str, str]:
    """Return the colour and the text of a node's box: what identifies the layer."""
    if node.op is None:
        return _VARIABLE, node.name
    schema = schema_of(node)
    if schema is None or not schema["drawing"][0]:
        return _OTHER, node.name
    kind, template = schema["drawing"]
    attrs = node.attrs
    params = {param["name"]: param for param in schema["params"]}

    def value(match: re.Match[str]) -> str:
        param = params[match[1]]
        text = attrs.get(match[1], str(param["default"]))
        if "Sequence" in param["python_type"]:  # "3x3"; "1" if the default is empty
            return "x".join(re.findall(r"\d+", text)) or "1"
        return text

    label = re.sub(r"\{(\w+)\}", value, template)
    return _COLOURS[kind], f"{node.op}\n{label}" if label else node.op


def plot_network(
    symbol: Symbol,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Mapping[str, Sequence[int]] | None = None,
    dtype: Mapping[str, Any] | None = None,
    node_attrs: Mapping[str, str] | None = None,
    hide_weights: bool = True,
) -> Any:
    """Draw a network with graphviz.

    Parameters
    ----------
    symbol : Symbol
    title : str
        File name of the drawing.
    save_format : str
    shape, dtype : dict, optional
        Shapes and types of the inputs; arrows then show those of all values.
    node_attrs : dict of str to str, optional
        Graphviz attributes of all nodes.
    hide_weights : bool
        Leave out weights, biases and statistics.

    Returns
    -------
    graphviz.Digraph

    Raises
    ------
    ImportError
        If the package graphviz is not installed.
    TypeError
        If symbol is not a Symbol.
    ValueError
        If two nodes have one name, or the shapes are not enough to infer all others.
    """
    _check(symbol, "plot_network")
    try:
        digraph = importlib.import_module("graphviz").Digraph
    except ImportError as error:
        raise MissingGraphviz(
            "plot_network: Draw network requires the Python package graphviz, which is not "
            "installed (pip install graphviz)"
        ) from error
    nodes = symbol._nodes()
    names = [node.name for node in nodes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError_(f"plot_network: several nodes are called {', '.join(twice)}")
    inference = None
    if shape is not None or dtype is not None:
        inference = _inference(symbol, shape or {}, dtype)
        if shape is not None:
            _complete(inference, "plot_network")
    style = {"shape": "box", "fixedsize": "true", "width": "1.3", "height": "0.8034",
             "style": "filled", **(node_attrs or {})}  # fmt: skip
    drawing = digraph(name=title, format=save_format)
    hidden = {
        node.name for node in nodes if hide_weights and not node.op and _HIDDEN.match(node.name)
    }
    for node in nodes:
        if node.name in hidden:
            continue
        colour, label = _drawn(node)
        box = {**style, "fillcolor": colour}
        if node.op is None:
            box["shape"] = "oval"
        drawing.node(name=node.name, label=label, **box)
    for node in nodes:
        for source, index in node.inputs:
            if source.name in hidden:
                continue
            arrow = {"dir": "back", "arrowtail": "open"}
            parts = []
            if inference is not None and shape is not None:
                parts.append(_shown(inference.shape(source, index)))
            if inference is not None and dtype is not None:
                parts.append(str(inference.type(source, index)))
            if parts:
                arrow["label"] = " ".join(parts)
            drawing.edge(tail_name=node.name, head_name=source.name, **arrow)
    return drawing


class MissingGraphviz(NotSupportedError, ImportError):  # noqa: N818 - says what is missing
    """The package graphviz, which drawing needs, is not installed."""
