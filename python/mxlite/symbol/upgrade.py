"""Changes that old ``-symbol.json`` files need, by the version of MXNet that wrote them."""

from __future__ import annotations

from typing import Any

from ..base import FileFormatError
from ..numpy_mode import is_np_shape
from .compose import variable_attrs
from .names import file_name
from .node import HIDDEN_KEYS, known_operator, schema_of

__all__ = ["upgrade"]

_HIDDEN = frozenset(HIDDEN_KEYS)


def upgrade(graph: dict[str, Any], source: str) -> list[dict[str, Any]]:
    """Return the nodes of a file as 1.9.1 would write them; heads are moved along.

    Parameters
    ----------
    graph : dict
        The parsed file; ``heads`` is changed in place when nodes are inserted.
    source : str
        For errors.

    Returns
    -------
    list of dict
        With ``op``, ``name``, ``attrs``, ``inputs`` and ``subgraphs``.

    Raises
    ------
    FileFormatError
        If a node is no object with op and name.
    """
    version = _version(graph)
    nodes = []
    for item in graph["nodes"]:
        if not isinstance(item, dict) or "op" not in item or "name" not in item:
            raise FileFormatError(f"mx.sym.load: {source}: a node without op and name: {item!r}")
        attrs: dict[str, str] = {}
        # <= 0.8 kept parameters and attributes apart, 0.9 to 0.11 called both attr.
        for key in ("param", "attr", "attrs"):
            attrs.update({str(k): str(v) for k, v in (item.get(key) or {}).items()})
        inputs = [list(reference) for reference in item.get("inputs") or []]
        nodes.append(
            {
                "op": _current_name(item["op"]),
                "name": item["name"],
                "attrs": attrs,
                "inputs": inputs,
                # They say nothing about their version.
                "subgraphs": [
                    {**part, "attrs": graph.get("attrs")} for part in item.get("subgraphs") or []
                ],
            }
        )
    for node in nodes:
        _hide(node, nodes)
    if version < 900:
        nodes = _add_missing_variables(nodes, graph)
    if is_np_shape() and "is_np_shape" not in (graph.get("attrs") or {}):
        for node in nodes:
            _write_unknown_as_negative(node["attrs"])
    if version < 905:
        for node in nodes:
            if node["op"] in ("argmax", "argmin") and node["attrs"].get("axis") == "-1":
                del node["attrs"]["axis"]
    return nodes


def _write_unknown_as_negative(attrs: dict[str, str]) -> None:
    """Spell unknown dimensions of a variable's shape as NumPy shapes do."""
    if "__shape__" in attrs:
        shape = [part.strip() for part in attrs["__shape__"].strip("()[] ").split(",")]
        known = ["-1" if part == "0" else part for part in shape if part]
        attrs["__shape__"] = f"({', '.join(known)},)" if known else "None"


def _current_name(op: str) -> str:
    """Return 1.9.1's name of an operator; unknown ones are reported when their node is made."""
    if op == "null" or not known_operator(op):
        return op
    return file_name(op, schema_of(op)["name"])


def _version(graph: dict[str, Any]) -> int:
    """Return MAJOR * 10000 + MINOR * 100 + PATCH of the writer; 800 if it did not say."""
    entry = (graph.get("attrs") or {}).get("mxnet_version")
    return int(entry[1]) if entry else 800


def _hide(node: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
    """Write lr_mult as __lr_mult__; weight_lr_mult of an operator goes to that variable."""
    attrs: dict[str, str] = node["attrs"]
    for key in list(attrs):
        if key in _HIDDEN:
            attrs[f"__{key}__"] = attrs.pop(key)
            continue
        for hidden in HIDDEN_KEYS:
            if node["op"] == "null" or not key.endswith("_" + hidden):
                continue
            name = key[: -len(hidden) - 1]
            names = schema_of(node["op"])["inputs"]
            value = attrs.pop(key)
            if name in names and names.index(name) < len(node["inputs"]):
                target = nodes[node["inputs"][names.index(name)][0]]
                if target["op"] == "null":
                    target["attrs"][f"__{hidden}__"] = value
            break


def _add_missing_variables(
    nodes: list[dict[str, Any]], graph: dict[str, Any]
) -> list[dict[str, Any]]:
    """Add the auxiliary variables that files before 0.9 left out: ``bn0_moving_mean``."""
    result: list[dict[str, Any]] = []
    moved: list[int] = []
    for node in nodes:
        inputs = [[moved[at[0]], at[1]] for at in node["inputs"]]
        if node["op"] != "null":
            schema = schema_of(node["op"])
            if not schema["variadic"] and schema["mutated"]:
                for name in schema["inputs"][len(inputs) :]:
                    attrs = variable_attrs(node["op"], name, node["attrs"])
                    variable = {
                        "op": "null",
                        "name": f"{node['name']}_{name}",
                        "attrs": attrs,
                        "inputs": [],
                    }
                    inputs.append([len(result), 0])
                    result.append(variable)
        moved.append(len(result))
        result.append({**node, "inputs": inputs})
    graph["heads"] = [[moved[head[0]], *head[1:]] for head in graph["heads"]]
    return result
