"""The ONNX graph that converters write to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from ..package import OnnxError, onnx, tensor_type

__all__ = ["Dim", "Graph", "Shape", "fixed"]

# A free dimension of the exported model is the pair of sizes that it has for two input sizes.
Dim = Union[int, tuple[int, int]]
Shape = tuple[Dim, ...]
Info = tuple[str, Shape, str]  # name, shape and dtype of a value


def fixed(shape: Sequence[Dim]) -> tuple[int, ...] | None:
    """Return a shape; None if a dimension is free."""
    sizes = tuple(extent for extent in shape if isinstance(extent, int))
    return sizes if len(sizes) == len(shape) else None


class Graph:
    """Nodes and constants of a model.

    Parameters
    ----------
    opset : int
    inputs : dict of str to Shape
        Inputs of the model, whose sizes give the free dimensions at run time.
    """

    def __init__(self, opset: int, inputs: dict[str, Shape]) -> None:
        self.opset, self.inputs = opset, inputs
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self._names: set[str] = set()
        self._shared: dict[Any, str] = {}
        self.units: dict[str, float] = {}  # name of an int8 value: the float that 1 represents
        self.prefix = ""  # name of the layer that is converted

    def child(self) -> Graph:
        """Return an empty graph for a subgraph, which can read the values of this graph."""
        inner = Graph(self.opset, self.inputs)
        inner._names, inner._shared = self._names, self._shared
        inner.initializers, inner.prefix = self.initializers, self.prefix
        return inner

    def subgraph(self, name: str, inputs: Sequence[Info], outputs: Sequence[Info]) -> Any:
        """Return the nodes as a GraphProto with these inputs and outputs."""
        helper = onnx().helper

        def infos(values: Sequence[Info]) -> list[Any]:
            return [
                helper.make_tensor_value_info(
                    value, tensor_type(dtype), [d if isinstance(d, int) else None for d in shape]
                )
                for value, shape, dtype in values
            ]

        return helper.make_graph(self.nodes, name, infos(inputs), infos(outputs))

    def unique(self, wanted: str) -> str:
        """Return a name that no value has yet: ``wanted``, or ``wanted`` with a number."""
        name, count = wanted, 0
        while name in self._names:
            count += 1
            name = f"{wanted}_{count}"
        self._names.add(name)
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attrs: Any) -> Any:
        """Append a node; return the name of its output, or a list of several names."""
        base = f"{self.prefix}/{op}"
        names = [self.unique(base) for _ in range(outputs)]
        given = {key: value for key, value in attrs.items() if value is not None}
        self.nodes.append(onnx().helper.make_node(op, list(inputs), names, names[0], **given))
        return names[0] if outputs == 1 else names

    def const(self, value: Any, dtype: str = "int64") -> str:
        """Return the name of a constant; equal small constants are stored once."""
        array = typed(value, dtype)
        key = (dtype, array.shape, array.tobytes()) if array.size <= 64 else None
        if key is not None and key in self._shared:
            return self._shared[key]
        name = self.unique(f"{self.prefix}/const")
        self.initializers[name] = to_tensor(array, name, dtype)
        if key is not None:
            self._shared[key] = name
        return name

    def cast(self, value: str, source: str, target: str) -> str:
        """Return a value in another dtype."""
        return value if source == target else self.node("Cast", value, to=tensor_type(target))

    def reduce(self, op: str, value: str, axes: Sequence[int] | None, keepdims: bool) -> str:
        """Append a reduction; axes are an attribute in older opsets, an input in newer ones."""
        keep = int(keepdims)
        if axes is None:
            return self.node(op, value, keepdims=keep)
        if op == "ReduceSum" or self.opset >= 18:
            return self.node(op, value, self.const(axes), keepdims=keep)
        return self.node(op, value, axes=list(axes), keepdims=keep)

    def slice(
        self,
        value: str,
        axes: Sequence[int],
        begins: Sequence[int],
        ends: Sequence[int],
        steps: Sequence[int] | None = None,
    ) -> str:
        """Append a Slice with constant limits."""
        more = [] if steps is None else [self.const(steps)]
        limits = [self.const(part) for part in (begins, ends, axes)]
        return self.node("Slice", value, *limits, *more)

    def unsqueeze(self, value: str, *axes: int) -> str:
        """Append an Unsqueeze."""
        return self.node("Unsqueeze", value, self.const(axes))

    def squeeze(self, value: str, *axes: int) -> str:
        """Append a Squeeze."""
        return self.node("Squeeze", value, self.const(axes))

    def dims(self, shape: Shape) -> str:
        """Return a one-dimensional int64 value with a shape, read from inputs where it is free."""
        if fixed(shape) is not None:
            return self.const(shape)
        parts, run = [], []
        for extent in shape:
            if isinstance(extent, int):
                run.append(extent)
                continue
            if run:
                parts.append(self.const(run))
                run = []
            parts.append(self._free(extent))
        if run:
            parts.append(self.const(run))
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)

    def _free(self, pair: tuple[int, int]) -> str:
        for name, shape in self.inputs.items():
            for axis, extent in enumerate(shape):
                if isinstance(extent, int):
                    continue
                factor = pair[0] // extent[0]
                if factor and (factor * extent[0], factor * extent[1]) == pair:
                    size = self.slice(self.node("Shape", name), [0], [axis], [axis + 1])
                    return size if factor == 1 else self.node("Mul", size, self.const([factor]))
        raise OnnxError(
            f"mxlite.onnx.export: {self.prefix}: a shape that depends on free dimensions must be a "
            f"multiple of one of them, got sizes {pair[0]} and {pair[1]} for two input sizes"
        )

    def reshape(self, value: str, shape: Shape) -> str:
        """Append a Reshape to the shape; a single free dimension is -1."""
        free = [i for i, extent in enumerate(shape) if not isinstance(extent, int)]
        if len(free) > 1 or (free and 0 in shape):
            return self.node("Reshape", value, self.dims(shape))
        target = self.const([extent if isinstance(extent, int) else -1 for extent in shape])
        return self.node("Reshape", value, target, allowzero=1 if 0 in shape else None)


def typed(value: Any, dtype: str) -> np.ndarray:
    """Return an array of a dtype that NumPy may only have through ml_dtypes."""
    if dtype == "bfloat16":
        return np.asarray(value, np.float32).astype(_bfloat16())
    return np.asarray(value, dtype)


def _bfloat16() -> Any:
    import ml_dtypes  # a requirement of onnx

    return ml_dtypes.bfloat16


def to_tensor(array: np.ndarray, name: str, dtype: str) -> Any:
    """Return an array as a TensorProto."""
    tensor = onnx().TensorProto(name=name, data_type=tensor_type(dtype), dims=array.shape)
    tensor.raw_data = np.ascontiguousarray(array).tobytes()
    return tensor
