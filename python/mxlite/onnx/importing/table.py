"""The table of converters, keyed by the ONNX operator, and what a converter gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Union

import numpy as np

from ... import _core
from ...base import MXNetError
from ...symbol import Symbol
from ..package import ComputedError, OnnxError, onnx
from ..tables import Table

__all__ = ["CONVERTERS", "Node", "Scope", "Sizes", "Value", "converter", "rows"]

# A shape for two sizes of the free dimensions of the inputs; equal where all are fixed.
Sizes = tuple[tuple[int, ...], tuple[int, ...]]
Inner = Callable[[Any, Mapping[str, "Value"]], list["Value"]]
Results = Union["Value", Sequence["Value"]]
Converter = Callable[["Node"], Results]
CONVERTERS: Table[Converter] = Table()
converter, rows = CONVERTERS.converter, CONVERTERS.rows


class Value:
    """A value of the graph: a symbol, or a constant that becomes one when an operator needs it.

    Attributes
    ----------
    sizes : Sizes
        As in ONNX; a symbol has shape (1,) where ONNX has ().
    dtype : str
    symbol : Symbol or NDArray, optional
        An array if operators run eagerly.
    const : tuple of array, optional
        The value for both sizes of the free dimensions.
    valid : Value, optional
        Which of the rows ONNX has, where their number depends on values; the others are padding.
        The shape of such a value has the padded size, and its rows have the same ``valid``.
    """

    def __init__(
        self,
        sizes: Sizes,
        dtype: str,
        symbol: Any = None,
        const: tuple[np.ndarray, np.ndarray] | None = None,
        name: str = "",
        trainable: bool = False,
    ) -> None:
        self.sizes, self.dtype, self.symbol, self.const = sizes, dtype, symbol, const
        self.name, self.trainable = name, trainable
        self.valid: Value | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape for the first sizes of the free dimensions."""
        return self.sizes[0]

    @property
    def ndim(self) -> int:
        """Number of axes in ONNX."""
        return len(self.sizes[0])

    @property
    def array(self) -> np.ndarray | None:
        """The constant; None if there is none, or if it depends on free dimensions."""
        if self.const is None:
            return None
        first, second = self.const
        return first if first is second or np.array_equal(first, second) else None

    @property
    def progression(self) -> tuple[int, np.ndarray, np.ndarray] | None:
        """The only free axis, and the start and step of this constant along it; None for others."""
        free = [axis for axis, (a, b) in enumerate(zip(*self.sizes)) if a != b]
        if self.const is None or len(free) != 1 or self.const[0].dtype.kind not in "iufb":
            return None
        (axis,) = free
        first, other = (np.moveaxis(part, axis, -1).astype("float64") for part in self.const)
        start, step = first[..., :1], first[..., 1:2] - first[..., :1]
        for part in (first, other):
            if not np.array_equal(part, start + np.arange(part.shape[-1]) * step):
                return None
        dtype = self.const[0].dtype
        base, slope = (np.moveaxis(part, -1, axis).astype(dtype) for part in (start, step))
        return axis, base, slope


def constant(array: np.ndarray, other: np.ndarray | None = None, **more: Any) -> Value:
    """Return a constant, which may have another value for the other sizes."""
    second = array if other is None else other
    return Value((array.shape, second.shape), array.dtype.name, None, (array, second), **more)


class Scope:
    """Names of a model, and constants that became parameters."""

    eager = False  # whether operators run eagerly, on arrays
    pads = True  # whether results of NonMaxSuppression may have padding

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.params: dict[str, np.ndarray] = {}
        self.fixed: set[str] = set()  # parameters that are not trained
        self.inputs: list[Value] = []
        self.evaluators: dict[Any, Any] = {}  # objects that compute nodes of constants
        # False if the sizes do not show on which free dimension a value depends.
        self.distinct = True
        self._names: set[str] = set()

    def unique(self, wanted: str) -> str:
        """Return a name that no parameter or node has yet."""
        name, count = wanted or "value", 0
        while name in self._names:
            count += 1
            name = f"{wanted}_{count}"
        self._names.add(name)
        return name

    def _counted(self, value: Value, axis: int, who: str) -> Symbol:
        """Return the symbol of 0, 1, 2, ... along a free axis of a value.

        It has the value's size along that axis, and size 1 along the other axes.
        """
        free = (value.sizes[0][axis], value.sizes[1][axis])
        for given in self.inputs:
            for source, pair in enumerate(zip(*given.sizes)):
                if self.distinct and pair == free:
                    made = self._composed("_contrib_arange_like", self.symbol(given, who),
                                          axis=source)  # fmt: skip
                    shape = tuple(-1 if i == axis else 1 for i in range(value.ndim))
                    made = self._composed("Reshape", made, shape=shape)
                    return self._composed("Cast", made, dtype=value.dtype)
        raise OnnxError(
            f"import_model: {who}: a computed size must be a free dimension of an input, got "
            "another size; give input_shapes"
        )

    def _composed(self, op: str, *symbols: Symbol, **params: Any) -> Symbol:
        return _core.compose(op, symbols, {**params, "name": self.unique("counter")})

    def _grown(self, value: Value, who: str) -> Symbol | None:
        """Return the symbol of a constant that is linear along its only free axis."""
        found = value.progression
        if found is None:
            return None
        axis, base, slope = found
        counter = self._counted(value, axis, who)
        start = self.symbol(constant(base), who)
        if not np.any(slope):
            axes = {"lhs_axes": (axis,), "rhs_axes": (axis,)}
            return self._composed("broadcast_like", start, counter, **axes)
        if np.any(slope != 1):
            counter = self._composed("broadcast_mul", counter, self.symbol(constant(slope), who))
        return self._composed("broadcast_add", counter, start) if np.any(base) else counter

    def call(
        self, op: str, values: Sequence[Value], params: dict[str, Any], name: str, who: str
    ) -> list[tuple[Sizes, str, Any]]:
        """Return sizes, dtype and symbol of each output of one of mxlite's operators."""
        symbols = tuple(self.symbol(value, who) for value in values)
        composed = _core.compose(op, symbols, {**params, "name": name})
        node = composed._outputs[0][0]
        specs = [
            node.call.infer([(v.sizes[which] or (1,), v.dtype) for v in values])
            for which in ((0, 1) if any(v.sizes[0] != v.sizes[1] for v in values) else (0,))
        ]
        return [
            ((tuple(a), tuple(b)), dtype, Symbol([(node, i)]))
            for i, ((a, dtype), (b, _)) in enumerate(zip(specs[0], specs[-1]))
        ]

    def numbers(self, value: Value) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the numbers of a value, for both sizes; None if they are computed later."""
        return value.const

    def symbol(self, value: Value, who: str) -> Any:
        """Return the symbol of a value; a constant becomes a parameter."""
        if value.symbol is None:
            array = value.array
            if array is None:
                value.symbol = self._grown(value, who)
                if value.symbol is not None:
                    return value.symbol
                raise OnnxError(
                    f"import_model: {who}: a value depends on free dimensions of the inputs in a "
                    "way that symbols cannot express; give input_shapes"
                )
            if array.size == 0:
                raise OnnxError(f"import_model: {who}: an empty constant cannot be a parameter")
            name = self.unique(value.name or "constant")
            self.params[name] = array.reshape(array.shape or (1,))
            if not value.trainable:
                self.fixed.add(name)
            value.symbol = Symbol([(_core.Node(None, name, {
                "__shape__": _core.text_of(self.params[name].shape),
                "__dtype__": str(_DTYPE_CODES[value.dtype]),
            }, []), 0)])  # fmt: skip
        return value.symbol


_MOST_ELEMENTS = 2**28
_DTYPE_CODES = {
    "float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6,
    "bool": 7, "bfloat16": 12,
}  # fmt: skip


class Node:
    """A node that is converted.

    Attributes
    ----------
    op, name : str
    x : list of Value or None
        The inputs; None for one that is left out.
    attrs : dict
    opset : int
    count : int
        Number of outputs.
    inner : callable
        ``inner(graph, values by name)`` converts a subgraph of the node and returns its outputs.
    """

    def __init__(self, scope: Scope, proto: Any, x: list[Value | None], inner: Inner) -> None:
        self.scope, self.opset, self.op = scope, scope.opset, proto.op_type
        self.inner = inner
        self.outputs = list(proto.output)
        self.count = len(self.outputs)
        self.name = proto.name or self.outputs[0]
        self.inputs = x
        self.attrs = {a.name: onnx().helper.get_attribute_value(a) for a in proto.attribute}
        self._named = False

    def convert_as(self, op: str, inputs: Sequence[Value | None]) -> Value:
        """Return the result of an operator that has the attributes of this node."""
        node = copy(self)
        node.op, node.inputs = op, list(inputs)
        made = CONVERTERS[op](node)
        assert isinstance(made, Value)
        return made

    @property
    def who(self) -> str:
        """The node as errors name it."""
        return f"{self.op} {self.name!r}"

    @property
    def x(self) -> list[Value]:
        """The inputs that are given."""
        return [value for value in self.inputs if value is not None]

    def has(self, index: int) -> bool:
        """Return whether an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute; texts are str."""
        value = self.attrs.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def refuse(self, reason: str) -> OnnxError:
        """Return the error for a node that has no equivalent."""
        return OnnxError(f"import_model: {self.who}: {reason}")

    def array(self, index: int, attribute: str = "") -> np.ndarray | None:
        """Return a constant input or, in older opsets, an attribute; None if neither is given."""
        if attribute and attribute in self.attrs:
            return np.asarray(self.attrs[attribute])
        if not self.has(index):
            return None
        first, second = self.numbers(index, f"input {index} must be constant")
        if first is not second and not np.array_equal(first, second):
            raise self.refuse(f"input {index} must not have free sizes; give input_shapes")
        return first

    def numbers(self, index: int, rule: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of an input for both sizes; an error names the rule."""
        found = self.scope.numbers(self.x_at(index))
        if found is None:
            raise self.computed(f"{rule}, got computed values")
        return found

    def computed(self, reason: str) -> ComputedError:
        """Return the error for a node that needs numbers which only a run of the network has."""
        return ComputedError(f"import_model: {self.who}: {reason}")

    def ints(self, index: int, attribute: str = "") -> list[int] | None:
        """Return a constant input or an attribute as integers."""
        found = self.array(index, attribute)
        return None if found is None else [int(v) for v in found.reshape(-1)]

    def x_at(self, index: int) -> Value:
        """Return an input that must be given."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise self.refuse(f"input {index} must be given")
        return value

    def entry(self, value: Value) -> Any:
        """Return the (node, output number) of a value's symbol."""
        return self.scope.symbol(value, self.who)._outputs[0]

    def counter(self, pair: tuple[int, int], ndim: int, axis: int) -> Value:
        """Return a value whose size along an axis is the free dimension, and 1 along other axes."""
        shape = tuple(-1 if i == axis else 1 for i in range(ndim))
        return constant(*(np.arange(size, dtype="float32").reshape(shape) for size in pair))

    def mx(self, op: str, *values: Value, sizes: Sizes | None = None, **params: Any) -> Value:
        """Compose a call of one of mxlite's operators; return its first output."""
        return self.mx_all(op, *values, sizes=sizes, **params)[0]

    def mx_all(
        self, op: str, *values: Value, sizes: Sizes | None = None, **params: Any
    ) -> list[Value]:
        """Compose a call; return all of its outputs."""
        name = self.scope.unique(self.outputs[0] if not self._named else f"{self.outputs[0]}_{op}")
        self._named = True
        try:
            made = self.scope.call(op, values, params, name, self.who)
        except OnnxError:
            raise
        except MXNetError as error:
            raise self.refuse(str(error)) from error
        if sizes is None and values and all(v.ndim == 0 for v in values):
            sizes = ((), ())  # a symbol of shape (1,), like the inputs
        return [Value(own if sizes is None else sizes, dtype, out) for own, dtype, out in made]

    def check_count(self, count: float, what: str) -> None:
        """Raise OnnxError unless 0 <= count <= _MOST_ELEMENTS; call this before allocating."""
        if not 0 <= count <= _MOST_ELEMENTS:
            raise self.refuse(f"{what} must be from 0 to {_MOST_ELEMENTS}, got {count}")

    def const(self, array: Any, dtype: str) -> Value:
        """Return a constant that is not trained."""
        return constant(np.asarray(array, dtype))

    def cast(self, value: Value, dtype: str) -> Value:
        """Return a value in another dtype."""
        if value.dtype == dtype:
            return value
        if value.const is not None and not value.trainable:
            return constant(*(part.astype(dtype) for part in value.const))
        return self.mx("Cast", value, sizes=value.sizes, dtype=dtype)

    def reshape(self, value: Value, sizes: Sizes) -> Value:
        """Return a value in another shape; free dimensions are copied, or one of them inferred."""
        first, second = sizes
        target: list[int] = []
        for axis, (a, b) in enumerate(zip(first, second)):
            if a == b:
                target.append(a)
            elif axis < value.ndim and (a, b) == (value.sizes[0][axis], value.sizes[1][axis]):
                target.append(0)
            else:
                target.append(-1)
        if target.count(-1) > 1:
            raise self.refuse("the shape must have at most one free dimension; give input_shapes")
        if value.sizes == sizes:
            return value
        if 0 in first:  # for Reshape, 0 means the size of the data
            return self.mx("_reshape_to", value, sizes=sizes, shape=first)
        return self.mx("Reshape", value, sizes=sizes, shape=tuple(target) or (1,))
