"""Converters of reductions, sorting and searching."""

from __future__ import annotations

from functools import partial

import numpy as np

from .table import Call, converter, rows

__all__: list[str] = []

_REDUCTIONS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin",
    "prod": "ReduceProd", "logsumexp": "ReduceLogSumExp", "nansum": "ReduceSum",
    "nanprod": "ReduceProd", "_square_sum": "ReduceSumSquare",
}  # fmt: skip
_NAN_BECOMES = {"nansum": 0, "nanprod": 1}


def _reduction(op: str, c: Call) -> str:
    x, axes = c.cast(0, c.dtype), c.axes(c.p.axis, c.p.exclude)
    replacement = _NAN_BECOMES.get(c.node.call.name)
    if replacement is not None:
        x = c.op("Where", c.op("IsNaN", x), c.const(replacement), x)
    if axes == []:
        return x
    return _sized(c, c.g.reduce(op, x, axes, c.p.keepdims), axes)


def _sized(c: Call, value: str, axes: list[int] | None) -> str:
    """Return a total as 1.x shapes it: (1,) where all axes are reduced."""
    keeps = getattr(c.p, "keepdims", False)
    reduced = c.ndim if axes is None else len(axes)
    if not keeps and reduced == c.ndim and c.out_shapes[0] == (1,):
        return c.g.unsqueeze(value, 0)
    return value


rows((name, partial(_reduction, op)) for name, op in _REDUCTIONS.items())


@converter("norm")
def _norm(c: Call) -> str:
    op = {1: "ReduceL1", 2: "ReduceL2"}.get(c.p.ord)
    if op is None:
        raise c.refuse(f"ord must be 1 or 2, got {c.p.ord}")
    axes = c.axes(c.p.axis)
    return _sized(c, c.g.reduce(op, c.cast(0, c.dtype), axes, c.p.keepdims), axes)


@converter("moments")
def _moments(c: Call) -> list[str]:
    axes = c.axes(c.p.axes)
    mean = c.g.reduce("ReduceMean", c.x[0], axes, True)
    centered = c.op("Sub", c.x[0], mean)
    squares = c.op("Mul", centered, centered)
    return [
        _sized(c, c.g.reduce("ReduceMean", x, axes, c.p.keepdims), axes) for x in (c.x[0], squares)
    ]


def _extreme(op: str, c: Call) -> str:
    x, axis, keep = c.x[0], getattr(c.p, "axis", 1), getattr(c.p, "keepdims", False)
    flat = axis is None
    if flat:
        x, axis, keep = c.op("Reshape", x, c.g.const([-1])), 0, False
    found = c.g.cast(c.op(op, x, axis=axis, keepdims=int(keep)), "int64", c.dtype)
    return c.g.reshape(found, c.out_shapes[0]) if c.ndim == 1 or flat else found


rows(
    (name, partial(_extreme, op))
    for name, op in (("argmax", "ArgMax"), ("argmin", "ArgMin"), ("argmax_channel", "ArgMax"))
)


def _sorted(c: Call, axis: int | None, count: int | None, ascending: bool) -> tuple[str, str, int]:
    """Return sorted values, their positions, and the axis; ``count`` None is all."""
    x, shape = c.x[0], c.shapes[0]
    if axis is None:
        x, axis, shape = c.op("Reshape", x, c.g.const([-1])), 0, (int(np.prod(c.static())),)
    axis %= len(shape)
    if not count:
        extent = shape[axis]
        if not isinstance(extent, int):
            raise c.refuse("the sorted axis must be fixed, got a free dimension")
        count = extent
    values, places = c.op(
        "TopK", x, c.g.const([count]), outputs=2, axis=axis, largest=int(not ascending)
    )
    return values, places, axis


@converter("sort")
def _sort(c: Call) -> str:
    return _sorted(c, c.p.axis, None, c.p.is_ascend)[0]


@converter("argsort")
def _argsort(c: Call) -> str:
    return c.g.cast(_sorted(c, c.p.axis, None, c.p.is_ascend)[1], "int64", c.dtype)


@converter("topk")
def _topk(c: Call) -> str | list[str]:
    values, places, axis = _sorted(c, c.p.axis, c.p.k, c.p.is_ascend)
    kind = c.p.ret_typ
    if kind == "value":
        return values
    if kind == "mask":
        zeros = c.op("Expand", c.const(0), c.op("Shape", c.x[0]))
        ones = c.op("Expand", c.const(1), c.op("Shape", places))
        return c.op("ScatterElements", zeros, places, ones, axis=axis)
    indices = c.g.cast(places, "int64", c.out_dtypes[-1])
    return indices if kind == "indices" else [values, indices]


@converter("cumsum")
def _cumsum(c: Call) -> str:
    x, axis = c.cast(0, c.dtype), c.p.axis
    if axis is None:
        x, axis = c.op("Reshape", x, c.g.const([-1])), 0
    return c.op("CumSum", x, c.g.const(axis))
