"""Converters of operators that shape and create arrays."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .pointwise import binary, dtype_of, leading, scalar
from .reader import array_of
from .table import Node, Value, constant, converter

__all__: list[str] = []


@converter("Shape")
def _shape(n: Node) -> Value:
    cut = slice(n.get("start", 0), n.get("end"))
    first, second = (np.asarray(s[cut], np.int64) for s in n.x[0].sizes)
    return constant(first, second)


@converter("Size")
def _size(n: Node) -> Value:
    first, second = (np.asarray(prod(s), np.int64) for s in n.x[0].sizes)
    return constant(first, second)


def _shapes_at(n: Node, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the shape that an input gives, for both sizes of the free dimensions."""
    return n.numbers(index, "the shape must be constant or made of shapes")


@converter("Reshape")
def _reshape(n: Node) -> Value:
    x = n.x[0]
    target = _shapes_at(n, 1) if "shape" not in n.attrs else (np.asarray(n.get("shape")),) * 2
    sizes = []
    for own, wanted in zip(x.sizes, target):
        shape = [int(v) for v in wanted]
        if not n.get("allowzero", 0):
            shape = [own[i] if v == 0 else v for i, v in enumerate(shape)]
        if -1 in shape:
            rest = prod(v for v in shape if v != -1)
            shape[shape.index(-1)] = prod(own) // rest if rest else 0
        if prod(shape) != prod(own):
            raise n.refuse(f"shape {list(wanted)} does not fit data of shape {own}")
        sizes.append(tuple(shape))
    return n.reshape(x, (sizes[0], sizes[1]))


@converter("Flatten")
def _flatten(n: Node) -> Value:
    x, axis = n.x[0], n.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    first, second = ((prod(s[:axis]), prod(s[axis:])) for s in x.sizes)
    return n.mx("Flatten", x) if axis == 1 and x.ndim > 1 else n.reshape(x, (first, second))


@converter("Transpose")
def _transpose(n: Node) -> Value:
    axes = n.get("perm") or list(range(n.x[0].ndim))[::-1]
    return n.mx("transpose", n.x[0], axes=tuple(axes)) if axes else n.x[0]


@converter("Unsqueeze")
def _unsqueeze(n: Node) -> Value:
    axes = n.ints(1, "axes") or []
    ndim = n.x[0].ndim + len(axes)
    axes = sorted(a % ndim for a in axes)

    def grown(shape: tuple[int, ...]) -> tuple[int, ...]:
        left = list(shape)
        for axis in axes:
            left.insert(axis, 1)
        return tuple(left)

    first, second = (grown(s) for s in n.x[0].sizes)
    x = n.x[0]
    if x.ndim and len(axes) == 1:
        return n.mx("expand_dims", x, axis=axes[0])
    return n.reshape(x, (first, second))


@converter("Squeeze")
def _squeeze(n: Node) -> Value:
    x, axes = n.x[0], n.ints(1, "axes")
    if axes is None:
        axes = [i for i, extent in enumerate(x.shape) if extent == 1]
    gone = {a % x.ndim for a in axes}
    first, second = (tuple(e for i, e in enumerate(s) if i not in gone) for s in x.sizes)
    if not first:
        return n.mx("Reshape", x, sizes=((), ()), shape=(1,))
    return n.mx("squeeze", x, sizes=(first, second), axis=tuple(sorted(gone))) if gone else x


@converter("Concat")
def _concat(n: Node) -> Value:
    return n.mx("Concat", *n.x, dim=n.get("axis", 1)) if len(n.x) > 1 else n.x[0]


@converter("Split")
def _split(n: Node) -> list[Value]:
    x, axis = n.x[0], n.get("axis", 0) % n.x[0].ndim
    extent = x.shape[axis]
    sizes = n.ints(1, "split")
    if sizes is None:
        count = n.get("num_outputs", n.count)
        part = -(-extent // count)
        sizes = [min(part, extent - i * part) for i in range(count)]
    ends = np.cumsum([0, *sizes])
    return [
        n.mx("slice_axis", x, axis=axis, begin=int(a), end=int(b)) for a, b in zip(ends, ends[1:])
    ]


@converter("Slice")
def _slice(n: Node) -> Value:
    x = n.x[0]
    if "starts" in n.attrs:
        begins, ends = list(n.get("starts")), list(n.get("ends"))
        axes, steps = list(n.get("axes") or range(len(begins))), [1] * len(begins)
    else:
        begins = n.ints(1) or []
        ends = _ends(n)
        axes = n.ints(3) or list(range(len(begins)))
        steps = n.ints(4) or [1] * len(begins)
    limits: dict[int, tuple[int | None, int | None, int]] = {}
    for axis, begin, end, step in zip(axes, begins, ends, steps):
        axis %= x.ndim
        extent = x.shape[axis]
        if isinstance(end, tuple):
            if end == (x.sizes[0][axis], x.sizes[1][axis]):
                end = 2**31
            elif (begin, step) == (0, 1):  # the end is the size of a free dimension
                x = n.mx("slice_like", x, n.counter(end, x.ndim, axis), axes=(axis,))
                continue
            else:
                raise n.refuse(
                    f"start and step before a free dimension must be 0 and 1, got {begin} and "
                    f"{step}"
                )
        if x.sizes[0][axis] != x.sizes[1][axis]:
            limits[axis] = (begin or None, None if end >= 2**31 - 1 else end, step)
            continue
        first, last, _ = slice(begin, end, step).indices(extent)
        limits[axis] = (first, last if last >= 0 else None, step)
    if not limits:
        return x
    entries = [limits.get(axis, (None, None, 1)) for axis in range(x.ndim)]
    begin_, end_, step_ = zip(*entries)
    return n.mx("slice", x, begin=begin_, end=end_, step=step_)


def _ends(n: Node) -> list[Any]:
    """Return the ends of a Slice; an end that depends on free dimensions is a pair."""
    given = n.numbers(2, "the ends must be constant")
    return [int(a) if a == b else (int(a), int(b)) for a, b in zip(*given)]


@converter("Expand")
def _expand(n: Node) -> Value:
    x, target = n.x[0], _shapes_at(n, 1)
    first, second = (
        np.broadcast_shapes(s, tuple(int(v) for v in t)) for s, t in zip(x.sizes, target)
    )
    if x.const is not None and not x.trainable:
        return constant(*map(np.broadcast_to, x.const, (first, second)))
    x, ones = leading(n, x, len(first)), (1,) * len(first)
    if x.ndim == 0 and ones:
        x = n.mx("Reshape", x, sizes=(ones, ones), shape=ones)
    if 0 in first:
        return n.const(np.zeros(first), x.dtype)
    free = [i for i, (a, b) in enumerate(zip(first, second)) if a != b]
    for i in free:
        if x.sizes[0][i] == x.sizes[1][i]:
            like = n.counter((first[i], second[i]), 1, 0)
            x = n.mx("broadcast_like", x, like, lhs_axes=(i,), rhs_axes=(0,))
    kept = tuple(0 if i in free else extent for i, extent in enumerate(first))
    return n.mx("broadcast_to", x, sizes=(first, second), shape=kept or (1,))


@converter("Tile")
def _tile(n: Node) -> Value:
    return n.mx("tile", n.x[0], reps=tuple(n.ints(1) or ()))


@converter("Pad")
def _pad(n: Node) -> Value:
    x, pads, axes = n.x[0], n.ints(1, "pads") or [], n.ints(3)
    mode, filled = n.get("mode", "constant"), n.array(2, "value")
    fill = 0.0 if filled is None else float(filled.reshape(-1)[0])
    axes = [a % x.ndim for a in axes] if axes is not None else list(range(x.ndim))
    before, behind = [0] * x.ndim, [0] * x.ndim
    for axis, b, e in zip(axes, pads[: len(axes)], pads[len(axes) :]):
        before[axis], behind[axis] = b, e
    if any(v < 0 for v in (*before, *behind)):
        cut = [(-min(b, 0), min(e, 0) or None) for b, e in zip(before, behind)]
        x = n.mx("slice", x, begin=[b for b, _ in cut], end=[e for _, e in cut])
        before, behind = ([max(v, 0) for v in part] for part in (before, behind))
    if not any((*before, *behind)):
        return x
    if mode not in ("constant", "edge", "reflect"):
        raise n.refuse(f"mode must be 'constant', 'edge' or 'reflect', got {mode!r}")
    if x.ndim in (4, 5) and not any((*before[:2], *behind[:2])):
        widths = tuple(v for pair in zip(before, behind) for v in pair)
        more: dict[str, Any] = {"constant_value": fill} if mode == "constant" else {}
        return n.mx("Pad", x, mode=mode, pad_width=widths, **more)
    if mode != "constant":
        raise n.refuse("with modes other than 'constant', only spatial axes can be padded")
    return _joined_padding(n, x, before, behind, fill)


def _joined_padding(n: Node, x: Value, before: list[int], behind: list[int], fill: float) -> Value:
    """Return data with constant padding on any axes, which is concatenated."""
    for axis, (b, e) in enumerate(zip(before, behind)):
        edge = n.mx("slice_axis", x, axis=axis, begin=0, end=1)
        empty = scalar(n, "plus", n.mx("zeros_like", edge), fill)
        parts = [
            n.mx("repeat", empty, repeats=count, axis=axis) if count else None for count in (b, e)
        ]
        given = [part for part in (parts[0], x, parts[1]) if part is not None]
        x = n.mx("Concat", *given, dim=axis) if len(given) > 1 else x
    return x


@converter("Constant")
def _constant(n: Node) -> Value:
    ((key, value),) = n.attrs.items()
    kinds = {"value_float": "float32", "value_floats": "float32", "value_int": "int64",
             "value_ints": "int64"}  # fmt: skip
    if key == "value":
        return constant(array_of(value), name=n.outputs[0])
    if key not in kinds:
        raise n.refuse(f"the value must be a tensor or numbers, got {key}")
    return n.const(value, kinds[key])


@converter("ConstantOfShape")
def _constant_of_shape(n: Node) -> Value:
    target = _shapes_at(n, 0)
    value = n.attrs.get("value")
    filled = np.zeros(1, "float32") if value is None else array_of(value)
    for shape in target:
        n.check_count(prod(map(int, shape)), "the number of elements")
    return constant(*(np.broadcast_to(filled.reshape(-1)[0], [int(v) for v in t]) for t in target))


@converter("EyeLike")
def _eye_like(n: Node) -> Value:
    dtype = dtype_of(n.get("dtype")) if "dtype" in n.attrs else n.x[0].dtype
    first, second = (np.eye(s[0], s[1], n.get("k", 0)).astype(dtype) for s in n.x[0].sizes)
    return constant(first, second)


@converter("OneHot")
def _one_hot(n: Node) -> Value:
    places, values = n.x[0], n.array(2)
    depth = n.ints(1)
    assert depth is not None and values is not None
    axis = n.get("axis", -1)
    size = depth[0]
    wrapped = scalar(n, "mod", n.cast(places, "float32"), size)
    off, on = (float(v) for v in values)
    out = n.mx("one_hot", wrapped, depth=size, on_value=on, off_value=off, dtype=values.dtype.name)
    if places.ndim == 0:
        return n.mx("Reshape", out, shape=(size,))
    axis %= out.ndim
    if axis == out.ndim - 1:
        return out
    order = list(range(out.ndim - 1))
    order.insert(axis, out.ndim - 1)
    return n.mx("transpose", out, axes=tuple(order))


@converter("Trilu")
def _trilu(n: Node) -> Value:
    x, offset = n.x[0], (n.ints(1) or [0])[0]
    rows_, columns = x.shape[-2:]
    kept = np.tri(rows_, columns, offset - bool(n.get("upper", 1)))
    kept = 1 - kept if n.get("upper", 1) else kept
    mask = n.const(kept, "bool")
    zeros = n.mx("zeros_like", x)
    sizes = tuple((1,) * (x.ndim - 2) + kept.shape for _ in (0, 1))
    shaped = n.reshape(mask, sizes)  # type: ignore[arg-type]
    return n.mx("where", n.mx("broadcast_like", shaped, x), x, zeros)


@converter("CumSum")
def _cumsum(n: Node) -> Value:
    x, axis = n.x[0], (n.ints(1) or [0])[0] % n.x[0].ndim
    if n.get("reverse", 0):
        x = n.mx("reverse", x, axis=axis)
    total = n.mx("cumsum", x, axis=axis, dtype=x.dtype)
    if n.get("exclusive", 0):
        total = binary(n, "Sub", total, x)
    return n.mx("reverse", total, axis=axis) if n.get("reverse", 0) else total


@converter("ReverseSequence")
def _reverse_sequence(n: Node) -> Value:
    x, lengths = n.x
    swapped = n.get("time_axis", 0) == 1
    if swapped:
        x = n.mx("SwapAxis", x, dim1=0, dim2=1)
    out = n.mx("SequenceReverse", x, n.cast(lengths, "float32"), use_sequence_length=True)
    return n.mx("SwapAxis", out, dim1=0, dim2=1) if swapped else out


@converter("DepthToSpace")
def _depth_to_space(n: Node) -> Value:
    x, block = n.x[0], n.get("blocksize")
    if n.get("mode", "DCR") == "DCR":
        return n.mx("depth_to_space", x, block_size=block)
    batch, channels, height, width = x.shape
    split = n.mx("Reshape", x, shape=(-1, channels // block**2, block, block, height, width))
    moved = n.mx("transpose", split, axes=(0, 1, 4, 2, 5, 3))
    return n.mx("Reshape", moved, shape=(-1, channels // block**2, height * block, width * block))


@converter("SpaceToDepth")
def _space_to_depth(n: Node) -> Value:
    x, block = n.x[0], n.get("blocksize")
    if n.get("mode", "DCR") == "DCR":
        return n.mx("space_to_depth", x, block_size=block)
    _, channels, height, width = x.shape
    inner = (height // block, block, width // block, block)
    split = n.mx("Reshape", x, shape=(-1, channels, *inner))
    moved = n.mx("transpose", split, axes=(0, 1, 3, 5, 2, 4))
    return n.mx("Reshape", moved, shape=(-1, channels * block**2, *inner[::2]))


@converter("Range")
def _range(n: Node) -> Value:
    given = [n.numbers(i, "the inputs must be constant or made of shapes") for i in range(3)]
    parts = []
    for which in (0, 1):
        start, limit, delta = (const[which].reshape(-1)[0] for const in given)
        n.check_count(max(np.ceil((limit - start) / delta), 0), "the number of elements")
        parts.append(np.arange(start, limit, delta, dtype=start.dtype))
    return constant(*parts)
