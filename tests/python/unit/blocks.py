"""Blocks that tests make, initialize and hybridize in one call."""

from __future__ import annotations

from typing import Any

from mxlite.gluon import nn


def sequential(*layers: Any) -> nn.HybridSequential:
    """Return a HybridSequential of the layers."""
    net = nn.HybridSequential()
    net.add(*layers)
    return net


def ready(block: Any, *init: Any, hybridize: bool = False, **options: Any) -> Any:
    """Initialize a block or parameter, hybridize the block if asked to, and return it."""
    block.initialize(*init, **options)
    if hybridize:
        block.hybridize()
    return block


def hybridized(block: Any, active: bool = True) -> Any:
    """Hybridize a block, if that is active, and return it."""
    block.hybridize(active)
    return block
