"""Shape and type inference of symbols, forward and backward.

Types first, without shapes, by the rules of rules.py; then shapes to a fixed point: the engine's
rule where all inputs of a node are known, and where they are known in part the engine's rule on
two stand-ins for the unknown dimensions: what is equal in both results does not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from ..base import MXNetError, ShapeError, TypeError_
from ..numpy_mode import is_np_shape
from .dtypes import dtype_from_code, dtype_name
from .node import Entry, Node, add_node, operator_call, topological_order
from .rules import filled_types, is_elementwise, output_type, shaped_like_first

__all__ = ["Inference", "completed_calls", "is_known", "open_calls", "parse_shape", "public_shape"]

Shape = Optional[tuple[int, ...]]  # -1: unknown dimension, None: unknown altogether
# Divisible by many numbers, so that splitting and grouping work on them.
_STAND_INS = (1680, 3360)
_CREATION = ("_zeros", "_ones", "_full", "_zeros_without_dtype")


def is_known(shape: Shape) -> bool:
    """Say whether every dimension is known."""
    return shape is not None and -1 not in shape


def parse_shape(value: Any, name: str) -> Shape:
    """Return a user's shape with -1 for unknown dimensions; None for an unknown one.

    Unknown are dimensions of 0 and an empty shape, with NumPy shapes those below 0.
    """
    if isinstance(value, str):
        parts = [part.strip() for part in value.strip("()[] ").split(",") if part.strip()]
        value = None if parts == ["None"] else [-1 if p == "None" else int(p) for p in parts]
    if value is None:
        return None
    if isinstance(value, int):
        value = (value,)
    if not isinstance(value, (tuple, list)):
        raise TypeError_(f"infer_shape: {name}: {value!r} given, a tuple of integers expected")
    if is_np_shape():
        return tuple(-1 if d is None or d < 0 else int(d) for d in value)
    return tuple(int(d) if d > 0 else -1 for d in value) if len(value) else None


class Inference:
    """Shapes and types of all values of a graph.

    Parameters
    ----------
    heads : list of (Node, int)
    shapes, types : mapping by variable name
        What is known besides the ``__shape__`` and ``__dtype__`` of variables.
    """

    def __init__(
        self, heads: Sequence[Entry], shapes: Mapping[str, Shape], types: Mapping[str, str]
    ) -> None:
        self.heads = list(heads)
        self.nodes = topological_order(heads)
        self.shapes: dict[tuple[int, int], Shape] = {}
        self.types: dict[tuple[int, int], str | None] = {}
        for node in self.nodes:
            for i in range(node.num_outputs):
                self.shapes[id(node), i] = None
                self.types[id(node), i] = None
            if node.op is None:
                own_shape, own_type = node.attrs.get("__shape__"), node.attrs.get("__dtype__")
                if node.name in shapes:
                    self.shapes[id(node), 0] = shapes[node.name]
                elif own_shape is not None:
                    self.shapes[id(node), 0] = parse_shape(own_shape, node.name)
                if node.name in types:
                    self.types[id(node), 0] = types[node.name]
                elif own_type is not None:
                    self.types[id(node), 0] = dtype_from_code(own_type)

    # -- types -----------------------------------------------------------------------------------

    def run_types(self, default: str | None = None) -> None:
        """Spread types through the graph; ``default`` is for what stays unknown."""
        self._spread_types()
        if default is None:
            return
        for node in self.nodes:
            if node.op is None and self.types[id(node), 0] is None:
                self.types[id(node), 0] = default
                self._spread_types()

    def _spread_types(self) -> None:
        changed = True
        while changed:
            changed = False
            for node in [*self.nodes, *reversed(self.nodes)]:
                if node.op is not None:
                    changed |= self._node_types(node)

    def _node_types(self, node: Node) -> bool:
        keys = [(id(source), index) for source, index in node.inputs]
        before = [self.types[key] for key in keys]
        told = node.call.types(before) if hasattr(node.call, "types") else None
        after = filled_types(node, before, self.types[id(node), 0]) if told is None else told[0]
        changed = False
        for key, old, new in zip(keys, before, after):
            if old is None and new is not None and self.types[key] is None:
                self.types[key] = new
                changed = True
        for i in range(node.num_outputs):
            if self.types[id(node), i] is None:
                own = output_type(node, after, i) if told is None else told[1][i]
                self.types[id(node), i] = own
                changed |= self.types[id(node), i] is not None
        return changed

    # -- shapes ----------------------------------------------------------------------------------

    def run_shapes(self) -> None:
        """Spread shapes through the graph to a fixed point.

        Raises
        ------
        MXNetError
            If shapes do not fit.
        """
        order = self.nodes
        done: set[int] = set()
        changed = True
        while changed:
            changed = False
            for node in order:
                if node.op is None or id(node) in done:
                    continue
                try:
                    changed |= self._node_shapes(node)
                except MXNetError as error:
                    add_node(error, node)
                    raise
                if self._complete(node):
                    done.add(id(node))
            order = order[::-1]
        self._check()

    def _complete(self, node: Node) -> bool:
        return all(is_known(self.shapes[id(s), i]) for s, i in node.inputs) and all(
            is_known(self.shapes[id(node), i]) for i in range(node.num_outputs)
        )

    def _check(self) -> None:
        """Compare complete nodes with the engine's rule: backward rules may have filled them."""
        for node in self.nodes:
            if node.op is not None and self._complete(node) and not self.is_template(node):
                try:
                    for i, (shape, dtype) in enumerate(self._infer(node)):
                        self._merge((id(node), i), shape)
                        self.types[id(node), i] = dtype
                except MXNetError as error:
                    add_node(error, node)
                    raise

    @staticmethod
    def is_template(node: Node) -> bool:
        """Say whether a node makes an array whose shape others decide."""
        return node.op in _CREATION and not is_known(_creation_shape(node))

    def _merge(self, key: tuple[int, int], shape: Shape) -> bool:
        """Fill in what ``shape`` knows; say whether something was new."""
        old = self.shapes[key]
        if shape is None:
            return False
        if old is None:
            self.shapes[key] = shape
            return True
        if len(old) != len(shape) or any(a != b and -1 not in (a, b) for a, b in zip(old, shape)):
            raise ShapeError(f"shape {_shown(old)} given or inferred, {_shown(shape)} expected")
        new = tuple(b if a == -1 else a for a, b in zip(old, shape))
        self.shapes[key] = new
        return new != old

    def _specs(self, node: Node) -> list[tuple[Shape, str]]:
        return [
            (self.shapes[id(source), index], self.types[id(source), index] or "float32")
            for source, index in node.inputs
        ]

    def _infer(self, node: Node) -> list[tuple[Shape, str]]:
        return list(node.call.infer(self._specs(node))[: node.num_outputs])

    def _node_shapes(self, node: Node) -> bool:
        if node.op in _CREATION and not node.inputs:
            return self._merge((id(node), 0), _creation_shape(node))
        changed = self._complete_weights(node)
        specs = self._specs(node)
        if all(is_known(shape) for shape, _ in specs):
            for i, (shape, dtype) in enumerate(self._infer(node)):
                changed |= self._merge((id(node), i), shape)
                self.types[id(node), i] = dtype
            return changed
        changed |= self._backward(node)
        specs = self._specs(node)
        if all(shape is not None for shape, _ in specs):
            rule: Callable[[list[Any]], Any] = node.call.infer
            outputs = self._with_stand_ins(rule, specs)
            if node.op in ("slice", "slice_axis"):
                outputs = _sliced(outputs, specs[0][0])
            elif node.op == "where" and not is_known(specs[0][0]):
                outputs = []  # a condition of few dimensions may choose rows
            for i, (shape, _) in enumerate(outputs[: node.num_outputs]):
                changed |= self._merge((id(node), i), shape)
        return changed

    def _complete_weights(self, node: Node) -> bool:
        if not node.call.completes:
            return False
        specs = self._specs(node)
        if all(is_known(shape) for shape, _ in specs):
            return False
        if specs[0][0] is None and node.op not in ("Embedding", "_contrib_SparseEmbedding"):
            return False
        if is_known(specs[0][0]) or specs[0][0] is None:
            completed = node.call.complete(specs)
        else:
            completed = self._with_stand_ins(node.call.complete, specs, first_only=True)
        changed = False
        for (source, index), (shape, _) in zip(node.inputs, completed):
            changed |= self._merge((id(source), index), shape)
        return changed

    @staticmethod
    def _with_stand_ins(
        rule: Callable[[list[Any]], Any],
        specs: list[tuple[Shape, str]],
        first_only: bool = False,
    ) -> list[tuple[Shape, str]]:
        """Apply a rule to partly known shapes: keep what two choices of the unknown agree on."""
        results = []
        for size in _STAND_INS:
            filled = [
                (
                    shape
                    if shape is None or (first_only and i > 0)
                    else tuple(size if d == -1 else d for d in shape),
                    dtype,
                )
                for i, (shape, dtype) in enumerate(specs)
            ]
            try:
                results.append(list(rule(filled)))
            except MXNetError:
                return []
        agreed: list[tuple[Shape, str]] = []
        for (one, dtype), (two, _) in zip(*results):
            shape: Shape = None
            if one is not None and two is not None and len(one) == len(two):
                shape = tuple(a if a == b else -1 for a, b in zip(one, two))
            agreed.append((shape, dtype))
        return agreed

    def _backward(self, node: Node) -> bool:
        """Fill unknown inputs from the outputs and from the other inputs."""
        output = (id(node), 0)
        changed = False
        if is_elementwise(node):
            keys = [(id(source), index) for source, index in node.inputs]
            if node.op == "Dropout" or node.op in ("softmax", "log_softmax", "softmin"):
                keys = keys[:1]
            for key in keys:
                changed |= self._merge(output, self.shapes[key])
            for key in keys:
                changed |= self._merge(key, self.shapes[output])
        elif shaped_like_first(node):
            first = (id(node.inputs[0][0]), node.inputs[0][1])
            changed |= self._merge(output, self.shapes[first])
            changed |= self._merge(first, self.shapes[output])
        elif node.op == "FullyConnected":
            changed |= self._backward_fully_connected(node)
        elif node.op in ("SliceChannel", "_split_v2", "Concat", "expand_dims"):
            changed |= self._backward_rank(node)
        elif node.op == "transpose":
            changed |= self._backward_transpose(node)
        elif node.op == "Reshape":
            changed |= self._backward_reshape(node)
        elif node.op in ("Convolution", "Deconvolution", "Pooling"):
            source, index = node.inputs[0]
            data, out = self.shapes[id(source), index], self.shapes[output]
            if data is not None and out is not None:
                before = (out[0], data[1], *_before_window(node, data, out))
                changed |= self._merge((id(source), index), before)
        return changed

    def _backward_fully_connected(self, node: Node) -> bool:
        (data, d), (weight, w) = node.inputs[:2]
        out, shape, matrix = (
            self.shapes[id(node), 0], self.shapes[id(data), d], self.shapes[id(weight), w],
        )  # fmt: skip
        hidden = int(node.call.params["num_hidden"])
        changed = False
        if node.call.params["flatten"]:
            rows = out[0] if out is not None else -1
            if shape is not None and shape[0] != -1:
                rows = shape[0]
            changed |= self._merge((id(node), 0), (rows, hidden))
            if shape is not None and rows != -1:
                changed |= self._merge((id(data), d), (rows, *shape[1:]))
            elif shape is None and matrix is not None and rows != -1:
                changed |= self._merge((id(data), d), (rows, matrix[1]))
        elif shape is not None:
            changed |= self._merge((id(node), 0), (*shape[:-1], hidden))
            if out is not None:
                changed |= self._merge((id(data), d), (*out[:-1], shape[-1]))
        return changed

    def _backward_rank(self, node: Node) -> bool:
        """Spread dimensions that Concat, split and expand_dims leave as they are."""
        params = node.call.params
        changed = False
        if node.op == "Concat":
            outs, ins, axis = [(id(node), 0)], [(id(s), i) for s, i in node.inputs], params["dim"]
        elif node.op == "expand_dims":
            out, source = self.shapes[id(node), 0], node.inputs[0]
            if out is None:
                return False
            at = params["axis"] % len(out)
            return self._merge((id(source[0]), source[1]), out[:at] + out[at + 1 :])
        else:
            if node.op == "SliceChannel":
                changed |= self._backward_split(node)
            if params.get("squeeze_axis"):
                return changed
            outs = [(id(node), i) for i in range(node.num_outputs)]
            ins, axis = [(id(s), i) for s, i in node.inputs], params["axis"]
        keys = [*outs, *ins]
        ranks = {len(shape) for shape in map(self.shapes.__getitem__, keys) if shape is not None}
        if len(ranks) != 1:
            return False
        rank = ranks.pop()
        axis %= rank
        joint = [-1] * rank
        for key in keys:
            for at, extent in enumerate(self.shapes[key] or ()):
                if at != axis and extent != -1:
                    joint[at] = extent
        for key in keys:
            old = self.shapes[key] or (-1,) * rank
            changed |= self._merge(
                key, tuple(old[i] if i == axis else joint[i] for i in range(rank))
            )
        return changed

    def _backward_transpose(self, node: Node) -> bool:
        source, out = (id(node.inputs[0][0]), node.inputs[0][1]), self.shapes[id(node), 0]
        if out is None:
            return False
        axes = node.call.params["axes"] or tuple(reversed(range(len(out))))
        return self._merge(source, tuple(out[axes.index(i)] for i in range(len(out))))

    def _backward_reshape(self, node: Node) -> bool:
        """Fill the one unknown dimension of a reshape's input, as the number of elements stays."""
        source = (id(node.inputs[0][0]), node.inputs[0][1])
        data, out = self.shapes[source], self.shapes[id(node), 0]
        if data is None or out is None or data.count(-1) != 1 or not is_known(out):
            return False
        known, whole = -math.prod(data), math.prod(out)
        if known == 0 or whole % known:
            return False
        return self._merge(source, tuple(whole // known if d == -1 else d for d in data))

    def _backward_split(self, node: Node) -> bool:
        """Fill the input of a split into equal parts from the parts."""
        whole, params = (id(node.inputs[0][0]), node.inputs[0][1]), node.call.params
        changed = False
        for i in range(node.num_outputs):
            part, known = self.shapes[id(node), i], self.shapes[whole]
            if part is None:
                continue
            rank = len(part) + 1 if params["squeeze_axis"] else len(part)
            axis = params["axis"] % rank
            if params["squeeze_axis"]:
                if known is None or len(known) != rank:
                    continue
                part = (*part[:axis], known[axis], *part[axis:])
            elif part[axis] != -1:
                part = (*part[:axis], part[axis] * params["num_outputs"], *part[axis + 1 :])
            changed |= self._merge(whole, part)
        return changed


def _sliced(outputs: list[tuple[Shape, str]], data: Shape) -> list[tuple[Shape, str]]:
    """Leave open what is cut from an axis of unknown length."""
    return [
        (shape and tuple(-1 if old == -1 else new for old, new in zip(data or (), shape)), dtype)
        for shape, dtype in outputs
    ]


def _before_window(node: Node, data: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...]:
    """Return the data's extents; a convolution's of stride 1, channels first, from its output."""
    params = node.call.params
    inner = list(data[2:])
    if node.op != "Convolution" or not str(params["layout"] or "NC").startswith("NC"):
        return tuple(inner)
    ones, zeros = (1,) * len(inner), (0,) * len(inner)
    strides, dilates = params["stride"] or ones, params["dilate"] or ones
    for i, (extent, pad) in enumerate(zip(out[2:], params["pad"] or zeros)):
        if extent != -1 and strides[i] == 1:
            inner[i] = extent + dilates[i] * (params["kernel"][i] - 1) - 2 * pad
    return tuple(inner)


def completed_calls(inference: Inference) -> dict[int, Any]:
    """Return calls with the shapes that inference found, for nodes that left them open.

    Parameters
    ----------
    inference : Inference

    Returns
    -------
    dict of int to _core.OpCall
        By ``id(node)``.

    Raises
    ------
    ShapeError
        If a shape stays unknown.
    """
    calls: dict[int, Any] = {}
    for node in inference.nodes:
        if node.op is None or not inference.is_template(node):
            continue
        shape = inference.shapes[id(node), 0]
        if not is_known(shape):
            raise ShapeError(f"{node.name}: the shape of {node.op} cannot be inferred")
        calls[id(node)] = operator_call(node.op, {**node.attrs, "shape": str(shape)})
    return calls


def open_calls(symbol: Any, values: Mapping[str, Any]) -> dict[int, Any]:
    """Return calls for nodes whose shapes depend on the arrays of variables: begin_state.

    Parameters
    ----------
    symbol : Symbol
    values : mapping of str to NDArray
        By variable name.
    """
    if not any(n.op is not None and Inference.is_template(n) for n in symbol._nodes()):
        return {}
    inference = Inference(
        symbol._outputs,
        {name: parse_shape(array.shape, name) for name, array in values.items()},
        {name: dtype_name(array.dtype) for name, array in values.items()},
    )
    inference.run_types("float32")
    inference.run_shapes()
    return completed_calls(inference)


def _creation_shape(node: Node) -> Shape:
    return parse_shape(node.call.params["shape"], node.name)


def _shown(shape: Shape) -> str:
    return "unknown" if shape is None else str(public_shape(shape))


def public_shape(shape: Shape) -> Shape:
    """Spell unknown dimensions and shapes as the user does: as 0 and (), or -1 and None."""
    if is_np_shape():
        return shape
    return () if shape is None else tuple(0 if d == -1 else d for d in shape)
