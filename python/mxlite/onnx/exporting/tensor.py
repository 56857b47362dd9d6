"""Converters of operators that shape, index and create arrays."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import ndarray as nd
from ..package import tensor_type
from .graph import fixed
from .table import Call, converter, rows

__all__ = ["clipped"]


@converter("Reshape", "_reshape_to", "reshape_like", "squeeze")
def _reshape(c: Call) -> str:
    return c.g.reshape(c.x[0], c.out_shapes[0])


@converter("Flatten")
def _flatten(c: Call) -> str:
    return c.op("Flatten", c.x[0], axis=1)


@converter("transpose")
def _transpose(c: Call) -> str:
    axes = [axis % c.ndim for axis in c.p.axes] if c.p.axes else list(range(c.ndim))[::-1]
    return c.op("Transpose", c.x[0], perm=axes)


@converter("SwapAxis")
def _swap_axis(c: Call) -> str:
    perm = list(range(c.ndim))
    first, second = c.p.dim1, c.p.dim2
    perm[first], perm[second] = perm[second], perm[first]
    return c.op("Transpose", c.x[0], perm=perm)


@converter("expand_dims")
def _expand_dims(c: Call) -> str:
    return c.g.unsqueeze(c.x[0], c.p.axis)


@converter("Concat")
def _concat(c: Call) -> str:
    return c.op("Concat", *c.x, axis=c.p.dim)


@converter("stack")
def _stack(c: Call) -> str:
    axis = c.p.axis % (c.ndim + 1)
    return c.op("Concat", *(c.g.unsqueeze(value, axis) for value in c.x), axis=axis)


def _begin_end(begin: int | None, end: int | None, step: int) -> tuple[int, int]:
    last = 2**31 - 1
    if begin is None:
        begin = 0 if step > 0 else last
    if end is None:
        end = last if step > 0 else -last
    return begin, end


@converter("slice")
def _slice(c: Call) -> str:
    steps = [step or 1 for step in c.p.step] or [1] * len(c.p.begin)
    limits = [_begin_end(*entry) for entry in zip(c.p.begin, c.p.end, steps)]
    begins, ends = zip(*limits)
    return c.g.slice(c.x[0], range(len(steps)), begins, ends, steps)


@converter("slice_axis")
def _slice_axis(c: Call) -> str:
    begin, end = _begin_end(c.p.begin, c.p.end, 1)
    return c.g.slice(c.x[0], [c.p.axis], [begin], [end])


@converter("slice_like")
def _slice_like(c: Call) -> str:
    axes = [axis % c.ndim for axis in c.p.axes] or list(range(len(c.shapes[1])))
    ends = c.g.dims(tuple(c.shapes[1][axis] for axis in axes))
    return c.op("Slice", c.x[0], c.g.const([0] * len(axes)), ends, c.g.const(axes))


@converter("Crop")
def _crop(c: Call) -> str:
    sizes = fixed(c.out_shapes[0][2:4])
    if sizes is None:
        raise c.refuse("the size of the output must be fixed, got free dimensions")
    begins = list(c.p.offset) or [0, 0]
    if c.p.center_crop:
        begins = [(c.extent(0, 2 + i) - sizes[i]) // 2 for i in (0, 1)]
    ends = [begin + size for begin, size in zip(begins, sizes)]
    return c.g.slice(c.x[0], [2, 3], begins, ends)


@converter("SliceChannel", "_split_v2")
def _split(c: Call) -> list[str]:
    axis = c.p.axis % c.ndim
    squeezed, count = c.p.squeeze_axis, len(c.out_shapes)
    sizes = (1,) * count if squeezed else fixed([shape[axis] for shape in c.out_shapes])
    if sizes is None:
        raise c.refuse("the divided axis must be fixed, got a free dimension")
    parts = [c.x[0]]
    if count > 1:
        parts = c.op("Split", c.x[0], c.g.const(sizes), outputs=count, axis=axis)
    return [c.g.squeeze(part, axis) for part in parts] if squeezed else parts


@converter("Pad")
def _pad(c: Call) -> str:
    widths = list(c.p.pad_width)
    pads = c.g.const([*widths[::2], *widths[1::2]])
    if c.p.mode == "constant":
        return c.op("Pad", c.x[0], pads, c.const(c.p.constant_value), mode="constant")
    return c.op("Pad", c.x[0], pads, mode=c.p.mode)


@converter("tile")
def _tile(c: Call) -> str:
    x, reps = c.x[0], list(c.p.reps)
    if len(reps) > c.ndim:
        x = c.g.unsqueeze(x, *range(len(reps) - c.ndim))
    return c.op("Tile", x, c.g.const([1] * (c.ndim - len(reps)) + reps))


@converter("repeat")
def _repeat(c: Call) -> str:
    axis = c.p.axis
    (repeats,) = c.p.repeats if isinstance(c.p.repeats, (list, tuple)) else (c.p.repeats,)
    x, shape = c.x[0], c.shapes[0]
    if axis is None:
        x, axis, shape = c.op("Reshape", x, c.g.const([-1])), 0, (int(np.prod(c.static())),)
    axis %= len(shape)
    grown = c.g.unsqueeze(x, axis + 1)
    times = [1] * (len(shape) + 1)
    times[axis + 1] = repeats
    return c.g.reshape(c.op("Tile", grown, c.g.const(times)), c.out_shapes[0])


@converter("reverse")
def _reverse(c: Call) -> str:
    axes = [c.p.axis] if isinstance(c.p.axis, int) else list(c.p.axis)
    count = len(axes)
    return c.g.slice(c.x[0], axes, [-1] * count, [-(2**31 - 1)] * count, [-1] * count)


@converter("broadcast_to", "broadcast_axis", "broadcast_like")
def _broadcast(c: Call) -> str:
    return c.op("Expand", c.x[0], c.g.dims(c.out_shapes[0]))


@converter("depth_to_space")
def _depth_to_space(c: Call) -> str:
    return c.op("DepthToSpace", c.x[0], blocksize=c.p.block_size, mode="DCR")


@converter("space_to_depth")
def _space_to_depth(c: Call) -> str:
    return c.op("SpaceToDepth", c.x[0], blocksize=c.p.block_size)


def clipped(c: Call, indices: str, extent: int) -> str:
    """Return int64 indices moved into an axis."""
    return c.op("Clip", indices, c.g.const(0), c.g.const(extent - 1))


def _within(c: Call, indices: str, extent: int, mode: str) -> str:
    """Return indices that mode ``clip`` or ``wrap`` moves into the axis."""
    if mode == "wrap":
        return c.op("Mod", indices, c.g.const(extent))
    return clipped(c, indices, extent) if mode == "clip" else indices


@converter("take")
def _take(c: Call) -> str:
    axis = c.p.axis % c.ndim
    indices = _within(c, c.cast(1, "int64"), c.extent(0, axis), c.p.mode)
    return c.op("Gather", c.x[0], indices, axis=axis)


@converter("pick")
def _pick(c: Call) -> str:
    axis = c.p.axis
    if axis is None:
        raise c.refuse("axis must be a number, got None")
    axis %= c.ndim
    indices = _within(c, c.cast(1, "int64"), c.extent(0, axis), c.p.mode)
    if len(c.shapes[1]) < c.ndim:
        indices = c.g.unsqueeze(indices, axis)
    found = c.op("GatherElements", c.x[0], indices, axis=axis)
    return c.g.reshape(found, c.out_shapes[0])


@converter("batch_take")
def _batch_take(c: Call) -> str:
    places = clipped(c, c.cast(1, "int64"), c.extent(0, 1))
    return c.g.squeeze(c.op("GatherElements", c.x[0], c.g.unsqueeze(places, 1), axis=1), 1)


@converter("_take_along_axis")
def _take_along_axis(c: Call) -> str:
    return c.op("GatherElements", c.x[0], c.cast(1, "int64"), axis=c.p.axis)


def _last_axis(c: Call, value: str) -> str:
    """Return indices, whose first axis counts coordinates, with that axis last."""
    count = len(c.shapes[1])
    return c.op("Transpose", value, perm=[*range(1, count), 0])


@converter("gather_nd")
def _gather_nd(c: Call) -> str:
    return c.op("GatherND", c.x[0], _last_axis(c, c.cast(1, "int64")))


@converter("scatter_nd")
def _scatter_nd(c: Call) -> str:
    zeros = c.op("Expand", c.const(0), c.g.dims(c.out_shapes[0]))
    return c.op("ScatterND", zeros, _last_axis(c, c.cast(1, "int64")), c.x[0])


@converter("_contrib_index_copy")
def _index_copy(c: Call) -> str:
    return c.op("ScatterND", c.x[0], c.g.unsqueeze(c.cast(1, "int64"), -1), c.x[2])


@converter("one_hot")
def _one_hot(c: Call) -> str:
    indices = c.g.unsqueeze(c.cast(0, "int64"), -1)
    hit = c.op("Equal", indices, c.g.const(np.arange(c.p.depth)))
    return c.op("Where", hit, c.const(c.p.on_value), c.const(c.p.off_value))


@converter("shape_array")
def _shape_array(c: Call) -> str:
    return c.g.cast(c.op("Shape", c.x[0]), "int64", c.dtype)


@converter("size_array")
def _size_array(c: Call) -> str:
    return c.g.unsqueeze(c.g.cast(c.op("Size", c.x[0]), "int64", c.dtype), 0)


def _filled(value: float | None, c: Call) -> str:
    number = c.const(c.p.value if value is None else value)
    if c.x:
        return c.op("Expand", number, c.op("Shape", c.x[0]))
    return c.op("Expand", number, c.g.dims(c.out_shapes[0]))


rows(
    (name, partial(_filled, value))
    for name, value in (
        ("zeros_like", 0.0), ("ones_like", 1.0), ("_zeros", 0.0), ("_ones", 1.0), ("_full", None),
    )
)  # fmt: skip


def _created(c: Call) -> str:
    """Convert an operator whose result depends on shapes only: the result becomes a constant."""
    inputs = [nd.zeros(c.static(i), dtype=dtype) for i, dtype in enumerate(c.dtypes)]
    return c.const(c.node.call.run(inputs)[0].asnumpy())


rows(
    (name, _created)
    for name in ("_eye", "_linspace", "_contrib_index_array", "_contrib_MultiBoxPrior")
)


@converter("_arange", "_contrib_arange_like")
def _arange(c: Call) -> str:
    if all(fixed(shape) is not None for shape in (*c.out_shapes, *c.shapes)):
        return _created(c)
    if c.p.repeat != 1 or len(c.out_shapes[0]) != 1:
        raise c.refuse("with a free dimension, repeat must be 1 and axis must be given")
    count = c.g.squeeze(c.g.dims(c.out_shapes[0]), 0)
    steps = c.op("Range", c.g.const(0), count, c.g.const(1))
    scaled = c.op("Mul", c.g.cast(steps, "int64", c.dtype), c.const(c.p.step))
    return str(c.op("Add", scaled, c.const(c.p.start)))


def _diagonal(length: int, offset: int) -> np.ndarray:
    """Return row and column of each entry of a diagonal."""
    places = np.arange(length)
    return np.stack([places + max(0, -offset), places + max(0, offset)], 1)


@converter("diag")
def _diag(c: Call) -> str:
    if c.ndim == 1:
        extent = c.extent(0, 0)
        size = extent + abs(c.p.k)
        zeros = c.op("Expand", c.const(0), c.g.const([size, size]))
        return c.op("ScatterND", zeros, c.g.const(_diagonal(extent, c.p.k)), c.x[0])
    first, second = c.p.axis1 % c.ndim, c.p.axis2 % c.ndim
    rest = [axis for axis in range(c.ndim) if axis not in (first, second)]
    moved = c.op("Transpose", c.x[0], perm=[first, second, *rest])
    length = c.out_shapes[0][-1]
    if not isinstance(length, int):
        raise c.refuse("the size of the diagonal must be fixed, got a free dimension")
    found = c.op("GatherND", moved, c.g.const(_diagonal(length, c.p.k)))
    return c.op("Transpose", found, perm=[*range(1, len(rest) + 1), 0])


@converter("_slice_assign", "_slice_assign_scalar")
def _slice_assign(c: Call) -> str:
    shape = c.static()
    steps = list(c.p.step) or [None] * len(c.p.begin)
    cut = tuple(slice(*entry) for entry in zip(c.p.begin, c.p.end, steps))
    places = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1)[cut]
    if len(c.x) > 1:
        value = c.op("Expand", c.x[1], c.g.const(places.shape[:-1]))
    else:
        value = c.const(np.full(places.shape[:-1], c.p.scalar))
    return c.op("ScatterND", c.x[0], c.g.const(places), value)


_RANDOM = {
    "random_normal": ("RandomNormal", {"mean": "loc", "scale": "scale"}),
    "random_uniform": ("RandomUniform", {"low": "low", "high": "high"}),
}


def _random(op: str, limits: dict[str, str], c: Call) -> str:
    attrs = {key: float(getattr(c.p, name)) for key, name in limits.items()}
    kind = tensor_type(c.dtype)
    if c.x:
        return c.op(op + "Like", c.x[0], dtype=kind, **attrs)
    if fixed(c.out_shapes[0]) is None:
        raise c.refuse("the shape must be fixed, got free dimensions")
    return c.op(op, shape=c.out_shapes[0], dtype=kind, **attrs)


for _name, (_op, _limits) in _RANDOM.items():
    converter(_name, f"_{_name}_like")(partial(_random, _op, _limits))


@converter("sample_multinomial")
def _multinomial(c: Call) -> str:
    if c.p.get_prob:
        raise c.refuse("get_prob must be False, got True")
    x = c.x[0] if c.ndim == 2 else c.g.unsqueeze(c.x[0], 0)
    shape = c.out_shapes[0]
    count = shape[-1] if len(shape) == c.ndim else 1
    drawn = c.op("Multinomial", c.op("Log", x), sample_size=count, dtype=tensor_type("int32"))
    return c.g.reshape(c.g.cast(drawn, "int32", c.dtype), shape)
