"""ImageIter and ImageDetIter: what is in a batch, and where a pass ends."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import image
from mxlite.recordio import IRHeader, MXIndexedRecordIO, pack

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Ten plain pictures of gray 10 * number, as files, list and records."""
    record = MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w")
    lines = []
    for number in range(10):
        path = tmp_path / f"{number}.png"
        Image.fromarray(np.full((6, 8, 3), 10 * number, np.uint8)).save(path)
        record.write_idx(number, pack(IRHeader(0, float(number), number, 0), path.read_bytes()))
        lines.append(f"{number}\t{number}.0\t{number}.png\n")
    record.close()
    (tmp_path / "a.lst").write_text("".join(lines))
    return tmp_path


def sources(folder: Path) -> dict[str, dict[str, Any]]:
    listed = [[float(number), f"{number}.png"] for number in range(10)]
    return {
        "rec": {"path_imgrec": str(folder / "a.rec")},
        "idx": {"path_imgrec": str(folder / "a.rec"), "path_imgidx": str(folder / "a.idx")},
        "lst": {"path_imglist": str(folder / "a.lst"), "path_root": str(folder)},
        "list": {"imglist": listed, "path_root": str(folder)},
    }


def make(folder: Path, source: str = "idx", **options: Any) -> image.ImageIter:
    options = {"data_shape": (3, 5, 7), **sources(folder)[source], **options}
    return image.ImageIter(4, **options)


def epoch(batches: image.ImageIter) -> list[tuple[list[int], int]]:
    found = []
    for batch in batches:
        pixels = batch.data[0].asnumpy()
        assert pixels.shape == (4, 3, 5, 7)
        assert pixels.dtype == np.float32
        labels = batch.label[0].asnumpy()
        np.testing.assert_array_equal(pixels.mean(axis=(1, 2, 3)), 10 * labels)
        found.append((labels.astype(int).tolist(), batch.pad))
    return found


@pytest.mark.parametrize("source", ["rec", "idx", "lst", "list"])
def test_every_source_gives_the_same_batches(files: Path, source: str) -> None:
    batches = make(files, source)
    assert batches.provide_data == [("data", (4, 3, 5, 7))]
    assert batches.provide_label == [("softmax_label", (4,))]
    expected = [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 2)]
    assert epoch(batches) == expected
    with pytest.raises(StopIteration):
        batches.next()
    batches.reset()
    assert epoch(batches) == expected


@pytest.mark.parametrize("source", ["rec", "lst"])
def test_the_last_batch_can_be_dropped_or_rolled_over(files: Path, source: str) -> None:
    batches = make(files, source, last_batch_handle="discard")
    assert epoch(batches) == [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0)]
    batches.reset()
    assert len(epoch(batches)) == 2
    batches = make(files, source, last_batch_handle="roll_over")
    assert epoch(batches) == [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0)]
    batches.reset()
    assert epoch(batches) == [([8, 9, 0, 1], 2), ([2, 3, 4, 5], 0), ([6, 7, 8, 9], 0)]
    batches.hard_reset()
    assert epoch(batches)[0] == ([0, 1, 2, 3], 0)


@pytest.mark.parametrize("source", ["lst", "list"])
def test_labels_of_lists_are_arrays_as_in_1x(files: Path, source: str) -> None:
    batches = make(files, source, dtype="float64")
    for number in range(2):
        label, content = batches.next_sample()
        assert isinstance(label, mx.nd.NDArray)
        assert label.dtype == np.float64
        assert label.asnumpy().tolist() == [number]
        assert content == (files / f"{number}.png").read_bytes()


def test_a_batch_larger_than_the_data_repeats_it(files: Path) -> None:
    batches = make(files, "list", imglist=[[3.0, "3.png"]])
    assert epoch(batches) == [([3, 3, 3, 3], 3)]


def test_parts_are_disjoint_and_shuffling_changes_each_pass(files: Path) -> None:
    parts = [epoch(make(files, num_parts=2, part_index=part)) for part in range(2)]
    assert parts == [[([0, 1, 2, 3], 0), ([4, 0, 1, 2], 3)], [([5, 6, 7, 8], 0), ([9, 5, 6, 7], 3)]]
    random.seed(1)
    batches = make(files, shuffle=True, last_batch_handle="discard")
    first = epoch(batches)
    batches.reset()
    assert first != epoch(batches)
    assert len({label for labels, _ in first for label in labels}) == 8


def test_several_labels_and_their_type(files: Path) -> None:
    rows = [[1, 2, "1.png"], [[3, 4], "2.png"]]
    batches = image.ImageIter(
        2, (3, 5, 7), label_width=2, imglist=rows, path_root=str(files), dtype="int64"
    )
    label = batches.next().label[0]
    assert label.dtype == np.int64
    assert label.asnumpy().tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match=r"label_width 1 numbers, got 2 .*1\.png"):
        image.ImageIter(2, (3, 5, 7), imglist=rows, path_root=str(files)).next()


def test_augmenters_come_from_a_list_or_from_options(files: Path) -> None:
    batches = make(files, aug_list=[image.ForceResizeAug((7, 5)), image.BrightnessJitterAug(0)])
    assert epoch(batches)[0] == ([0, 1, 2, 3], 0)
    batches = make(files, mean=np.array([10.0, 20, 30]), resize=6)
    np.testing.assert_allclose(
        batches.next().data[0][2].asnumpy().mean(axis=(1, 2)), [10, 0, -10], atol=1e-4
    )
    with pytest.raises(ValueError, match=r"must return data_shape \(3, 5, 7\), got \(3, 6, 8\)"):
        make(files, aug_list=[]).next()


def test_broken_and_missing_images_and_lines_are_named(files: Path) -> None:
    with pytest.raises(ValueError, match="line 4 must be .*got 2 fields"):
        (files / "b.lst").write_text("7\t7.0\t7.png\n3\t3.0\t3.png\n\n1\t1.0\n")
        make(files, "lst", path_imglist=str(files / "b.lst"))
    (files / "2.png").write_bytes(b"no picture at all")
    with pytest.raises(mx.MXNetError, match=r"Broken image filename: 2\.png"):
        make(files, "lst").next()
    (files / "2.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"2\.png"):
        make(files, "lst").next()
    record = MXIndexedRecordIO(str(files / "b.idx"), str(files / "b.rec"), "w")
    record.write_idx(17, pack(IRHeader(0, 1.0, 17, 0), b"no picture"))
    record.close()
    where = {"path_imgrec": str(files / "b.rec")}
    with pytest.raises(mx.MXNetError, match="Broken image record 0"):
        make(files, "rec", **where).next()
    with pytest.raises(mx.MXNetError, match="Broken image index: 17"):
        make(files, "rec", path_imgidx=str(files / "b.idx"), **where).next()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"path_imgidx": None, "shuffle": True},
            "path_imgidx must be given with shuffle or num_parts",
        ),
        ({"num_parts": 2, "part_index": 2}, "part_index must be .*got 2"),
        ({"num_parts": 11}, "num_parts must be at most the number of images, 10, got 11"),
        ({"dtype": "float16"}, "dtype must be .*got 'float16'"),
        ({"last_batch_handle": "keep"}, "must be one of pad, discard, roll_over, got 'keep'"),
        ({"path_imgrec": None}, "path_imgrec, path_imglist or a list"),
        ({"path_imgrec": None, "imglist": [[1.0]]}, r"entries of imglist must be .*got \[1\.0\]"),
        ({"path_imglist": "none.lst"}, "no file 'none.lst'"),
        ({"data_shape": (3, 5)}, "3"),
        ({"data_shape": (1, 5, 7)}, "3"),
    ],
)
def test_wrong_options_say_what_is_expected(files: Path, options: Any, words: str) -> None:
    with pytest.raises(mx.MXNetError, match=words):
        make(files, "idx", **options)


BOXES = {
    "1.png": [2, 5, 1, 0.1, 0.2, 0.5, 0.6],
    "2.png": [4, 5, 9, 9, 0, 0.2, 0.2, 0.8, 0.9, 3, 0.0, 0.5, 0.5, 1.0],
    "3.png": [2, 5, 2, 0.3, 0.3, 0.2, 0.9, 2, 0.1, 0.1, 0.9, 0.9],  # the first has no area
}


def detection(files: Path, names: list[str], **options: Any) -> image.ImageDetIter:
    rows = [[BOXES[name], name] for name in names]
    return image.ImageDetIter(2, (3, 5, 7), imglist=rows, path_root=str(files), **options)


def test_boxes_are_padded_with_minus_one(files: Path) -> None:
    batches = detection(files, ["1.png", "2.png", "3.png"])
    assert batches.label_shape == (2, 5)
    assert batches.provide_label == [("label", (2, 2, 5))]
    first, second = list(batches)
    labels = [
        [[1, 0.1, 0.2, 0.5, 0.6], [-1] * 5],
        [[0, 0.2, 0.2, 0.8, 0.9], [3, 0.0, 0.5, 0.5, 1.0]],
    ]
    np.testing.assert_allclose(first.label[0].asnumpy(), labels, rtol=1e-6)
    assert first.data[0].shape == (2, 3, 5, 7)
    assert second.pad == 1
    np.testing.assert_allclose(
        second.label[0].asnumpy()[0], [[2, 0.1, 0.1, 0.9, 0.9], [-1] * 5], rtol=1e-6
    )


def test_boxes_move_with_the_image(files: Path) -> None:
    batches = detection(files, ["1.png"], aug_list=None, rand_mirror=True, resize=6)
    random.seed(3)
    lefts = set()
    for _ in range(8):
        batches.reset()
        lefts.update(np.round(batches.next().label[0].asnumpy()[:, 0, 1], 4).tolist())
    assert lefts == {np.float32(0.1).round(4), np.float32(0.5)}


def test_label_shapes_can_grow_together(files: Path) -> None:
    one, two = detection(files, ["1.png"]), detection(files, ["2.png"])
    assert one.label_shape == (1, 5)
    assert one.sync_label_shape(two) is two
    assert one.label_shape == two.label_shape == (2, 5)
    assert one.next().label[0].shape == (2, 2, 5)
    one.reshape(data_shape=(3, 9, 9), label_shape=(4, 5))
    assert one.provide_data == [("data", (2, 3, 9, 9))]
    with pytest.raises(ValueError, match="from 4 to 3"):
        one.reshape(label_shape=(3, 5))
    with pytest.raises(ValueError, match="5 vs 6"):
        one.reshape(label_shape=(4, 6))
    with pytest.raises(TypeError, match="it must be an ImageDetIter, got int"):
        one.sync_label_shape(3)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ([2, 5, 1], "Label shape is invalid"),
        ([2, 5, 1, 0.1, 0.1, 0.2, 0.2, 7], "inconsistent with header width 2"),
        ([2, 4, 1, 0.1, 0.1, 0.2, 0.2, 7, 8, 9], "annotation width 4"),
        ([2, 5, 1, 0.5, 0.1, 0.2, 0.2], "no valid label"),
    ],
)
def test_labels_that_are_no_boxes_are_named(files: Path, label: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=rf"{words}.*1\.png"):
        image.ImageDetIter(1, (3, 5, 7), imglist=[[label, "1.png"]], path_root=str(files))


def test_drawing_shows_the_boxes(files: Path) -> None:
    batches = detection(files, ["1.png", "2.png"], aug_list=[])
    drawn = list(batches.draw_next(color=(250, 0, 1), thickness=1))
    assert len(drawn) == 2
    assert drawn[0].shape == (6, 8, 3)
    assert drawn[0].dtype == np.uint8
    painted = (drawn[0] == [1, 0, 250]).all(axis=2)
    expected = np.zeros((6, 8), bool)
    expected[1:4, 0:5] = True
    expected[2:3, 1:4] = False
    np.testing.assert_array_equal(painted, expected)
    assert (drawn[0][~painted] == 10).all()


def test_augmenters_of_boxes_check_what_they_get() -> None:
    with pytest.raises(TypeError, match="must be an Augmenter, got int"):
        image.DetBorrowAug(3)
    with pytest.raises(ValueError, match="must hold only DetAugmenter, got CastAug"):
        image.DetRandomSelectAug([image.CastAug()])
    with pytest.raises(ValueError, match="1 or 3 entries, got 2, 1, 3"):
        image.det.CreateMultiRandCropAugmenter([0.1, 0.2], area_range=[(0.1, 1)] * 3)
    with pytest.warns(UserWarning, match="invalid area_range"):
        assert not image.DetRandomCropAug(area_range=(0.5, 0.1)).enabled
    with pytest.warns(UserWarning, match="invalid area_range"):
        assert not image.DetRandomPadAug(area_range=(0.5, 1.0)).enabled
    picture, label = mx.nd.zeros((4, 4, 3)), np.zeros((1, 5))
    assert image.DetRandomSelectAug([])(picture, label) == (picture, label)
