"""Files at addresses: all readers, failures of servers, and which bytes are requested."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import recordio
from mxlite._files import remote
from mxlite.gluon import nn
from processes import run_program
from record_files import write_records

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")
sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "io"))
from range_server import RangeServer

COUNT = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one file for each reader."""
    made = tmp_path_factory.mktemp("remote")
    random = np.random.RandomState(0)
    pictures = [random.randint(0, 255, (16, 16, 3), dtype=np.uint8) for _ in range(COUNT)]
    write_records(made, pictures)
    (made / "boxes").mkdir()
    labels = [[2, 5, i % 3, 0.1, 0.1, 0.6, 0.7] for i in range(COUNT)]
    write_records(made / "boxes", pictures, labels)
    net = nn.Dense(3, in_units=4)
    net.initialize()
    net.save_parameters(str(made / "dense.params"))
    mx.nd.save(str(made / "list.params"), [mx.nd.arange(1000), mx.nd.ones((2, 3))])
    np.savez(made / "arrays.npz", a=np.arange(5, dtype=np.float32))
    mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3).save(str(made / "net-symbol.json"))
    (made / "rows.csv").write_text("".join(f"{i},{i + 1}\n" for i in range(COUNT)))
    (made / "image.jpg").write_bytes(
        recordio.unpack(recordio.pack_img((0, 0.0, 0, 0), pictures[0]))[1]
    )
    return made


@pytest.fixture
def server(folder: Path) -> Iterator[RangeServer]:
    with RangeServer(folder) as made:
        threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten pauses and timeouts."""
    monkeypatch.setattr(remote, "_PAUSE", 0.01)
    monkeypatch.setattr(remote, "_TIMEOUT", 1)


def all_records(base: str) -> list[Any]:
    with recordio.MXRecordIO(f"{base}/a.rec", "r") as file:
        return list(iter(file.read, None))


def by_key(base: str) -> list[Any]:
    with recordio.MXIndexedRecordIO(f"{base}/a.idx", f"{base}/a.rec", "r") as file:
        return [file.read_idx(key) for key in reversed(file.keys)]


def batches(kind: Callable[..., Any], **options: Any) -> list[Any]:
    found = []
    for batch in kind(batch_size=5, data_shape=(3, 16, 16), verbose=False, **options):
        found += [batch.data[0].asnumpy(), batch.label[0].asnumpy(), batch.index]
    return found


def boxes(base: str) -> list[Any]:
    return batches(mx.io.ImageDetRecordIter, path_imgrec=f"{base}/boxes/a.rec")


def dense(base: str) -> list[Any]:
    net = nn.Dense(3, in_units=4)
    net.load_parameters(f"{base}/dense.params")
    return [net.weight.data().asnumpy(), net.bias.data().asnumpy()]


READERS: dict[str, Callable[[str], Any]] = {
    "MXRecordIO": all_records,
    "MXIndexedRecordIO": by_key,
    "RecordFileDataset": lambda base: list(mx.gluon.data.RecordFileDataset(f"{base}/a.rec")),
    "ImageRecordDataset": lambda base: [
        pixels.asnumpy() for pixels, _ in mx.gluon.data.vision.ImageRecordDataset(f"{base}/a.rec")
    ],
    "ImageRecordIter": lambda base: batches(
        mx.io.ImageRecordIter, path_imgrec=f"{base}/a.rec", shuffle=True, preprocess_threads=3
    ),
    "ImageRecordUInt8Iter": lambda base: batches(
        mx.io.ImageRecordUInt8Iter, path_imgrec=f"{base}/a.rec", path_imgidx=f"{base}/a.idx"
    ),
    "ImageDetRecordIter": boxes,
    "nd.load": lambda base: [array.asnumpy() for array in mx.nd.load(f"{base}/list.params")],
    "nd.load of npz": lambda base: mx.nd.load(f"{base}/arrays.npz")["a"].asnumpy(),
    "load_parameters": dense,
    "sym.load": lambda base: mx.sym.load(f"{base}/net-symbol.json").tojson(),
    "CSVIter": lambda base: [
        batch.data[0].asnumpy()
        for batch in mx.io.CSVIter(data_csv=f"{base}/rows.csv", data_shape=(2,), batch_size=4)
    ],
    "imread": lambda base: mx.image.imread(f"{base}/image.jpg").asnumpy(),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_return_what_they_return_for_local_files(
    name: str, folder: Path, server: RangeServer
) -> None:
    np.testing.assert_equal(READERS[name](server.address), READERS[name](str(folder)))
    assert server.ranges


def test_any_protocol_of_fsspec_is_read(folder: Path) -> None:
    files = fsspec.filesystem("memory")
    for name in ("a.rec", "a.idx"):
        files.pipe_file(f"/any/{name}", (folder / name).read_bytes())
    assert by_key("memory://any") == by_key(str(folder))


@pytest.mark.usefixtures("impatient")
def test_lost_connections_are_repeated(folder: Path, server: RangeServer) -> None:
    server.fault = lambda number: 100 if number < 2 else None
    assert all_records(server.address) == all_records(str(folder))
    assert server.ranges == 3 * [("a.rec", 0, os.path.getsize(folder / "a.rec"))]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("reader", ["MXRecordIO", "ImageRecordIter", "nd.load"])
def test_a_lost_server_is_an_error_that_names_the_range(reader: str, server: RangeServer) -> None:
    server.fault = lambda number: 10
    with pytest.raises(mx.base.FileAccessError, match=r"http://.*bytes 0 to \d+.*\(4 attempts\)"):
        READERS[reader](server.address)
    assert len(server.ranges) == 4


@pytest.mark.usefixtures("impatient")
def test_reading_continues_after_a_failure(folder: Path, server: RangeServer) -> None:
    file = recordio.MXRecordIO(f"{server.address}/a.rec", "r")
    server.fault = lambda number: 10
    with pytest.raises(mx.base.FileAccessError):
        file.read()
    server.fault = None
    assert list(iter(file.read, None)) == all_records(str(folder))


@pytest.mark.usefixtures("impatient")
def test_lost_connections_are_no_bad_records(server: RangeServer) -> None:
    batches = mx.io.ImageRecordIter(
        path_imgrec=f"{server.address}/a.rec",
        path_imgidx=f"{server.address}/a.idx",
        batch_size=5,
        data_shape=(3, 16, 16),
        on_error="skip",
    )
    list(batches)
    server.fault = lambda number: 10
    with remote._shared.lock:
        remote._shared.blocks.clear()
    batches.reset()
    with pytest.raises(mx.base.FileAccessError, match="4 attempts"):
        list(batches)
    assert batches.skipped == 0


@pytest.mark.usefixtures("impatient")
def test_slow_answers_time_out(server: RangeServer) -> None:
    server.fault = lambda number: time.sleep(3)
    begin = time.monotonic()
    with pytest.raises(OSError, match=r"bytes 0 to .*no answer within 1 s"):
        all_records(server.address)
    assert time.monotonic() - begin < 8


def test_changed_files_are_refused(tmp_path: Path, server: RangeServer) -> None:
    server.folder = tmp_path
    path = tmp_path / "x.params"
    mx.nd.save(str(path), [mx.nd.arange(3 << 20)])
    changed = tmp_path / "changed"
    changed.write_bytes(path.read_bytes()[:-1] + b"x")

    def change(number: int) -> None:
        if number == 1:
            changed.replace(path)

    server.fault = change
    with pytest.raises(mx.base.FileAccessError, match="has changed since it was opened: ETag"):
        mx.nd.load(f"{server.address}/x.params")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"no file 'http://.*x\.params'"):
        mx.nd.load(f"{server.address}/x.params")


def test_servers_without_ranges_are_refused(tmp_path: Path, server: RangeServer) -> None:
    server.folder = tmp_path
    server.with_ranges = False
    mx.nd.save(str(tmp_path / "small.params"), [mx.nd.arange(3)])
    mx.nd.save(str(tmp_path / "large.params"), [mx.nd.arange(3 << 20)])
    assert mx.nd.load(f"{server.address}/small.params")[0].shape == (3,)
    with pytest.raises(mx.base.FileAccessError, match="whole files where ranges are requested"):
        mx.nd.load(f"{server.address}/large.params")


@pytest.mark.parametrize(
    ("read", "error", "text"),
    [
        (lambda at: mx.nd.load(f"{at}/none"), FileNotFoundError, "no file 'http://.*none'"),
        (lambda at: recordio.MXRecordIO(f"{at}/none", "r"), mx.base.RecordError, "no file"),
        (lambda at: mx.gluon.data.RecordFileDataset(f"{at}/none.rec"), OSError, "no file 'http"),
        (lambda at: mx.nd.load("memory://folder"), OSError, "it is a folder"),
        (lambda at: mx.nd.load("wrong://a/b"), ValueError, "Protocol not known: wrong"),
        (lambda at: mx.nd.save(f"{at}/x", mx.nd.ones(1)), NotImplementedError, "save: .*address"),
        (lambda at: recordio.MXRecordIO(f"{at}/x", "w"), NotImplementedError, "write a local"),
        (
            lambda at: mx.io.ImageRecordIter(
                path_imgrec=f"{at}/a.rec",
                path_imgidx=f"{at}/none",
                data_shape=(3, 9, 9),
                batch_size=1,
            ),
            mx.base.RecordError,
            "index file 'http://.*none' cannot be read: there is no file",
        ),
    ],
)
def test_bad_addresses(
    read: Callable[[str], Any], error: type, text: str, server: RangeServer
) -> None:
    fsspec.filesystem("memory").pipe_file("/folder/file", b"x")
    with pytest.raises(error, match=text):
        read(server.address)


@pytest.mark.usefixtures("impatient")
def test_a_host_without_server_is_an_error() -> None:
    with pytest.raises(mx.base.FileAccessError, match=r"the file cannot be read.*4 attempts.*:9"):
        mx.nd.load("http://127.0.0.1:9/x")


@pytest.mark.parametrize(
    ("address", "hidden", "package"),
    [
        ("s3://bucket/x", "s3fs", r"mxlite\[s3\]"),
        ("gs://bucket/x", "gcsfs", r"mxlite\[gs\]"),
        ("memory://x", "fsspec", "fsspec"),
    ],
)
def test_missing_packages_are_named(
    address: str, hidden: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, hidden, None)
    with pytest.raises(mx.base.NotSupportedError, match=f"not installed.*pip install '{package}'"):
        mx.nd.load(address)


@pytest.mark.parametrize("with_index", [False, True])
def test_parts_read_only_their_bytes(
    with_index: bool, tmp_path: Path, server: RangeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_BLOCK", 1 << 18)
    server.folder = tmp_path
    random = np.random.RandomState(0)
    pictures = [random.randint(0, 255, (224, 224, 3), dtype=np.uint8) for _ in range(64)]
    size = os.path.getsize(write_records(tmp_path, pictures, png=True))
    index = {"path_imgidx": f"{server.address}/a.idx"} if with_index else {}
    options: Any = {"batch_size": 4, "data_shape": (3, 224, 224), "num_parts": 4, **index}
    for part in range(4):
        server.ranges.clear()
        batches = mx.io.ImageRecordIter(
            path_imgrec=f"{server.address}/a.rec", part_index=part, **options
        )
        assert len(list(batches)) == 4
        ranges = [(begin, end) for name, begin, end in server.ranges if name == "a.rec"]
        begin, end = min(ranges)[0], max(end for _, end in ranges)
        ahead = 6 << 18  # the block of the next record's head, and those ahead of it
        assert part * size // 4 - (1 << 18) <= begin <= part * size // 4 + 200_000
        assert end <= (part + 1) * size // 4 + ahead


def test_sequential_reads_fetch_blocks_in_parallel(tmp_path: Path, server: RangeServer) -> None:
    server.folder = tmp_path
    running, most = 0, 0
    lock = threading.Lock()

    def count(number: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        with lock:
            running -= 1

    server.fault = count
    mx.nd.save(str(tmp_path / "x.params"), [mx.nd.arange(12 << 20)])
    loaded = mx.nd.load(f"{server.address}/x.params")[0]
    assert (loaded == mx.nd.arange(12 << 20)).asnumpy().all()
    assert 3 <= most <= 5
    assert len(server.ranges) == 13  # blocks of 4 MiB, each once


def test_workers_of_a_data_loader_open_the_file(server: RangeServer, folder: Path) -> None:
    data = mx.gluon.data.RecordFileDataset(f"{server.address}/a.rec")
    data[0]
    loader = mx.gluon.data.DataLoader(
        data, batch_size=1, num_workers=2, batchify_fn=lambda samples: samples[0]
    )
    assert list(loader) == all_records(str(folder))


@pytest.mark.parametrize("reader", ["MXRecordIO", "ImageRecordIter"])
def test_programs_end_while_a_server_does_not_answer(reader: str, server: RangeServer) -> None:
    stopped = threading.Event()
    server.fault = lambda number: stopped.wait(60) and None
    program = f"""
        import threading, time
        import mxlite as mx
        from mxlite import recordio
        from mxlite._files import remote
        def read():
            if {reader!r} == "MXRecordIO":
                recordio.MXRecordIO("{server.address}/a.rec", "r").read()
            else:
                global batches
                batches = mx.io.ImageRecordIter(
                    path_imgrec="{server.address}/a.rec", path_imgidx="{server.address}/a.idx",
                    data_shape=(3, 9, 9), batch_size=4)
        if {reader!r} == "MXRecordIO":
            threading.Thread(target=read, daemon=True).start()
        else:
            read()
        while all(block.done() for block in list(remote._shared.blocks.values())):
            time.sleep(0.05)
        time.sleep(0.5)
        print("ends")
    """
    if reader == "ImageRecordIter":  # the index arrives, which the constructor awaits
        server.fault = lambda number: None if number < 1 else stopped.wait(60) and None
    begin = time.monotonic()
    paths = os.pathsep.join(filter(None, sys.path))
    assert "ends" in run_program(program, seconds=50, PYTHONPATH=paths).stdout
    assert time.monotonic() - begin < 40
    assert server.ranges[-1][0] == "a.rec"
    assert len(server.ranges) == (1 if reader == "MXRecordIO" else 2)
    stopped.set()
