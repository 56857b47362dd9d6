"""im2rec, rec2idx and recinfo: files, options, bad images, interruptions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import recordio
from mxlite.tools import im2rec, partial, rec2idx, recinfo
from numpy.testing import assert_array_equal
from skimage import data as pictures


def encode(pixels: Any, png: bool = False) -> bytes:
    packed = recordio.pack_img((0, 0, 0, 0), pixels, 3 if png else 90, ".png" if png else ".jpg")
    return recordio.unpack(packed)[1]


@pytest.fixture()
def images(tmp_path: Path) -> Path:
    """Three folders of cuts of a photo: 9 JPEG and 1 PNG."""
    photo = np.ascontiguousarray(pictures.astronaut()[:, :, ::-1])
    for i in range(10):
        folder = tmp_path / "images" / "abc"[i % 3]
        folder.mkdir(parents=True, exist_ok=True)
        cut = np.ascontiguousarray(photo[40 * i : 40 * i + 60 + i, 20 * i : 20 * i + 90])
        name = f"{i}.png" if i == 7 else f"{i}.JPG"
        (folder / name).write_bytes(encode(cut, i == 7))
    (tmp_path / "images" / "notes.txt").write_text("no image")
    return tmp_path / "images"


def run(*arguments: Any) -> int:
    return im2rec.main([str(argument) for argument in arguments])


@pytest.fixture()
def prefix(images: Path) -> Path:
    """Return the prefix of a list of all images, in their order."""
    path = images.parent / "x"
    assert run("--list", "--recursive", "--no-shuffle", path, images) == 0
    return path


def records(path: Path) -> list[tuple[Any, bytes]]:
    found = []
    index = path.with_suffix(".idx")
    with recordio.MXIndexedRecordIO(str(index), str(path), "r") as file:
        assert isinstance(file, recordio.MXIndexedRecordIO)
        for key in file.keys:
            record = file.read_idx(key)
            assert record is not None
            header, image = recordio.unpack(record)
            assert header.id == key
            found.append((header, image))
    return found


@contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, method: str, calls: int = 1) -> Iterator[None]:
    """Interrupt partial record files after some calls of `commit`, or before `finish`."""
    inner, left = getattr(partial.PartialRecord, method), calls

    def interrupting(self: partial.PartialRecord, *arguments: Any) -> None:
        nonlocal left
        left -= 1
        if method == "commit":
            inner(self, *arguments)
        if left == 0:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(partial.PartialRecord, method, interrupting)
        yield


def test_lists_number_folders(images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = images.parent / "x"
    assert run("--list", "--recursive", "--no-shuffle", prefix, images) == 0
    lines = (images.parent / "x.lst").read_text().splitlines()
    assert lines[:2] == ["0\t0.000000\ta/0.JPG", "1\t0.000000\ta/3.JPG"]
    assert lines[-1] == "9\t2.000000\tc/8.JPG" and len(lines) == 10
    assert capsys.readouterr().out.splitlines() == ["a 0", "b 1", "c 2"]
    assert run("--list", "--recursive", prefix, images) == 0
    shuffled = (images.parent / "x.lst").read_text().splitlines()
    assert shuffled != lines and sorted(shuffled) == sorted(lines)


def test_lists_in_chunks_and_parts(images: Path) -> None:
    prefix = images.parent / "y"
    options = ("--chunks", 2, "--train-ratio", 0.6, "--test-ratio", 0.2)
    assert run("--list", "--recursive", *options, prefix, images) == 0
    lists = images.parent.glob("y*.lst")
    counts = {path.name: len(path.read_text().splitlines()) for path in lists}
    assert counts == {
        f"y_{chunk}_{part}.lst": count
        for chunk in (0, 1)
        for part, count in (("test", 1), ("train", 3), ("val", 1))
    }


def test_pass_through_keeps_bytes_and_order(images: Path) -> None:
    prefix = images.parent / "x"
    run("--list", "--recursive", prefix, images)
    assert run("--pass-through", "--num-thread", 3, prefix, images) == 0
    lines = [line.split("\t") for line in (images.parent / "x.lst").read_text().splitlines()]
    found = records(images.parent / "x.rec")
    assert [(str(h.id), h.label) for h, _ in found] == [(line[0], float(line[1])) for line in lines]
    assert [image for _, image in found] == [(images / line[2]).read_bytes() for line in lines]
    names = sorted(path.name for path in images.parent.iterdir())
    assert names == ["images", "x.idx", "x.lst", "x.rec"]


def test_resize_crop_color_and_encoding(images: Path, prefix: Path) -> None:
    rec = images.parent / "x.rec"
    sizes: list[Any] = []
    for options in (
        ["--resize", 40],
        ["--center-crop"],
        ["--center-crop", "--resize", 30, "--color", 0],
        ["--encoding", ".png", "--quality", 3],
    ):
        assert run(*options, prefix, images) == 0
        sizes.append([mx._core.image_info(image) for _, image in records(rec)])
    assert {min(h, w) for h, w, _ in sizes[0]} == {40} and max(s[1] for s in sizes[0]) == 60
    assert all(h == w and 60 <= h <= 69 for h, w, _ in sizes[1])
    assert set(sizes[2]) == {(30, 30, 1)}
    assert all(image[:4] == b"\x89PNG" for _, image in records(rec))
    name = images / "a" / "0.JPG"
    stored = {header.id: image for header, image in records(rec)}
    line = next(x for x in (images.parent / "x.lst").read_text().splitlines() if "a/0.JPG" in x)
    assert_array_equal(mx.image.imdecode(stored[int(line.split()[0])]), mx.image.imread(str(name)))


def test_photographs_of_turned_cameras(images: Path, prefix: Path) -> None:
    tag = b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06" + bytes(7)
    name = images / "a" / "0.JPG"
    content = name.read_bytes()
    name.write_bytes(content[:20] + tag + content[20:])  # behind the JFIF header
    for options, shape in (((), (90, 60, 3)), (("--color", -1), (60, 90, 3))):
        assert run(*options, prefix, images) == 0
        image = records(prefix.with_suffix(".rec"))[0][1]
        assert mx.image.imdecode(image).shape == shape


def test_several_labels_need_pack_label(images: Path) -> None:
    prefix = images.parent / "x"
    (images.parent / "x.lst").write_text("5\t1.5\t2.5\ta/0.JPG\n\n3\tno number\ta/3.JPG\nshort\n")
    assert run("--pack-label", prefix, images) == 0
    ((header, _),) = records(images.parent / "x.rec")
    assert header.label.tolist() == [1.5, 2.5] and header.id == 5
    assert run(prefix, images) == 0
    ((header, _),) = records(images.parent / "x.rec")
    assert (header.flag, header.label) == (0, 1.5)


def test_bad_images_are_listed_and_left_out(images: Path, prefix: Path, capsys: Any) -> None:
    (images / "a" / "0.JPG").write_bytes(b"no image")
    (images / "b" / "1.JPG").write_bytes((images / "b" / "1.JPG").read_bytes()[:-300])
    (images / "c" / "2.JPG").unlink()
    assert run("--num-thread", 2, prefix, images) == 1
    output = capsys.readouterr()
    for name in ("a/0.JPG", "b/1.JPG", "c/2.JPG"):
        assert f"imread read blank (None) image for file: {images / name}" in output.out
        assert str(images / name) in output.err
    assert "3 images could not be read and were left out" in output.err
    assert [header.id for header, _ in records(images.parent / "x.rec")] == [1, 2, 3, 5, 6, 8, 9]


def test_goes_on_after_an_interruption(images: Path, prefix: Path, monkeypatch: Any) -> None:
    rec = prefix.with_suffix(".rec")
    assert run("--resize", 40, prefix, images) == 0
    whole, index = rec.read_bytes(), rec.with_suffix(".idx").read_bytes()
    monkeypatch.setattr(im2rec, "_CHUNK", 2)
    for stop_after in range(1, 5):
        rec.unlink()
        with interrupted(monkeypatch, "commit", stop_after):
            assert run("--resize", 40, prefix, images) == 130
        assert not rec.exists()
        begun = Path(f"{rec}.partial")
        begun.write_bytes(begun.read_bytes() + b"half a record")
        packed = []
        pack = im2rec.pack
        monkeypatch.setattr(im2rec, "pack", lambda h, s: packed.append(h) or pack(h, s))  # noqa: B023
        assert run("--resize", 40, prefix, images) == 0
        monkeypatch.setattr(im2rec, "pack", pack)
        assert len(packed) == 10 - 2 * stop_after
        assert rec.read_bytes() == whole and rec.with_suffix(".idx").read_bytes() == index
    assert not list(images.parent.glob("*.partial")) + list(images.parent.glob("*.journal"))


@pytest.mark.parametrize(
    "line",
    ["[1]", "5", '{"done": 1}', '{"done": -1, "record": 0, "index": 0, "bad": []}', "[" * 10**5,
     '{"done": 1, "record": "a", "index": 0, "bad": []}'],
)  # fmt: skip
def test_a_damaged_journal_is_not_continued(
    images: Path, prefix: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rec = prefix.with_suffix(".rec")
    assert run(prefix, images) == 0
    whole = rec.read_bytes()
    with interrupted(monkeypatch, "finish"):
        assert run(prefix, images) == 130
    journal = Path(f"{rec}.journal")
    key = journal.read_text().splitlines()[0]
    for content in (f"{key}\n{line}\n", line):
        journal.write_text(content)
        assert run(prefix, images) == 0
        assert rec.read_bytes() == whole
        Path(f"{rec}.partial").write_bytes(b"")
        rec.with_suffix(".idx.partial").write_bytes(b"")


def test_lines_with_numbers_that_no_header_has_are_left_out(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "a.lst"
    bad = ["-1\t0\ta", f"{2**64}\t0\tb", "1\t1e300\tc", f"{'9' * 5000}\t1\td"]
    path.write_text("\n".join([*bad, "2\tnan\te", f"{2**64 - 1}\t1\tf"]))
    assert [item.path for item in im2rec.read_list(str(path))] == ["e", "f"]
    assert capsys.readouterr().out.count("Parsing lst met error") == 4


def test_other_options_begin_anew(images: Path, prefix: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(im2rec, "_CHUNK", 2)
    with interrupted(monkeypatch, "commit"):
        assert run("--resize", 40, prefix, images) == 130
    assert run("--resize", 30, prefix, images) == 0
    sizes = [mx._core.image_info(image) for _, image in records(images.parent / "x.rec")]
    assert {min(h, w) for h, w, _ in sizes} == {30} and len(sizes) == 10


def test_wrong_calls(images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = images.parent / "x"
    assert run(prefix, images) == 1
    assert "Did not find and list file with prefix" in capsys.readouterr().out
    for options in (["--num-thread", 0], ["--quality", 101], ["--encoding", ".gif"]):
        with pytest.raises(SystemExit):
            run(*options, prefix, images)
    assert run("--list", prefix, images / "nowhere") == 1
    assert "nowhere" in capsys.readouterr().err


def test_nothing_to_pack_is_said(images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = images.parent / "x"
    for recursive in ([], ["--recursive"]):
        assert run("--list", *recursive, prefix, images / "nowhere") == 1
        assert "there is no folder" in capsys.readouterr().err
        assert not prefix.with_suffix(".lst").exists()
    assert run("--list", prefix, images) == 0
    assert "there are no images in" in capsys.readouterr().err
    assert run(prefix, images) == 0
    assert "names no images, its record file is empty" in capsys.readouterr().err


def test_the_last_line_counts_all_images(images: Path, prefix: Path, capsys: Any) -> None:
    assert run(prefix, images) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("count: 10")


def test_an_index_is_made_again(images: Path, prefix: Path, capsys: Any) -> None:
    rec = prefix.with_suffix(".rec")
    run(prefix, images)
    expected = rec.with_suffix(".idx").read_text()
    new = images.parent / "new.idx"
    capsys.readouterr()
    assert rec2idx.main([str(rec), str(new)]) == 0
    assert new.read_text() == expected
    assert " count: 0" in capsys.readouterr().out
    raw = bytearray(rec.read_bytes())
    offset = int(expected.splitlines()[4].split("\t")[1])
    raw[offset + 4] ^= 0xFF
    rec.write_bytes(raw)
    assert rec2idx.main([str(rec), str(new)]) == 1
    assert len(new.read_text().splitlines()) == 9
    assert f"record 4 at offset {offset}" in capsys.readouterr().err
    assert rec2idx.main(["nowhere.rec", str(new)]) == 1


def test_recinfo_counts_and_finds_damage(images: Path, prefix: Path, capsys: Any) -> None:
    rec = prefix.with_suffix(".rec")
    run("--pass-through", prefix, images)
    capsys.readouterr()
    assert recinfo.main([str(rec), "--json", "--decode", "--num-thread", "2"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert info["records"] == 10 and info["bad"] == [] and info["file_bytes"] == rec.stat().st_size
    assert info["labels"] == {"classes": 3, "counts": {"0": 4, "1": 3, "2": 3}}
    assert info["images"] == {"JPEG, 3 channels": 9, "PNG, 3 channels": 1}
    assert (info["width"]["min"], info["width"]["max"]) == (90, 90)
    offsets = [int(x.split("\t")[1]) for x in rec.with_suffix(".idx").read_text().splitlines()]
    raw = bytearray(rec.read_bytes())
    raw[offsets[2]] ^= 1  # the magic number
    raw[offsets[5] + 8 + 24] = 0  # the first byte of the image
    raw[offsets[8] + 8] = 77  # number of labels
    rec.write_bytes(raw)
    assert recinfo.main([str(rec)]) == 1
    text = capsys.readouterr().out
    assert "records: 7 good, 3 bad" in text
    for number in (2, 5, 8):
        assert f"record {number} at offset {offsets[number]}" in text
    assert recinfo.main(["nowhere.rec"]) == 1
