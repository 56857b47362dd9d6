"""Images, augmenters and transforms give what MXNet 1.9.1 gave (see image_cases.py)."""

from __future__ import annotations

import json
import random
from pathlib import Path

import image_cases
import mxlite as mx
import numpy as np
import pytest
from mxlite import image, nd

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
    names = [
        type(aug).__name__
        for aug in image.CreateAugmenter(
            (3, 8, 9), 10, True, True, True, True, True, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1
        )
    ]
    assert names == [
        "ResizeAug",
        "RandomSizedCropAug",
        "HorizontalFlipAug",
        "CastAug",
        "ColorJitterAug",
        "HueJitterAug",
        "LightingAug",
        "RandomGrayAug",
        "ColorNormalizeAug",
    ]
    assert [type(aug).__name__ for aug in image.CreateAugmenter((3, 8, 9))] == [
        "CenterCropAug",
        "CastAug",
    ]
    with pytest.raises(ValueError, match="rand_resize needs rand_crop"):
        image.CreateAugmenter((3, 8, 9), rand_resize=True)
    with pytest.raises(ValueError, match=r"mean of shape \(2,\)"):
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
    with pytest.raises(TypeError, match="number as its angle"):
        image.imrotate(picture, nd.array([1]))
    with pytest.raises(ValueError, match="both"):
        image.imrotate(picture, 3, zoom_in=True, zoom_out=True)
    with pytest.raises(ValueError, match="2 angles given for 1 images"):
        image.imrotate(picture.expand_dims(0), nd.array([1, 2]))
    with pytest.raises(ValueError, match=r"shape \(4, 5\)"):
        image.imrotate(picture[0], 1)
    with pytest.raises(ValueError, match="type is 5"):
        image.copyMakeBorder(picture, 1, 1, 1, 1, type=5)
    with pytest.raises(ValueError, match="-1"):
        image.copyMakeBorder(picture, 1, -1, 1, 1)
    with pytest.raises(ValueError, match="2 values given for 5 channels"):
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
    with pytest.raises(OSError, match=r"a\.png.*not a readable PNG"):
        image.imread(str(path))
