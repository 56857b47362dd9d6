"""Files that are made to need much memory, or change while they are read."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import struct
import threading
import time
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
        (archive(member("(2,)", 4)), "8 bytes of shape .* must follow, got 4"),
        (archive(member("(-1,)", 4)), r"a tuple of sizes, got \(-1,\)"),
        (archive(member("(1,)", 8, "|O")), "of type .O"),
        (archive(member("(" * 3000, 8)), "damaged npz"),
        (archive(b"\x93NUMPY\x02\x00\xff\xff\xff\xff"), "header must have .*got 4294967295"),
        (archive(b"text"), "offset 0"),
        (archive(member("(2,)", 8))[:-30], "damaged npz"),
        (archive(member("(2,)", 8), kind=zipfile.ZIP_BZIP2), "compression method must be .*got 12"),
        (archive(member("(2,)", 8), kind=zipfile.ZIP_LZMA), "compression method must be .*got 14"),
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
    with pytest.raises(ValueError, match="MXLITE_MAX_UNPACK_RATIO must be .*got 'many'"):
        read_idx(str(path), 3, "test", RecordError)


@pytest.mark.parametrize("content", [b"\x1f\x8b", b"\x1f\x8b\x08" + bytes(40), b"", bytes(16)])
def test_damaged_idx_files_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=r"MNISTIter: file .*file"):
        mx.io.MNISTIter(image=str(path), label=str(path))


def test_impossible_shapes_are_refused(tmp_path: Path) -> None:
    # Without elements, but NumPy multiplies the other extents.
    blob = struct.pack("<QQQIiI4qiiiQ", 0x112, 0, 1, 0xF993FACA, 0, 4, 0, *[2**40] * 3, 1, 0, 0, 0)
    with pytest.raises(FileFormatError, match="impossible shape"):
        mx.nd.load_frombuffer(blob)
    path = tmp_path / "images"
    path.write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", 0, 2**32 - 1, 2**32 - 1))
    with pytest.raises(RecordError, match=r"images', offset 4: the shape \(0, 4294967295"):
        read_idx(str(path), 3, "MNISTIter", RecordError)
    path.write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", 0, 28, 28))
    assert read_idx(str(path), 3, "MNISTIter", RecordError).shape == (0, 28, 28)


def test_bools_of_files_are_zeros_and_ones() -> None:
    from mxlite.ndarray.serialization import save_tobuffer

    blob = bytearray(save_tobuffer([mx.nd.array([1, 0], dtype="bool")]))
    at = blob.rindex(b"\x01\x00" + bytes(8))
    blob[at] = 7
    (array,) = mx.nd.load_frombuffer(bytes(blob))
    assert array.asnumpy().view(np.uint8).tolist() == [1, 0]


def test_a_file_that_is_truncated_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.params"
    mx.nd.save(str(path), {"a": mx.nd.ones((1000,)), "b": mx.nd.ones((1000,))})
    size = path.stat().st_size
    with open(path, "rb") as stream:
        os.truncate(path, 200)
        with pytest.raises(FileFormatError, match="truncated while it was read"):
            mx._core.load_descriptor(stream.fileno(), size, "file")


def test_text_that_is_no_text_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "records.idx"
    path.write_bytes(b"0\t0\n\xff\xff\t4\n")
    (tmp_path / "records.rec").write_bytes(b"")
    with pytest.raises(RecordError, match=r"index file .*line 2: a line must be key<tab>offset"):
        mx.recordio.MXIndexedRecordIO(str(path), str(tmp_path / "records.rec"), "r")
    vectors = tmp_path / "vectors.txt"
    vectors.write_bytes(b"a 1 2\nb\xff 1 2\n")
    with pytest.raises(MXNetError, match="text must be in utf-8"):
        mx.contrib.text.embedding.CustomEmbedding(str(vectors))


def _readers(path: str, record: str) -> dict[str, Any]:
    """Return calls that read a file, by name."""
    from mxlite.tools import im2rec, trace

    shape = (3, 2, 2)
    net = mx.gluon.nn.Dense(2, in_units=2)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam")
    vision = mx.gluon.data.vision
    return {
        "params": lambda: mx.nd.load(path),
        "symbol": lambda: mx.sym.load(path),
        "block": lambda: mx.gluon.SymbolBlock.imports(path, ["data"]),
        "parameters": lambda: net.load_parameters(path),
        "trainer": lambda: trainer.load_states(path),
        "initializer": lambda: mx.init.Load(path),
        "record": lambda: mx.recordio.MXRecordIO(path, "r").read(),
        "index": lambda: mx.recordio.MXIndexedRecordIO(path, record, "r"),
        "csv": lambda: mx.io.CSVIter(data_csv=path, data_shape=(2,), batch_size=1).next(),
        "libsvm": lambda: mx.io.LibSVMIter(path, (2,), batch_size=1).next(),
        "mnist": lambda: mx.io.MNISTIter(image=path, label=path, batch_size=1),
        "images": lambda: mx.io.ImageRecordIter(path_imgrec=path, data_shape=shape, batch_size=1),
        "image index": lambda: mx.io.ImageRecordIter(
            path_imgrec=record, path_imgidx=path, data_shape=shape, batch_size=1
        ),
        "image list": lambda: mx.io.ImageRecordIter(
            path_imgrec=record, path_imglist=path, data_shape=shape, batch_size=1
        ),
        "ImageIter": lambda: mx.image.ImageIter(1, shape, path_imglist=path, path_root="/"),
        "imread": lambda: mx.image.imread(path),
        "ImageListDataset": lambda: vision.ImageListDataset("/", path),
        "RecordFileDataset": lambda: mx.gluon.data.RecordFileDataset(path),
        "im2rec": lambda: im2rec.read_list(path),
        "trace": lambda: trace.read_trace(path),
        "sha1": lambda: mx.gluon.utils.check_sha1(path, "0"),
    }


READERS = list(_readers("", ""))


@pytest.fixture
def record(tmp_path: Path) -> str:
    path = str(tmp_path / "a.rec")
    writer = mx.recordio.MXRecordIO(path, "w")
    writer.write(b"abc")
    writer.close()
    return path


@pytest.mark.parametrize("reader", READERS)
def test_devices_are_refused(reader: str, record: str) -> None:
    with pytest.raises((OSError, MXNetError), match="/dev/zero"):
        _readers("/dev/zero", record)[reader]()


@pytest.mark.parametrize("reader", [name for name in READERS if name != "sha1"])
def test_endless_pipes_are_read_up_to_the_limit(
    reader: str, record: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MXLITE_MAX_FILE_MB", "2")
    path = str(tmp_path / "pipe")
    os.mkfifo(path)

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), open(path, "wb", buffering=0) as pipe:
            while True:
                pipe.write(bytes(1 << 16))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        with pytest.raises((OSError, MXNetError), match="pipe"):
            _readers(path, record)[reader]()
    finally:
        # Readers that refuse pipes unread leave the writer waiting for one.
        end = time.monotonic() + 30
        while writer.is_alive() and time.monotonic() < end:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            writer.join(0.1)
    assert not writer.is_alive()


def test_pipes_are_read_as_files(tmp_path: Path) -> None:
    source, pipe = tmp_path / "a.params", tmp_path / "pipe"
    mx.nd.save(str(source), {"a": mx.nd.arange(100000)})
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(source.read_bytes()), daemon=True)
    writer.start()
    np.testing.assert_array_equal(mx.nd.load(str(pipe))["a"].asnumpy(), np.arange(100000))
    writer.join(10)


def test_texts_above_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.json"
    path.write_bytes(b" " * (2 << 20) + b"{}")
    with pytest.raises(MXNetError, match="has no list .nodes."):
        mx.sym.load(str(path))
    monkeypatch.setenv("MXLITE_MAX_FILE_MB", "1")
    with pytest.raises(OSError, match=r"more than 1 MiB.*MXLITE_MAX_FILE_MB.*large\.json"):
        mx.sym.load(str(path))
    monkeypatch.setenv("MXLITE_MAX_FILE_MB", "many")
    with pytest.raises(ValueError, match="MXLITE_MAX_FILE_MB must be .*got 'many'"):
        mx.sym.load(str(path))
