"""ImageRecordIter: values, tails, parts, seeds and damage, on real pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import recordio
from skimage import data as pictures

COUNT = 10


def write(folder: Path, width: int = 1) -> tuple[str, str]:
    """Pack 10 crops of a photo, 60 x 80 pixels, labels 0 to 9."""
    photo = np.ascontiguousarray(pictures.astronaut()[:, :, ::-1])
    rec, idx = str(folder / "a.rec"), str(folder / "a.idx")
    with recordio.MXIndexedRecordIO(idx, rec, "w") as file:
        assert isinstance(file, recordio.MXIndexedRecordIO)
        for i in range(COUNT):
            label: Any = float(i) if width == 1 else [float(i)] * width
            crop = photo[30 * i : 30 * i + 60, 20 * i : 20 * i + 80]
            file.write_idx(i, recordio.pack_img((0, label, i, 0), np.ascontiguousarray(crop)))
    return rec, idx


@pytest.fixture()
def files(tmp_path: Path) -> tuple[str, str]:
    return write(tmp_path)


def make(rec: str, **kwargs: Any) -> mx.io.ImageRecordIter:
    options = {"data_shape": (3, 48, 48), "batch_size": 4, "verbose": 0, **kwargs}
    return mx.io.ImageRecordIter(path_imgrec=rec, **options)


def labels(batches: mx.io.ImageRecordIter) -> list[tuple[list[int], int | None]]:
    return [(b.label[0].asnumpy().astype(int).tolist(), b.pad) for b in batches]


def test_values_are_the_center_crop_normalized(files: tuple[str, str]) -> None:
    batches = make(files[0], mean_r=10, mean_g=20, mean_b=30, std_r=2, std_g=4, std_b=5, scale=0.5)
    batch = batches.next()
    with recordio.MXRecordIO(files[0], "r") as file:
        for i in range(4):
            record = file.read()
            assert record is not None
            image = recordio.unpack_img(record)[1][6:54, 16:64, ::-1].astype(np.float32)
            expected = (image - [10, 20, 30]) * 0.5 / [2, 4, 5]
            np.testing.assert_allclose(
                batch.data[0].asnumpy()[i], expected.transpose(2, 0, 1), rtol=1e-5, atol=1e-5
            )
    mirrored = make(files[0], mirror=1).next().data[0].asnumpy()
    np.testing.assert_array_equal(mirrored[..., ::-1], make(files[0]).next().data[0].asnumpy())


def test_every_epoch_has_all_records_and_the_right_pad(files: tuple[str, str]) -> None:
    batches = make(files[0])
    for _ in range(3):
        assert labels(batches) == [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 2)]
        with pytest.raises(StopIteration):
            batches.next()
        batches.reset()
    first = batches.next()
    first.data[0][:] = -1  # the wrapped samples are not the caller's
    batches.next()
    assert batches.next().data[0].asnumpy()[2:].min() >= 0
    plain = make(files[0], round_batch=0)
    *_, last = plain
    assert last.pad == 2 and last.index.tolist() == [8, 9, -1, -1]
    assert not last.data[0].asnumpy()[2:].any() and last.data[0].asnumpy()[:2].all(axis=0).any()


def test_small_part_wraps_several_times(files: tuple[str, str]) -> None:
    batches = make(files[0], path_imgidx=files[1], num_parts=5, part_index=4, batch_size=5)
    assert labels(batches) == [([8, 9, 8, 9, 8], 3)]


@pytest.mark.parametrize("with_index", [True, False])
def test_parts_cover_everything_once(files: tuple[str, str], with_index: bool) -> None:
    seen: list[int] = []
    for part in range(3):
        idx = {"path_imgidx": files[1]} if with_index else {}
        batches = make(files[0], num_parts=3, part_index=part, batch_size=1, **idx)
        seen += [x[0][0] for x in labels(batches)]
    assert seen == list(range(COUNT))
    with pytest.raises(mx.base.RecordError, match="part 19 of 20 has no records"):
        make(files[0], path_imgidx=files[1], num_parts=20, part_index=19)


AUGMENT: dict[str, Any] = {
    "shuffle": 1,
    "seed": 7,
    "rand_crop": 1,
    "rand_mirror": 1,
    "brightness": 0.3,
    "contrast": 0.3,
    "saturation": 0.3,
    "pca_noise": 0.1,
    "random_h": 20,
    "max_rotate_angle": 10,
    "max_shear_ratio": 0.1,
    "max_random_contrast": 0.2,
    "max_random_illumination": 5,
    "pad": 2,
    "resize": 52,
}


def test_seeds_decide_and_threads_do_not(files: tuple[str, str]) -> None:
    def epochs(**kwargs: Any) -> list[Any]:
        batches = make(files[0], **{**AUGMENT, **kwargs})
        found = []
        for _ in range(2):
            found.append(np.concatenate([b.data[0].asnumpy() for b in batches]))
            batches.reset()
        return found

    one, many = epochs(preprocess_threads=1), epochs(preprocess_threads=5)
    np.testing.assert_array_equal(one, many)
    assert not np.array_equal(one[0], one[1])
    assert not np.array_equal(one[0], epochs(seed=8)[0])
    assert np.isfinite(one).all()


def test_random_resized_crop_gives_the_shape(files: tuple[str, str]) -> None:
    batches = make(
        files[0],
        random_resized_crop=1,
        min_random_area=0.1,
        max_aspect_ratio=0.5,
        data_shape=(1, 20, 90),
    )
    assert [b.data[0].shape for b in batches] == [(4, 1, 20, 90)] * 3


def test_integer_outputs(files: tuple[str, str]) -> None:
    options = {"path_imgrec": files[0], "data_shape": (3, 48, 48), "batch_size": 4, "verbose": 0}
    pixels = mx.io.ImageRecordUInt8Iter(**options).next().data[0]
    assert pixels.dtype == np.uint8
    floats = make(files[0]).next().data[0].asnumpy()
    np.testing.assert_array_equal(pixels.asnumpy(), floats)
    signed = mx.io.ImageRecordInt8Iter(mean_r=128, mean_g=128, mean_b=128, **options).next()
    np.testing.assert_array_equal(signed.data[0].asnumpy(), floats - 128)


def test_labels_of_records_and_lists(tmp_path: Path) -> None:
    rec, _ = write(tmp_path, width=3)
    batch = make(rec, label_width=3).next()
    np.testing.assert_array_equal(
        batch.label[0].asnumpy(), np.repeat(np.arange(4), 3).reshape(4, 3)
    )
    with pytest.raises(ValueError, match="3 labels in the record, label_width is 2"):
        make(rec, label_width=2).next()
    listed = tmp_path / "a.lst"
    listed.write_text("".join(f"{i}\t{i + 5}\tx.jpg\n" for i in range(COUNT)))
    assert labels(make(rec, path_imglist=str(listed)))[0] == ([5, 6, 7, 8], 0)


def damage(rec: str, number: int) -> None:
    raw = bytearray(Path(rec).read_bytes())
    offset = int(Path(rec).with_suffix(".idx").read_text().splitlines()[number].split()[1])
    raw[offset + 40 : offset + 60] = b"\0" * 20  # in the JPEG's header
    Path(rec).write_bytes(raw)


def test_bad_records_raise_with_place(files: tuple[str, str]) -> None:
    damage(files[0], 5)
    batches = make(files[0])
    batches.next()
    with pytest.raises(mx.base.RecordError, match=r"a.rec': record 5 at offset \d+: .*JPEG"):
        batches.next()
    assert batches.next().pad == 2


def test_bad_records_are_skipped_and_the_good_ones_come_once(files: tuple[str, str]) -> None:
    for number in (0, 5, 6):
        damage(files[0], number)
    batches = make(files[0], on_error="skip", path_imgidx=files[1])
    for epoch in range(2):
        assert labels(batches) == [([1, 2, 3, 4], 0), ([7, 8, 9, 1], 1)]
        assert batches.skipped == 3 * (epoch + 1)
        batches.reset()


def test_leaving_in_the_middle_ends(files: tuple[str, str]) -> None:
    for _ in range(20):
        batches = make(files[0], batch_size=1, prefetch_buffer=1, preprocess_threads=3)
        batches.next()
        batches.reset()
        batches.next()
        del batches


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"rand_corp": 1}, TypeError, "unknown parameter 'rand_corp'.*rand_crop"),
        ({"data_shape": (48, 48)}, ValueError, r"data_shape \(48, 48\) given"),
        ({"data_shape": (2, 48, 48)}, ValueError, "1, 3 or 4 channels"),
        ({"dtype": "float64"}, TypeError, "dtype float64 given"),
        ({"random_resized_crop": 1, "rand_crop": 1}, ValueError, "together with rand_crop"),
        ({"part_index": 3}, ValueError, "part_index 3 of num_parts 1"),
        ({"on_error": "ignore"}, ValueError, "'raise' or 'skip' expected"),
        ({"batch_size": 0}, ValueError, "batch_size is required"),
    ],
)
def test_wrong_options(files: tuple[str, str], options: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        make(files[0], **options)
    with pytest.raises(mx.base.RecordError, match="cannot be opened"):
        make("nowhere.rec")
