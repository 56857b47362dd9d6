"""Names of operators by their class in mixed precision, from the operators' schemas."""

from __future__ import annotations

import functools
from typing import Any

from .... import _core


@functools.cache
def _schemas() -> tuple[dict[str, Any], ...]:
    return tuple(sorted(_core.list_ops(), key=lambda op: str(op["name"])))


@functools.cache
def names_of(kind: str) -> tuple[str, ...]:
    """Return names and aliases of the operators of one class."""
    found = ["Custom"] if kind == "float32" else []
    for op in _schemas():
        amp, name = op["amp"], op["name"]
        if amp["kind"] == kind and amp["float32_if"] is None and not name.endswith("_backward"):
            found.extend([name, *op["aliases"]])
    return tuple(sorted(found))


def conditional() -> list[tuple[str, str, list[str]]]:
    """Return (operator, parameter, values for which it needs float32)."""
    found = [(op["name"], op["amp"]["float32_if"]) for op in _schemas()]
    return [(name, *condition) for name, condition in found if condition is not None]


def loss_outputs() -> list[str]:
    """Return the loss operators; they ignore output gradients, so they apply the loss scale."""
    found = [str(op["name"]) for op in _schemas() if op["amp"]["loss_output"]]
    return sorted(found, key=lambda name: (name != "SoftmaxOutput", name))  # the order of 1.x


def float32_parameters() -> dict[str, list[str]]:
    """Return, by operator, inputs that stay float32 if data has lower precision; "" if none.

    Operators that run in float32 altogether are left out.
    """
    found: dict[str, list[str]] = {}
    for op in _schemas():
        kept, name = op["amp"]["float32_inputs"], op["name"].replace("_contrib_", "")
        if kept and op["amp"]["kind"] != "float32" and not name.startswith("_"):
            found[name] = [arg if i in kept else "" for i, arg in enumerate(op["inputs"])]
    return found
