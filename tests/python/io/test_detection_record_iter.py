"""ImageDetRecordIter: labels, padding, and boxes that are transformed with the image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from record_files import write_records

HEADER = [4.0, 5.0, 80.0, 60.0]
CROPPED = {"rand_crop_prob": 1, "data_shape": (3, 120, 160)}


@pytest.fixture()
def rec(tmp_path: Path) -> str:
    """Five black pictures with 1, 2, 3, 1, 2 white boxes, 80 x 60 pixels."""
    pictures, labels = np.zeros((5, 60, 80, 3), np.uint8), [list(HEADER) for _ in range(5)]
    for i, (pixels, label) in enumerate(zip(pictures, labels)):
        for k in range(1 + i % 3):
            left, top = 5 + 25 * k, 10 + 10 * k
            pixels[top : top + 20, left : left + 15] = 255
            label += [k, left / 80, top / 60, (left + 15) / 80, (top + 20) / 60]
    return write_records(tmp_path, pictures, labels, png=True)


def make(rec: str, **options: Any) -> mx.io.ImageDetRecordIter:
    common = {"data_shape": (3, 60, 80), "batch_size": 2, "verbose": 0, **options}
    return mx.io.ImageDetRecordIter(path_imgrec=rec, **common)


def parts(row: Any) -> tuple[list[float], Any]:
    """Return the shape labels and the boxes of one row of a batch's label."""
    length = int(row[3])
    assert (row[4 + length :] == row[-1]).all() or length + 4 == len(row)
    np.testing.assert_allclose(row[4:8], HEADER)
    return row[:4].tolist(), row[8 : 4 + length].reshape(-1, 5)


def boxes_fit(picture: Any, boxes: Any, tolerance: float = 2) -> None:
    """Check that the boxes contain the white pixels."""
    height, width = picture.shape[1:]
    white = picture[0] > 128
    expected = np.zeros_like(white)
    grown = np.zeros_like(white)
    for box in boxes:
        left, top, right, bottom = box[1:] * [width, height, width, height]
        edges = np.round([top, bottom, left, right]).astype(int)
        t = int(tolerance)
        expected[edges[0] + t : edges[1] - t, edges[2] + t : edges[3] - t] = True
        grown[max(edges[0] - t, 0) : edges[1] + t, max(edges[2] - t, 0) : edges[3] + t] = True
    assert white[expected].all()
    assert not white[~grown].any()


def test_labels_are_padded_to_the_longest(rec: str) -> None:
    batches = make(rec)
    assert batches.provide_label[0].shape == (2, 4 + 4 + 15)
    seen = []
    for batch in batches:
        for row, picture in zip(batch.label[0].asnumpy(), batch.data[0].asnumpy()):
            shape, boxes = parts(row)
            assert shape == [3, 60, 80, 4 + 5 * len(boxes)]
            boxes_fit(picture, boxes, 1)
            seen.append(len(boxes))
    assert seen == [1, 2, 3, 1, 2, 1] and batch.pad == 1
    wide = make(rec, label_pad_width=30, label_pad_value=-2).next().label[0].asnumpy()
    assert wide.shape == (2, 34) and (wide[0, 13:] == -2).all()
    with pytest.raises(ValueError, match="label_pad_width must be at least 19, .*got 10"):
        make(rec, label_pad_width=10)
    with pytest.raises(ValueError, match="labels in the record must be label_width 14, got 9"):
        make(rec, label_width=14).next()


@pytest.mark.parametrize(
    "options",
    [
        {"rand_mirror_prob": 1},
        {"rand_pad_prob": 1, "max_pad_scale": 3, "fill_value": 0, "data_shape": (3, 120, 160)},
        {**CROPPED, "min_crop_scales": (0.6,), "max_crop_scales": (0.9,)},
        {"resize": 90, "data_shape": (3, 90, 120), "inter_method": 0},
    ],
)
def test_boxes_follow_the_picture(rec: str, options: dict[str, Any]) -> None:
    moved = 0
    for seed in range(4):
        batches = make(rec, seed=seed, emit_overlap_thresh=0, crop_emit_mode="overlap", **options)
        for batch in batches:
            for row, picture in zip(batch.label[0].asnumpy(), batch.data[0].asnumpy()):
                _, boxes = parts(row)
                boxes_fit(picture, boxes, 3)
                moved += not np.allclose(boxes[0, 1:3], [5 / 80, 10 / 60])
    assert moved > 10 or "resize" in options


def test_mirrored_boxes_are_exact(rec: str) -> None:
    plain, mirrored = make(rec).next(), make(rec, rand_mirror_prob=1).next()
    np.testing.assert_array_equal(plain.data[0].asnumpy()[..., ::-1], mirrored.data[0].asnumpy())
    before, after = (parts(b.label[0].asnumpy()[1])[1] for b in (plain, mirrored))
    np.testing.assert_allclose(after[:, [1, 3]], 1 - before[:, [3, 1]], atol=1e-6)
    np.testing.assert_array_equal(after[:, [2, 4]], before[:, [2, 4]])


def test_centers_decide_which_boxes_stay(rec: str) -> None:
    options = {"rand_crop_prob": 1, "min_crop_scales": (0.5,), "max_crop_scales": (0.5,)}
    counts = [
        len(parts(row)[1])
        for seed in range(5)
        for batch in make(rec, seed=seed, **options)
        for row in batch.label[0].asnumpy()
    ]
    assert 1 in counts and min(counts) == 1
    # No rectangle covers a box so well: the pictures stay whole.
    impossible = make(rec, min_crop_overlaps=(0.99,), **options).next()
    np.testing.assert_array_equal(impossible.data[0].asnumpy(), make(rec).next().data[0].asnumpy())


def test_modes_that_keep_the_ratio(rec: str) -> None:
    for mode, shape, expected in (
        ("shrink", (3, 40, 40), [3, 30, 40]),
        ("fit", (3, 120, 120), [3, 90, 120]),
        ("shrink", (3, 100, 100), [3, 60, 80]),
        ("force", (3, 50, 50), [3, 50, 50]),
    ):
        batch = make(rec, data_shape=shape, resize_mode=mode).next()
        label, boxes = parts(batch.label[0].asnumpy()[1])
        assert label[:3] == expected
        picture = batch.data[0].asnumpy()[1]
        boxes_fit(picture[:, : expected[1], : expected[2]], boxes)
        assert (picture[:, expected[1] :] == 127).all()


def test_normalized_as_the_other_iterator(rec: str) -> None:
    options = {"mean_r": 10, "std_g": 4, "scale": 0.5}
    plain, changed = make(rec).next().data[0].asnumpy(), make(rec, **options).next().data[0]
    factor = np.array([0.5, 0.125, 0.5], np.float32).reshape(3, 1, 1)
    mean = np.array([10, 0, 0], np.float32).reshape(3, 1, 1)
    np.testing.assert_allclose(changed.asnumpy(), (plain - mean) * factor, rtol=1e-6)


def test_labels_that_are_none(tmp_path: Path) -> None:
    labels = [[2, 5, 0, 0.1, 0.1, 0.5], [1, 5, 0, 0.1, 0.1, 0.5, 0.5], [3.0]]
    path = write_records(tmp_path, [np.zeros((9, 9, 3), np.uint8)] * 3, labels)
    for _ in range(3):
        batches = make(path, batch_size=1, data_shape=(3, 9, 9), on_error="skip", on_error_limit=1)
        assert list(batches) == []
        assert batches.bad_records == {"record": 0, "label": 3, "image": 0}
    with pytest.raises(mx.base.RecordError, match="6 labels with header width 2 and object"):
        make(path, batch_size=1).next()
    with pytest.warns(UserWarning, match="unknown parameter 'rand_crop' is ignored"):
        make(path, rand_crop=1)
    for options, error, words in (
        ({"resize_mode": "stretch"}, ValueError, "resize_mode must .*, got 'stretch'"),
        ({"min_crop_scales": (0.9,), "max_crop_scales": (0.5,)}, ValueError, "0.9 and max_crop_s"),
        ({"min_crop_overlaps": -1}, ValueError, "got min_crop_overlaps -1 and max_crop_overlaps 1"),
        (
            {"max_crop_trials": (25, 1.5), "num_crop_sampler": 2},
            TypeError,
            "must be an int, got 1.5",
        ),
    ):
        with pytest.raises(error, match=words):
            make(path, **options)


def test_a_short_list_of_samplers_continues_with_its_last_entry(rec: str) -> None:
    options = {"rand_crop_prob": 1, "seed": 5, "num_crop_sampler": 3}
    short = make(rec, min_crop_scales=(0.2, 0.5), max_crop_scales=0.6, **options).next()
    long = make(rec, min_crop_scales=(0.2, 0.5, 0.5), max_crop_scales=[0.6] * 3, **options).next()
    np.testing.assert_array_equal(short.data[0].asnumpy(), long.data[0].asnumpy())
    assert not np.array_equal(short.data[0].asnumpy(), make(rec).next().data[0].asnumpy())
