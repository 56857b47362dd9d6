"""Record files: bytes of 1.9.1, damage, forks, pickles."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite import recordio
from numpy.testing import assert_raises_regex
from skimage import data as pictures

MAGIC = struct.pack("<I", 0xCED7230A)
RECORDS = [b"", b"a", b"abcd", b"wxyz" + MAGIC + b"tail!", MAGIC * 3, b"x" + MAGIC + b"y" * 70]


def written(path: Path, records: list[bytes]) -> bytes:
    with recordio.MXRecordIO(path, "w") as file:
        for record in records:
            file.write(record)
    return path.read_bytes()


def read_all(path: Path) -> tuple[list[bytes], list[str]]:
    found, errors = [], []
    file = recordio.MXRecordIO(path, "r")
    while True:
        try:
            record = file.read()
        except mx.base.RecordError as error:
            errors.append(str(error))
            continue
        if record is None:
            return found, errors
        found.append(record)


def test_bytes_are_those_of_1_9_1(tmp_path: Path) -> None:
    assert written(tmp_path / "a.rec", [b"wxyz" + MAGIC + b"tail!", b""]).hex(" ", 4) == (
        "0a23d7ce 04000020 7778797a 0a23d7ce 05000060 7461696c 21000000 0a23d7ce 00000000"
    )
    whole = written(tmp_path / "b.rec", [MAGIC * 3])
    words = "0a23d7ce 00000020 0a23d7ce 00000040 0a23d7ce 00000040 0a23d7ce 00000060"
    assert whole.hex(" ", 4) == words


def test_records_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    written(path, RECORDS)
    assert read_all(path) == (RECORDS, [])


def test_reset_begins_again_and_a_new_writer_empties(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    written(path, RECORDS)
    file = recordio.MXRecordIO(path, "r")
    assert [file.read(), file.read()] == RECORDS[:2]
    file.reset()
    assert file.read() == RECORDS[0]
    written(path, [b"new"])
    assert file.read() == RECORDS[1]  # the old file, as long as it is open
    assert read_all(path) == ([b"new"], [])


def test_reader_sees_what_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    raw = written(path, [b"one"])
    file = recordio.MXRecordIO(path, "r")
    assert file.read() == b"one" and file.read() is None
    with path.open("ab") as more:
        more.write(raw.replace(b"one", b"two"))
    assert file.read() == b"two" and file.read() is None


def damaged(raw: bytes, offset: int, new: bytes) -> bytes:
    return raw[:offset] + new + raw[offset + len(new) :]


@pytest.mark.parametrize(
    ("offset", "new", "text"),
    [
        (16, b"\0", "record 1 at offset 16: no record begins here"),
        (20, b"\x10", "record 1 at offset 16: its length of 16 bytes reaches into the next"),
        (20, b"\xff\xff\xff\x1f", "length of 536870911 bytes reaches beyond the end of the file"),
        (23, b"\xc0", "record 1 at offset 16: no record begins here"),
        (23, b"\x60", "record 1 at offset 16: the middle of a divided record"),
        (23, b"\x20", "record 1 at offset 16: a new record begins before its last part"),
    ],
)
def test_damage_costs_one_record(tmp_path: Path, offset: int, new: bytes, text: str) -> None:
    path = tmp_path / "a.rec"
    records = [b"record-0", b"record-1", b"record-2", b"record-3"]
    path.write_bytes(damaged(written(path, records), offset, new))
    found, errors = read_all(path)
    assert found == [records[0], records[2], records[3]]
    assert len(errors) == 1 and text in errors[0] and "a.rec" in errors[0]


@pytest.mark.parametrize("cut", range(1, 20))
def test_truncated_file_keeps_whole_records(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.rec"
    raw = written(path, [b"record-0", b"record-1", b"record-2xx"])
    path.write_bytes(raw[:-cut])
    found, errors = read_all(path)
    whole = 3 if cut <= 2 else 2  # only padding is missing, which loses nothing
    assert len(found) == whole
    assert len(errors) == 3 - whole


def test_many_damages_lose_only_themselves(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    rng = np.random.default_rng(3)
    sizes = enumerate(rng.integers(0, 90, 5000))
    records = [struct.pack("<I", i) + rng.bytes(int(n)) for i, n in sizes]
    offsets, raw = [], b""
    raw = bytearray(written(path, records))
    position = 0
    for record in records:
        offsets.append(position)
        position += 8 + (len(record) + 3) // 4 * 4
    bad = set(rng.choice(5000, 50, replace=False).tolist())
    for i in bad:
        raw[offsets[i] + int(rng.integers(0, 4))] ^= 0x11
    path.write_bytes(raw)
    found, errors = read_all(path)
    assert found == [r for i, r in enumerate(records) if i not in bad]
    assert 0 < len(errors) <= len(bad)


def test_not_a_record_file(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    path.write_bytes(b"PNG or anything else")
    with pytest.raises(mx.base.RecordError, match=r"a.rec'.* at offset 0: no record begins here"):
        recordio.MXRecordIO(path, "r").read()
    with pytest.raises(FileNotFoundError, match="there is no file"):
        recordio.MXRecordIO(tmp_path / "none.rec", "r")
    with pytest.raises(mx.base.RecordError, match="cannot be opened: Is a directory"):
        recordio.MXRecordIO(tmp_path, "r")
    assert_raises_regex(
        ValueError, "flag must be 'r' or 'w', got 'a'", recordio.MXRecordIO, path, "a"
    )


def test_full_disk_is_an_error() -> None:
    file = recordio.MXRecordIO("/dev/full", "w")
    file.write(b"x" * 100)
    assert_raises_regex(OSError, "/dev/full.*No space left", file.close)


def test_reading_a_writer_and_a_closed_file(tmp_path: Path) -> None:
    file = recordio.MXRecordIO(tmp_path / "a.rec", "w")
    assert_raises_regex(mx.base.RecordError, "open with flag 'w'", file.read)
    with pytest.raises(TypeError, match="must be bytes"):
        file.write("text")  # type: ignore[arg-type]
    file.close()
    file.close()
    assert_raises_regex(mx.base.RecordError, "is closed", file.write, b"x")


def indexed(folder: Path, count: int = 5) -> tuple[Path, Path]:
    idx, rec = folder / "a.idx", folder / "a.rec"
    with recordio.MXIndexedRecordIO(idx, rec, "w") as file:
        for i in range(count):
            assert isinstance(file, recordio.MXIndexedRecordIO)
            assert file.tell() == 16 * i
            file.write_idx(i * 10, f"record{i}".encode())
    return idx, rec


def test_index(tmp_path: Path) -> None:
    idx, rec = indexed(tmp_path)
    assert idx.read_text() == "0\t0\n10\t16\n20\t32\n30\t48\n40\t64\n"
    file = recordio.MXIndexedRecordIO(idx, rec, "r")
    assert file.keys == [0, 10, 20, 30, 40]
    assert file.idx[20] == 32
    assert [file.read_idx(k) for k in (30, 0, 40)] == [b"record3", b"record0", b"record4"]
    assert file.read() is None
    file.seek(10)
    assert file.read() == b"record1" and file.read() == b"record2"
    with pytest.raises(KeyError, match=r"^MXIndexedRecordIO: key 11 is not among the 5 keys"):
        file.read_idx(11)
    names = recordio.MXIndexedRecordIO(idx, rec, "r", key_type=str)
    assert names.read_idx("20") == b"record2"


def test_bad_index(tmp_path: Path) -> None:
    idx, rec = indexed(tmp_path)
    idx.write_text("0\t0\nten\t16\n")
    with pytest.raises(mx.base.RecordError, match="a.idx', line 2: .*, got 'ten\\\\t16'"):
        recordio.MXIndexedRecordIO(idx, rec, "r")
    idx.write_text("0\t4\n1\t4000\n")
    file = recordio.MXIndexedRecordIO(idx, rec, "r")
    with pytest.raises(mx.base.RecordError, match="record at offset 4: no record begins here"):
        file.read_idx(0)
    with pytest.raises(mx.base.RecordError, match=r"a seek must be in \[0, 80\], got 4000"):
        file.read_idx(1)
    idx.unlink()
    with pytest.raises(FileNotFoundError, match="there is no index file"):
        recordio.MXIndexedRecordIO(idx, rec, "r")


def test_pickled_reader_opens_the_file_itself(tmp_path: Path) -> None:
    idx, rec = indexed(tmp_path)
    file = recordio.MXIndexedRecordIO(idx, rec, "r")
    file.read_idx(20)
    copy = pickle.loads(pickle.dumps(file))
    assert copy.read() == b"record0"
    assert copy.read_idx(40) == b"record4"
    assert file.read() == b"record3"


def test_forked_child(tmp_path: Path) -> None:
    idx, rec = indexed(tmp_path)
    file = recordio.MXIndexedRecordIO(idx, rec, "r")
    plain = recordio.MXRecordIO(rec, "r")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                plain.read()
            except RuntimeError as error:
                refused = "Forbidden operation in multiple processes" in str(error)
                status = 0 if refused and file.read_idx(20) == b"record2" else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert file.read_idx(30) == b"record3"


def test_forked_child_does_not_write_the_parents_buffer(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    file = recordio.MXRecordIO(path, "w")
    file.write(b"once")
    child = os.fork()
    if child == 0:
        file.handle.close()
        os._exit(0)
    os.waitpid(child, 0)
    file.close()
    assert read_all(path) == ([b"once"], [])


@pytest.mark.parametrize("label", [3, 2.5, [1.0, 2.0, 3.0], np.float64(4), np.zeros(0)])
def test_pack_and_unpack(label: object) -> None:
    packed = recordio.pack(recordio.IRHeader(7, label, 2574, 0), b"image")
    header, image = recordio.unpack(packed)
    assert image == b"image" and header.id == 2574 and header.id2 == 0
    count = np.size(label) if np.ndim(label) else 0
    assert header.flag == count
    if count or np.ndim(label) == 0:
        np.testing.assert_array_equal(header.label, np.float32(label))
    assert len(packed) == 24 + 4 * count + 5


def test_packed_bytes() -> None:
    header = recordio.IRHeader(0, 4, 2574, 0)
    assert repr(header) == "HEADER(flag=0, label=4, id=2574, id2=0)"
    assert recordio.pack(header, b"!").hex() == "00000000000080400e0a000000000000000000000000000021"
    with pytest.raises(mx.base.RecordError, match="at least 24 bytes for its header, got 23"):
        recordio.unpack(b"x" * 23)
    with pytest.raises(mx.base.RecordError, match="with 9 labels must have at least 60 bytes"):
        recordio.unpack(struct.pack("IfQQ", 9, 0, 0, 0))
    assert_raises_regex(
        ValueError, "got 4, -1 and 0", recordio.pack, recordio.IRHeader(0, 4, -1, 0), b""
    )
    with pytest.raises(mx.MXNetError, match=r"got \['a'\], 1 and 0: could not convert"):
        recordio.pack(recordio.IRHeader(0, ["a"], 1, 0), b"")


def test_images() -> None:
    photo = np.ascontiguousarray(pictures.astronaut()[:200, :310, ::-1])
    header, image = recordio.unpack_img(recordio.pack_img((0, 1, 2, 0), photo, quality=95))
    assert (header.label, header.id) == (1, 2) and image.shape == photo.shape
    assert np.abs(image.astype(int) - photo).mean() < 2
    gray = recordio.pack_img((0, 1, 2, 0), photo[:, :, 0])
    assert recordio.unpack_img(gray)[1].shape == (200, 310)
    assert recordio.unpack_img(gray, iscolor=1)[1].shape == (200, 310, 3)
    assert len(recordio.pack_img((0, 1, 2, 0), photo, quality=30)) < len(gray)
    with pytest.raises(TypeError, match="must be of dtype uint8, got float64"):
        recordio.pack_img((0, 1, 2, 0), photo / 255)
    with pytest.raises(ValueError, match="quality must be in .*, got 0"):
        recordio.pack_img((0, 1, 2, 0), photo, quality=0)
    with pytest.raises(ValueError, match="and 5 channels"):
        recordio.pack_img((0, 1, 2, 0), np.zeros((3, 3, 5), np.uint8))
    with pytest.raises(mx.base.RecordError, match="must be a readable JPEG image"):
        recordio.unpack_img(recordio.pack((0, 1, 2, 0), b"no image"))
