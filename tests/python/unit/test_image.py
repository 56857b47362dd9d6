"""Decoding and preparing photographs, and the errors of damaged files."""

from __future__ import annotations

from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite import image, nd

FILE = Path(__file__).parents[2] / "data" / "gradient.jpg"
BYTES = FILE.read_bytes()


def picture(height: int, width: int) -> nd.NDArray:
    return nd.array(np.random.randint(0, 256, (height, width, 3)), dtype="uint8")


def test_a_file_and_its_bytes_give_the_same_picture():
    read = image.imread(str(FILE))
    assert read.dtype is np.uint8
    assert read.shape[2] == 3
    sources = [BYTES, bytearray(BYTES), np.frombuffer(BYTES, np.uint8)]
    sources.append(nd.array(np.frombuffer(BYTES, np.uint8), dtype="uint8"))
    for source in sources:
        np.testing.assert_array_equal(image.imdecode(source).asnumpy(), read.asnumpy())


def test_channels_can_be_turned_and_joined():
    rgb, bgr = image.imdecode(BYTES).asnumpy(), image.imdecode(BYTES, to_rgb=False).asnumpy()
    np.testing.assert_array_equal(rgb, bgr[:, :, ::-1])
    gray = image.imdecode(BYTES, flag=0).asnumpy()
    assert gray.shape == (*rgb.shape[:2], 1)
    luma = rgb.astype(float) @ [0.299, 0.587, 0.114]
    assert np.abs(gray[:, :, 0] - luma).mean() < 3


def test_decoding_writes_into_out():
    expected = image.imdecode(BYTES)
    out = nd.zeros(expected.shape, dtype="uint8")
    assert image.imdecode(BYTES, out=out) is out
    np.testing.assert_array_equal(out.asnumpy(), expected.asnumpy())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no picture",
        b"\xff\xd8",
        b"\x89PNG\r\n\x1a\n" + bytes(64),
        BYTES[: len(BYTES) // 2],
        BYTES[:100],
        BYTES[100:],
        bytes(4096),
    ],
    ids=["empty", "text", "start-only", "png", "half", "head", "tail", "zeros"],
)
def test_damaged_and_foreign_files_are_record_errors_that_name_the_file(content, tmp_path):
    path = tmp_path / "broken.jpg"
    path.write_bytes(content)
    with pytest.raises(mx.base.RecordError, match="imread.*broken.jpg"):
        image.imread(str(path))
    with pytest.raises(OSError, match="imdecode"):
        image.imdecode(content)
    assert image.imread(str(FILE)).shape[2] == 3


def test_random_damage_is_a_picture_or_an_error_but_never_a_crash():
    rng = np.random.default_rng(5)
    errors = 0
    for _ in range(300):
        content = np.frombuffer(BYTES, np.uint8).copy()
        content[rng.integers(0, len(content), size=8)] = rng.integers(0, 256, size=8)
        try:
            decoded = image.imdecode(content)
        except mx.base.RecordError:
            errors += 1
        else:
            assert decoded.ndim == 3
    assert errors > 0


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.jpg") as info:
        image.imread(str(tmp_path / "nothing.jpg"))
    assert isinstance(info.value, mx.MXNetError)


def test_a_folder_is_no_picture(tmp_path):
    with pytest.raises(OSError, match="imread"):
        image.imread(str(tmp_path))


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("interp", [0, 1, 2, 3, 4, 9, 10])
def test_resizing_a_plain_picture_keeps_its_colour(interp, dtype):
    plain = nd.full((20, 30, 3), 77, dtype=dtype)
    resized = image.imresize(plain, 13, 41, interp)
    assert (resized.shape, resized.dtype) == ((41, 13, 3), np.dtype(dtype).type)
    np.testing.assert_allclose(resized.asnumpy(), np.full((41, 13, 3), 77), rtol=1e-5)


@pytest.mark.parametrize("size", [(7, 9), (25, 11), (50, 40), (12, 10), (25, 20), (31, 33)])
@pytest.mark.parametrize("interp", [0, 1, 3])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_the_operator_resizes_as_imresize_does(dtype, interp, size):
    source = picture(20, 25).astype(dtype)
    resized = image.imresize(source, *size, interp).asnumpy()
    by_operator = nd.image.resize(source, size, interp=interp).asnumpy()
    # Means of areas end in different roundings.
    np.testing.assert_allclose(by_operator.astype(float), resized, rtol=0, atol=interp == 3)


def test_nearest_takes_source_pixels():
    source = picture(4, 6)
    doubled = image.imresize(source, 12, 8, 0).asnumpy()
    np.testing.assert_array_equal(doubled, source.asnumpy().repeat(2, 0).repeat(2, 1))


def test_area_takes_means():
    source = nd.array(np.random.rand(8, 12, 3), dtype="float32")
    halved = image.imresize(source, 6, 4, 3).asnumpy()
    means = source.asnumpy().reshape(4, 2, 6, 2, 3).mean((1, 3))
    np.testing.assert_allclose(halved, means, rtol=1e-4)


@pytest.mark.parametrize(("height", "width"), [(60, 90), (90, 60), (50, 50)])
def test_the_short_side_gets_the_size(height, width):
    resized = image.resize_short(picture(height, width), 30)
    assert min(resized.shape[:2]) == 30
    assert resized.shape[0] * width == pytest.approx(resized.shape[1] * height, rel=0.05)


def test_crops_take_the_pixels_they_say():
    source = picture(10, 14)
    np.testing.assert_array_equal(
        image.fixed_crop(source, 3, 2, 5, 4).asnumpy(), source.asnumpy()[2:6, 3:8]
    )
    cropped, (x, y, width, height) = image.center_crop(source, (6, 4))
    assert (x, y, width, height) == (4, 3, 6, 4)
    np.testing.assert_array_equal(cropped.asnumpy(), source.asnumpy()[3:7, 4:10])
    for _ in range(20):
        cropped, (x, y, width, height) = image.random_crop(source, (6, 4))
        expected = source.asnumpy()[y : y + height, x : x + width]
        np.testing.assert_array_equal(cropped.asnumpy(), expected)


def test_a_crop_larger_than_the_picture_is_scaled_down_first():
    assert image.scale_down((8, 10), (16, 5)) == (8, 2)
    cropped, _ = image.center_crop(picture(10, 8), (16, 5))
    assert cropped.shape[:2] == (5, 16)


def test_normalizing_subtracts_and_divides():
    source = picture(3, 4)
    mean, std = nd.array([1, 2, 3]), nd.array([2, 4, 8])
    normalized = image.color_normalize(source.astype("float32"), mean, std).asnumpy()
    expected = (source.asnumpy() - np.float32([1, 2, 3])) / np.float32([2, 4, 8])
    np.testing.assert_allclose(normalized, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "act",
    [
        lambda: image.imresize(picture(4, 4), 0, 5),
        lambda: image.imresize(picture(4, 4), 5, -1),
        lambda: image.imresize(picture(4, 4), 5, 5, interp=77),
        lambda: image.imresize(nd.ones((4, 4), dtype="uint8"), 2, 2),
        lambda: image.fixed_crop(picture(4, 4), 2, 2, 8, 8),
    ],
)
def test_impossible_sizes_are_value_errors(act):
    with pytest.raises(ValueError) as info:
        act()
    assert isinstance(info.value, mx.MXNetError)


def test_an_unsupported_type_is_named():
    with pytest.raises(TypeError, match="int32"):
        image.imresize(nd.ones((4, 4, 3), dtype="int32"), 2, 2)


FUNCTIONS = {
    "imresize": lambda src: image.imresize(src, 2, 2),
    "resize_short": lambda src: image.resize_short(src, 2),
    "fixed_crop": lambda src: image.fixed_crop(src, 0, 0, 2, 2),
    "center_crop": lambda src: image.center_crop(src, (2, 2)),
    "random_crop": lambda src: image.random_crop(src, (2, 2)),
    "random_size_crop": lambda src: image.random_size_crop(src, (2, 2), 0.1, (0.7, 1.3)),
    "copyMakeBorder": lambda src: image.copyMakeBorder(src, 1, 1, 1, 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_image_is_named(name):
    for bad in (np.zeros((4, 4, 3), "uint8"), [[1]], None):
        with pytest.raises(TypeError, match=f"^{name}: a {type(bad).__name__} given, an NDArray"):
            FUNCTIONS[name](bad)
    with pytest.raises(ValueError, match=rf"^{name}: image of shape \(4, 4\) given"):
        FUNCTIONS[name](nd.zeros((4, 4), dtype="uint8"))
