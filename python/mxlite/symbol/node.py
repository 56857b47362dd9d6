"""Nodes of symbols, which the core has, and what operators' schemas say of their arguments."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import Node, topological_order

__all__ = ["HIDDEN_KEYS", "Entry", "Node", "known_operator", "schema_of", "topological_order"]

# Attributes of 1.x that are written without underscores and kept with them.
HIDDEN_KEYS = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")

Entry = tuple[Node, int]

_SCHEMAS: dict[str, dict[str, Any]] = {}


def schema_of(name: str) -> dict[str, Any]:
    """Return the description of an operator by its name or an alias.

    Parameters
    ----------
    name : str

    Returns
    -------
    dict
        An entry of ``_core.list_ops()``, with a dict ``param_types`` besides.

    Raises
    ------
    ValueError
        For a name that no operator has; near ones are suggested.
    """
    if not _SCHEMAS:
        for schema in _core.list_ops():
            schema["param_types"] = {p["name"]: p for p in schema["params"]}
            for alias in (schema["name"], *schema["aliases"]):
                _SCHEMAS[alias] = schema
    name = _core.symbol_engine_name(name)
    found = _SCHEMAS.get(name)
    if found is None:
        _core.op(name)  # raises with near names
        raise KeyError(name)
    return found


def known_operator(name: str) -> bool:
    """Say whether the engine has an operator of that name or alias."""
    if not _SCHEMAS:
        schema_of("relu")
    return _core.symbol_engine_name(name) in _SCHEMAS
