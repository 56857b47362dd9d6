"""Storage types of a symbol's variables and of their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import _core
from ..base import ValueError_
from .node import Entry, Node

_STYPES = ("default", "row_sparse", "csr")


def storage_types(nodes: Sequence[Node], given: Mapping[str, str]) -> dict[str, str]:
    """Return the storage types of variables that are not dense."""
    found = {}
    for node in nodes:
        if node.op is not None:
            continue
        code = node.attr("__storage_type__") or "0"
        stype = given.get(node.name) or _STYPES[int(code) if code in ("1", "2") else 0]
        if stype not in _STYPES:
            raise ValueError_(
                f"simple_bind: stype of {node.name} must be one of {_STYPES}, got {stype!r}"
            )
        if stype != "default":
            found[node.name] = stype
    return found


def gradient_storage_types(heads: Sequence[Entry], stypes: Mapping[str, str]) -> dict[str, str]:
    """Return the storage types of gradients that are row-sparse."""
    rows: set[str] = {name for name, stype in stypes.items() if stype == "row_sparse"}
    for name, by_rows in _core.symbol_looked_up(heads):
        if by_rows:
            rows.add(name)
        else:
            rows.discard(name)
    return dict.fromkeys(rows, "row_sparse")
