"""Rows of pooling over regions. References are loops over bins and points."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
from op_table import fails, no_grad, op, rand


def each_bin(
    x: np.ndarray, rois: np.ndarray, channels: int, size: tuple[int, int], value: Any
) -> np.ndarray:
    """Return value(image, roi, channel, i, j) for every bin; ignored regions are zeros."""
    y = np.zeros((len(rois), channels, *size))
    for r, c, i, j in itertools.product(*(range(n) for n in y.shape)):
        if rois[r, 0] >= 0:
            finite = np.isfinite(rois[r]).all()
            y[r, c, i, j] = value(x[int(rois[r, 0])], r, c, i, j) if finite else np.nan
    return y


def boxes(*rows: list[float]) -> np.ndarray:
    """Return rows of numbers as a floating array."""
    return np.array(rows, dtype=np.float64)


def half_up(v: float) -> int:
    """Return the nearest integer, halves away from zero."""
    return int(math.floor(abs(v) + 0.5) * (1 if v >= 0 else -1))


def np_roi_pooling(x: np.ndarray, rois: np.ndarray, size: tuple[int, int], scale: float) -> Any:
    """Return maxima over the pixels of bins; NaN wins."""

    def value(image: np.ndarray, r: int, c: int, i: int, j: int) -> float:
        x0, y0, x1, y1 = (half_up(v * scale) for v in rois[r, 1:])
        height, width = max(y1 - y0 + 1, 1) / size[0], max(x1 - x0 + 1, 1) / size[1]
        rows = range(math.floor(i * height) + y0, math.ceil((i + 1) * height) + y0)
        columns = range(math.floor(j * width) + x0, math.ceil((j + 1) * width) + x0)
        seen = [
            image[c, a, b]
            for a, b in itertools.product(rows, columns)
            if 0 <= a < image.shape[1] and 0 <= b < image.shape[2]
        ]
        return float(np.max(seen)) if seen else 0.0

    return each_bin(x, rois, x.shape[1], size, value)


def bilinear(plane: np.ndarray, y: float, x: float, margin: float) -> float | None:
    """Return the value between pixels, of the border outside, None beyond the margin."""
    height, width = plane.shape
    low, high = -margin, (height - 1 + margin, width - 1 + margin)
    if y < low or x < low or y > high[0] or x > high[1]:
        return None
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    a, b = int(y), int(x)
    c, d = min(a + 1, height - 1), min(b + 1, width - 1)
    top = plane[a, b] * (1 - x + b) + plane[a, d] * (x - b)
    bottom = plane[c, b] * (1 - x + b) + plane[c, d] * (x - b)
    return top * (1 - y + a) + bottom * (y - a)


def align_point(plane: np.ndarray, y: float, x: float) -> float:
    """Return a sample of ROIAlign: zero one pixel outside of the image."""
    height, width = plane.shape
    if y < -1 or x < -1 or y > height or x > width:
        return 0.0
    inside = bilinear(plane, min(max(y, 0), height - 1), min(max(x, 0), width - 1), 0)
    return 0.0 if inside is None else inside


def np_roi_align(
    x: np.ndarray,
    rois: np.ndarray,
    size: tuple[int, int],
    scale: float,
    ratio: int = -1,
    grouped: bool = False,
    aligned: bool = False,
) -> np.ndarray:
    """Return means of samples."""

    def value(image: np.ndarray, r: int, c: int, i: int, j: int) -> float:
        x0, y0, x1, y1 = rois[r, 1:] * scale - (0.5 if aligned else 0)
        least = 0 if aligned else 1
        height, width = max(y1 - y0, least) / size[0], max(x1 - x0, least) / size[1]
        down, right = (ratio, ratio) if ratio > 0 else (math.ceil(height), math.ceil(width))
        channel = (c * size[0] + i) * size[1] + j if grouped else c
        points = [
            align_point(
                image[channel],
                y0 + (i + (a + 0.5) / down) * height,
                x0 + (j + (b + 0.5) / right) * width,
            )
            for a, b in itertools.product(range(down), range(right))
        ]
        return sum(points) / max(len(points), 1)

    channels = x.shape[1] // (size[0] * size[1]) if grouped else x.shape[1]
    return each_bin(x, rois, channels, size, value)


def np_rotated_align(
    x: np.ndarray, rois: np.ndarray, size: tuple[int, int], scale: float, ratio: int = -1
) -> np.ndarray:
    """Return means of samples on turned grids."""

    def value(image: np.ndarray, r: int, c: int, i: int, j: int) -> float:
        cx, cy, w, h = rois[r, 1:5] * scale
        w, h, angle = max(w, 1), max(h, 1), math.radians(rois[r, 5])
        down = ratio if ratio > 0 else math.ceil(h / size[0])
        right = ratio if ratio > 0 else math.ceil(w / size[1])
        total = 0.0
        for a, b in itertools.product(range(down), range(right)):
            v = (i + (a + 0.5) / down) * h / size[0] - h / 2
            u = (j + (b + 0.5) / right) * w / size[1] - w / 2
            turned = complex(u, v) * complex(math.cos(angle), -math.sin(angle))
            total += align_point(image[c], cy + turned.imag, cx + turned.real)
        return total / (down * right)

    return each_bin(x, rois, x.shape[1], size, value)


def np_psroi(
    x: np.ndarray, rois: np.ndarray, scale: float, channels: int, bins: int, groups: int
) -> np.ndarray:
    """Return means over the pixels that bins touch, each bin in its own channels."""

    def value(image: np.ndarray, r: int, c: int, i: int, j: int) -> float:
        x0, y0 = (half_up(v) * scale for v in rois[r, 1:3])
        x1, y1 = ((half_up(v) + 1) * scale for v in rois[r, 3:])
        height, width = max(y1 - y0, 0.1) / bins, max(x1 - x0, 0.1) / bins
        rows = slice(max(math.floor(y0 + i * height), 0), max(math.ceil(y0 + (i + 1) * height), 0))
        cols = slice(max(math.floor(x0 + j * width), 0), max(math.ceil(x0 + (j + 1) * width), 0))
        plane = image[(c * groups + i * groups // bins) * groups + j * groups // bins]
        return float(plane[rows, cols].mean()) if plane[rows, cols].size else 0.0

    return each_bin(x, rois, channels, (bins, bins), value)


def np_deformable_psroi(
    x: np.ndarray,
    rois: np.ndarray,
    trans: np.ndarray | None,
    *,
    scale: float,
    channels: int,
    bins: int,
    groups: int,
    samples: int,
    std: float,
) -> np.ndarray:
    """Return means of the samples inside of the image, bins moved by trans."""

    def value(image: np.ndarray, r: int, c: int, i: int, j: int) -> float:
        x0, y0 = (half_up(v) * scale - 0.5 for v in rois[r, 1:3])
        x1, y1 = ((half_up(v) + 1) * scale - 0.5 for v in rois[r, 3:])
        height, width = max(y1 - y0, 0.1), max(x1 - x0, 0.1)
        y, x = y0 + i * height / bins, x0 + j * width / bins
        if trans is not None:
            parts, classes = trans.shape[2], trans.shape[1] // 2
            offsets = trans[r].reshape(classes, 2, parts, parts)[c // (channels // classes)]
            move = offsets[:, i * parts // bins, j * parts // bins] * std
            x, y = x + move[0] * width, y + move[1] * height
        plane = image[(c * groups + i * groups // bins) * groups + j * groups // bins]
        points = [
            bilinear(plane, y + a * height / bins / samples, x + b * width / bins / samples, 0.5)
            for a, b in itertools.product(range(samples), repeat=2)
        ]
        inside = [p for p in points if p is not None]
        return sum(inside) / len(inside) if inside else 0.0

    return each_bin(x, rois, channels, (bins, bins), value)


# Inside, across the border, ignored, outside, a point. Numbers are exact in every dtype.
ROIS = boxes(
    [0, 1, 2, 9, 7], [1, -4, -3, 17, 19.5], [-1, 0, 0, 4, 4], [1, 40, 40, 50, 60], [0, 5, 6, 5, 6]
)
TURNED = boxes(
    [0, 4, 4, 6, 3, 30], [1, 6, 3, 9, 5.5, -100], [-1, 1, 1, 1, 1, 0], [1, 40, 40, 5, 5, 45]
)
NAN_BOX = boxes([0, 1, np.nan, 9, 7], [0, 1, 2, 9, 7])
NONE = np.zeros((0, 5))
WITH_NAN = rand(1, 1, 4, 4)
WITH_NAN[0, 0, 1, 2] = np.nan


def _align(shape: tuple[int, ...], rois: np.ndarray, **p: Any) -> Any:
    size, scale = p.get("pooled_size"), p.get("spatial_scale")
    options = (p.get("sample_ratio", -1), p.get("position_sensitive", False))
    return op(
        "_contrib_ROIAlign",
        rand(*shape),
        rois,
        ref=lambda x, b: np_roi_align(x, b, size, scale, *options, p.get("aligned", False)),
        grad=[0],
        **p,
    )


def _deformable(classes: int, parts: int, **p: Any) -> Any:
    inputs = [rand(2, 8, 5, 6), ROIS]
    if classes:
        inputs.append(rand(len(ROIS), 2 * classes, parts, parts))

    def ref(x: np.ndarray, rois: np.ndarray, trans: np.ndarray | None = None) -> np.ndarray:
        return np_deformable_psroi(
            x, rois, trans, scale=0.5, channels=2, bins=3, groups=2, samples=2, std=0.125
        )

    return op(
        "_contrib_DeformablePSROIPooling",
        *inputs,
        spatial_scale=0.5,
        output_dim=2,
        group_size=2,
        pooled_size=3,
        part_size=parts,
        sample_per_part=2,
        trans_std=0.125,
        no_trans=not classes,
        ref=ref,
        grad=[0, 2] if classes else [0],
        **p,
    )


def pooled(x: np.ndarray, rois: np.ndarray) -> Any:
    return np_roi_pooling(x, rois, (2, 3), 0.5)


POOL = "ROIPooling"
ALIGN, DEFORMABLE = "_contrib_ROIAlign", "_contrib_DeformablePSROIPooling"
FLAT = {"pooled_size": (2, 3), "spatial_scale": 0.5}

CASES = [
    # ROIPooling
    op(POOL, (2, 3, 5, 6), ROIS, **FLAT, ref=pooled, grad=[0]),
    no_grad(POOL, (1, 2, 5, 6), NAN_BOX, **FLAT, ref=pooled),
    *(
        no_grad(
            POOL,
            x,
            boxes([0, 0, 0, 3, 3]),
            pooled_size=(2, 2),
            spatial_scale=1,
            ref=lambda x, b: np_roi_pooling(x, b, (2, 2), 1),
        )
        for x in (WITH_NAN, np.full((1, 1, 4, 4), -np.inf))
    ),
    no_grad(POOL, (2, 3, 5, 6), NONE, **FLAT, ref=np.zeros((0, 3, 2, 3))),
    fails(
        POOL,
        (2, 3, 5, 6),
        boxes([0, 0, 0, 1, 1], [2, 0, 0, 1, 1]),
        **FLAT,
        error=IndexError,
        match=r"image index of rois\[1\] must be below 2, got 2",
    ),
    fails(POOL, (2, 3, 5, 6), (4, 4), **FLAT, match=r"\(regions"),
    fails(POOL, (2, 3, 5), ROIS, **FLAT, match="must have shape .*, got"),
    fails(
        POOL, (2, 3, 5, 6), ROIS, pooled_size=(2, 0), spatial_scale=1, match="size must .* .2, 0."
    ),
    # ROIAlign
    _align((2, 3, 5, 6), ROIS, **FLAT),
    _align((2, 3, 5, 6), ROIS, pooled_size=(3, 2), spatial_scale=0.25, sample_ratio=2),
    _align((2, 3, 9, 11), ROIS, pooled_size=(2, 2), spatial_scale=1.0, sample_ratio=3),
    _align((2, 12, 5, 6), ROIS, **FLAT, position_sensitive=True),
    _align((2, 3, 5, 6), ROIS, **FLAT, aligned=True),
    _align((2, 3, 5, 6), ROIS, **FLAT, aligned=True, sample_ratio=2),
    _align((2, 20, 1, 1), ROIS, pooled_size=(1, 1), spatial_scale=0.125),
    no_grad(ALIGN, (1, 2, 5, 6), NAN_BOX, **FLAT, ref=lambda x, b: np_roi_align(x, b, (2, 3), 0.5)),
    no_grad("_contrib_ROIAlign", (2, 3, 5, 6), NONE, **FLAT, ref=np.zeros((0, 3, 2, 3))),
    *(
        fails(ALIGN, shape, rois, **FLAT, **options, error=error, match=match)
        for shape, rois, options, error, match in [
            (
                (1, 3, 5, 6),
                boxes([0, 5, 5, 2, 8]),
                {"aligned": True},
                ValueError,
                r"rois\[0\] must be at least 0, got -3 and 3",
            ),
            (
                (2, 8, 5, 6),
                ROIS,
                {"position_sensitive": True},
                ValueError,
                "channels must be a multiple of 6, got 8",
            ),
            (
                (2, 3, 5, 6),
                boxes([7, 0, 0, 1, 1]),
                {},
                IndexError,
                r"image index of rois\[0\] must be below 2, got 7",
            ),
        ]
    ),
    # RROIAlign
    op(
        "_contrib_RROIAlign",
        (2, 3, 5, 6),
        TURNED,
        **FLAT,
        ref=lambda x, b: np_rotated_align(x, b, (2, 3), 0.5),
        grad=[0],
    ),
    op(
        "_contrib_RROIAlign",
        (2, 18, 5, 6),
        TURNED,
        pooled_size=(1, 2),
        spatial_scale=1,
        sampling_ratio=2,
        ref=lambda x, b: np_rotated_align(x, b, (1, 2), 1, 2),
        grad=[0],
    ),
    fails("_contrib_RROIAlign", (2, 3, 5, 6), ROIS, **FLAT, match=", 6"),
    # PSROIPooling
    *(
        op(
            "_contrib_PSROIPooling",
            (2, channels, 5, 6),
            ROIS,
            spatial_scale=scale,
            output_dim=dim,
            pooled_size=bins,
            group_size=groups,
            ref=partial(np_psroi, scale=scale, channels=dim, bins=bins, groups=groups or bins),
            grad=[0],
        )
        for channels, scale, dim, bins, groups in [
            (8, 0.5, 2, 2, 0),
            (12, 0.25, 3, 5, 2),
            (2, 1, 2, 3, 1),
        ]
    ),
    fails(
        "_contrib_PSROIPooling",
        (2, 9, 5, 6),
        ROIS,
        spatial_scale=1,
        output_dim=2,
        pooled_size=2,
        match="8 channels for output_dim 2 and group_size 2, got 9",
    ),
    # DeformablePSROIPooling
    _deformable(classes=1, parts=3),
    _deformable(classes=2, parts=2),
    _deformable(classes=0, parts=0),
    fails(
        DEFORMABLE,
        (2, 8, 5, 6),
        ROIS,
        (5, 2, 3, 4),
        spatial_scale=1,
        output_dim=2,
        group_size=2,
        pooled_size=3,
        match=r"trans must have shape \(5, 2 \* classes, 3, 3\) .*, got \(5, 2, 3, 4\)",
    ),
]
