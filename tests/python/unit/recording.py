"""Recording and differentiating a function in one call."""

from __future__ import annotations

from typing import Any, Callable

from mxlite import autograd, nd


def differentiated(
    function: Callable[..., Any], *arrays: nd.NDArray, head: nd.NDArray | None = None
) -> Any:
    """Record ``function(*arrays)``, run backward from its output and return the output.

    Arrays without a gradient get one.
    """
    for array in arrays:
        if array.grad is None:
            array.attach_grad()
    with autograd.record():
        output = function(*arrays)
    output.backward(head)
    return output


def variable(array: nd.NDArray) -> nd.NDArray:
    """Attach a gradient to the array and return it."""
    array.attach_grad()
    return array
