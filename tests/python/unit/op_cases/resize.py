"""Rows of im2col, adaptive pooling, resizing and UpSampling."""

from __future__ import annotations

import itertools

import numpy as np
from op_table import op

from .conv import np_deconv, np_unfold

ADAPTIVE, SIZE = "_contrib_AdaptiveAvgPooling2D", "_contrib_BilinearResize2D"


def larger(x: np.ndarray, scale: int) -> np.ndarray:
    return x.repeat(scale, 2).repeat(scale, 3)


def np_col2im(x: np.ndarray) -> np.ndarray:
    """Return the sum of 2 x 2 windows of a 4 x 5 image with 3 channels."""
    windows = x.reshape(x.shape[0], 3, 2, 2, 3, 4)
    image = np.zeros((x.shape[0], 3, 4, 5))
    for i, j in itertools.product(range(2), range(2)):
        image[:, :, i : i + 3, j : j + 4] += windows[:, :, i, j]
    return image


def np_adaptive(x: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return averages over nearly equal parts."""
    y = np.zeros((*x.shape[:2], height, width))
    for i, j in itertools.product(range(height), range(width)):
        rows = slice(i * x.shape[2] // height, -(-(i + 1) * x.shape[2] // height))
        columns = slice(j * x.shape[3] // width, -(-(j + 1) * x.shape[3] // width))
        y[:, :, i, j] = x[:, :, rows, columns].mean((2, 3))
    return y


def _lines(size: int, out: int, align: bool) -> np.ndarray:
    """Return the matrix (out, size) that interpolates along one axis."""
    matrix = np.zeros((out, size))
    for i in range(out):
        at = i * (size - 1) / max(out - 1, 1) if align else max((i + 0.5) * size / out - 0.5, 0)
        low = min(int(at), size - 1)
        matrix[i, low] += 1 - (at - low)
        matrix[i, min(low + 1, size - 1)] += at - low
    return matrix


def np_sized(x: np.ndarray, height: int, width: int, align: int = 1) -> np.ndarray:
    """Return bilinear interpolation as two matrix products."""
    rows, columns = _lines(x.shape[2], height, align), _lines(x.shape[3], width, align)
    return np.einsum("hi,ncij,wj->nchw", rows, x, columns)


TWICE = {"scale_height": 2.0, "scale_width": 2.0, "mode": "odd_scale"}
CASES = [
    # im2col, col2im
    op(
        "im2col",
        (2, 3, 6, 5),
        kernel=(2, 3),
        stride=(2, 1),
        pad=(1, 0),
        dilate=(2, 1),
        ref=lambda x: np_unfold(x, (2, 3), (2, 1), (2, 1), (1, 0)).reshape(2, 18, -1),
    ),
    op("col2im", (2, 3 * 4, 12), output_size=(4, 5), kernel=(2, 2), ref=np_col2im),
    # resizing
    op("_contrib_AdaptiveAvgPooling2D", (2, 3, 5, 7), ref=lambda x: np_adaptive(x, 1, 1)),
    op(ADAPTIVE, (2, 3, 5, 7), output_size=(3, 4), ref=lambda x: np_adaptive(x, 3, 4)),
    op(ADAPTIVE, (2, 3, 2, 3), output_size=5, ref=lambda x: np_adaptive(x, 5, 5)),
    op(SIZE, (2, 3, 4, 5), height=7, width=3, ref=lambda x: np_sized(x, 7, 3)),
    op(SIZE, (2, 3, 4, 5), height=8, width=9, align_corners=0, ref=lambda x: np_sized(x, 8, 9, 0)),
    op(SIZE, (1, 2, 5, 4), **TWICE, ref=lambda x: np_sized(x, 9, 8)),
    op(SIZE, (1, 2, 5, 4), (1, 1, 3, 6), mode="like", grad=[0], ref=lambda x, _: np_sized(x, 3, 6)),
    op(SIZE, (1, 2, 5, 4), mode="to_even_up", ref=lambda x: np_sized(x, 6, 4)),
    op("UpSampling", (2, 3, 4, 5), scale=2, sample_type="nearest", ref=lambda x: larger(x, 2)),
    op(
        "UpSampling",
        (1, 2, 2, 3),
        (1, 1, 4, 6),
        scale=4,
        sample_type="nearest",
        ref=lambda x, y: np.concatenate([larger(x, 4), larger(y, 2)], 1),
    ),
    op(
        "UpSampling",
        (1, 2, 2, 3),
        (1, 2, 4, 6),
        scale=4,
        sample_type="nearest",
        multi_input_mode="sum",
        ref=lambda x, y: larger(x, 4) + larger(y, 2),
    ),
    op(
        "UpSampling",
        (1, 2, 3, 4),
        (2, 1, 4, 4),
        scale=2,
        sample_type="bilinear",
        num_filter=2,
        ref=lambda x, w: np_deconv(x, w, stride=(2, 2), pad=(1, 1), groups=2),
    ),
]
