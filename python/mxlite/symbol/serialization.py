"""Reading and writing ``-symbol.json`` files in the layout of MXNet 1.9.1."""

from __future__ import annotations

import json
import os
from typing import Any

from ..base import (
    FileFormatError,
    MissingFileError,
    MXNetError,
    TypeError_,
)
from ..ndarray.serialization import replacing_file
from ..numpy_mode import is_np_shape
from . import symbol as _symbol
from .file_checks import check_arity, check_graph, check_output
from .loop_files import LOOPS, Saved, loaded_loop, saved_loop
from .node import Entry, Node, topological_order
from .symbol import Symbol
from .upgrade import upgrade

__all__ = ["fromjson", "load", "load_json", "save", "to_json"]

_VERSION = 10901


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _object(fields: list[tuple[str, str]], indent: int, multi_line: bool) -> str:
    """Lay out an object as 1.x does; values are JSON text already."""
    if not multi_line:
        return "{" + ", ".join(f"{_text(key)}: {value}" for key, value in fields) + "}"
    pad = " " * indent
    inner = ", \n".join(f"{pad}  {_text(key)}: {value}" for key, value in fields)
    return "{\n" + inner + "\n" + pad + "}"


def _array(items: list[str], indent: int) -> str:
    """Lay out an array: on one line up to ten items."""
    if len(items) <= 10:
        return "[" + ", ".join(items) + "]"
    pad = " " * indent
    return "[\n" + ", \n".join(f"{pad}  {item}" for item in items) + f"\n{pad}]"


def _lines(items: list[str], indent: int) -> str:
    """Lay out an array with each item on lines of its own."""
    pad = " " * indent
    return "[\n" + ", \n".join(pad + item for item in items) + f"\n{pad[:-2]}]"


def _entries(entries: list[tuple[int, int, int]], indent: int) -> str:
    return _array([f"[{node}, {index}, {version}]" for node, index, version in entries], indent)


def _without_amp_cast(symbol: Symbol) -> Symbol:
    """Return a copy of the graph without amp_cast and amp_multicast."""
    moved: dict[int, Node] = {}
    skipped: dict[tuple[int, int], Entry] = {}

    def source(entry: Entry) -> Entry:
        key = (id(entry[0]), entry[1])
        return skipped[key] if key in skipped else (moved[id(entry[0])], entry[1])

    for node in topological_order(symbol._outputs):
        if node.op in ("amp_cast", "amp_multicast"):
            for i, entry in enumerate(node.inputs):
                skipped[id(node), i] = source(entry)
        else:
            inputs = [source(entry) for entry in node.inputs]
            moved[id(node)] = node.moved(inputs)
    return Symbol([source(entry) for entry in symbol._outputs])


@_symbol.to_json.provide
def to_json(symbol: Symbol, remove_amp_cast: bool = True) -> str:
    """Return a symbol as JSON text.

    Parameters
    ----------
    symbol : Symbol
    remove_amp_cast : bool

    Returns
    -------
    str
        What 1.9.1 writes for the same graph, character by character.
    """
    if remove_amp_cast:
        symbol = _without_amp_cast(symbol)
    fields = [*_graph_fields(symbol._outputs, 0), ("attrs", _graph_attrs())]
    return _object(fields, 0, True)


def _graph_fields(outputs: list[Entry], indent: int) -> list[tuple[str, str]]:
    """Return the fields of a graph, or of a subgraph that begins further to the right."""
    nodes = topological_order(outputs)
    ids = {id(node): i for i, node in enumerate(nodes)}
    versions: dict[int, int] = {}
    items: list[str] = []
    rows = [0]
    for node in nodes:
        written = node.mutated_inputs()
        inputs = []
        for i, (source, index) in enumerate(node.inputs):
            if i in written:
                versions[id(source)] = versions.get(id(source), 0) + 1
            inputs.append((ids[id(source)], index, versions.get(id(source), 0)))
        loop = saved_loop(node) if node.op in LOOPS else Saved(node.attrs, [])
        fields = [("op", _text(node.op or "null")), ("name", _text(node.name))]
        if loop.attrs:
            attrs = [(key, _text(loop.attrs[key])) for key in sorted(loop.attrs)]
            fields.append(("attrs", _object(attrs, indent + 6, len(attrs) > 1)))
        fields.append(("inputs", _entries(inputs, indent + 6)))
        if loop.graphs:
            inner = indent + 8
            graphs = [_object(_graph_fields(heads, inner), inner, True) for heads in loop.graphs]
            fields.append(("subgraphs", _lines(graphs, inner)))
        items.append(_object(fields, indent + 4, True))
        rows.append(rows[-1] + node.total_outputs)
    heads = [(ids[id(node)], index, versions.get(id(node), 0)) for node, index in outputs]
    variables = [str(i) for i, node in enumerate(nodes) if node.op is None]
    return [
        ("nodes", _lines(items, indent + 4)),
        ("arg_nodes", _array(variables, indent + 2)),
        ("node_row_ptr", _array([str(row) for row in rows], indent + 2)),
        ("heads", _entries(heads, indent + 2)),
    ]


def _graph_attrs() -> str:
    """Lay out what is said about the whole graph: NumPy shapes, if they are on, and the version."""
    shapes = '"is_np_shape": ["int", 1], ' if is_np_shape() else ""
    return f'{{{shapes}"mxnet_version": ["int", {_VERSION}]}}'


@_symbol.save.provide
def save(symbol: Symbol, fname: Any, remove_amp_cast: bool = True) -> None:
    """Write a symbol to a file.

    Parameters
    ----------
    symbol : Symbol
    fname : str or path
        Replaced only after everything was written.
    remove_amp_cast : bool

    Raises
    ------
    TypeError
        If fname is no path.
    OSError
        If the file cannot be written.
    """
    if not isinstance(fname, (str, os.PathLike)):
        raise TypeError_(f"Symbol.save: fname {fname!r} given, a file name expected")
    with replacing_file(os.fspath(fname)) as file:
        file.write(to_json(symbol, remove_amp_cast).encode("utf-8"))


def load(fname: Any) -> Symbol:
    """Read a symbol from a file that this library or any MXNet 1.x wrote.

    Parameters
    ----------
    fname : str or path

    Returns
    -------
    Symbol

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no symbol file.
    MXNetError
        For an operator that the engine does not have; it and the file are named.
    """
    if not isinstance(fname, (str, os.PathLike)):
        raise TypeError_(f"mx.sym.load: fname {fname!r} given, a file name expected")
    path = os.fspath(fname)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError as error:
        raise MissingFileError(f"mx.sym.load: there is no file {path!r}") from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"mx.sym.load: {path!r} is no JSON text: {error}") from error
    return _parse(text, f"file {path!r}")


@_symbol.load_json.provide
def load_json(json_str: str) -> Symbol:
    """Read a symbol from JSON text; see `load`.

    Parameters
    ----------
    json_str : str
    """
    if not isinstance(json_str, str):
        raise TypeError_("fname required to be string")
    return _parse(json_str, "the JSON text")


fromjson = load_json


def _parse(text: str, source: str) -> Symbol:
    try:
        graph = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"mx.sym.load: {source} is no JSON: {error}") from error
    check_graph(graph, source)
    return Symbol(_build_graph(graph, source)[0])


def _build_graph(graph: dict[str, Any], source: str) -> tuple[list[Entry], list[Node]]:
    """Return the outputs of a graph and its variables, in the order of the file."""
    items = upgrade(graph, source)
    nodes: list[Node] = []
    for item in items:
        label = f"mx.sym.load: {source}: node {item['name']!r}"
        inputs = [(nodes[at], index) for at, index, *_ in item["inputs"]]
        for producer, index in inputs:
            check_output(producer, index, f"{label} ({item['op']}) has as input")
        nodes.append(_build_node(item, inputs, label))
    heads = [(nodes[at], index) for at, index, *_ in graph["heads"]]
    for producer, index in heads:
        check_output(producer, index, f"mx.sym.load: {source}: 'heads' names")
    return heads, [node for node in nodes if node.op is None]


def _build_node(item: dict[str, Any], inputs: list[Entry], label: str) -> Node:
    op, name = str(item["op"]), str(item["name"])
    try:
        if op == "null":
            return Node(None, name, item["attrs"], inputs)
        if op in LOOPS:
            graphs = [_build_graph(part, label) for part in item["subgraphs"]]
            call, inputs, attrs = loaded_loop(op, item["attrs"], inputs, graphs, label)
            return Node(op, name, attrs, inputs, call)
        node = Node(op, name, item["attrs"], inputs)
        check_arity(node, label)
        return node
    except FileFormatError:
        raise
    except MXNetError as error:
        raise type(error)(f"{label}: {error}") from None
