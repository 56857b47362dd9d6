"""Warnings about blocks and parameters that are not registered with their block."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ..parameter import Parameter, ParameterDict

__all__ = ["warn_of_hidden_blocks", "warn_of_left_out"]

_CONTAINERS = (list, tuple, dict)


def _has_new(value: Any, kind: type, known: set[int]) -> bool:
    """Return whether nested containers contain a block whose id is not in ``known``."""
    if isinstance(value, kind):
        return id(value) not in known
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return False
    return any(_has_new(entry, kind, known) for entry in value)


def warn_of_hidden_blocks(block: Any, kind: type) -> None:
    """Warn about attributes that are containers with blocks that are not registered."""
    known = set(map(id, block._children.values()))
    for key, value in vars(block).items():
        if isinstance(value, _CONTAINERS) and key != "_children" and _has_new(value, kind, known):
            warnings.warn(
                f'"{type(block).__name__}.{key}" is an unregistered container with Blocks. '
                "Note that Blocks inside the list, tuple or dict will not be registered "
                "automatically. Make sure to register them using register_child() or switching "
                "to nn.Sequential/nn.HybridSequential instead.",
                stacklevel=4,
            )


def warn_of_left_out(block: str, held: Mapping[str, Parameter], collected: ParameterDict) -> None:
    """Warn about uninitialized parameters that are missing from ``collect_params()``."""
    known = set(map(id, collected.values()))
    for path, param in held.items():
        if id(param) not in known and param._data is None and not param._deferred_init:
            warnings.warn(
                f'Parameter "{path}" of {block} is not in collect_params(), so neither '
                f"initialize() nor a Trainer includes it; make it with "
                f"self.params.get({param.name!r}, ...)",
                stacklevel=3,
            )
