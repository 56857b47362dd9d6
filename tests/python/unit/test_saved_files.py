"""Saved files keep their identity where a program depends on it, and are replaced elsewhere."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd

VALUE = nd.array([1.0, 2.0, 3.0])


def save_array(path: str) -> None:
    nd.save(path, {"x": VALUE})


def save_parameters(path: str) -> None:
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    net.save_parameters(path)


def save_symbol(path: str) -> None:
    mx.sym.exp(mx.sym.Variable("x")).save(path)


def save_states(path: str) -> None:
    parameter = gluon.Parameter("w", shape=(2,))
    parameter.initialize()
    gluon.Trainer({"w": parameter}, "adam").save_states(path)


@pytest.mark.parametrize("save", [save_array, save_parameters, save_symbol, save_states])
def test_an_open_temporary_file_gets_what_is_saved(save: Callable[[str], None]) -> None:
    with tempfile.NamedTemporaryFile() as file:
        save(file.name)
        content = file.read()
        assert content
        assert Path(file.name).read_bytes() == content


def test_all_names_of_a_file_lead_to_what_is_saved(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    os.link(tmp_path / "a", tmp_path / "b")
    save_array(str(tmp_path / "a"))
    np.testing.assert_array_equal(nd.load(tmp_path / "b")["x"].asnumpy(), [1, 2, 3])
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    for old in (b"", b"old"):
        (tmp_path / "a").write_bytes(old)
        link = tmp_path / f"link to {len(old)} bytes"
        link.symlink_to("a")
        save_array(str(link))
        assert link.is_symlink()
        np.testing.assert_array_equal(nd.load(tmp_path / "a")["x"].asnumpy(), [1, 2, 3])


def test_other_files_are_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with open(path, "rb") as reader:
        save_array(str(path))
        assert reader.read() == b"old"
    assert nd.load(path)["x"].shape == (3,)


def test_a_pipe_and_the_number_of_an_open_file_are_written(tmp_path: Path) -> None:
    save_array(str(tmp_path / "expected"))
    expected = (tmp_path / "expected").read_bytes()
    reader, writer = os.pipe()
    save_array(f"/dev/fd/{writer}")
    os.close(writer)
    with open(reader, "rb") as pipe:
        assert pipe.read() == expected

    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    thread = threading.Thread(target=save_array, args=(str(fifo),))
    thread.start()
    assert fifo.read_bytes() == expected
    thread.join()

    with open(tmp_path / "open", "w+b") as file:
        file.write(b"old")
        file.flush()
        save_array(f"/dev/fd/{file.fileno()}")
        file.seek(0)
        assert file.read() == expected


def test_a_folder_without_permission_does_not_prevent_saving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda folder, mode: folder != str(tmp_path))
    with open(path, "rb") as reader:
        save_array(str(path))
        assert reader.read() == path.read_bytes() != b"old"
