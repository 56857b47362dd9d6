"""Helpers of training scripts: splitting, clipping, checksums, downloads."""

from __future__ import annotations

import hashlib
import math
import socket
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd
from mxlite.base import MXNetError
from mxlite.gluon import utils


def test_a_batch_is_split_and_loaded() -> None:
    batch = np.arange(12).reshape(6, 2)
    parts = utils.split_and_load(batch, [mx.cpu(0), mx.cpu(1), mx.cpu(2)])
    assert [part.context for part in parts] == [mx.cpu(0), mx.cpu(1), mx.cpu(2)]
    np.testing.assert_array_equal(np.concatenate([part.asnumpy() for part in parts]), batch)
    (whole,) = utils.split_and_load(batch, [mx.cpu(1)])
    assert whole.context == mx.cpu(1)


def test_another_axis_and_uneven_parts() -> None:
    parts = utils.split_data(nd.array(np.arange(10).reshape(2, 5)), 2, 1, even_split=False)
    assert [part.shape for part in parts] == [(2, 3), (2, 2)]
    np.testing.assert_array_equal(parts[0].asnumpy(), [[0, 1, 2], [5, 6, 7]])


def test_what_cannot_be_split_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"\(5, 2\) cannot be evenly split into 2 slices") as e:
        utils.split_data(nd.ones((5, 2)), 2)
    assert isinstance(e.value, MXNetError)
    with pytest.raises(ValueError, match=r"Too many slices for data with shape \(2,\)"):
        utils.split_data(nd.ones((2,)), 3, even_split=False)


def test_arrays_are_scaled_to_the_norm() -> None:
    arrays = [nd.array([3.0]), nd.array([[0.0, 4.0]])]
    assert utils.clip_global_norm(arrays, 1.0) == pytest.approx(5.0)
    np.testing.assert_allclose(arrays[0].asnumpy(), [0.6], rtol=1e-6)
    np.testing.assert_allclose(arrays[1].asnumpy(), [[0.0, 0.8]], rtol=1e-6)
    lazy = utils.clip_global_norm(arrays, 9.0, check_isfinite=False)
    assert lazy.asscalar() == pytest.approx(1.0)
    np.testing.assert_allclose(arrays[0].asnumpy(), [0.6], rtol=1e-6)


def test_a_norm_that_is_not_finite_warns() -> None:
    with pytest.warns(UserWarning, match="nan or inf is detected"):
        assert math.isnan(utils.clip_global_norm([nd.array([math.nan])], 1.0))


def test_the_checksum_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert utils.check_sha1(path, hashlib.sha1(b"abc").hexdigest())
    assert not utils.check_sha1(str(path), hashlib.sha1(b"abd").hexdigest())


def test_a_download_takes_what_is_there_and_checks_it(tmp_path: Path) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(b"content")
    digest = hashlib.sha1(b"content").hexdigest()
    target = utils.download(source.as_uri(), str(tmp_path / "copy.bin"), sha1_hash=digest)
    assert Path(target).read_bytes() == b"content"
    source.unlink()
    assert utils.download(source.as_uri(), target, sha1_hash=digest) == target


def test_a_download_with_another_checksum_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(b"content")
    with pytest.raises(ValueError, match="SHA-1 checksum .*, expected 00ff") as caught:
        utils.download(source.as_uri(), str(tmp_path / "copy.bin"), sha1_hash="00ff")
    assert isinstance(caught.value, MXNetError)
    assert not (tmp_path / "copy.bin").exists()


def test_a_failed_download_names_url_and_path(tmp_path: Path) -> None:
    url = (tmp_path / "nothing.bin").as_uri()
    words = r"nothing\.bin cannot be fetched .*put the file at"
    with pytest.raises(OSError, match=words) as caught:
        utils.download(url, str(tmp_path / "copy.bin"), retries=0)
    assert isinstance(caught.value, MXNetError)


def test_what_is_no_address_is_not_tried_again(tmp_path: Path, monkeypatch: Any) -> None:
    waits: list[float] = []
    monkeypatch.setattr(utils.time, "sleep", waits.append)
    with pytest.raises(OSError, match="no-address cannot be fetched"):
        utils.download("no-address", str(tmp_path / "a"))
    assert not waits


def test_a_download_that_ends_early_is_an_error(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "requests", None)
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        for _ in range(2):
            with server.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.getsockname()[1]}/a"
    with pytest.raises(OSError, match="cannot be fetched .*IncompleteRead"):
        utils.download(url, str(tmp_path / "a"), retries=1, sha1_hash="00")
    thread.join(10)
    server.close()
    assert not list(tmp_path.iterdir())


class _Answer:
    reason = "Not Found"

    def __init__(self, status: int, content: bytes) -> None:
        self.status_code, self.content = status, content
        self.headers = {"Content-Length": str(len(content))}

    def iter_content(self, size: int) -> Iterator[bytes]:
        yield from (self.content[at : at + size] for at in range(0, len(self.content), size))

    def __enter__(self) -> _Answer:
        return self

    def __exit__(self, *error: object) -> None: ...


def test_a_download_uses_requests_where_it_is_installed(tmp_path: Path, monkeypatch: Any) -> None:
    asked: list[tuple[str, bool]] = []
    answers = [_Answer(200, b"content"), _Answer(503, b""), _Answer(200, b"later"),
               _Answer(404, b"")]  # fmt: skip
    module: Any = types.ModuleType("requests")

    def get(url: str, verify: bool, timeout: float, stream: bool) -> _Answer:
        asked.append((url, verify))
        return answers.pop(0)

    module.get = get
    monkeypatch.setitem(sys.modules, "requests", module)
    url, target = "https://example.invalid/a.bin", str(tmp_path / "a.bin")
    with pytest.warns(UserWarning, match="^Unverified HTTPS request"):
        utils.download(url, target, verify_ssl=False)
    assert Path(target).read_bytes() == b"content"
    utils.download(url, target, overwrite=True, retries=1)  # after a server's error once more
    assert Path(target).read_bytes() == b"later"
    with pytest.raises(OSError, match=r"a\.bin cannot be fetched \(Not Found\)"):
        utils.download(url, target, overwrite=True)
    assert asked == [(url, False), (url, True), (url, True), (url, True)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_a_download_without_encryption_or_checksum_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(utils, "_read", lambda url, verify_ssl: b"content")
    utils.download("https://example.invalid/a", str(tmp_path / "a"))
    digest = hashlib.sha1(b"content").hexdigest()
    utils.download("http://example.invalid/b", str(tmp_path / "b"), sha1_hash=digest)
    assert not recwarn.list
    with pytest.warns(UserWarning, match="without encryption and without a checksum"):
        utils.download("http://example.invalid/c", str(tmp_path / "c"))


def test_replace_file_moves_onto_an_existing_file(tmp_path: Any) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    gluon.utils.replace_file(tmp_path / "new", tmp_path / "old")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "new"


@pytest.mark.parametrize(
    ("shape", "known"),
    [((1, 2), True), ((0, 2), False), ((3, -1), False), (None, False), ((), False)],
)
def test_a_shape_is_known_when_no_dimension_is_missing(shape: Any, known: bool) -> None:
    assert utils.shape_is_known(shape) is known
