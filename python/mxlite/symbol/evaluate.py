"""Values of a graph's outputs for arrays of its variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import _core
from .._core import NDArray
from ..numpy_mode import is_np_shape
from .infer_arguments import infer, parse_shape
from .node import Entry, Node

__all__ = ["evaluate"]


def evaluate(
    heads: Sequence[Entry],
    values: dict[str, NDArray],
    watch: Callable[[Node, list[NDArray], list[NDArray]], None] | None = None,
) -> list[NDArray]:
    """Run a graph node by node; nodes such as ``begin_state`` take the arrays' shapes.

    Parameters
    ----------
    heads : list of (Node, int)
    values : dict of str to NDArray
        By variable name.
    watch : callable, optional
        Called with each node, its inputs and its outputs.

    Returns
    -------
    list of NDArray
    """
    calls = None
    if _core.has_open_shapes(heads, is_np_shape()):
        shapes = {name: parse_shape(array.shape, name) for name, array in values.items()}
        types = {name: array.dtype for name, array in values.items()}
        calls = infer(heads, shapes, types).completed_calls()
    return _core.evaluate(heads, values, calls, watch)
