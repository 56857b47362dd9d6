"""The table of converters, keyed by the name of the operator, and what a converter gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, Union

import numpy as np

from ...symbol import Symbol
from ..package import OnnxError
from ..tables import Table
from .graph import Graph, Shape, fixed

__all__ = ["CONVERTERS", "Call", "Source", "converter", "rows"]

Converter = Callable[["Call"], Union[str, list[str]]]
CONVERTERS: Table[Converter] = Table()
converter, rows = CONVERTERS.converter, CONVERTERS.rows


class Source(NamedTuple):
    """A value that a subgraph reads; ``array`` holds the values if it is a parameter."""

    name: str
    shape: Shape
    dtype: str
    array: Any


Inline = Callable[[Graph, Symbol, Mapping[int, Source]], "list[Source]"]


class Call:
    """One call of an operator that is converted.

    Attributes
    ----------
    g : Graph
    name, label : str
        The layer's name, and its name with the user's line.
    p : SimpleNamespace
        Parameters of the operator.
    x : list of str
        ONNX names of the inputs; ``shapes`` and ``dtypes`` describe them.
    out_shapes, out_dtypes : list
        Shapes and dtypes of the outputs.
    arrays : list
        The arrays of inputs that are parameters; None for others.
    inline : callable
        ``inline(g, symbol, sources)`` converts a subgraph into the graph g and returns its outputs;
        ``sources`` has the values of its inputs by number.
    """

    def __init__(
        self,
        g: Graph,
        node: Any,
        x: list[str],
        specs: tuple[list[Shape], list[str]],
        out_specs: tuple[list[Shape], list[str]],
        value_of: Callable[[int], np.ndarray | None],
        arrays: list[Any],
        inline: Inline,
    ) -> None:
        self.g, self.node, self.name, self.label = g, node, node.name, node.label
        self.p = SimpleNamespace(**getattr(node.call, "params", {}))
        self.x, (self.shapes, self.dtypes) = x, specs
        self.out_shapes, self.out_dtypes = out_specs
        self.value_of, self.arrays, self.inline = value_of, arrays, inline

    @property
    def dtype(self) -> str:
        """Dtype of the first output."""
        return self.out_dtypes[0]

    @property
    def ndim(self) -> int:
        """Number of axes of the first input."""
        return len(self.shapes[0])

    def op(self, name: str, *inputs: str, **attrs: Any) -> Any:
        """Append a node to the graph."""
        return self.g.node(name, *inputs, **attrs)

    def const(self, value: Any, dtype: str | None = None) -> str:
        """Return a constant, of the dtype of the first output unless another one is given."""
        return self.g.const(value, self.dtype if dtype is None else dtype)

    def cast(self, index: int, dtype: str) -> str:
        """Return an input in a dtype."""
        return self.g.cast(self.x[index], self.dtypes[index], dtype)

    def refuse(self, reason: str) -> OnnxError:
        """Return the error for a parameter that ONNX has no equivalent of."""
        return OnnxError(f"mxlite.onnx.export: {self.node.op} {self.label}: {reason}")

    def static(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an input, which must not be free."""
        shape = fixed(self.shapes[index])
        if shape is None:
            raise self.refuse(f"the shape of input {index} must be fixed, got free dimensions")
        return shape

    def extent(self, index: int, axis: int) -> int:
        """Return the size of an input along an axis, which must not be free."""
        extent = self.shapes[index][axis]
        if not isinstance(extent, int):
            raise self.refuse(f"axis {axis} of input {index} must be fixed, got a free dimension")
        return extent

    def axes(self, axis: Any, exclude: bool = False) -> list[int] | None:
        """Return axes of the first input as a list; None for all of them."""
        if axis is None or axis == ():
            return [] if exclude else None
        given = [axis] if isinstance(axis, int) else list(axis)
        found = sorted(a % self.ndim for a in given)
        return [a for a in range(self.ndim) if a not in found] if exclude else found
