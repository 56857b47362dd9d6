"""Gradients of pooled regions on images of many tiles, with more regions than one list holds."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from recording import variable

HEIGHT, WIDTH, SCALE = 21, 70, 0.5
TOLERANCE = {"float64": 1e-11, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def corners(count: int) -> np.ndarray:
    """Return regions (image, x1, y1, x2, y2): small, large, across the border, ignored, outside."""
    rng = np.random.default_rng(count)
    low = rng.uniform(-8, [WIDTH / SCALE, HEIGHT / SCALE], (count, 2))
    size = np.exp(rng.uniform(0, 4, (count, 2)))
    rois = np.concatenate([rng.integers(0, 2, (count, 1)), low, low + size], -1)
    rois[0] = [0, -50, -40, 300, 200]
    rois[1] = [-1, 0, 0, 20, 20]
    rois[2] = [1, 900, 900, 950, 920]
    rois[3] = [1, 0, 0, 2 * WIDTH - 1, 2 * HEIGHT - 1]
    return np.round(rois * 4) / 4


def turned(count: int) -> np.ndarray:
    """Return regions (image, centre, width, height, angle in degrees)."""
    rng = np.random.default_rng(count)
    centre = rng.uniform(-8, [WIDTH / SCALE, HEIGHT / SCALE], (count, 2))
    size = np.exp(rng.uniform(0, 4.5, (count, 2)))
    image, angle = rng.integers(0, 2, (count, 1)), rng.uniform(-180, 180, (count, 1))
    rois = np.concatenate([image, centre, size, angle], -1)
    rois[0] = [0, 60, 20, 400, 300, 33]
    rois[1] = [-1, 0, 0, 20, 20, 0]
    rois[2] = [1, 900, 900, 40, 30, 20]
    rois[3] = [1, 70, 21, 100, 30, 90]
    return np.round(rois * 4) / 4


ALIGNED = {"pooled_size": (7, 7), "sample_ratio": 2, "aligned": True}
BY_POSITION = {"pooled_size": (2, 3), "position_sensitive": True}
# Bins of whole quarters: where a border between pixels is met, both devices must meet it.
QUARTERS = {"output_dim": 2, "pooled_size": 4, "group_size": 3}
PARTS = {"output_dim": 2, "group_size": 2, "pooled_size": 3, "sample_per_part": 3, "no_trans": True}
# Channels, the operator and its options.
POOLINGS: dict[str, tuple[int, Any, dict[str, Any]]] = {
    "ROIPooling": (11, nd.ROIPooling, {"pooled_size": (3, 5)}),
    "ROIAlign": (11, nd.contrib.ROIAlign, {"pooled_size": (3, 5)}),
    "ROIAlign, aligned samples": (3, nd.contrib.ROIAlign, ALIGNED),
    "ROIAlign, position-sensitive": (18, nd.contrib.ROIAlign, BY_POSITION),
    "PSROIPooling": (18, nd.contrib.PSROIPooling, QUARTERS),
    "DeformablePSROIPooling": (8, nd.contrib.DeformablePSROIPooling, PARTS),
    "RROIAlign": (11, nd.contrib.RROIAlign, {"pooled_size": (3, 5)}),
    "RROIAlign, samples": (3, nd.contrib.RROIAlign, {"pooled_size": (2, 2), "sampling_ratio": 3}),
}


def pooling(name: str) -> tuple[int, Any]:
    channels, operator, options = POOLINGS[name]
    return channels, lambda x, rois: operator(x, rois, spatial_scale=SCALE, **options)


def gradients(function: Any, arrays: Any, rois: Any, dtype: str, ctx: Any) -> list[np.ndarray]:
    """Return the gradients of the arrays; heads are whole numbers."""
    made = [variable(nd.array(a, ctx=ctx, dtype="float32").astype(dtype)) for a in arrays]
    with autograd.record():
        regions = nd.array(rois, ctx=ctx, dtype="float64" if dtype == "float64" else "float32")
        y = function(made[0], regions.astype(dtype), *made[1:])
    head = np.random.default_rng(5).integers(-4, 5, y.shape)
    y.backward(nd.array(head, ctx=ctx, dtype="float32").astype(y.dtype))
    return [a.grad.astype("float64").asnumpy() for a in made]


def compare(function: Any, arrays: list[np.ndarray], rois: np.ndarray, dtype: str) -> None:
    expected, found = (gradients(function, arrays, rois, dtype, c) for c in (mx.cpu(), mx.gpu(0)))
    for e, f in zip(expected, found):
        assert np.abs(e).max() > 1
        allowed = TOLERANCE[dtype] * float(np.abs(e).max())
        np.testing.assert_allclose(f, e, rtol=0, atol=allowed)


@pytest.mark.parametrize("name", list(POOLINGS))
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_gradients_equal_those_of_the_cpu(name: str, dtype: str) -> None:
    channels, function = pooling(name)
    rois = (turned if name.startswith("RROI") else corners)(300)
    if dtype == "bfloat16":
        rois = np.clip(rois, -60, 60)  # regions are exact in 8 bits
        rois[:, 1:] = np.round(rois[:, 1:] / 4) * 4
    x = np.random.default_rng(1).normal(size=(2, channels, HEIGHT, WIDTH))
    compare(function, [x], rois, dtype)


@pytest.mark.parametrize("bins", [5, 7])
def test_gradients_are_the_transposes_of_pooling(bins: int) -> None:
    # Borders of bins meet borders of pixels up to rounding; forward and backward must agree there.
    rng = np.random.default_rng(bins)
    rois = nd.array(corners(300), ctx=mx.gpu(0), dtype="float64")
    for pool in (
        lambda x: nd.contrib.PSROIPooling(
            x, rois, spatial_scale=SCALE, output_dim=2, pooled_size=bins, group_size=3
        ),
        lambda x: nd.contrib.ROIAlign(x, rois, pooled_size=(bins, bins), spatial_scale=SCALE),
        lambda x: nd.ROIPooling(x, rois, pooled_size=(bins, bins), spatial_scale=SCALE),
    ):
        for _ in range(3):
            x = nd.array(rng.normal(size=(2, 18, HEIGHT, WIDTH)), ctx=mx.gpu(0), dtype="float64")
            x.attach_grad()
            with autograd.record():
                y = pool(x)
            head = nd.array(rng.normal(size=y.shape), ctx=mx.gpu(0), dtype="float64")
            y.backward(head)
            outside, inside = ((a * b).asnumpy().sum() for a, b in ((head, y), (x.grad, x)))
            np.testing.assert_allclose(inside, outside, rtol=0, atol=1e-9)


@pytest.mark.parametrize("classes", [1, 20])
def test_gradients_of_moved_bins_and_of_what_moves_them(classes: int) -> None:
    # A single class has all 40 channels, which are more than the lanes of a warp.
    rois = corners(24)
    x = np.random.default_rng(1).normal(size=(2, 40, HEIGHT, WIDTH))
    trans = np.random.default_rng(2).normal(size=(len(rois), 2 * classes, 3, 3))

    def pool(x: Any, rois: Any, trans: Any) -> Any:
        options = {"output_dim": 40, "group_size": 1, "pooled_size": 3, "sample_per_part": 2}
        return nd.contrib.DeformablePSROIPooling(
            x, rois, trans, spatial_scale=SCALE, trans_std=0.125, **options
        )

    for dtype in ("float64", "float32"):
        compare(pool, [x, trans], rois, dtype)


@pytest.mark.parametrize("name", ["RROIAlign", "DeformablePSROIPooling"])
def test_gradients_of_few_channels_take_many_blocks(name: str, most_blocks: Any) -> None:
    channels, function = pooling(name)
    rois = nd.array((turned if name.startswith("RROI") else corners)(4), ctx=mx.gpu(0))
    x = variable(nd.array(np.ones((2, channels, HEIGHT, WIDTH)), ctx=mx.gpu(0), dtype="float32"))
    with autograd.record():
        y = function(x, rois.astype("float32"))
    head = nd.array(np.ones(y.shape), ctx=mx.gpu(0), dtype="float32")
    head.wait_to_read()
    mx.nd.waitall()
    most_blocks()
    y.backward(head)
    x.grad.wait_to_read()
    assert most_blocks() > 1
