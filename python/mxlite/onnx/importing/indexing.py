"""Converters of operators that read and write elements at indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .pointwise import binary, scalar
from .table import Node, Value, constant, converter

__all__: list[str] = []


@converter("Gather")
def _gather(n: Node) -> Value:
    x, places = n.x
    axis = n.get("axis", 0) % x.ndim
    first, second = (s[:axis] + p + s[axis + 1 :] for s, p in zip(x.sizes, places.sizes))
    index = places.array
    if index is not None and index.ndim == 0 and x.sizes[0][axis] == x.sizes[1][axis]:
        at = int(index) % x.shape[axis]
        one = n.mx("slice_axis", x, axis=axis, begin=at, end=at + 1)
        return n.mx("squeeze", one, sizes=(first, second), axis=axis) if x.ndim > 1 else (
            n.mx("Reshape", one, sizes=((), ()), shape=(1,)))  # fmt: skip
    if x.sizes[0][axis] == x.sizes[1][axis]:
        out = n.mx("take", x, _positive(n, places, x, axis), axis=axis)
    else:  # wraps negative indices in each run, because only a run knows the size
        out = n.mx("take", x, places, axis=axis, mode="wrap")
    return n.reshape(out, (first, second)) if places.ndim == 0 else out


def _positive(n: Node, places: Value, x: Value, axis: int) -> Value:
    """Return indices in which negative numbers, which count from the end, became positive."""
    extent = x.shape[axis]
    array = places.array
    if array is not None and not places.trainable:
        _check_ends(n, array, x.sizes[0][axis] != x.sizes[1][axis])
        return constant(np.where(array < 0, array + extent, array))
    if places.dtype.startswith("uint") or x.sizes[0][axis] != x.sizes[1][axis] or x.trainable:
        return places  # an embedding, whose indices are not negative
    shifted = scalar(n, "plus", places, extent)
    negative = scalar(n, "lesser", places, 0)
    return n.mx("where", negative, shifted, places, sizes=places.sizes)


def _check_ends(n: Node, indices: np.ndarray, free: Any) -> None:
    """Raise OnnxError if indices count from the end of an axis of free size."""
    if np.any((indices < 0) & free):
        raise n.refuse("indices must not be negative along a free axis; give input_shapes")


@converter("GatherElements")
def _gather_elements(n: Node) -> Value:
    x, places = n.x
    axis = n.get("axis", 0) % x.ndim
    if x.shape[:axis] + x.shape[axis + 1 :] != places.shape[:axis] + places.shape[axis + 1 :]:
        raise n.refuse("indices must have the sizes of the data on the other axes")
    return n.mx("_take_along_axis", x, _positive(n, places, x, axis), axis=axis)


def _coordinates(n: Node, x: Value, places: Value) -> Value:
    """Return ONNX's indices, whose last axis counts coordinates, with that axis first."""
    array = places.array
    if array is not None:
        sizes, others = (np.asarray(s[: array.shape[-1]]) for s in x.sizes)
        _check_ends(n, array, sizes != others)
        array = np.where(array < 0, array + sizes, array)
        return constant(np.ascontiguousarray(np.moveaxis(array, -1, 0)))
    return n.mx("transpose", places, axes=(places.ndim - 1, *range(places.ndim - 1)))


@converter("GatherND")
def _gather_nd(n: Node) -> Value:
    x, places = n.x
    count = n.get("batch_dims", 0)
    if count:  # batch indices become coordinates
        grids = [
            np.moveaxis(np.indices(shape[:-1])[:count], 0, -1).astype(places.dtype)
            for shape in places.sizes
        ]
        array, grid = places.array, constant(*grids)
        if array is None:
            places = n.mx("Concat", grid, places, dim=places.ndim - 1)
        else:
            places = constant(np.concatenate([grids[0], array], -1))
    out = n.mx("gather_nd", x, _coordinates(n, x, places))
    first, second = (p[:-1] + s[p[-1] :] for s, p in zip(x.sizes, places.sizes))
    return n.reshape(out, (first, second)) if out.sizes != (first, second) and first else out


@converter("ScatterND")
def _scatter_nd(n: Node) -> Value:
    x, places, updates = n.x
    if places.valid is None:
        return _scattered(n, x, updates, _coordinates(n, x, places))
    # Padding is written to an additional row, which is cut off.
    valid = n.reshape(places.valid, tuple((*s, 1) for s in places.valid.sizes))  # type: ignore[arg-type]
    row = np.eye(places.shape[-1], dtype=places.dtype)[:1] * x.shape[0]
    mask = n.mx("broadcast_like", valid, places)
    places = n.mx("where", mask, places, n.mx("broadcast_like", constant(row), places))
    first = n.mx("slice_axis", x, axis=0, begin=0, end=1)
    longer = n.mx("Concat", x, first, dim=0)
    out = _scattered(n, longer, updates, n.mx("transpose", places, axes=(1, 0)))
    return n.mx("slice_axis", out, axis=0, begin=0, end=x.shape[0])


def _scattered(n: Node, x: Value, updates: Value, where: Value) -> Value:
    """Return data with updates at coordinates; row i of ``where`` has the indices along axis i."""
    reduction = n.get("reduction", "none")
    if x.sizes[0] != x.sizes[1]:
        raise n.refuse("shapes must be fixed; give input_shapes")
    if reduction == "none":
        return n.mx("_scatter_set_nd", x, updates, where, shape=x.shape)
    if reduction == "add":
        return binary(n, "Add", x, n.mx("_gather_nd_backward", updates, where, shape=x.shape))
    if reduction not in _COMBINED:
        raise n.refuse(f"reduction must be none, add, mul, max or min, got {reduction!r}")
    found = n.scope.numbers(where)
    if found is None:
        raise n.computed(f"indices must be constant for {reduction!r}, got computed values")
    places = found[0].reshape(len(found[0]), -1)
    updates = n.mx("_reshape_to", updates, shape=(places.shape[1], *x.shape[len(places) :]))
    for chosen in _distinct(np.ravel_multi_index(tuple(places), x.shape[: len(places)])):
        at = constant(np.ascontiguousarray(places[:, chosen]))
        own, new = n.mx("gather_nd", x, at), n.mx("take", updates, constant(chosen), axis=0)
        combined = binary(n, _COMBINED[reduction], own, new)
        x = n.mx("_scatter_set_nd", x, combined, at, shape=x.shape)
    return x


_COMBINED = {"mul": "Mul", "max": "Max", "min": "Min"}


def _distinct(numbers: np.ndarray) -> list[np.ndarray]:
    """Return the positions of all first occurrences, of all second ones and so on."""
    order = np.argsort(numbers, kind="stable")
    _, first, counts = np.unique(numbers[order], return_index=True, return_counts=True)
    occurrence = np.empty_like(order)
    occurrence[order] = np.arange(len(order)) - np.repeat(first, counts)
    return [np.flatnonzero(occurrence == i) for i in range(counts.max(initial=0))]


def _whole_rows(places: Value, x: Value) -> np.ndarray | None:
    """Return the rows of x that constant indices choose; None if they choose single elements."""
    array = places.array
    if array is None or array.ndim < 2 or array.shape[1:] != x.shape[1:]:
        return None
    if any(step for step, size in zip(array.strides[1:], array.shape[1:]) if size > 1):
        return None  # not the result of Expand
    rows = array.reshape(len(array), -1)[:, 0] if array.size else array.reshape(-1)
    if x.sizes[0][0] != x.sizes[1][0] and np.any(rows < 0):
        return None
    return np.where(rows < 0, rows + x.shape[0], rows)


@converter("ScatterElements", "Scatter")
def _scatter_elements(n: Node) -> Value:
    x, places, updates = n.x
    axis = n.get("axis", 0) % x.ndim
    if places.sizes[0] != places.sizes[1]:
        raise n.refuse("shapes must be fixed; give input_shapes")
    rows = None if axis or n.get("reduction", "none") != "none" else _whole_rows(places, x)
    if rows is not None:
        return n.mx("_contrib_index_copy", x, constant(rows), updates) if rows.size else x
    indices = np.indices(places.shape).reshape(x.ndim, -1)
    own = n.cast(_positive(n, places, x, axis), "int64")
    if own.array is not None:
        indices[axis] = own.array.reshape(-1)
        where = constant(indices)
    else:
        grid = [constant(row[None]) for row in indices]
        grid[axis] = n.mx("Reshape", own, shape=(1, -1))
        where = n.mx("Concat", *grid, dim=0) if len(grid) > 1 else grid[0]
    flat = n.mx("Reshape", updates, shape=(-1,))
    return _scattered(n, x, flat, where)
