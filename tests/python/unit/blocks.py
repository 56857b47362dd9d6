"""Steps that most tests of Gluon blocks begin with."""

from __future__ import annotations

from typing import Any, Callable

from mxlite import autograd
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


def variable(array: Any) -> Any:
    """Attach a gradient to an array and return it."""
    array.attach_grad()
    return array


def recorded(function: Callable[..., Any], *arguments: Any, head: Any = None) -> Any:
    """Record a call, run backward from its result and return the result."""
    with autograd.record():
        result = function(*arguments)
    result.backward(head)
    return result
