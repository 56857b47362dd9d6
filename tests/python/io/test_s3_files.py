"""Files of an S3 server on this host, which moto runs."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import recordio
from mxlite._files import remote
from record_files import write_records

fsspec = pytest.importorskip("fsspec")
s3fs = pytest.importorskip("s3fs")
requests = pytest.importorskip("requests")
moto_server = pytest.importorskip("moto.server")

COUNT = 60
BASE = "s3://bucket"


class Proxy:
    """Forwards connections to a port of this host; cuts or delays the answers.

    Attributes
    ----------
    cuts : int
        Number of connections that are closed after the first bytes of the answer.
    pause : float
        Seconds before an answer is forwarded.
    """

    def __init__(self, port: int) -> None:
        self.cuts, self.pause = 0, 0.0
        self._port = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._socket.accept()
            server = socket.create_connection(("127.0.0.1", self._port))
            for source, target in ((client, server), (server, client)):
                arguments = (source, target, target is client)
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        try:
            while piece := source.recv(1 << 16):
                if answers:
                    time.sleep(self.pause)
                    if self.cuts:
                        self.cuts -= 1
                        target.sendall(piece[:20])
                        break
                target.sendall(piece)
        except OSError:
            pass
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@pytest.fixture
def proxy(port: int, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """Return a proxy of the server, which is the one that s3fs calls."""
    made = Proxy(port)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    monkeypatch.setattr(remote, "_PAUSE", 0.01)
    once = {"config_kwargs": {"retries": {"max_attempts": 0}}}
    monkeypatch.setitem(fsspec.config.conf, "s3", once)
    for name, value in (
        ("AWS_ENDPOINT_URL", made.address),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ):
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, port: int) -> Path:
    """Return a local folder with the files of the bucket."""
    made = tmp_path_factory.mktemp("s3")
    random = np.random.RandomState(0)
    write_records(
        made,
        [random.randint(0, 255, (224, 224, 3), dtype=np.uint8) for _ in range(COUNT)],
        png=True,
    )
    mx.nd.save(str(made / "x.params"), {"x": mx.nd.arange(100)})
    url = f"http://127.0.0.1:{port}"
    files = s3fs.S3FileSystem(key="key", secret="secret", endpoint_url=url)
    files.mkdir("bucket")
    for path in made.iterdir():
        files.put_file(str(path), f"bucket/{path.name}")
    return made


def images(base: str, **options: Any) -> list[Any]:
    batches = mx.io.ImageRecordIter(
        path_imgrec=f"{base}/a.rec", data_shape=(3, 32, 32), batch_size=4, **options
    )
    return [batch.data[0].asnumpy() for batch in batches]


@pytest.mark.parametrize(
    "options", [{}, {"shuffle": True, "num_parts": 3, "part_index": 1, "shuffle_chunk_size": 1}]
)
def test_pipelines_read_objects(folder: Path, proxy: Proxy, options: dict[str, Any]) -> None:
    np.testing.assert_equal(images(BASE, **options), images(str(folder), **options))


def test_records_and_parameters_are_objects(folder: Path, proxy: Proxy) -> None:
    data = mx.gluon.data.RecordFileDataset(f"{BASE}/a.rec")
    local = mx.gluon.data.RecordFileDataset(str(folder / "a.rec"))
    assert [data[i] for i in (50, 3, 51)] == [local[i] for i in (50, 3, 51)]
    assert mx.nd.load(f"{BASE}/x.params")["x"].asnumpy().tolist() == list(range(100))


def test_lost_connections_are_repeated(folder: Path, proxy: Proxy) -> None:
    file = recordio.MXRecordIO(f"{BASE}/a.rec", "r")
    proxy.cuts = 3
    with recordio.MXRecordIO(str(folder / "a.rec"), "r") as local:
        assert list(iter(file.read, None)) == list(iter(local.read, None))
    assert proxy.cuts == 0


def test_a_lost_server_is_an_error(folder: Path, proxy: Proxy) -> None:
    file = recordio.MXRecordIO(f"{BASE}/a.rec", "r")
    proxy.cuts = 10**9
    with pytest.raises(mx.base.FileAccessError, match=r"'s3://bucket/a\.rec': bytes 0 to .*4 att"):
        file.read()


def test_slow_answers_time_out(folder: Path, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_TIMEOUT", 0.5)
    monkeypatch.setattr(remote, "_ATTEMPTS", 2)
    proxy.pause = 5
    with pytest.raises(mx.base.FileAccessError, match=r"2 attempts\): no answer within 0\.5 s"):
        mx.nd.load(f"{BASE}/x.params")


def test_refused_credentials(folder: Path, port: int, proxy: Proxy) -> None:
    checks = f"http://127.0.0.1:{port}/moto-api/reset-auth"
    requests.post(checks, data="0")
    try:
        with pytest.raises(mx.base.FileAccessError, match="Forbidden; check the credentials"):
            mx.nd.load(f"{BASE}/x.params")
    finally:
        requests.post(checks, data="inf")


def test_missing_objects(folder: Path, proxy: Proxy) -> None:
    for address in (f"{BASE}/none.params", "s3://no-bucket/none.params"):
        with pytest.raises(FileNotFoundError, match=f"no file '{address}'"):
            mx.nd.load(address)


def test_replaced_objects_are_refused(folder: Path, port: int, proxy: Proxy) -> None:
    files = s3fs.S3FileSystem()
    files.pipe_file("bucket/changing.rec", (folder / "a.rec").read_bytes())
    file = recordio.MXRecordIO(f"{BASE}/changing.rec", "r")
    assert file.read()
    with remote._shared.lock:
        remote._shared.blocks.clear()
    files.pipe_file("bucket/changing.rec", (folder / "a.rec").read_bytes()[::-1])
    with pytest.raises(mx.base.FileAccessError, match="has changed since it was opened: ETag"):
        list(iter(file.read, None))
