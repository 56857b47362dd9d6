"""Files that need much time or memory, are truncated while they are read, or have odd names."""

from __future__ import annotations

import base64
import os
import struct
import zlib
from pathlib import Path
from typing import Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite.base import RecordError
from numpy.testing import assert_raises_regex
from processes import run_python
from record_files import write_records

# A progressive gray image of 64 x 64 pixels in six scans.
PROGRESSIVE = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIs"
    "IxwcKDcpLDAxNDQ0Hyc5PTgyPC4zNDL/wgALCABAAEABAREA/8QAFgABAQEAAAAAAAAAAAAAAAAABQYH/9oACAEB"
    "AAAAAYtxxwuLccztxxwuLccztxxwuLccztxxwuLccztxxwuLccztxxwuLccztxxwuLccztxxwuLcc//EABcQAQEB"
    "AQAAAAAAAAAAAAAAAAADBTX/2gAIAQEAAQUCkkkk3ufJJJJJJJvc+SSSSSSTe58kkkkkkm9z5JJJJJJN7nySSSSS"
    "Sb3Pkkkkkkk3ufJJJJJJJvc+SST/xAAZEAACAwEAAAAAAAAAAAAAAAABAzBzsSD/2gAIAQEABj8C4XaMMC7RhgXa"
    "MMC7RhgXaMMC7RhgXaMMC7Rh4//EABYQAQEBAAAAAAAAAAAAAAAAAEEAEP/aAAgBAQABPyEQhDMAhCEIQzAIQhCE"
    "MwCEIQhDMAhCEIQzAIQhCEMwCEIQhDMAhCEIQzAIQv/aAAgBAQAAABA5OTk5OTk5Of/EABQQAQAAAAAAAAAAAAAA"
    "AAAAAGD/2gAIAQEAAT8QAVTuqqd1VTuqqd1VTuqqd1VTuqqd1f/Z"
)


def chunk(kind: bytes, content: bytes) -> bytes:
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def png(width: int, height: int, rows: bytes) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_images_of_too_many_pixels_are_refused_by_their_header() -> None:
    with pytest.raises(RecordError, match="1 to 89478485 pixels .*, got 10000 x 10000"):
        mx.image.imdecode(png(10_000, 10_000, b""))
    jpeg = bytearray(PROGRESSIVE)
    at = jpeg.index(b"\xff\xc2") + 5
    jpeg[at : at + 4] = struct.pack(">HH", 60_000, 60_000)
    assert_raises_regex(RecordError, "pixels .*, got 60000 x 60000", mx.image.imdecode, bytes(jpeg))


def test_the_limit_of_pixels_is_a_variable(tmp_path: Path) -> None:
    path = tmp_path / "small.png"
    path.write_bytes(png(16, 16, bytes(17 * 16)))
    program = f"import mxlite as mx; print(mx.image.imread({str(path)!r}).shape)"

    taken = run_python("-c", program, environment={"MXLITE_MAX_IMAGE_PIXELS": "256"})
    assert taken.stdout.strip() == "(16, 16, 3)"
    refused = run_python("-c", program, environment={"MXLITE_MAX_IMAGE_PIXELS": "255"}, status=1)
    assert "1 to 255 pixels (MXLITE_MAX_IMAGE_PIXELS), got 16 x 16" in refused.stderr


def test_a_progressive_image_of_very_many_scans_is_refused() -> None:
    assert mx.image.imdecode(PROGRESSIVE).shape == (64, 64, 3)
    last = PROGRESSIVE.rindex(b"\xff\xda")
    scan = PROGRESSIVE[last:-2]
    few = PROGRESSIVE[:-2] + scan * 20 + PROGRESSIVE[-2:]
    assert mx.image.imdecode(few).shape == (64, 64, 3)
    with pytest.raises(RecordError, match="more than 100 scans"):
        mx.image.imdecode(PROGRESSIVE[:-2] + scan * 5000 + PROGRESSIVE[-2:])


def test_a_record_file_that_is_truncated_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = write_records(tmp_path, [bytes(100_000 - 24)] * 64)
    reader = mx.recordio.MXRecordIO(path, "r")
    assert len(reader.read()) == 100_000
    os.truncate(path, 150_000)
    with pytest.raises(RecordError, match=r"a\.rec.*(truncated|beyond the end)"):
        for _ in range(64):
            assert reader.read() is not None


def test_an_image_iterator_over_a_truncated_file_raises(tmp_path: Path) -> None:
    image = np.random.RandomState(0).randint(0, 255, (64, 64, 3)).astype(np.uint8)
    path = write_records(tmp_path, [image] * 200, png=True)
    options = {"batch_size": 4, "prefetch_buffer": 1}
    batches = mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 32, 32), **options)
    next(batches)
    os.truncate(path, os.path.getsize(path) // 10)
    assert_raises_regex(RecordError, r"a\.rec.*(truncated|beyond the end)", list, batches)


@pytest.mark.parametrize("kind", ["csv", "libsvm"])
def test_a_text_file_that_is_truncated_while_it_is_read_is_an_error(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "rows"
    path.write_text(("1,2,3\n" if kind == "csv" else "1 0:1 2:3\n") * 500_000)
    make, name = {"csv": (mx.io.CSVIter, "data_csv")}.get(kind, (mx.io.LibSVMIter, "data_libsvm"))
    rows = make(**{name: str(path)}, data_shape=(3,), batch_size=64)
    next(rows)
    os.truncate(path, 1000)
    assert_raises_regex(RecordError, "truncated while it was read", list, rows)


def test_the_line_of_an_error_is_counted_across_blocks(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("1,2,3\n" * 200_000 + "1,x,3\n")
    rows = mx.io.CSVIter(data_csv=str(path), data_shape=(3,), batch_size=1000)
    assert_raises_regex(RecordError, "line 200001: '1,x,3'", list, rows)


def test_lines_longer_than_a_block_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    values = np.arange(200_000)
    text = ",".join(map(str, values))
    path.write_text(f"{text}\n{text}")
    rows = mx.io.CSVIter(data_csv=str(path), data_shape=(200_000,), batch_size=2, dtype="int32")
    np.testing.assert_array_equal(next(rows).data[0].asnumpy(), np.stack([values, values]))


def test_records_with_gaps_between_their_bytes():
    """The decoder reads memory as it lies: nothing beside the array may be taken for an image."""
    header = mx.recordio.IRHeader(0, 1.0, 1, 0)
    record = mx.recordio.pack_img(header, np.zeros((4, 4, 3), np.uint8), img_fmt=".png")
    plain = np.frombuffer(record, np.uint8)
    for bad in (plain[::-1].copy()[::-1], np.repeat(plain, 2)[::2]):
        for given in (bad, memoryview(bad)):
            assert mx.recordio.unpack_img(given)[1].shape == (4, 4, 3)
        for read in (mx._core.image_info, mx._core.decode_image):
            assert_raises_regex(TypeError, "must be contiguous bytes", read, bad)


READERS: dict[str, Callable[[str], object]] = {
    "MXRecordIO": lambda path: mx.recordio.MXRecordIO(path, "r").read(),
    "CSVIter": lambda path: mx.io.CSVIter(data_csv=path, data_shape=(1,)),
    "LibSVMIter": lambda path: mx.io.LibSVMIter(path, data_shape=(1,)),
    "ImageRecordIter": lambda path: mx.io.ImageRecordIter(
        path_imgrec=path, data_shape=(3, 4, 4), batch_size=1
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_name_is_not_cut_at_a_zero_byte(reader: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    with pytest.raises((RecordError, FileNotFoundError)):
        READERS[reader](f"{tmp_path}/a\0.rec")


def test_a_record_file_is_not_written_under_a_cut_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"precious")
    with pytest.raises(RecordError, match="its name holds a zero byte"):
        mx.recordio.MXRecordIO(f"{tmp_path}/a\0.rec", "w")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"precious"]


# Runs in a process of its own: a reader that waits for the pipe holds up every thread.
PIPE = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/../unit"]
import test_hostile_images as files
try:
    files.READERS[sys.argv[2]](sys.argv[3])
except files.RecordError as error:
    print(error)
"""


@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_is_refused_and_not_waited_for(reader: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = run_python("-c", PIPE, Path(__file__).parent, reader, tmp_path / "pipe", timeout=60)
    assert "is not a regular file" in done.stdout


@pytest.mark.skipif(os.fsencode("\udcff") != b"\xff", reason="needs names of any bytes")
def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    """``os.listdir`` gives such names with surrogates."""
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xe9")
    os.mkdir(folder)
    record = write_records(Path(folder), [np.zeros((4, 4, 3), np.uint8)], [3.0], png=True)
    index = f"{folder}/a.idx"
    assert mx.recordio.MXIndexedRecordIO(index, record, "r").read_idx(0)
    options = {"path_imgrec": record, "path_imgidx": index, "data_shape": (3, 4, 4)}
    images = mx.io.ImageRecordIter(batch_size=1, **options)
    assert images.next().label[0].asscalar() == 3
    with open(f"{folder}/a.csv", "w") as file:
        file.write("5\n")
    assert mx.io.CSVIter(data_csv=f"{folder}/a.csv", data_shape=(1,)).next().data[0].asscalar() == 5
    assert mx.io.LibSVMIter(f"{folder}/a.csv", data_shape=(1,)).next().label[0].asscalar() == 5
    assert len(mx.gluon.data.RecordFileDataset(record)) == 1
    with pytest.raises(RecordError, match="cannot be opened"):
        mx.io.CSVIter(data_csv=f"{folder}/missing.csv", data_shape=(1,))
