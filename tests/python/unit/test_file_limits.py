"""Files that are made to need much memory, or change while they are read."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite._files.packed import read_idx
from mxlite.base import FileFormatError, MXNetError, RecordError

SOME = 32 << 20


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lower the limit, and see that no test needs more than twice as much."""
    monkeypatch.setattr("mxlite._files.packed._FREE_BYTES", SOME)
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * SOME, peak


def member(shape: str, size: int, code: str = "<f4") -> bytes:
    text = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(size)


def archive(*members: bytes, kind: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", kind) as packed:
        for number, content in enumerate(members):
            packed.writestr(f"a{number}.npy", content)
    return stream.getvalue()


def test_npz_files_are_read_as_numpy_reads_them() -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3).T, "b": np.array([True, False]), "c": np.int8(3)}
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, **arrays)
        read = mx.nd.load_frombuffer(stream.getvalue())
        assert list(read) == list(arrays)
        for name, array in arrays.items():
            assert read[name].dtype == array.dtype
            np.testing.assert_array_equal(read[name].asnumpy(), array)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (archive(member("(1099511627776,)", 8)), "4398046511104 bytes of shape"),
        (archive(member("(2,)", 4)), "8 bytes of shape .* expected, 4 are left"),
        (archive(member("(-1,)", 4)), r"its shape is \(-1,\)"),
        (archive(member("(1,)", 8, "|O")), "of type .O"),
        (archive(member("(" * 3000, 8)), "damaged npz"),
        (archive(b"\x93NUMPY\x02\x00\xff\xff\xff\xff"), "a header of 4294967295 bytes"),
        (archive(b"text"), "offset 0"),
        (archive(member("(2,)", 8))[:-30], "damaged npz"),
        (archive(member("(2,)", 8), kind=zipfile.ZIP_BZIP2), "compressed by method 12, expected"),
        (archive(member("(2,)", 8), kind=zipfile.ZIP_LZMA), "compressed by method 14, expected"),
    ],
)
def test_npz_headers_are_compared_with_what_is_there(content: bytes, words: str) -> None:
    with pytest.raises(FileFormatError, match=words):
        mx.nd.load_frombuffer(content)


def test_packed_files_unpack_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = member("(16777216,)", 64 << 20)
    small = archive(zeros, kind=zipfile.ZIP_DEFLATED)
    tracemalloc.reset_peak()
    del zeros
    tracemalloc.clear_traces()
    with pytest.raises(FileFormatError, match="MXLITE_MAX_UNPACK_RATIO"):
        mx.nd.load_frombuffer(small)
    path = tmp_path / "images.gz"
    with gzip.open(path, "wb", 1) as stream:
        stream.write(bytes([0, 0, 8, 3]) + struct.pack(">3I", 64, 1024, 1024))
        for _ in range(64):
            stream.write(bytes(1 << 20))
    with pytest.raises(RecordError, match="MXLITE_MAX_UNPACK_RATIO"):
        read_idx(str(path), 3, "test", RecordError)
    monkeypatch.setenv("MXLITE_MAX_UNPACK_RATIO", "many")
    with pytest.raises(ValueError, match="MXLITE_MAX_UNPACK_RATIO='many'"):
        read_idx(str(path), 3, "test", RecordError)


@pytest.mark.parametrize("content", [b"\x1f\x8b", b"\x1f\x8b\x08" + bytes(40), b"", bytes(16)])
def test_damaged_idx_files_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=r"MNISTIter: file .*file"):
        mx.io.MNISTIter(image=str(path), label=str(path))


def test_an_array_of_an_impossible_shape_is_refused() -> None:
    # Without elements, but NumPy multiplies the other extents.
    blob = struct.pack("<QQQIiI4qiiiQ", 0x112, 0, 1, 0xF993FACA, 0, 4, 0, *[2**40] * 3, 1, 0, 0, 0)
    with pytest.raises(FileFormatError, match="impossible shape"):
        mx.nd.load_frombuffer(blob)


def test_bools_of_files_are_zeros_and_ones() -> None:
    from mxlite.ndarray.serialization import save_tobuffer

    blob = bytearray(save_tobuffer([mx.nd.array([1, 0], dtype="bool")]))
    at = blob.rindex(b"\x01\x00" + bytes(8))
    blob[at] = 7
    (array,) = mx.nd.load_frombuffer(bytes(blob))
    assert array.asnumpy().view(np.uint8).tolist() == [1, 0]


def test_a_file_that_is_truncated_while_it_is_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mxlite.ndarray import serialization

    path = tmp_path / "a.params"
    mx.nd.save(str(path), {"a": mx.nd.ones((1000,)), "b": mx.nd.ones((1000,))})
    take = serialization._Reader.take

    def cut(reader: Any, layout: str, what: str) -> Any:
        if what == "header":
            os.truncate(path, 200)
        return take(reader, layout, what)

    monkeypatch.setattr(serialization._Reader, "take", cut)
    with pytest.raises(FileFormatError, match="truncated while it was read"):
        mx.nd.load(str(path))


def test_text_that_is_no_text_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "records.idx"
    path.write_bytes(b"0\t0\n\xff\xff\t4\n")
    (tmp_path / "records.rec").write_bytes(b"")
    with pytest.raises(RecordError, match=r"index file .*line 2: .*key<tab>offset expected"):
        mx.recordio.MXIndexedRecordIO(str(path), str(tmp_path / "records.rec"), "r")
    vectors = tmp_path / "vectors.txt"
    vectors.write_bytes(b"a 1 2\nb\xff 1 2\n")
    with pytest.raises(MXNetError, match="text in utf-8 expected"):
        mx.contrib.text.embedding.CustomEmbedding(str(vectors))
