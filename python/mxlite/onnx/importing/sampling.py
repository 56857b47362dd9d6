"""Converters of GridSample, DeformConv, Col2Im and DFT.

GridSample becomes a sampler of mxlite where one fits, else gathers of neighbors.
"""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import prod

import numpy as np

from .pointwise import binary, scalar
from .resize import multiplied
from .table import Node, Value, converter

__all__: list[str] = []

_CUBIC = -0.75  # the coefficient that PyTorch uses


def _position(n: Node, grid: Value, axis: int, size: int, aligned: bool) -> Value:
    """Return coordinates in pixels along a spatial axis; the grid lists the last axis first."""
    last = grid.ndim - 1
    at = grid.shape[-1] - 1 - axis
    one = n.mx("slice_axis", grid, axis=last, begin=at, end=at + 1)
    first, second = ((s[0], 1, prod(s[1:-1])) for s in grid.sizes)
    moved = scalar(n, "plus", n.reshape(one, (first, second)), 1)
    if aligned:
        return scalar(n, "mul", moved, (size - 1) / 2)
    return scalar(n, "plus", scalar(n, "mul", moved, size / 2), -0.5)


def _inside(n: Node, at: Value, size: int, padding: str, aligned: bool) -> Value:
    """Return coordinates moved into the image according to the padding mode."""
    if padding == "border":
        return n.mx("clip", at, sizes=at.sizes, a_min=0.0, a_max=float(size - 1))
    if padding == "zeros":
        return at
    low, length = (0.0, size - 1.0) if aligned else (-0.5, float(size))
    if not length:
        return n.mx("zeros_like", at)
    distance = n.mx("abs", scalar(n, "plus", at, -low))
    turn = n.mx("abs", scalar(n, "plus", scalar(n, "mod", distance, 2 * length), -length))
    return scalar(n, "rminus", turn, length + low)


def _cubic_weight(n: Node, distance: Value, near: bool) -> Value:
    """Return weights of pixels at distances from 0 to 1, or from 1 to 2."""
    a = _CUBIC
    factors = (a + 2, -(a + 3), 0, 1) if near else (a, -5 * a, 8 * a, -4 * a)
    total = scalar(n, "mul", distance, factors[0])
    for factor in factors[1:3]:
        total = binary(n, "Mul", scalar(n, "plus", total, factor), distance)
    return scalar(n, "plus", total, factors[3])


def _neighbors(n: Node, at: Value, mode: str) -> list[tuple[Value, Value | None]]:
    """Return the pixels along one axis that a coordinate uses, and their weights."""
    if mode == "nearest":
        down = n.mx("ceil", scalar(n, "plus", at, -0.5))
        up = n.mx("floor", scalar(n, "plus", at, 0.5))
        is_even = scalar(n, "equal", scalar(n, "mod", down, 2), 0)
        return [(n.mx("where", is_even, down, up), None)]
    low = n.mx("floor", at)
    rest = binary(n, "Sub", at, low)
    back = scalar(n, "rminus", rest, 1)
    if mode in ("linear", "bilinear"):
        return [(low, back), (scalar(n, "plus", low, 1), rest)]
    found: list[tuple[Value, Value | None]] = []
    for step, distance in ((-1, scalar(n, "plus", rest, 1)), (0, rest), (1, back),
                           (2, scalar(n, "plus", back, 1))):  # fmt: skip
        weight = _cubic_weight(n, distance, step in (0, 1))
        found.append((scalar(n, "plus", low, step), weight))
    return found


@converter("GridSample")
def _grid_sample(n: Node) -> Value:
    x, grid = n.x
    mode, padding = n.get("mode", "linear"), n.get("padding_mode", "zeros")
    aligned = bool(n.get("align_corners", 0))
    if mode in ("linear", "bilinear") and padding == "zeros" and aligned and x.ndim == 4:
        return n.mx("BilinearSampler", x, n.mx("transpose", grid, axes=(0, 3, 1, 2)))
    sizes, channels = x.shape[2:], x.shape[1]
    if x.sizes[0] != x.sizes[1] or grid.sizes[0] != grid.sizes[1]:
        raise n.refuse("shapes must be fixed; give input_shapes")
    points = prod(grid.shape[1:-1])
    flat = n.mx("Reshape", x, shape=(0, 0, -1))
    axes = []
    for axis, size in enumerate(sizes):
        at = _position(n, grid, axis, size, aligned)
        axes.append(_neighbors(n, _inside(n, at, size, padding, aligned), mode))
    parts = []
    for chosen in product(*axes):
        index, weights = None, []
        for (pixel, weight), size in zip(chosen, sizes):
            if weight is not None:
                weights.append(weight)
            if padding == "zeros":
                weights += [scalar(n, "greater_equal", pixel, 0),
                            scalar(n, "lesser_equal", pixel, size - 1)]  # fmt: skip
            else:
                pixel = _inside(n, pixel, size, padding, aligned)
            pixel = n.mx("clip", pixel, a_min=0.0, a_max=float(size - 1))
            index = pixel if index is None else binary(
                n, "Add", scalar(n, "mul", index, size), pixel)  # fmt: skip
        assert index is not None
        whole = n.mx("broadcast_to", n.cast(scalar(n, "plus", index, 0.25), "int64"),
                     shape=(x.shape[0], channels, points))  # fmt: skip
        part = n.mx("_take_along_axis", flat, whole, axis=2)
        parts.append(reduce(lambda a, b: binary(n, "Mul", a, b), weights, part))
    total = reduce(lambda a, b: binary(n, "Add", a, b), parts)
    return n.mx("Reshape", total, shape=(x.shape[0], channels, *grid.shape[1:-1]))


@converter("DeformConv")
def _deform_conv(n: Node) -> Value:
    x, weight, offset = n.x[:3]
    pads = n.get("pads") or [0, 0, 0, 0]
    if pads[:2] != pads[2:]:
        raise n.refuse(f"pads must be equal on both sides, got {pads}")
    bias = [n.x_at(3)] if n.has(3) else []
    mask = [n.x_at(4)] if n.has(4) else []
    kind = "Modulated" if mask else ""
    return n.mx(
        f"_contrib_{kind}DeformableConvolution", x, offset, *mask, weight, *bias,
        kernel=tuple(n.get("kernel_shape") or weight.shape[2:]),
        stride=tuple(n.get("strides") or (1, 1)),
        dilate=tuple(n.get("dilations") or (1, 1)),
        pad=tuple(pads[:2]),
        num_filter=weight.shape[0],
        num_group=n.get("group", 1),
        num_deformable_group=n.get("offset_group", 1),
        no_bias=not bias,
    )  # fmt: skip


@converter("Col2Im")
def _col2im(n: Node) -> Value:
    image, kernel = n.ints(1) or [], n.ints(2) or []
    count = len(kernel)
    pads = n.get("pads") or [0] * (2 * count)
    before, behind = pads[:count], pads[count:]
    out = n.mx(
        "col2im", n.x[0],
        output_size=tuple(map(sum, zip(image, before, behind))),
        kernel=tuple(kernel),
        stride=tuple(n.get("strides") or [1] * count),
        dilate=tuple(n.get("dilations") or [1] * count),
    )  # fmt: skip
    ends = [b + size for b, size in zip(before, image)]
    return n.mx("slice", out, begin=(None, None, *before), end=(None, None, *ends))


@converter("DFT")
def _dft(n: Node) -> Value:
    x, last = n.x[0], n.x[0].ndim - 1
    axis = ((n.ints(2) or [-2])[0] if n.opset >= 20 else n.get("axis", 1)) % x.ndim
    size, inverse = x.shape[axis], bool(n.get("inverse", 0))
    if x.sizes[0][axis] != x.sizes[1][axis]:
        raise n.refuse("the axis must have a fixed size; give input_shapes")
    onesided = bool(n.get("onesided", 0))
    length = (n.ints(1) or [2 * (size - 1) if inverse and onesided else size])[0]
    n.check_count(length * size, "the number of elements")
    count = length // 2 + 1 if onesided and not inverse else length
    angles = np.outer(np.arange(count), np.arange(size))
    factors = np.exp((2j if inverse else -2j) * np.pi * angles / length)
    factors[:, length:] = 0  # longer signals are cut
    factors /= length if inverse else 1
    if inverse and onesided:  # the results are real, and the other half is the conjugate
        factors[:, 1 : (length + 1) // 2] *= 2
    real = n.mx("slice_axis", x, axis=last, begin=0, end=1)
    parts = [multiplied(n, real, axis, part) for part in (factors.real, factors.imag)]
    if x.shape[last] == 2:
        other = n.mx("slice_axis", x, axis=last, begin=1, end=2)
        turned = [multiplied(n, other, axis, part) for part in (-factors.imag, factors.real)]
        parts = [binary(n, "Add", a, b) for a, b in zip(parts, turned)]
    return parts[0] if inverse and onesided else n.mx("Concat", *parts, dim=last)
