"""Converters of Scan, Loop, If and CumProd to ``foreach``, ``while_loop`` and ``cond``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import _core
from ...attribute import AttrScope
from ...symbol import Symbol
from .pointwise import binary, dtype_of
from .table import Node, Value, constant, converter

__all__ = ["scanned"]

_MOST_STEPS = 2**31 - 1
Step = Callable[[list[Value], list[Value]], tuple[Sequence[Value], Sequence[Value]]]


def _variable(value: Value, entry: Any, sliced: bool = False) -> Value:
    first, second = value.sizes
    sizes = (first[1:], second[1:]) if sliced else (first, second)
    return Value(sizes, value.dtype, Symbol([entry]))


def _heads(n: Node, values: Sequence[Value], arguments: Sequence[Any], tag: str) -> Any:
    """Return the subgraph that computes the values; adds 0 times each unused argument."""

    def made(current: Sequence[Value]) -> Any:
        return _core.Subgraph(tag, list(arguments), [n.entry(value) for value in current])

    values = [n.mx("_copy", value, sizes=value.sizes) for value in values]
    for index in made(values).unused_arguments:
        unused = Value(((1,), (1,)), "float32", Symbol([arguments[index]]))
        zero = n.mx("sum", n.mx("zeros_like", unused), sizes=((), ()))
        values[0] = binary(n, "Add", values[0], n.cast(zero, values[0].dtype))
    return made(values)


def _check_states(n: Node, given: Sequence[Value], new: Sequence[Value]) -> list[Value]:
    """Cast new states to the dtypes of the given states; raise if a shape changed."""
    for before, after in zip(given, new):
        if before.sizes != after.sizes:
            raise n.computed(f"a state must keep its shape {before.shape}, got {after.shape}")
    return [n.cast(after, before.dtype) for before, after in zip(given, new)]


def scanned(
    n: Node, data: Sequence[Value], states: Sequence[Value], step: Step
) -> tuple[list[Value], list[Value]]:
    """Call ``step`` on each slice of data along axis 0; return the last states and stacked outputs.

    ``step(slices, states)`` returns (new states, outputs).
    """
    if n.scope.eager:
        return _scanned_at_once(n, data, states, step)
    # Vectors get a second axis of size 1, so that their slices have shape (1,): the importer
    # represents ONNX scalars by symbols of shape (1,).
    columns = [_with_column(n, value) if value.ndim == 1 else value for value in data]
    tag, arguments = _core.new_subgraph(n.scope.unique("scan"), len(data) + len(states))
    with AttrScope(__subgraph_name__=tag):
        new, outs = step(
            [_variable(value, entry, sliced=True) for value, entry in zip(data, arguments)],
            [_variable(value, entry) for value, entry in zip(states, arguments[len(data) :])],
        )
        new = _check_states(n, states, new)
        graph = _heads(n, [*outs, *new], arguments, tag)
    entries = _core.foreach_outputs(
        graph, [n.entry(value) for value in columns], [n.entry(value) for value in states]
    )
    lengths = tuple(sizes[0] for sizes in data[0].sizes)
    stacked = []
    for value, entry in zip(outs, entries):
        first, second = ((length, *own) for length, own in zip(lengths, value.sizes))
        whole = Value((first, second), value.dtype, Symbol([entry]))
        stacked.append(n.mx("Reshape", whole, shape=(-1,)) if value.ndim == 0 else whole)
    last = [_variable(value, entry) for value, entry in zip(states, entries[len(outs) :])]
    return last, stacked


def _scanned_at_once(
    n: Node, data: Sequence[Value], states: Sequence[Value], step: Step
) -> tuple[list[Value], list[Value]]:
    current, collected = list(states), []
    for at in range(data[0].shape[0]):
        slices = [n.mx("slice_axis", value, axis=0, begin=at, end=at + 1) for value in data]
        slices = [n.reshape(v, (v.shape[1:], v.shape[1:])) for v in slices]
        new, outs = step(slices, current)
        current = list(new)
        collected.append(outs)
    return current, [_stacked(n, values) for values in zip(*collected)]


def _stacked(n: Node, values: Sequence[Value]) -> Value:
    """Return arrays of one shape along a new first axis."""
    rows = [n.reshape(v, ((1, *v.shape), (1, *v.shape))) for v in values]
    return n.mx("Concat", *rows, dim=0) if len(rows) > 1 else rows[0]


def _with_column(n: Node, value: Value) -> Value:
    first, second = value.sizes
    return n.reshape(value, ((*first, 1), (*second, 1)))


@converter("Scan")
def _scan(n: Node) -> list[Value]:
    if n.opset < 9:
        raise n.refuse(f"the opset must be at least 9 for Scan, got {n.opset}")
    body, count = n.attrs["body"], n.get("num_scan_inputs")
    states, data = n.x[: len(n.x) - count], n.x[len(n.x) - count :]
    outs = len(body.output) - len(states)
    turned = n.get("scan_input_directions") or [0] * count
    data = [
        _moved(n, value, axis % value.ndim, 0, bool(back))
        for value, axis, back in zip(data, n.get("scan_input_axes") or [0] * count, turned)
    ]

    def step(slices: list[Value], own: list[Value]) -> tuple[list[Value], list[Value]]:
        names = [info.name for info in body.input]
        results = n.inner(body, dict(zip(names, [*own, *slices])))
        return results[: len(states)], results[len(states) :]

    last, stacked = scanned(n, data, states, step)
    axes = n.get("scan_output_axes") or [0] * outs
    turned = n.get("scan_output_directions") or [0] * outs
    stacked = [
        _moved(n, value, 0, axis % value.ndim, bool(back))
        for value, axis, back in zip(stacked, axes, turned)
    ]
    return [*last, *stacked]


@converter("CumProd")
def _cumprod(n: Node) -> Value:
    x, axis = n.x[0], (n.ints(1) or [0])[0] % n.x[0].ndim
    back, exclusive = bool(n.get("reverse", 0)), bool(n.get("exclusive", 0))
    data = _moved(n, x, axis, 0, back)
    first = n.mx("slice_axis", data, axis=0, begin=0, end=1)
    start = n.reshape(n.mx("ones_like", first), (data.sizes[0][1:], data.sizes[1][1:]))

    def step(slices: list[Value], own: list[Value]) -> tuple[list[Value], list[Value]]:
        new = binary(n, "Mul", own[0], slices[0])
        return [new], [own[0] if exclusive else new]

    _, (out,) = scanned(n, [data], [start], step)
    return _moved(n, out, 0, axis, back)


def _moved(n: Node, value: Value, source: int, target: int, back: bool) -> Value:
    """Return a value with an axis moved to another position, and reversed if ``back``."""
    if back:
        value = n.mx("reverse", value, axis=source)
    order = [axis for axis in range(value.ndim) if axis != source]
    order.insert(target, source)
    return value if source == target else n.mx("transpose", value, axes=tuple(order))


def _truth(n: Node, value: Value | None) -> bool | None:
    """Return the value of a constant condition, True without one, and None if it is computed."""
    if value is None:
        return True
    found = n.scope.numbers(value)
    if found is None or not np.array_equal(*found):
        return None
    return bool(found[0].reshape(-1)[0])


@converter("Loop")
def _loop(n: Node) -> list[Value]:
    body, states = n.attrs["body"], n.x[n.has(0) + n.has(1) :]
    trips = n.inputs[0] if n.has(0) else None
    condition = n.inputs[1] if n.has(1) else None
    count = None if trips is None or trips.array is None else int(trips.array.reshape(-1)[0])
    names = [info.name for info in body.input]
    if n.scope.eager:
        return _loop_at_once(n, body, names, condition, states)
    if _truth(n, condition) is False or count == 0:
        if len(body.output) > 1 + len(states):
            raise n.refuse("a loop without iterations must have no scan outputs")
        return list(states)
    goes_on: list[bool | None] = []

    def step(slices: list[Value], own: list[Value]) -> tuple[list[Value], list[Value]]:
        always = constant(np.array(True))
        results = n.inner(body, dict(zip(names, [slices[0], always, *own])))
        goes_on.append(_truth(n, results[0]))
        return results[1 : 1 + len(states)], results[1 + len(states) :]

    if count is not None and _truth(n, condition):
        n.check_count(count, "the number of iterations")
        numbers = constant(np.arange(count))
        last, stacked = scanned(n, [numbers], states, step)
        if goes_on[0]:
            return [*last, *stacked]
    if len(body.output) > 1 + len(states):
        raise n.computed(
            "the number of iterations must be constant for scan outputs, got computed values"
        )
    if trips is not None and count is None:
        raise n.computed("the number of iterations must be constant, got computed values")
    return _while(n, body, names, condition, states, _MOST_STEPS if count is None else count)


def _loop_at_once(
    n: Node, body: Any, names: list[str], condition: Value | None, states: list[Value]
) -> list[Value]:
    trips = n.ints(0) if n.has(0) else None
    most = _MOST_STEPS if trips is None else trips[0]
    infos = body.output[1 + len(states) :]
    collected: list[list[Value]] = [[] for _ in infos]
    current, going, at = list(states), _truth(n, condition), 0
    while going and at < most:
        own = [n.const(at, "int64"), constant(np.array(True)), *current]
        result, *rest = n.inner(body, dict(zip(names, own)))
        going, at = _truth(n, result), at + 1
        current = rest[: len(states)]
        for values, value in zip(collected, rest[len(states) :]):
            values.append(value)
    return [*current, *(
        _stacked(n, values) if values else _no_rows(n, info)
        for info, values in zip(infos, collected)
    )]  # fmt: skip


def _no_rows(n: Node, info: Any) -> Value:
    """Return what a loop without iterations collects."""
    tensor = info.type.tensor_type
    shape = [dim.dim_value for dim in tensor.shape.dim]
    return n.const(np.zeros((0, *shape)), dtype_of(tensor.elem_type))


def _while(
    n: Node, body: Any, names: list[str], condition: Value | None, states: list[Value], most: int
) -> list[Value]:
    """Return the last states of a loop whose condition is computed."""
    going = constant(np.array(True)) if condition is None else condition
    first = [n.const(0, "int64"), n.cast(going, "float32"), *states]

    def traced(wanted: str, function: Callable[[list[Value]], list[Value]]) -> Any:
        tag, arguments = _core.new_subgraph(n.scope.unique(wanted), len(first))
        with AttrScope(__subgraph_name__=tag):
            values = function([_variable(v, entry) for v, entry in zip(first, arguments)])
            values = [n.mx("_copy", value, sizes=value.sizes) for value in values]
            return _core.Subgraph(tag, arguments, [n.entry(value) for value in values])

    def step(own: list[Value]) -> list[Value]:
        results = n.inner(body, dict(zip(names, [own[0], n.cast(own[1], "bool"), *own[2:]])))
        after = _check_states(n, states, results[1 : 1 + len(states)])
        return [
            binary(n, "Add", own[0], n.const(1, "int64")),
            n.cast(results[0], "float32"),
            *after,
        ]

    entries = _core.while_loop_outputs(
        traced("while", lambda own: [own[1]]), traced("body", step),
        [n.entry(value) for value in first], most,
    )  # fmt: skip
    return [_variable(value, entry) for value, entry in zip(first, entries)][2:]


@converter("If")
def _if(n: Node) -> list[Value]:
    branches = [n.attrs[name] for name in ("then_branch", "else_branch")]
    known = _truth(n, n.x[0])
    if known is not None:
        return n.inner(branches[not known], {})

    def traced(branch: Any) -> tuple[Any, list[Value]]:
        tag, arguments = _core.new_subgraph(n.scope.unique("branch"), 0)
        with AttrScope(__subgraph_name__=tag):
            values = n.inner(branch, {})
            return _heads(n, values, arguments, tag), values

    (then, found), (otherwise, other) = map(traced, branches)
    for a, b in zip(found, other):
        if (a.sizes, a.dtype) != (b.sizes, b.dtype):
            raise n.computed(
                f"both branches must have equal shapes and types, got {a.shape} of {a.dtype} and "
                f"{b.shape} of {b.dtype}"
            )
    entries = _core.cond_outputs(n.entry(n.x[0]), then, otherwise)
    return [_variable(value, entry) for value, entry in zip(found, entries)]
