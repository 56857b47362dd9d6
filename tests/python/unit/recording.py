"""Recording and differentiating a function in one call."""

from __future__ import annotations

from typing import Any, Callable

from mxlite import autograd, nd


def variable(array: Any) -> Any:
    """Attach a gradient to the array and return it."""
    array.attach_grad()
    return array


def recorded(function: Callable[..., Any], *arguments: Any, head: Any = None) -> Any:
    """Record a call, run backward from its result and return the result."""
    with autograd.record():
        result = function(*arguments)
    result.backward(head)
    return result


def differentiated(
    function: Callable[..., Any], *arrays: nd.NDArray, head: nd.NDArray | None = None
) -> Any:
    """Run ``recorded`` on arrays, after attaching a gradient to those that have none."""
    for array in arrays:
        if array.grad is None:
            array.attach_grad()
    return recorded(function, *arrays, head=head)
