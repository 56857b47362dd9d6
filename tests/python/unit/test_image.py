"""Photographs: decoding, damaged files, and augmenters as in MXNet 1.9.1 (image_cases.py)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import image_cases
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


def test_a_missing_file_is_named_and_a_folder_is_no_picture(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.jpg") as info:
        image.imread(str(tmp_path / "nothing.jpg"))
    assert isinstance(info.value, mx.MXNetError)
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


def test_area_takes_means():
    source = nd.array(np.random.rand(8, 12, 3), dtype="float32")
    halved = image.imresize(source, 6, 4, 3).asnumpy()
    means = source.asnumpy().reshape(4, 2, 6, 2, 3).mean((1, 3))
    np.testing.assert_allclose(halved, means, rtol=1e-4)


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda: image.imresize(picture(4, 4), 0, 5), ValueError, r"\w"),
        (lambda: image.imresize(picture(4, 4), 5, -1), ValueError, r"\w"),
        (lambda: image.imresize(picture(4, 4), 5, 5, interp=77), ValueError, r"\w"),
        (lambda: image.imresize(nd.ones((4, 4), dtype="uint8"), 2, 2), ValueError, r"\w"),
        (lambda: image.imresize(nd.ones((4, 4, 3), dtype="int32"), 2, 2), TypeError, "int32"),
        (lambda: image.fixed_crop(picture(4, 4), 2, 2, 8, 8), ValueError, r"\w"),
    ],
)
def test_impossible_sizes_and_types_are_errors(act, error, words):
    with pytest.raises(error, match=words) as info:
        act()
    assert isinstance(info.value, mx.MXNetError)


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
        with pytest.raises(
            TypeError, match=f"^{name}: src must be an NDArray .*, got {type(bad).__name__}"
        ):
            FUNCTIONS[name](bad)
    with pytest.raises(ValueError, match=rf"^{name}: image must have shape .*, got \(4, 4\)"):
        FUNCTIONS[name](nd.zeros((4, 4), dtype="uint8"))


EXPECTED = np.load(image_cases.FILE)
# Our operator rounds where OpenCV's fixed point sums are off by less than one.
OFF_BY_ONE = {"resize", "resize_keep", "resize_square", "crop_resize"}


@pytest.mark.parametrize("name", sorted(image_cases.CASES))
def test_a_result_is_that_of_1_9_1(name: str) -> None:
    got = image_cases.result(mx, name, EXPECTED["picture"])
    expected = EXPECTED[name]
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    if name in OFF_BY_ONE:
        assert np.abs(got.astype(int) - expected).max() <= 1
    elif name == "composed":
        np.testing.assert_allclose(got, expected, atol=4.1 / 255)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=2e-3)


def test_dumps_name_class_and_parameters() -> None:
    aug = image.RandomSizedCropAug((3, 4), 0.1, (0.7, 1.3))
    assert json.loads(aug.dumps()) == [
        "randomsizedcropaug",
        {"size": [3, 4], "area": 0.1, "ratio": [0.7, 1.3], "interp": 2},
    ]
    aug = image.ColorNormalizeAug(nd.array([1, 2, 3]), None)
    assert json.loads(aug.dumps()) == ["colornormalizeaug", {"mean": [1, 2, 3], "std": None}]
    both = image.SequentialAug([image.CastAug(), image.ResizeAug(2)])
    assert both.dumps() == [
        "sequentialaug",
        ['["castaug", {"type": "float32"}]', '["resizeaug", {"size": 2, "interp": 2}]'],
    ]


def test_options_are_attributes_and_what_dumps_shows() -> None:
    for aug, options in (
        (image.ResizeAug(7), {"size": 7, "interp": 2}),
        (image.CenterCropAug((3, 4), interp=1), {"size": [3, 4], "interp": 1}),
        (image.LightingAug(0.5, np.ones(2), [[1]]), {
            "alphastd": 0.5, "eigval": [1, 1], "eigvec": [[1]]
        }),
        (image.HueJitterAug(hue=0.1), {"hue": 0.1}),
        (image.DetHorizontalFlipAug(0.5), {"p": 0.5}),
        (image.DetRandomPadAug(pad_val=3), {
            "aspect_ratio_range": [0.75, 1.33], "area_range": [1, 3], "max_attempts": 50,
            "pad_val": [3],
        }),
    ):  # fmt: skip
        assert json.loads(aug.dumps()) == [type(aug).__name__.lower(), options]
        for name, value in options.items():
            np.testing.assert_array_equal(getattr(aug, name), value)
    (crop,) = image.CreateMultiRandCropAugmenter(max_attempts=9).aug_list
    assert (crop.max_attempts, crop.area_range) == (9, (0.05, 1.0))
    with pytest.raises(TypeError, match="sise"):
        image.ResizeAug(sise=3)


def test_an_augmenter_may_be_derived_from() -> None:
    class Twice(image.HorizontalFlipAug):
        def __init__(self) -> None:
            super().__init__(1.0)
            self.calls = 0

        def __call__(self, src: mx.nd.NDArray) -> mx.nd.NDArray:
            self.calls += 1
            return super().__call__(super().__call__(src))

    class Own(image.Augmenter):
        def __init__(self, level: int) -> None:
            super().__init__(level=level)

    picture = nd.array(EXPECTED["picture"])
    twice = Twice()
    np.testing.assert_array_equal(twice(picture).asnumpy(), picture.asnumpy())
    assert twice.calls == 1 and json.loads(Own(3).dumps()) == ["own", {"level": 3}]


def test_the_list_of_augmenters_has_1_x_s_order() -> None:
    def names(*options: Any) -> str:
        augmenters = image.CreateAugmenter((3, 8, 9), *options)
        return " ".join(type(aug).__name__.removesuffix("Aug") for aug in augmenters)

    assert names(10, True, True, True, True, True, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1) == (
        "Resize RandomSizedCrop HorizontalFlip Cast ColorJitter HueJitter Lighting RandomGray "
        "ColorNormalize"
    )
    assert names() == "CenterCrop Cast"
    with pytest.raises(ValueError, match="rand_resize needs rand_crop"):
        image.CreateAugmenter((3, 8, 9), rand_resize=True)
    with pytest.raises(ValueError, match=r"mean must be 1 or 3 numbers, got shape \(2,\)"):
        image.CreateAugmenter((3, 8, 9), mean=np.ones(2))


def test_a_flip_happens_as_often_as_asked() -> None:
    picture = nd.arange(12).reshape((2, 2, 3))
    random.seed(0)
    flips = sum(
        (image.HorizontalFlipAug(0.25)(picture) != picture).sum().asscalar() > 0 for _ in range(400)
    )
    assert 70 < flips < 130


def test_wrong_turns_and_borders_say_what_they_want() -> None:
    picture = nd.zeros((3, 4, 5))
    with pytest.raises(TypeError, match="uint8.*float32"):
        image.imrotate(picture.astype("uint8"), 3)
    with pytest.raises(TypeError, match="rotation_degrees must be a number for a single image"):
        image.imrotate(picture, nd.array([1]))
    with pytest.raises(ValueError, match="both"):
        image.imrotate(picture, 3, zoom_in=True, zoom_out=True)
    with pytest.raises(ValueError, match="that of images, 1, got 2"):
        image.imrotate(picture.expand_dims(0), nd.array([1, 2]))
    with pytest.raises(ValueError, match=r"shape \(4, 5\)"):
        image.imrotate(picture[0], 1)
    with pytest.raises(ValueError, match="type must be 0 to 4, got 5"):
        image.copyMakeBorder(picture, 1, 1, 1, 1, type=5)
    with pytest.raises(ValueError, match="-1"):
        image.copyMakeBorder(picture, 1, -1, 1, 1)
    with pytest.raises(ValueError, match="that of channels, 5, got 2"):
        image.copyMakeBorder(picture, 1, 1, 1, 1, values=(1, 2))
    with pytest.raises(TypeError, match="unexpected arguments min_aera"):
        image.random_size_crop(picture, (2, 2), 0.1, (1, 1), min_aera=3)
    with pytest.warns(DeprecationWarning, match="min_area"):
        image.random_size_crop(picture, (2, 2), None, (1, 1), min_area=0.5)


def png(tmp_path: Path, pixels: np.ndarray, name: str = "a.png") -> Path:
    pytest.importorskip("PIL.Image").fromarray(pixels).save(tmp_path / name)
    return tmp_path / name


@pytest.mark.parametrize("shape", [(5, 7, 3), (5, 7, 4), (5, 7)])
def test_png_files_are_read_exactly(shape: tuple[int, ...], tmp_path: Path) -> None:
    pixels = np.random.RandomState(2).randint(0, 256, shape).astype(np.uint8)
    path = png(tmp_path, pixels)
    color = pixels[..., :3] if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, 2)
    np.testing.assert_array_equal(image.imread(str(path)).asnumpy(), color)
    np.testing.assert_array_equal(
        image.imdecode(path.read_bytes(), to_rgb=False).asnumpy(), color[..., ::-1]
    )
    assert image.imread(str(path), flag=0).shape == (5, 7, 1)


def test_png_of_sixteen_bits_keeps_the_upper_eight(tmp_path: Path) -> None:
    path = png(tmp_path, np.array([[0, 256, 65535]], np.uint16))
    assert image.imread(str(path), flag=0).asnumpy().ravel().tolist() == [0, 1, 255]


def test_a_damaged_png_file_is_named(tmp_path: Path) -> None:
    path = png(tmp_path, np.random.RandomState(2).randint(0, 256, (50, 50, 3)).astype(np.uint8))
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(OSError, match=r"a\.png.*must be a readable PNG"):
        image.imread(str(path))
