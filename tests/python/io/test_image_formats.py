"""Images of other formats in record files, and their one-pass transform."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import _core, recordio
from numpy.testing import assert_array_equal
from pairing import pairs
from record_files import write_records
from skimage import data as pictures

PHOTO = np.ascontiguousarray(pictures.astronaut()[:, :, ::-1])


def encode(pixels: Any, png: bool = False) -> bytes:
    return _core.encode_image(np.ascontiguousarray(pixels), png, 3 if png else 90)


def pixels_of(path: str, shape: tuple[int, int, int], **options: Any) -> list[Any]:
    given = {"path_imgrec": path, "data_shape": shape, "verbose": 0, **options}
    batches = mx.io.ImageRecordUInt8Iter(batch_size=1, **given)
    return [batch.data[0].asnumpy()[0] for batch in batches]


SIZES = [(375, 500), (500, 375), (333, 401), (512, 512), (300, 299), (101, 487), (200, 97)]


@pytest.mark.parametrize("gray", [False, True])
@pytest.mark.parametrize("resize", [-1, 97, 230, 256, 300])
def test_one_pass_gives_the_pixels_of_decode_resize_crop(
    tmp_path: Path, gray: bool, resize: int
) -> None:
    side, channels = 96, 1 if gray else 3
    cuts = enumerate(PHOTO[:h, :w] for h, w in SIZES)
    images = [encode(cut[..., 0] if i % 2 else cut) for i, cut in cuts]
    path = write_records(tmp_path, images)
    found = pixels_of(path, (channels, side, side), resize=resize, mirror=1)
    compared = 0
    for image, got in pairs(images, found):
        picture = mx.image.imdecode(image, flag=0 if gray else 1)
        height, width = picture.shape[:2]
        if resize > 0:
            if min(height, width) >= 2 * resize:
                continue  # decoded at half its size: another picture, see below
            if height > width:
                height, width = resize * height // width, resize
            else:
                height, width = resize, resize * width // height
            picture = mx.image.imresize(picture, width, height, 1)
        y, x = (height - side) // 2, (width - side) // 2
        expected = picture.asnumpy()[y : y + side, x : x + side].transpose(2, 0, 1)
        assert_array_equal(got, expected[..., ::-1])
        compared += 1
    assert compared >= 2


def test_scaled_decoding_stays_near_the_averaged_picture(tmp_path: Path) -> None:
    path = write_records(tmp_path, [encode(PHOTO)])
    (got,) = pixels_of(path, (3, 100, 100), resize=120)
    average = mx.image.imresize(mx.image.imdecode(encode(PHOTO)), 120, 120, 3).asnumpy()
    difference = np.abs(got.transpose(1, 2, 0) - average[10:110, 10:110].astype(float))
    assert difference.mean() < 4


def test_random_crops_are_places_of_the_picture(tmp_path: Path) -> None:
    image = encode(PHOTO[:90, :120])
    whole = mx.image.imdecode(image).asnumpy()
    places = set()
    for seed in range(12):
        (got,) = pixels_of(write_records(tmp_path, [image]), (3, 60, 64), rand_crop=1, seed=seed)
        windows = np.lib.stride_tricks.sliding_window_view(whole, (60, 64, 3))[:, :, 0]
        matches = np.argwhere((windows == got.transpose(1, 2, 0)).all(axis=(2, 3, 4)))
        assert len(matches) == 1
        places.add(tuple(matches[0]))
    assert len(places) > 8


def test_random_resized_crop_of_large_pictures(tmp_path: Path) -> None:
    big = np.repeat(np.repeat(PHOTO, 3, axis=0), 3, axis=1)
    path = write_records(tmp_path, [encode(big)])
    options = {"random_resized_crop": 1, "min_random_area": 0.9, "max_random_area": 1.0}
    options |= {"min_aspect_ratio": 1.0, "max_aspect_ratio": 1.0}
    got = pixels_of(path, (3, 64, 64), **options)[0].transpose(1, 2, 0)
    small = mx.image.imresize(mx.nd.array(PHOTO[:, :, ::-1], dtype="uint8"), 64, 64, 3).asnumpy()
    assert np.abs(got.mean(axis=(0, 1)) - small.mean(axis=(0, 1))).max() < 6


def test_png_records(tmp_path: Path) -> None:
    images = [encode(PHOTO[:60, :80], png=True), encode(PHOTO[:60, :80, 0], png=True)]
    path = write_records(tmp_path, images)
    color, from_gray = pixels_of(path, (3, 60, 80))
    assert_array_equal(color, PHOTO[:60, :80, ::-1].transpose(2, 0, 1))
    assert_array_equal(from_gray, np.stack([PHOTO[:60, :80, 0]] * 3))
    gray = pixels_of(path, (1, 60, 80))
    assert_array_equal(gray[1][0], PHOTO[:60, :80, 0])
    weights = PHOTO[:60, :80].astype(float) @ [0.114, 0.587, 0.299]
    assert np.abs(gray[0][0] - weights).max() <= 1
    header, pixels = recordio.unpack_img(recordio.pack((0, 1, 2, 0), images[1]))
    assert_array_equal(pixels, PHOTO[:60, :80, 0])


def test_four_channels(tmp_path: Path) -> None:
    alpha = np.dstack([PHOTO[:40, :50], np.arange(2000).reshape(40, 50) % 256]).astype(np.uint8)
    path = write_records(tmp_path, [encode(alpha, png=True)])
    (got,) = pixels_of(path, (4, 40, 50))
    assert_array_equal(got, alpha[:, :, [2, 1, 0, 3]].transpose(2, 0, 1))
    assert_array_equal(pixels_of(path, (3, 40, 50))[0], got[:3])
    jittered = pixels_of(path, (4, 40, 50), pad=2, fill_value=7, rand_crop=1)
    assert jittered[0].shape == (4, 40, 50)
    header, pixels = recordio.unpack_img(recordio.pack((0, 1, 2, 0), encode(alpha, png=True)))
    assert_array_equal(pixels, alpha)
    with pytest.raises(mx.base.RecordError, match="must have 4 channels like data_shape, got 3"):
        pixels_of(write_records(tmp_path, [encode(PHOTO[:40, :50])]), (4, 40, 50))


def with_orientation(image: bytes, orientation: int, behind_jfif: bool = False) -> bytes:
    tiff = b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x112, 3, 1, orientation, 0, 0)
    segment = b"Exif\0\0" + tiff
    at = 2
    if behind_jfif:
        assert image[2:4] == b"\xff\xe0"
        at = 4 + int.from_bytes(image[4:6], "big")
    return image[:at] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + image[at:]


TURNS = {
    1: lambda p: p,
    2: lambda p: p[:, ::-1],
    3: lambda p: p[::-1, ::-1],
    4: lambda p: p[::-1],
    5: lambda p: p.transpose(1, 0, 2),
    6: lambda p: np.rot90(p, -1),
    7: lambda p: p[::-1, ::-1].transpose(1, 0, 2),
    8: lambda p: np.rot90(p),
}


@pytest.mark.parametrize("behind_jfif", [False, True])
@pytest.mark.parametrize("orientation", TURNS)
def test_cameras_that_were_turned(tmp_path: Path, orientation: int, behind_jfif: bool) -> None:
    plain = encode(PHOTO[:40, :56])
    image = with_orientation(plain, orientation, behind_jfif)
    stored = mx.image.imdecode(plain).asnumpy()
    upright = TURNS[orientation](stored)
    # imdecode of 1.9.1 does not turn what begins with a JFIF header, its iterators turn all.
    for choice, expected in ((None, stored if behind_jfif else upright), (True, upright)):
        got = mx.image.imdecode(image, apply_exif_orientation=choice).asnumpy()
        assert_array_equal(got, expected)
    kept = mx.image.imdecode(image, apply_exif_orientation=False).asnumpy()
    assert_array_equal(kept, stored)
    assert_array_equal(mx.image.imdecode(image, flag=-1).asnumpy(), stored)
    unpacked = recordio.unpack_img(recordio.pack((0, 1, 2, 0), image), 1)[1]
    assert_array_equal(unpacked[..., ::-1], upright)
    path = write_records(tmp_path, [image])
    assert_array_equal(pixels_of(path, (3, *upright.shape[:2]))[0], upright.transpose(2, 0, 1))
    kept = pixels_of(path, (3, 40, 56), apply_exif_orientation=False)[0]
    assert_array_equal(kept, stored.transpose(2, 0, 1))


def test_turned_images_are_resized_and_cropped_as_upright_ones(tmp_path: Path) -> None:
    image = with_orientation(encode(PHOTO[:300, :220]), 6)
    upright = mx.image.imdecode(image)
    height, width = upright.shape[:2]
    assert (height, width) == (220, 300)
    (got,) = pixels_of(write_records(tmp_path, [image]), (3, 96, 96), resize=120)
    resized = mx.image.imresize(upright, 120 * width // height, 120).asnumpy()
    x = (resized.shape[1] - 96) // 2
    assert_array_equal(got, resized[12:108, x : x + 96].transpose(2, 0, 1))


def test_every_reader_can_turn_images(tmp_path: Path) -> None:
    folder = tmp_path / "root" / "class"
    folder.mkdir(parents=True)
    image = with_orientation(encode(PHOTO[:40, :56]), 6, behind_jfif=True)
    (folder / "a.jpg").write_bytes(image)
    box = [2.0, 5.0, 0.0, 0.1, 0.1, 0.5, 0.5]
    records, boxes = str(tmp_path / "r"), str(tmp_path / "b")
    for path, label in ((records, 1.0), (boxes, box)):
        with recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "w") as file:
            assert isinstance(file, recordio.MXIndexedRecordIO)
            file.write_idx(0, recordio.pack((0, label, 0, 0), image))
    vision = mx.gluon.data.vision
    names = [[1.0, "class/a.jpg"]]

    def first(batches: Any) -> Any:
        return batches.next().data[0][0].transpose((1, 2, 0))

    def iterator(kind: Any, path: str, **choice: Any) -> Any:
        given = {"path_imgrec": path + ".rec", "path_imgidx": path + ".idx", **choice}
        return first(kind(batch_size=1, data_shape=(3, *shape), **given))

    readers = {
        "imread": lambda **choice: mx.image.imread(str(folder / "a.jpg"), **choice),
        "folder": lambda **choice: vision.ImageFolderDataset(tmp_path / "root", **choice)[0][0],
        "list": lambda **choice: vision.ImageListDataset(tmp_path / "root", names, **choice)[0][0],
        "records": lambda **choice: vision.ImageRecordDataset(records + ".rec", **choice)[0][0],
        "ImageIter": lambda **choice: iterator(mx.image.ImageIter, records, **choice),
        "ImageDetIter": lambda **choice: iterator(mx.image.ImageDetIter, boxes, **choice),
        "ImageRecordIter": lambda **choice: iterator(mx.io.ImageRecordIter, records, **choice),
        "ImageDetRecordIter": lambda **choice: iterator(mx.io.ImageDetRecordIter, boxes, **choice),
    }
    stored = mx.image.imdecode(image, apply_exif_orientation=False).asnumpy()
    for name, read in readers.items():
        default = "Record" in name  # those that turn all images
        for choice in ({}, {"apply_exif_orientation": True}, {"apply_exif_orientation": False}):
            turned = choice.get("apply_exif_orientation", default)
            expected = np.rot90(stored, -1) if turned else stored
            shape = expected.shape[:2]
            assert_array_equal(read(**choice).asnumpy(), expected, f"{name} {choice}")


@pytest.mark.parametrize("kind", [mx.io.ImageRecordIter, mx.io.ImageDetRecordIter])
def test_every_option_is_documented(kind: Any) -> None:
    text = kind.__doc__
    assert "{options}" not in text
    missing = [name for name in kind._defaults if not re.search(rf"\b{name}\b", text)]
    assert not missing
    assert "resize : int, default -1\n        Length in pixels" in text


def test_superfluous_bytes_are_no_damage(tmp_path: Path) -> None:
    image = encode(PHOTO[:60, :80])
    for padded in (image + b"\0" * 7, image[:-2] + b"\0\0\0" + image[-2:]):
        assert_array_equal(mx.image.imdecode(padded).asnumpy(), mx.image.imdecode(image).asnumpy())
    for cut in (len(image) // 2, len(image) - 40):
        with pytest.raises(mx.base.RecordError, match="must be a readable JPEG image"):
            mx.image.imdecode(image[:cut])
