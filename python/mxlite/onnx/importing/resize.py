"""Converters of resizing to mxlite's operators where one fits, else to a matrix for each axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from .table import Node, Sizes, Value, constant, converter

__all__ = ["multiplied"]


def _nearest_at(rounding: str, size: int, where: np.ndarray) -> np.ndarray:
    """Return the index of the pixel that each output copies."""
    rounded = {
        "floor": np.floor(where),
        "ceil": np.ceil(where),
        "round_prefer_floor": np.ceil(where - 0.5),
        "round_prefer_ceil": np.floor(where + 0.5),
    }[rounding]
    return np.clip(rounded, 0, size - 1).astype("int64")


def _linear(distance: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(distance), 0)


def _cubic(a: float, distance: np.ndarray) -> np.ndarray:
    x = np.abs(distance)
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


class _Axis:
    """One resized axis; ``where`` has the coordinate in the input of each output."""

    def __init__(self, n: Node, size: int, out: int, scale: float, roi: tuple[float, float]):
        older = n.op == "Upsample" or n.opset < 11
        self.place = n.get(
            "coordinate_transformation_mode", "asymmetric" if older else "half_pixel"
        )
        self.rounding = n.get("nearest_mode", "floor" if older else "round_prefer_floor")
        self.size, self.out, self.scale, self.n = size, out, scale, n
        self.where = self._where(np.arange(out, dtype="float64"), scale * size, roi)

    def _where(self, steps: np.ndarray, length: float, roi: tuple[float, float]) -> np.ndarray:
        last = self.size - 1
        half = (steps + 0.5) / self.scale - 0.5
        if self.place == "asymmetric":
            return steps / self.scale
        if self.place == "half_pixel":
            return half
        if self.place == "pytorch_half_pixel":
            return half if length > 1 else steps * 0 - 0.5
        if self.place == "half_pixel_symmetric":
            return half + self.size / 2 * (1 - self.out / length)
        if self.place == "align_corners":
            return steps * (last / (length - 1) if length > 1 else 0)
        if self.place == "tf_crop_and_resize":
            if length <= 1:
                return steps * 0 + (roi[0] + roi[1]) * last / 2
            return roi[0] * last + steps * (roi[1] - roi[0]) * last / (length - 1)
        raise self.n.refuse(f"coordinate_transformation_mode {self.place!r} has no equivalent")

    def matrix(self, kernel: Callable[[np.ndarray], np.ndarray] | None) -> np.ndarray:
        """Return weights (outputs, inputs); without a kernel, each output copies one pixel."""
        n, weights = self.n, np.zeros((self.out, self.size))
        rows = np.arange(self.out)
        if kernel is None:
            weights[rows, _nearest_at(self.rounding, self.size, self.where)] = 1
        else:
            shrink = min(self.scale, 1.0) if n.get("antialias", 0) else 1.0
            reach = int(np.ceil(2 / shrink)) + 1
            for step in range(-reach, reach + 2):
                pixel = np.floor(self.where).astype("int64") + step
                weight = kernel((pixel - self.where) * shrink)
                if n.get("exclude_outside", 0):
                    weight = np.where((pixel >= 0) & (pixel < self.size), weight, 0)
                weights[rows, np.clip(pixel, 0, self.size - 1)] += weight
            if n.get("exclude_outside", 0) or shrink < 1:
                weights /= weights.sum(1, keepdims=True)
        if self.place == "tf_crop_and_resize":
            weights[self.outside] = 0
        return weights

    @property
    def outside(self) -> np.ndarray:
        """Whether each output of tf_crop_and_resize is extrapolated."""
        return (self.where < 0) | (self.where > self.size - 1)


def _chosen_axes(n: Node) -> list[int]:
    axes = n.get("axes")
    ndim = n.x[0].ndim
    return [a % ndim for a in axes] if axes is not None else list(range(ndim))


def _target(
    n: Node, own: tuple[int, ...], wanted: np.ndarray | None, scales: np.ndarray | None
) -> tuple[tuple[int, ...], list[float]]:
    """Return the shape of the result for data of shape ``own``, and the scale of each axis."""
    axes, policy = _chosen_axes(n), n.get("keep_aspect_ratio_policy", "stretch")
    sizes, factors = list(own), [1.0] * len(own)
    for i, axis in enumerate(axes):
        if wanted is not None:
            factors[axis] = float(wanted[i]) / own[axis]
        elif scales is not None:
            factors[axis] = float(scales[i])
    if wanted is not None and policy != "stretch":
        choose = min if policy == "not_larger" else max
        factor = choose(factors[axis] for axis in axes)
        factors = [factor if axis in axes else 1.0 for axis in range(len(own))]
    half = 0.0 if wanted is None else 0.5
    for i, axis in enumerate(axes):
        if wanted is not None and policy == "stretch":
            sizes[axis] = int(wanted[i])
        else:
            sizes[axis] = int(np.floor(factors[axis] * own[axis] + half))
    n.check_count(prod(sizes), "the number of elements")
    return tuple(sizes), factors


def _targets(n: Node) -> tuple[Sizes, list[float]]:
    """Return both sizes of the result, and the scale of each axis, computed for the first sizes."""
    given = n.numbers(3, "sizes must be constant") if n.op == "Resize" and n.has(3) else None
    index = 1 if n.op == "Upsample" or n.opset < 11 else 2
    scales = n.array(index, "scales") if given is None else None
    if given is None and (scales is None or not scales.size):
        raise n.refuse("scales or sizes must be given, got neither")
    scales = None if scales is None else scales.reshape(-1)
    (first, factors), (second, _) = (
        _target(n, own, wanted, scales) for own, wanted in zip(n.x[0].sizes, given or (None, None))
    )
    return (first, second), factors


@converter("Resize", "Upsample")
def _resize(n: Node) -> Value:
    x, ((first, second), factors) = n.x[0], _targets(n)
    mode = n.get("mode", "nearest")
    roi = n.array(1) if n.op == "Resize" and n.opset >= 11 else None
    corners = {a: (0.0, 1.0) for a in range(x.ndim)}
    if roi is not None and roi.size:
        axes = _chosen_axes(n)
        corners.update({a: (roi[i], roi[len(axes) + i]) for i, a in enumerate(axes)})
    changed = {
        axis: _Axis(n, x.shape[axis], first[axis], factors[axis], corners[axis])
        for axis in range(x.ndim)
        if (first[axis], second[axis]) != (x.sizes[0][axis], x.sizes[1][axis])
        or corners[axis] != (0.0, 1.0)
    }
    for axis in changed:
        if x.sizes[0][axis] != x.sizes[1][axis] or first[axis] != second[axis]:
            raise n.refuse(f"axis {axis} must have a fixed size; give input_shapes")
    if all(_is_bilinear(n, x, axis, changed[axis]) for axis in changed) and mode == "linear":
        aligned = n.get("coordinate_transformation_mode") == "align_corners"
        return n.mx("_contrib_BilinearResize2D", x, height=first[2], width=first[3],
                    align_corners=aligned) if changed else x  # fmt: skip
    kernels = {"nearest": None, "linear": _linear,
               "cubic": partial(_cubic, n.get("cubic_coeff_a", -0.75))}  # fmt: skip
    out, cropped = x, False
    for axis, one in changed.items():
        cropped = cropped or (one.place == "tf_crop_and_resize" and bool(one.outside.any()))
        if mode == "nearest" and not cropped:
            places = _nearest_at(one.rounding, one.size, one.where)
            out = n.mx("take", out, constant(places), axis=axis)
        else:
            out = multiplied(n, out, axis, one.matrix(kernels[mode]))
    if cropped:
        outside = np.zeros(first, bool)
        for axis, one in changed.items():
            outside |= one.outside.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        fill = n.const(np.full(first, n.get("extrapolation_value", 0.0)), x.dtype)
        out = n.mx("where", n.const(outside, "bool"), fill, out)
    return out


def _is_bilinear(n: Node, x: Value, axis: int, one: _Axis) -> bool:
    """Return whether BilinearResize2D computes what the node computes along this axis of x."""
    exact = abs(one.scale * one.size - one.out) < 1e-6
    place = one.place in ("align_corners", "half_pixel", "pytorch_half_pixel")
    simple = not n.get("antialias", 0) and not n.get("exclude_outside", 0)
    return x.ndim == 4 and axis >= 2 and exact and place and simple and one.out > 1


def multiplied(n: Node, x: Value, axis: int, matrix: np.ndarray) -> Value:
    """Return the product of a matrix (outputs, inputs) and the data along an axis."""
    last = x.ndim - 1
    swapped = x if axis == last else n.mx("SwapAxis", x, dim1=axis, dim2=last)
    out = n.mx("dot", swapped, n.const(matrix.T, x.dtype))
    return out if axis == last else n.mx("SwapAxis", out, dim1=axis, dim2=last)
