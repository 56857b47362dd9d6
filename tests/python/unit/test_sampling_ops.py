"""Sampling operators beyond the op table: large inputs, state, mixed dtypes, modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mxlite import autograd, nd
from pairing import pairs


def _rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def _regions(count: int, columns: int, seed: int = 1) -> np.ndarray:
    """Return regions (image, x1, y1, x2, y2) or (image, x, y, width, height, angle) of 2 images."""
    r = np.random.RandomState(seed)
    first = r.uniform(-8, 40, (count, 2))
    size = r.uniform(0, 40, (count, 2))
    rest = [first + size] if columns == 5 else [size, r.uniform(-180, 180, (count, 1))]
    images = r.randint(-1, 2, (count, 1))
    return np.concatenate([images, first, *rest], 1).astype("float32")


def _pair(f: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return the output and the gradient by the first input of the sum of squares."""
    inputs = [nd.array(a) for a in arrays]
    inputs[0].attach_grad()
    with autograd.record():
        y = f(*inputs)
        total = (y * y).sum()
    total.backward()
    return [y.asnumpy(), inputs[0].grad.asnumpy()]


def _deformable(x: Any, r: Any) -> Any:
    options = {"spatial_scale": 0.5, "output_dim": 4, "group_size": 3, "pooled_size": 3}
    return nd.contrib.DeformablePSROIPooling(x, r, no_trans=True, **options)


CELLS = ((3, 4), 0.5)
POOLINGS = {
    "ROIPooling": (5, lambda x, r: nd.ROIPooling(x, r, *CELLS)),
    "ROIAlign": (5, lambda x, r: nd.contrib.ROIAlign(x, r, *CELLS)),
    "ROIAlign_grouped": (
        5,
        lambda x, r: nd.contrib.ROIAlign(x, r, *CELLS, position_sensitive=True),
    ),
    "RROIAlign": (6, lambda x, r: nd.contrib.RROIAlign(x, r, *CELLS)),
    "PSROIPooling": (5, lambda x, r: nd.contrib.PSROIPooling(x, r, 0.5, 4, 3)),
    "DeformablePSROIPooling": (5, _deformable),
}


@pytest.mark.parametrize("name", sorted(POOLINGS))
def test_many_regions_give_what_each_of_them_gives_alone(name: str) -> None:
    columns, pool = POOLINGS[name]
    data, rois = _rand(2, 36, 24, 31), _regions(21, columns)
    together, grad = _pair(pool, data, rois)
    alone = [_pair(pool, data, rois[i : i + 1]) for i in range(len(rois))]
    np.testing.assert_allclose(together, np.concatenate([a for a, _ in alone]), rtol=1e-6)
    np.testing.assert_allclose(grad, sum(g for _, g in alone), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(POOLINGS))
def test_regions_without_numbers_are_nan_and_send_no_gradient(name: str) -> None:
    columns, pool = POOLINGS[name]
    rois = _regions(3, columns)
    rois[:, 0] = [0, 1, 0]
    rois[0, 2], rois[2, 3] = np.nan, np.inf
    out, grad = _pair(pool, _rand(2, 36, 24, 31), rois)
    assert np.isnan(out[0]).all() and np.isnan(out[2]).all()
    assert np.isfinite(out[1]).all() and np.isfinite(grad[1]).all()
    np.testing.assert_array_equal(grad[0], np.zeros_like(grad[0]))


@pytest.mark.parametrize("name", sorted(POOLINGS))
def test_a_region_of_a_missing_image_is_an_index_error_and_the_next_call_works(name: str) -> None:
    columns, pool = POOLINGS[name]
    data, rois = nd.array(_rand(2, 36, 24, 31)), _regions(3, columns)
    rois[1, 0] = 2
    with pytest.raises(IndexError, match=r"image index of rois\[1\] must be below 2, got 2"):
        pool(data, nd.array(rois)).wait_to_read()
    rois[1, 0] = 1
    assert np.isfinite(pool(data, nd.array(rois)).asnumpy()).all()


@pytest.mark.parametrize("name", ["ROIPooling", "ROIAlign", "RROIAlign"])
def test_a_huge_region_ends(name: str) -> None:
    columns, pool = POOLINGS[name]
    rois = np.array([[0, -1e9, -1e9, 1e9, 1e9, 0][:columns]], "float32")
    assert pool(nd.array(_rand(2, 36, 24, 31)), nd.array(rois)).shape[0] == 1
    nd.waitall()


def test_the_first_of_equal_maxima_gets_the_gradient_and_nan_is_the_largest() -> None:
    values = np.zeros((1, 1, 4, 6), "float32")
    values[0, 0, 2, 4], values[0, 0, 3, 1] = np.nan, np.inf
    x = nd.array(values)
    x.attach_grad()
    with autograd.record():
        y = nd.ROIPooling(x, nd.array([[0, 0, 0, 5, 3]]), pooled_size=(2, 2), spatial_scale=1)
    y.backward()
    np.testing.assert_array_equal(y.asnumpy()[0, 0], [[0, 0], [np.inf, np.nan]])
    want = np.zeros((4, 6))
    want[[0, 0, 3, 2], [0, 3, 1, 4]] = 1
    np.testing.assert_array_equal(x.grad.asnumpy()[0, 0], want)


def test_half_data_takes_boxes_in_float32() -> None:
    data = nd.array(_rand(1, 2, 9, 9)).astype("float16")
    rois = nd.array([[0, 0, 0, 4099, 4100]])  # not a float16
    out = nd.contrib.ROIAlign(data, rois, (1, 1), 1 / 512)
    assert str(np.dtype(out.dtype)) == "float16"
    want = nd.contrib.ROIAlign(data.astype("float32"), rois, (1, 1), 1 / 512)
    np.testing.assert_allclose(out.asnumpy(), want.asnumpy(), rtol=2e-3)
    with pytest.raises(TypeError, match="rois must have data's dtype float16 or dtype float32"):
        nd.contrib.ROIAlign(data, rois.astype("float64"), (1, 1), 1)


# ---- deformable convolution --------------------------------------------------------------------

CONV = {"kernel": (3, 3), "stride": (2, 1), "pad": (1, 1), "num_filter": 6, "num_group": 2}


@pytest.mark.parametrize("modulated", [False, True], ids=["plain", "modulated"])
def test_without_offsets_it_is_the_convolution(modulated: bool) -> None:
    data, weight, bias = _rand(2, 40, 21, 22), _rand(6, 20, 3, 3), _rand(6)
    offset, mask = nd.zeros((2, 36, 11, 22)), nd.ones((2, 18, 11, 22))

    def deformable(x: Any, w: Any, b: Any) -> Any:
        options = {"num_deformable_group": 2, **CONV}
        if modulated:
            return nd.contrib.ModulatedDeformableConvolution(x, offset, mask, w, b, **options)
        return nd.contrib.DeformableConvolution(x, offset, w, b, **options)

    for order in ([0, 1, 2], [1, 0, 2], [2, 0, 1]):  # the gradient by each input
        arrays = [[data, weight, bias][i] for i in order]
        back = np.argsort(order)

        def moved(*a: Any, back: Any = back) -> Any:
            return deformable(*[a[i] for i in back])

        def plain(*a: Any, back: Any = back) -> Any:
            return nd.Convolution(*[a[i] for i in back], **CONV)

        for got, want in pairs(_pair(moved, *arrays), _pair(plain, *arrays)):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


def test_whole_offsets_move_the_image() -> None:
    data = _rand(1, 3, 8, 9)
    offset = np.zeros((1, 2, 8, 9), "float32")
    offset[:, 0], offset[:, 1] = 2, -1
    weight = np.eye(3, dtype="float32").reshape(3, 3, 1, 1)
    arrays = map(nd.array, (data, offset, weight))
    options = {"kernel": (1, 1), "num_filter": 3, "no_bias": True}
    out = nd.contrib.DeformableConvolution(*arrays, **options).asnumpy()
    np.testing.assert_array_equal(out[:, :, :6, 1:], data[:, :, 2:, :8])
    assert not out[:, :, 6:].any() and not out[..., 0].any()


# ---- large grids and correlations --------------------------------------------------------------


def test_identity_transform_keeps_a_large_image() -> None:
    data = _rand(3, 20, 33, 47)
    theta = np.tile(np.float32([1, 0, 0, 0, 1, 0]), (3, 1))
    out, grad = _pair(
        lambda x, m: nd.SpatialTransformer(x, m, (33, 47), "affine", "bilinear"), data, theta
    )
    np.testing.assert_allclose(out, data, atol=2e-5)
    np.testing.assert_allclose(grad, 2 * data, atol=2e-4)


def test_transformer_is_the_sampler_on_the_generated_grid() -> None:
    data, theta = nd.array(_rand(2, 20, 19, 23)), nd.array(_rand(2, 6, seed=3))
    grid = nd.GridGenerator(theta, transform_type="affine", target_shape=(31, 29))
    want = nd.BilinearSampler(data, grid).asnumpy()
    got = nd.SpatialTransformer(data, theta, (31, 29), "affine", "bilinear").asnumpy()
    np.testing.assert_allclose(got, want, atol=2e-5)


def test_correlation_of_large_images_has_the_mean_square_in_its_middle() -> None:
    data = nd.array(_rand(2, 16, 30, 40))
    out = nd.Correlation(data, data, max_displacement=4, pad_size=4).asnumpy()
    assert out.shape == (2, 81, 30, 40)
    square = (data.asnumpy().astype("float64") ** 2).mean(1)
    np.testing.assert_allclose(out[:, 40], square, rtol=1e-5)
    np.testing.assert_allclose(out[:, 41, :, :-1], out[:, 39, :, 1:], rtol=1e-5, atol=1e-6)


# ---- state and modes ---------------------------------------------------------------------------


def test_sparse_regularizer_adds_the_divergence_of_the_running_mean() -> None:
    values = np.random.RandomState(0).uniform(0.1, 0.9, (4, 3))
    x, running = nd.array(values, dtype="float64"), nd.array([0.3, 0.4, 0.5], dtype="float64")
    nd.IdentityAttachKLSparseReg(x, running).wait_to_read()  # not training: the mean stays
    x.attach_grad()
    with autograd.record():
        y = nd.IdentityAttachKLSparseReg(x, running, sparseness_target=0.2, penalty=0.5)
    y.backward()
    mean = 0.9 * np.array([0.3, 0.4, 0.5]) + 0.1 * values.mean(0)
    np.testing.assert_array_equal(y.asnumpy(), values)
    np.testing.assert_allclose(running.asnumpy(), mean, rtol=1e-6)
    want = 1 + 0.5 * (0.8 / (1 - mean) - 0.2 / mean)
    np.testing.assert_allclose(x.grad.asnumpy(), np.tile(want, (4, 1)), rtol=1e-6)


def test_sync_batch_norm_of_several_devices_needs_a_key_in_training() -> None:
    x, ones, zeros = nd.array(_rand(4, 3)), nd.ones(3), nd.zeros(3)
    state = [nd.zeros(3), nd.ones(3)]
    y = nd.contrib.SyncBatchNorm(x, ones, zeros, *state, key="bn_", ndev=2)
    np.testing.assert_allclose(y.asnumpy(), x.asnumpy() / np.sqrt(1.001), rtol=1e-5)
    with autograd.train_mode(), pytest.raises(ValueError, match="key must be given with ndev 2"):
        nd.contrib.SyncBatchNorm(x, ones, zeros, *state, ndev=2)


def test_sync_batch_norm_updates_running_statistics_as_batch_norm() -> None:
    x, mean, var = _rand(4, 3, 5), nd.zeros(3), nd.ones(3)
    with autograd.train_mode():
        nd.contrib.SyncBatchNorm(nd.array(x), nd.ones(3), nd.zeros(3), mean, var, key="bn_")
    np.testing.assert_allclose(mean.asnumpy(), 0.1 * x.mean((0, 2)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(var.asnumpy(), 0.9 + 0.1 * x.var((0, 2)), rtol=1e-5)


@pytest.mark.parametrize("n", [3, 64, 100, 257, 1024, 4099])
def test_inverse_transform_undoes_the_transform(n: int) -> None:
    x = _rand(70, n)
    back = nd.contrib.ifft(nd.contrib.fft(nd.array(x))).asnumpy() / n
    np.testing.assert_allclose(back, x, atol=2e-6)
