"""Rows of the operators that sample images: crops, grids, regions, deformable convolution."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from op_table import FLOATS, fails, no_grad, op, rand


def np_sampler(x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return images at points between -1 and 1, with zeros around; a hat function per pixel."""
    height, width = x.shape[2:]
    at_x = (grid[:, 0] + 1) * (width - 1) / 2
    at_y = (grid[:, 1] + 1) * (height - 1) / 2
    near_x = np.maximum(1 - np.abs(at_x[..., None] - np.arange(width)), 0)
    near_y = np.maximum(1 - np.abs(at_y[..., None] - np.arange(height)), 0)
    return np.einsum("ncyx,nijy,nijx->ncij", x, near_y, near_x)


def positions(size: int) -> np.ndarray:
    """Return the coordinates of the pixels along an axis."""
    return np.linspace(-1, 1, size) if size > 1 else np.zeros(1)


def np_affine(theta: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the grid of (batch, 6) matrices."""
    y, x = np.meshgrid(positions(height), positions(width), indexing="ij")
    return np.einsum("nij,jyx->niyx", theta.reshape(-1, 2, 3), np.stack([x, y, np.ones_like(x)]))


def np_warp(flow: np.ndarray) -> np.ndarray:
    """Return the grid of a flow in pixels."""
    height, width = flow.shape[2:]
    x = (flow[:, 0] + np.arange(width)) / ((width - 1) / 2) - 1
    y = (flow[:, 1] + np.arange(height)[:, None]) / ((height - 1) / 2) - 1
    return np.stack([x, y], 1)


def np_correlation(
    a: np.ndarray,
    b: np.ndarray,
    kernel: int = 1,
    reach: int = 1,
    step: int = 1,
    step2: int = 1,
    pad: int = 0,
    multiply: bool = True,
) -> np.ndarray:
    """Return means over patches of padded images, one displacement at a time."""
    a, b = (np.pad(v, ((0, 0), (0, 0), (pad, pad), (pad, pad))) for v in (a, b))
    moves = np.arange(-(reach // step2), reach // step2 + 1) * step2
    border = reach + kernel // 2
    rows = range(border, a.shape[2] - border, step)
    columns = range(border, a.shape[3] - border, step)
    y = np.zeros((len(a), len(moves) ** 2, len(rows), len(columns)))
    for k, (dy, dx) in enumerate(itertools.product(moves, moves)):
        for (i, r), (j, c) in itertools.product(enumerate(rows), enumerate(columns)):
            h = kernel // 2
            first = a[:, :, r - h : r + h + 1, c - h : c + h + 1]
            second = b[:, :, r + dy - h : r + dy + h + 1, c + dx - h : c + dx + h + 1]
            both = first * second if multiply else np.abs(first - second)
            y[:, k, i, j] = both.mean((1, 2, 3))
    return y


def _correlation(shape: tuple[int, ...], *options: Any) -> Any:
    names = ("kernel_size", "max_displacement", "stride1", "stride2", "pad_size", "is_multiply")
    return op(
        "Correlation",
        rand(*shape),
        rand(*shape),
        ref=lambda a, b: np_correlation(a, b, *options),
        **dict(zip(names, options)),
    )


KIND = {"transform_type": "affine"}
AFFINE = {**KIND, "target_shape": (3, 4)}
TRANSFORMER = {**AFFINE, "sampler_type": "bilinear"}
NAN_GRID = np.full((1, 2, 1, 2), 0.25)
NAN_GRID[0, 1, 0, 1] = np.nan
FAR_GRID = np.array([-1e30, np.inf, 1.0, -1.0]).reshape(1, 2, 1, 2)
PIXELS = np.arange(1.0, 7.0).reshape(1, 1, 2, 3)

ST = "SpatialTransformer"
CASES = [
    # BilinearSampler
    op("BilinearSampler", (2, 3, 5, 6), rand(2, 2, 3, 4, low=-1.5, high=1.5), ref=np_sampler),
    op("BilinearSampler", (2, 20, 4, 3), (2, 2, 9, 8), ref=np_sampler),
    op("BilinearSampler", (2, 3, 1, 6), rand(2, 2, 3, 4, low=-1.5, high=1.5), ref=np_sampler),
    no_grad(
        "BilinearSampler",
        PIXELS,
        NAN_GRID,
        ref=lambda x, g: np.where(np.isnan(g).any(1), np.nan, np_sampler(x, g * [1, 0])),
        dtypes=("float64",),
    ),
    no_grad("BilinearSampler", PIXELS, FAR_GRID, ref=np.zeros((1, 1, 1, 2))),
    no_grad("BilinearSampler", (0, 3, 5, 6), (0, 2, 3, 4), ref=np.zeros((0, 3, 3, 4))),
    fails("BilinearSampler", (2, 3, 5, 6), (1, 2, 3, 4), match=r"grid .* .2, 2, .* .1, 2, 3, 4."),
    fails(
        "BilinearSampler",
        (2, 3, 5, 6),
        np.zeros((2, 2, 3, 4), "int32"),
        error=TypeError,
        match="grid must have data's dtype float32",
    ),
    # GridGenerator
    op("GridGenerator", (2, 6), **AFFINE, ref=lambda m: np_affine(m, 3, 4)),
    op("GridGenerator", (2, 6), **KIND, target_shape=(1, 5), ref=lambda m: np_affine(m, 1, 5)),
    op("GridGenerator", (2, 2, 3, 5), transform_type="warp", ref=np_warp),
    op("GridGenerator", (2, 2, 1, 1), transform_type="warp", ref=np.zeros((2, 2, 1, 1))),
    fails("GridGenerator", (2, 5), **AFFINE, match=r"shape \(batch, 6\)"),
    fails("GridGenerator", (2, 6), **KIND, match=r"target_shape must be two pos"),
    fails(
        "GridGenerator", (2, 3, 4, 4), transform_type="warp", match=r"\(batch, 2, height, width\)"
    ),
    fails("GridGenerator", (2, 6), transform_type="bend", match="transform"),
    # SpatialTransformer
    op(ST, (2, 3, 5, 6), (2, 6), **TRANSFORMER, ref=lambda x, m: np_sampler(x, np_affine(m, 3, 4))),
    op(
        ST,
        (2, 3, 3, 4),
        np.tile([1.0, 0, 0, 0, 1, 0], (2, 1)),
        **TRANSFORMER,
        ref=lambda x, m: x,
        grad=[0],
        dtypes=FLOATS[:3],
    ),
    fails(ST, (2, 3, 5, 6), (1, 6), **TRANSFORMER, match=r"loc must .* .2, 6. .* .1, 6."),
    # Correlation
    _correlation((2, 3, 5, 6)),
    _correlation((2, 3, 6, 7), 3, 2, 2, 1, 3),
    _correlation((1, 2, 7, 6), 1, 4, 1, 2, 4),
    _correlation((1, 2, 7, 6), 3, 2, 3, 2, 2, False),
    _correlation((2, 3, 5, 6), 1, 0),
    _correlation((1, 16, 24, 24), 3, 1),  # large enough for several threads
    no_grad("Correlation", (0, 3, 5, 6), (0, 3, 5, 6), ref=np.zeros((0, 9, 3, 4))),
    fails("Correlation", (2, 3, 5, 6), (2, 3, 5, 6), kernel_size=2, match="an odd number, got 2"),
    fails("Correlation", (2, 3, 5, 6), (2, 3, 5, 6), max_displacement=3, match="too small"),
    fails("Correlation", (2, 3, 5, 6), (2, 3, 5, 5), match="data2 must"),
    # Crop
    op("Crop", (2, 3, 5, 6), h_w=(3, 2), offset=(1, 3), ref=lambda x: x[:, :, 1:4, 3:5]),
    op("Crop", (2, 3, 5, 6), h_w=(3, 3), center_crop=True, ref=lambda x: x[:, :, 1:4, 1:4]),
    op(
        "Crop",
        (2, 3, 5, 6),
        (1, 7, 2, 6),
        num_args=2,
        offset=(2, 0),
        ref=lambda x, _: x[:, :, 2:4],
        grad=[0],
    ),
    no_grad("Crop", np.zeros((0, 3, 5, 6)), h_w=(3, 2), ref=np.zeros((0, 3, 3, 2))),
    fails("Crop", (2, 3, 5, 6), h_w=(3, 20), match=r"\(3, 20\) at offset"),
    fails("Crop", (2, 3, 5, 6), h_w=(3, 2), offset=(4, 0), match="not fit"),
    fails("Crop", (2, 3, 5, 6), match="h_w .* two positive numbers"),
    fails("Crop", (3, 5, 6), h_w=(3, 2), match="4 dimensions"),
]
