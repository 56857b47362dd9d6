"""``mx.sym._internal._CachedOp``: calls a symbol, given as JSON, like an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core
from .. import name as _name
from ..base import TypeError_
from .serialization import load_json
from .symbol import Symbol


def cached_op(
    *args: Symbol,
    subgraph: str | None = None,
    name: str | None = None,
    attr: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Symbol:
    """Return a copy of a symbol with its variables replaced by the given inputs.

    In 1.x, ``mxnet.sym._internal._CachedOp`` keeps the symbol as one node.
    """
    if not isinstance(subgraph, str):
        raise TypeError_(f"_CachedOp: subgraph must be a symbol's JSON text, got {subgraph!r}")
    inner = load_json(subgraph)
    names = inner.list_inputs()
    if len(args) > len(names):
        raise TypeError_(
            f"_CachedOp: number of inputs must be {len(names)}, got {len(args)}; the names are "
            f"{names}"
        )
    for key, arg in zip(names, args):
        if not isinstance(arg, Symbol) or len(arg) != 1:
            raise TypeError_(f"_CachedOp: {key} must be a Symbol of one output, got {arg!r}")
    attrs = _core.scoped_attrs(attr)
    prefix = _name.current().get(name, "_cachedop") + "_"
    for node in inner._nodes():
        node.name = prefix + node.name
        if node.op is not None:
            for key, text in attrs.items():
                node.set_attr(key, text)
    return inner._substituted({prefix + key: arg._outputs[0] for key, arg in zip(names, args)})
