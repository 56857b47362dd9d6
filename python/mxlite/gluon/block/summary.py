"""The texts that describe blocks: the table of ``Block.summary``, and trees of names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ..._html import table
from ...base import MXNetError
from ...ndarray import NDArray
from ..parameter.parameter import shape_is_known
from .hooks import HookHandle

__all__ = ["HybridizedSummaryError", "indented", "summary_html", "summary_text", "tree"]

_ROW = "{:>20}  {:>42} {:>15}"
_WIDTH = 80


class HybridizedSummaryError(MXNetError, AssertionError):
    """``summary`` was called on a hybridized block (1.x: ``AssertionError``)."""


def summary_text(block: Any, *inputs: Any) -> str:
    """Run a block once and return its layers, output shapes and numbers of parameters."""
    rows: list[tuple[str, str, int]] = [("Input", _shapes(inputs), 0)]
    seen: set[int] = set()
    totals = {"all": 0, "trainable": 0, "shared": 0}
    handles: list[HookHandle] = []

    def record(layer: Any, _inputs: Any, outputs: Any) -> None:
        size = 0
        for param in layer.params.values():
            count = int(param.data().size)
            size += count
            totals["trainable"] += 0 if param.grad_req == "null" else count
            totals["shared"] += count if id(param) in seen else 0
            seen.add(id(param))
        totals["all"] += size
        rows.append((f"{type(layer).__name__}-{len(rows)}", _shapes(outputs), size))

    def attach(layer: Any) -> None:
        if getattr(layer, "_active", False):
            raise HybridizedSummaryError(
                f"summary: {layer.name!r} is hybridized; print the summary before hybridize()"
            )
        if not layer._is_container:
            handles.append(layer.register_forward_hook(record))

    try:
        block.apply(attach)
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()
    return "\n".join(
        [
            "-" * _WIDTH,
            _ROW.format("Layer (type)", "Output Shape", "Param #"),
            "=" * _WIDTH,
            *(_ROW.format(*row) for row in rows),
            "=" * _WIDTH,
            "Parameters in forward computation graph, duplicate included",
            f"   Total params: {totals['all']}",
            f"   Trainable params: {totals['trainable']}",
            f"   Non-trainable params: {totals['all'] - totals['trainable']}",
            f"Shared params in forward computation graph: {totals['shared']}",
            f"Unique parameters in model: {totals['all'] - totals['shared']}",
            "-" * _WIDTH,
        ]
    )


def summary_html(block: Any) -> str:
    """Return a table of a block's layers, their weights and numbers of parameters; runs nothing."""
    rows: list[tuple[str, str, str, str]] = []

    def count(params: Iterable[Any]) -> str:
        sizes = [math.prod(p.shape) if shape_is_known(p.shape) else None for p in params]
        known = f"{sum(size or 0 for size in sizes):,}" if sizes else ""
        return "deferred" if sizes and not any(sizes) else known + " + deferred" * (None in sizes)

    def add(layer: Any, path: str) -> None:
        own = layer._reg_params
        shapes = ", ".join(f"{name} {param.shape}" for name, param in own.items())
        rows.append((path, type(layer).__name__, shapes, count(own.values())))
        for name, child in layer._children.items():
            add(child, f"{path}.{name}" if path else name)

    add(block, "")
    rows[0] = (block.name, *rows[0][1:])
    rows.append(("total", "", "", count(block.collect_params().values())))
    return table(["layer", "class", "weights", "parameters"], rows)


def _shapes(nested: Any) -> str:
    """Return the shapes of nested lists of arrays as text."""
    if isinstance(nested, NDArray):
        return str(tuple(nested.shape))
    if isinstance(nested, (list, tuple)):
        if len(nested) == 1:
            return _shapes(nested[0])
        return "[" + ", ".join(_shapes(entry) for entry in nested) + "]"
    return str(nested)


def indented(text: str) -> str:
    """Return a text in which all lines except the first are indented by two more spaces."""
    return text.replace("\n", "\n  ")


def tree(name: str, lines: Sequence[str]) -> str:
    """Return a block's name with the lines of its children in parentheses, as 1.x prints it."""
    return "\n".join([f"{name}(", "\n".join(lines), ")"])
