"""Rows of the deformable convolutions. The reference places hat functions at moved positions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from op_table import fails, no_grad, op, rand

PLAIN = "_contrib_DeformableConvolution"
MODULATED = "_contrib_ModulatedDeformableConvolution"


def axis_weights(at: np.ndarray, size: int, zeros_around: bool) -> np.ndarray:
    """Return (*at.shape, size) weights of the lines for coordinates along one axis."""
    lines = np.arange(size)
    if not zeros_around:  # the last line continues for one pixel, zeros elsewhere outside
        inside = (at >= 0) & (at < size)
        hat = np.maximum(1 - np.abs(np.minimum(at, size - 1)[..., None] - lines), 0)
        return hat * inside[..., None]
    return np.maximum(1 - np.abs(at[..., None] - lines), 0)


def np_deformable(
    x: np.ndarray,
    offset: np.ndarray,
    *rest: np.ndarray,
    modulated: bool,
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    pad: tuple[int, int] = (0, 0),
    dilate: tuple[int, int] = (1, 1),
    num_filter: int,
    num_group: int = 1,
    num_deformable_group: int = 1,
    no_bias: bool = False,
) -> np.ndarray:
    """Return the convolution as sums over the elements of the window."""
    mask = rest[0] if modulated else None
    weight = rest[1] if modulated else rest[0]
    batch, channels, height, width = x.shape
    out_h, out_w = offset.shape[2:]
    size, moved = kernel[0] * kernel[1], num_deformable_group
    offset = offset.reshape(batch, moved, size, 2, out_h, out_w)
    image = x.reshape(batch, moved, channels // moved, height, width)
    y = np.zeros((batch, num_filter, out_h, out_w))
    for k, (i, j) in enumerate(itertools.product(range(kernel[0]), range(kernel[1]))):
        rows = np.arange(out_h)[:, None] * stride[0] - pad[0] + i * dilate[0] + offset[:, :, k, 0]
        columns = np.arange(out_w) * stride[1] - pad[1] + j * dilate[1] + offset[:, :, k, 1]
        near_y = axis_weights(rows, height, modulated)
        near_x = axis_weights(columns, width, modulated)
        values = np.einsum("ngcyx,ngijy,ngijx->ngcij", image, near_y, near_x)
        if mask is not None:
            values = values * mask.reshape(batch, moved, size, 1, out_h, out_w)[:, :, k]
        values = values.reshape(batch, num_group, channels // num_group, out_h, out_w)
        grouped = weight.reshape(num_group, num_filter // num_group, -1, size)[..., k]
        y += np.einsum("ngcij,gfc->ngfij", values, grouped).reshape(y.shape)
    return y if no_bias else y + rest[-1].reshape(1, -1, 1, 1)


def _case(name: str, spread: float, **p: Any) -> Any:
    kernel, moved, filters = p["kernel"], p.get("num_deformable_group", 1), p["num_filter"]
    stride, pad, dilate = p.get("stride", (1, 1)), p.get("pad", (0, 0)), p.get("dilate", (1, 1))
    data = rand(2, 4, 5, 6)
    out = [
        (data.shape[2 + i] + 2 * pad[i] - dilate[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i in range(2)
    ]
    elements = moved * kernel[0] * kernel[1]
    inputs = [data, rand(2, 2 * elements, *out, low=-spread, high=spread)]
    if name == MODULATED:
        inputs.append(rand(2, elements, *out, low=0.1, high=1.0))
    inputs.append(rand(filters, 4 // p.get("num_group", 1), *kernel))
    if not p.get("no_bias"):
        inputs.append(rand(filters))
    return op(
        name, *inputs, **p, ref=lambda *a: np_deformable(*a, modulated=name == MODULATED, **p)
    )


SHAPES = [
    {"kernel": (3, 3), "num_filter": 3},
    {
        "kernel": (3, 2),
        "stride": (2, 1),
        "pad": (1, 2),
        "dilate": (1, 2),
        "num_filter": 6,
        "num_group": 2,
        "num_deformable_group": 2,
    },
    {"kernel": (1, 1), "num_filter": 2, "num_deformable_group": 4, "no_bias": True},
]
DATA, SQUARE = (2, 4, 5, 6), {"kernel": (2, 2), "num_filter": 2}
FOUR = np.array([[[[1.0, 2], [3, 4]]]])
POINT = {"kernel": (1, 1), "num_filter": 1, "no_bias": True}
NAN_OFFSET = np.zeros((1, 2, 2, 2))
NAN_OFFSET[0, 1, 1, 0] = np.nan

CASES = [
    *[_case(name, 1.5, **p) for name in (PLAIN, MODULATED) for p in SHAPES],
    # Far outside, and exactly on pixels.
    _case(PLAIN, 20.0, kernel=(2, 2), num_filter=2),
    _case(MODULATED, 20.0, kernel=(2, 2), num_filter=2),
    *[
        op(PLAIN, FOUR, offset, np.ones((1, 1, 1, 1)), **POINT, ref=want, grad=grad)
        for offset, want, grad in [
            (np.zeros((1, 2, 2, 2)), lambda x, *_: x, [0, 2]),
            (NAN_OFFSET, np.array([[[[1, 2], [np.nan, 4]]]]), False),
        ]
    ],
    no_grad(
        MODULATED,
        *[(0, 4, 5, 6), (0, 8, 4, 5), (0, 4, 4, 5), (2, 4, 2, 2), (2,)],
        **SQUARE,
        im2col_step=8,
        ref=np.zeros((0, 2, 4, 5)),
    ),
    *[
        fails(name, *shapes, (2, 4, 2, 2), (2,), match=match, **SQUARE, **params)
        for name, match, shapes, params in [
            (
                PLAIN,
                r"offset must have shape \(2, 8, 4, 5\) .*, got \(2, 8, 4, 4\)",
                [DATA, (2, 8, 4, 4)],
                {},
            ),
            (
                MODULATED,
                r"mask must have shape \(2, 4, 4, 5\) .*, got \(2, 8, 4, 5\)",
                [DATA, (2, 8, 4, 5), (2, 8, 4, 5)],
                {},
            ),
            (
                PLAIN,
                "of num_deformable_group 3, got",
                [DATA, (2, 24, 4, 5)],
                {"num_deformable_group": 3},
            ),
        ]
    ],
    fails(
        PLAIN,
        (2, 4, 5),
        (2, 8, 4),
        (2, 4, 2),
        (2,),
        kernel=(2,),
        num_filter=2,
        match=r"kernel must be \(height, width\), got \(2,\)",
    ),
]
