"""Gradients of outputs that are handed to an executor."""

from __future__ import annotations

from .. import ndarray as nd
from ..ndarray import NDArray
from .node import Node

__all__ = ["head_gradient"]

# Operators whose outputs are constants to backward.
_WITHOUT_GRADIENT = frozenset(
    """argmax argmax_channel argmin argsort one_hot shape_array size_array topk
    _contrib_index_array _contrib_MultiProposal _contrib_Proposal""".split()
)


def head_gradient(grad: NDArray | None, output: NDArray, node: Node) -> NDArray | None:
    """Return the gradient of an output in its dtype.

    Parameters
    ----------
    grad : NDArray or None
        Of any shape where 1.x does not look at it.
    output : NDArray
    node : Node
        That computes the output.

    Returns
    -------
    NDArray or None
    """
    if grad is None:
        return None
    if tuple(grad.shape) != tuple(output.shape) and node.op in _WITHOUT_GRADIENT:
        return nd.zeros_like(output)
    return grad if grad.dtype == output.dtype else grad.astype(output.dtype)
