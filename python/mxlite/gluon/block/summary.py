"""The texts that describe blocks: the table of ``Block.summary``, and trees of names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base import MXNetError
from ...ndarray import NDArray
from .hooks import HookHandle

__all__ = ["HybridizedSummaryError", "indented", "summary_text", "tree"]

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
