"""ImageRecordIter: values, tails, parts, seeds and damage, on real pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import recordio
from numpy.testing import assert_allclose, assert_array_equal
from record_files import write_records
from skimage import data as pictures

COUNT = 10


def write(folder: Path, width: int = 1) -> tuple[str, str]:
    """Pack 10 crops of a photo, 60 x 80 pixels, labels 0 to 9."""
    photo = np.ascontiguousarray(pictures.astronaut()[:, :, ::-1])
    crops = [photo[30 * i : 30 * i + 60, 20 * i : 20 * i + 80].copy() for i in range(COUNT)]
    labels = [float(i) if width == 1 else [float(i)] * width for i in range(COUNT)]
    return write_records(folder, crops, labels), str(folder / "a.idx")


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
            found = batch.data[0].asnumpy()[i].transpose(1, 2, 0)
            assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    mirrored = make(files[0], mirror=1).next().data[0].asnumpy()
    assert_array_equal(mirrored[..., ::-1], make(files[0]).next().data[0].asnumpy())


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


AUGMENT: dict[str, Any] = {"shuffle": 1, "seed": 7, "rand_crop": 1, "rand_mirror": 1, "pad": 2}
AUGMENT |= {"brightness": 0.3, "contrast": 0.3, "saturation": 0.3, "pca_noise": 0.1, "resize": 52}
AUGMENT |= {"random_h": 20, "max_rotate_angle": 10, "max_shear_ratio": 0.1}
AUGMENT |= {"max_random_contrast": 0.2, "max_random_illumination": 5}


def test_seeds_decide_and_threads_do_not(files: tuple[str, str]) -> None:
    def epochs(**kwargs: Any) -> list[Any]:
        batches = make(files[0], **{**AUGMENT, **kwargs})
        found = []
        for _ in range(2):
            found.append(np.concatenate([b.data[0].asnumpy() for b in batches]))
            batches.reset()
        return found

    one, many = epochs(preprocess_threads=1), epochs(preprocess_threads=5)
    assert_array_equal(one, many)
    assert not np.array_equal(one[0], one[1])
    assert not np.array_equal(one[0], epochs(seed=8)[0])
    assert np.isfinite(one).all()


def test_random_resized_crop_gives_the_shape(files: tuple[str, str]) -> None:
    options = {"random_resized_crop": 1, "min_random_area": 0.1, "max_aspect_ratio": 0.5}
    batches = make(files[0], data_shape=(1, 20, 90), **options)
    assert [b.data[0].shape for b in batches] == [(4, 1, 20, 90)] * 3


def test_integer_outputs(files: tuple[str, str]) -> None:
    options = {"path_imgrec": files[0], "data_shape": (3, 48, 48), "batch_size": 4, "verbose": 0}
    pixels = mx.io.ImageRecordUInt8Iter(**options).next().data[0]
    assert pixels.dtype == np.uint8
    floats = make(files[0]).next().data[0].asnumpy()
    assert_array_equal(pixels.asnumpy(), floats)
    signed = mx.io.ImageRecordInt8Iter(mean_r=128, mean_g=128, mean_b=128, **options).next()
    assert_array_equal(signed.data[0].asnumpy(), floats - 128)


def test_labels_of_records_and_lists(tmp_path: Path) -> None:
    rec, _ = write(tmp_path, width=3)
    batch = make(rec, label_width=3).next()
    assert_array_equal(batch.label[0].asnumpy(), np.repeat(np.arange(4), 3).reshape(4, 3))
    with pytest.raises(ValueError, match="labels in the record must be label_width 2, got 3"):
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
        ({"data_shape": (48, 48)}, ValueError, r"data_shape must be .*got \(48, 48\)"),
        ({"data_shape": (2, 48, 48)}, ValueError, "1, 3 or 4 channels"),
        ({"dtype": "float64"}, TypeError, "dtype must be .*got float64"),
        ({"random_resized_crop": 1, "rand_crop": 1}, ValueError, "together with rand_crop"),
        ({"part_index": 3}, ValueError, "part_index 3 of num_parts 1"),
        ({"on_error": "ignore"}, ValueError, "on_error must be 'raise' or 'skip'"),
        ({"batch_size": 0}, ValueError, "batch_size must be 1 or more, got 0"),
        ({"resize": "large"}, ValueError, "parameter resize must be an int, got 'large'"),
        ({"resize": (1, 2)}, TypeError, "parameter resize must be an int, got"),
        ({"pad": -1}, ValueError, "parameter pad must be at least 0, got -1"),
        ({"max_random_area": 1.5}, ValueError, "max_random_area must be at most 1, got 1.5"),
        ({"min_random_scale": float("nan")}, ValueError, "must be above 0, got nan"),
        ({"rand_mirror": [1]}, TypeError, "parameter rand_mirror must be a bool, got"),
    ],
)
def test_wrong_options(files: tuple[str, str], options: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=f"ImageRecordIter: .*{text}"):
        make(files[0], **options)
    with pytest.raises(mx.base.RecordError, match="cannot be opened"):
        make("nowhere.rec")


def test_one_bad_record_in_a_hundred(tmp_path: Path) -> None:
    """Every good record of 10,000 is read exactly once in each epoch, whatever records are bad."""
    pixels = np.random.RandomState(0).randint(0, 256, (16, 16, 3)).astype(np.uint8)
    image = recordio.unpack(recordio.pack_img((0, 0, 0, 0), pixels))[1]
    count = 10_000
    rec, idx = write_records(tmp_path, [image] * count), str(tmp_path / "a.idx")
    size = Path(rec).stat().st_size // count
    raw = bytearray(Path(rec).read_bytes())
    bad = np.random.RandomState(1).choice(count, count // 100, replace=False)
    for kind, number in enumerate(sorted(bad.tolist())):
        begin = number * size
        if kind % 4 == 0:
            raw[begin + 3] ^= 0xFF  # the magic number
        elif kind % 4 == 1:
            raw[begin + 7] ^= 0x80  # the length
        elif kind % 4 == 2:
            raw[begin + 8] = 3  # the number of labels
        else:
            raw[begin + 40 : begin + 80] = bytes(40)  # the image's header
    Path(rec).write_bytes(raw)
    good = sorted(set(range(count)) - set(bad.tolist()))
    options: dict[str, Any] = {"data_shape": (3, 16, 16), "batch_size": 128, "on_error": "skip"}

    def seen(batches: mx.io.ImageRecordIter) -> list[int]:
        return [int(n) for b in batches for n in b.label[0].asnumpy()[: 128 - b.pad]]

    batches = make(rec, path_imgidx=idx, shuffle=1, **options)
    for epoch in (1, 2):
        found = seen(batches)
        assert sorted(found) == good and found != good
        assert batches.skipped == 100 * epoch
        bad_records = {"record": 50 * epoch, "label": 25 * epoch, "image": 25 * epoch}
        assert batches.bad_records == bad_records
        batches.reset()
    limited = make(rec, path_imgidx=idx, on_error_limit=0.005, **options)
    with pytest.raises(mx.base.RecordError, match="10000 records are bad, more than on_error_lim"):
        list(limited)
    # Without an index the heads are searched: a lost one costs its record and no other.
    assert seen(make(rec, **options)) == good


def test_several_files_are_one(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
    first, second = write(tmp_path / "x")[0], write(tmp_path / "y")[0]
    both = labels(make(f"{first};{second}", batch_size=10))
    assert both == [(list(range(10)), 0)] * 2
    assert labels(make(str(tmp_path / "x"), batch_size=10)) == both[:1]
    options = {"batch_size": 1, "num_parts": 3}
    parts = [labels(make(f"{first};{second}", part_index=p, **options)) for p in range(3)]
    assert sum(len(part) for part in parts) == 20
    with pytest.raises(ValueError, match="record files must be 1 with path_imgidx, got 2"):
        make(f"{first};{second}", path_imgidx=str(tmp_path / "x" / "a.idx"))


def test_stretches_of_the_file_change_places(tmp_path: Path) -> None:
    image = recordio.unpack(recordio.pack_img((0, 0, 0, 0), np.zeros((9, 9, 3), np.uint8)))[1]
    # Eight records in a MiB.
    rec = write_records(tmp_path, [image + bytes((1 << 17) - 100)] * 40)

    def order(**options: Any) -> list[int]:
        batches = make(rec, batch_size=1, data_shape=(3, 9, 9), shuffle_chunk_size=1, **options)
        return [found[0][0] for found in labels(batches)]

    def breaks(found: list[int]) -> int:
        assert sorted(found) == list(range(40)) != found
        return sum(b - a != 1 for a, b in zip(found, found[1:]))

    found = order(shuffle_chunk_seed=3)
    assert breaks(found) <= 6
    assert breaks(order(shuffle_chunk_seed=3, shuffle=1)) > 20
    assert order(shuffle_chunk_seed=4) != found


def test_missing_index_and_list_are_named(files: tuple[str, str]) -> None:
    for option in ("path_imgidx", "path_imglist"):
        with pytest.raises(mx.base.RecordError, match="nowhere.txt' cannot be read"):
            make(files[0], **{option: "nowhere.txt"})


def test_unknown_options_are_ignored_with_a_warning(files: tuple[str, str]) -> None:
    with pytest.warns(UserWarning, match="unknown parameter 'rand_corp' is ignored.*rand_crop"):
        batches = make(files[0], rand_corp=1)
    assert batches.next().data[0].shape[0] == batches.batch_size


def test_options_that_are_none_keep_their_defaults(files: tuple[str, str]) -> None:
    plain, given = make(files[0]), make(files[0], pad=None, rand_mirror=None, inter_method=None)
    assert_array_equal(plain.next().data[0].asnumpy(), given.next().data[0].asnumpy())


def test_a_mean_image_that_is_missing_is_made(files: Any, tmp_path: Path, caplog: Any) -> None:
    caplog.set_level("INFO")
    path = str(tmp_path / "mean.bin")
    raw = np.concatenate([b.data[0].asnumpy() for b in make(files[0], batch_size=5)])
    mean = raw.mean(axis=0, dtype=np.float64)
    options = {"mean_img": path, "scale": 0.5, "num_parts": 2, "batch_size": 5, "verbose": 1}
    first = make(files[0], **options).next().data[0].asnumpy()
    assert_allclose(mx.nd.load(path)["mean_img"].asnumpy(), mean, rtol=1e-5)
    assert_allclose(first, (raw[:5] - mean) * 0.5, atol=1e-3)
    assert sum("create mean image" in line for line in caplog.messages) == 1
    again = make(files[0], **options).next().data[0].asnumpy()
    assert_array_equal(first, again)
    assert sum("create mean image" in line for line in caplog.messages) == 1


@pytest.mark.parametrize("images_first", [False, True])
def test_records_of_identities_are_left_out(tmp_path, images_first):
    """Record 0 of InsightFace's face sets has the range of the records that have no image."""
    with recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w") as file:
        ranges = {0: [5, 7], 5: [1, 3], 6: [3, 5]}
        picture = np.zeros((8, 8, 3), np.uint8)
        for key in range(7) if images_first else [0, 5, 6, 1, 2, 3, 4]:
            header = recordio.IRHeader(2, ranges.get(key, [key // 3, 0]), key, 0)
            file.write_idx(
                key,
                recordio.pack(header, b"")
                if key in ranges
                else recordio.pack_img(header, picture + key, img_fmt=".png"),
            )
    records = mx.io.ImageRecordIter(
        path_imgrec=str(tmp_path / "a.rec"), path_imgidx=str(tmp_path / "a.idx"),
        data_shape=(3, 8, 8), batch_size=2, label_width=2, verbose=False,
    )  # fmt: skip
    assert records.num_records == 4
    values = [(b.data[0][:, 0, 0, 0].asnumpy(), b.label[0][:, 0].asnumpy()) for b in records]
    assert np.concatenate([v[0] for v in values]).tolist() == [1, 2, 3, 4]
    assert np.concatenate([v[1] for v in values]).tolist() == [0, 0, 1, 1]
