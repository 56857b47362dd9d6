"""Checkpoints: continuing bit for bit, damaged files, killed processes, full disks."""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import checkpoint, gluon, nd
from mxlite.base import FileAccessError, FileFormatError, MXNetError
from mxlite.gluon import nn

FAULTS = Path(__file__).parents[2] / "faults"


def flat(tree: Any) -> Any:
    """Replace arrays by something that `==` compares."""
    if isinstance(tree, nd.NDArray):
        dense = tree.tostype("default") if tree.stype != "default" else tree
        values = dense.astype("float64").asnumpy().tolist()
        return tree.stype, str(tree.dtype), tuple(tree.shape), values
    if isinstance(tree, np.ndarray):
        return tree.dtype.name, tree.tolist()
    if isinstance(tree, dict):
        return {key: flat(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(flat(value) for value in tree)
    return tree


# -- the format ----------------------------------------------------------------------------------


def test_values_come_back(tmp_path: Path) -> None:
    values = {
        "none": None,
        "numbers": [True, 3, -(2**70), 0.1, float("inf")],
        "text": "grün",
        "raw": b"\x00\xff",
        "tuple": (1, (2, "x"), []),
        "dict": {0: "int", "0": "str", (1, 2): "tuple"},
        "arrays": [
            nd.random.normal(shape=(3, 4)),
            nd.ones((2,), dtype="bfloat16") * 1.5,
            nd.ones((2, 2), dtype="float16"),
            nd.array([1, 2**40], dtype="int64"),
            nd.zeros((0, 3)),
            np.arange(5, dtype="uint32"),
        ],
        "sparse": nd.sparse.row_sparse_array(([[1.0, 2.0]], [3]), shape=(5, 2)),
        "csr": nd.sparse.csr_matrix(np.eye(3, dtype="float32")),
    }
    path = tmp_path / "values.ckpt"
    size = checkpoint.save(path, values)
    assert size == path.stat().st_size
    assert flat(checkpoint.load(path)) == flat(values)
    described = checkpoint.verify(path)
    assert described["bytes"] == size
    assert described["arrays"]["states.arrays.0"] == ("float32", (3, 4))


def test_the_checksum_is_crc32c() -> None:
    # Check value of the CRC catalogue, and the test vectors of RFC 3720.
    assert mx._core.crc32c(b"123456789") == 0xE3069283
    assert mx._core.crc32c(bytes(32)) == 0x8A9136AA
    assert mx._core.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert mx._core.crc32c(b"6789", mx._core.crc32c(b"12345")) == 0xE3069283


@pytest.mark.parametrize("value", [object(), {1, 2}, lambda: 0, np.array(["a"])])
def test_what_cannot_be_saved_is_named(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "bad.ckpt"
    with pytest.raises(NotImplementedError, match=r"states\.deep\.here is a"):
        checkpoint.save(path, deep={"here": value})
    assert not path.exists()


def saved_file(path: Path) -> bytes:
    checkpoint.save(
        path, weights={f"layer{i}": nd.random.normal(shape=(300, i + 1)) for i in range(6)}, epoch=3
    )
    return path.read_bytes()


def test_every_damage_is_refused_by_name(tmp_path: Path) -> None:
    """1,000 random places: one bit flipped, bytes overwritten, the file cut or made longer."""
    path = tmp_path / "damaged.ckpt"
    good = saved_file(path)
    rng = np.random.RandomState(7)
    named = 0
    for trial in range(1000):
        at = int(rng.randint(len(good)))
        bad = bytearray(good)
        kind = trial % 4
        if kind == 0:
            bad[at] ^= 1 << int(rng.randint(8))
        elif kind == 1:
            bad = bad[:at]
        elif kind == 2:
            end = min(at + 16, len(bad))
            bad[at:end] = rng.bytes(end - at)
        else:
            bad[at:at] = rng.bytes(8)
        if bytes(bad) == good:
            continue
        path.write_bytes(bad)
        with pytest.raises(FileFormatError) as error:
            checkpoint.load(path)
        assert str(path) in str(error.value)
        named += "array 'states.weights.layer" in str(error.value)
    assert named > 100  # damage inside of arrays names them


def test_bytes_of_every_part_are_covered(tmp_path: Path) -> None:
    path = tmp_path / "damaged.ckpt"
    checkpoint.save(path, w=nd.ones((3,)))
    good = path.read_bytes()
    for at in [*range(80), *range(80, len(good), 17), *range(len(good) - 32, len(good))]:
        bad = bytearray(good)
        bad[at] ^= 0x10
        path.write_bytes(bad)
        with pytest.raises(FileFormatError, match=r"damaged\.ckpt"):
            checkpoint.verify(path)


@pytest.mark.parametrize("content", [b"", b"x", b"\x80\x04K\x01.", b"MXLCKPT1" * 100])
def test_foreign_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.ckpt"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"foreign\.ckpt"):
        checkpoint.load(path)
    with pytest.raises(FileNotFoundError, match=r"absent\.ckpt"):
        checkpoint.load(tmp_path / "absent.ckpt")


# -- disks ---------------------------------------------------------------------------------------


def limited(code: str, path: Path, limit: int) -> subprocess.CompletedProcess[str]:
    """Run Python code that may write files of at most ``limit`` bytes."""

    def restrict() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120,
        preexec_fn=restrict,
    )  # fmt: skip


SAVERS = {
    "checkpoint": "mx.checkpoint.save(sys.argv[1], **arrays)",
    "model": "mx.model.save_checkpoint(sys.argv[1][:-12], 7, None, arrays, {})",
}


@pytest.mark.parametrize("saver", SAVERS)
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, saver: str) -> None:
    path = tmp_path / "old-0007.params"
    if saver == "checkpoint":
        checkpoint.save(path, w=nd.zeros((2,)))
    else:
        nd.save(path, {"w": nd.zeros((2,))})
    before = path.read_bytes()
    text = "import sys, mxlite as mx, mxlite.checkpoint\narrays = {'w': mx.nd.ones((200, 1000))}\n"
    result = limited(text + SAVERS[saver], path, 100_000)
    assert result.returncode == 1
    assert "File too large" in result.stderr
    assert "the old file is unchanged" in result.stderr
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_devices_that_are_full() -> None:
    with pytest.raises(FileAccessError, match="No space left"):
        checkpoint.save("/dev/full", w=nd.ones((100_000,)))


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match="No such file or directory"):
        checkpoint.save(tmp_path / "absent" / "x.ckpt", w=1)
    folder = tmp_path / "readonly"
    folder.mkdir()
    checkpoint.save(folder / "x.ckpt", w=1)
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    folder.chmod(0o500)
    with pytest.raises(FileAccessError, match="Permission denied"):
        checkpoint.save(folder / "x.ckpt", w=2)
    assert checkpoint.load(folder / "x.ckpt")["w"] == 1


def test_a_killed_saver_never_loses_the_checkpoint_before(tmp_path: Path) -> None:
    """A process that saves all the time is killed at 200 random instants; alone, 2,000."""
    memory = "/dev/shm"  # flushing is fast there, so that a kill hits the other steps too
    with tempfile.TemporaryDirectory(dir=memory if os.path.isdir(memory) else tmp_path) as folder:
        result = subprocess.run(
            [sys.executable, str(FAULTS / "kill_saver.py"), "200", folder],
            capture_output=True, text=True, timeout=240,
        )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "200 kills, 0 lost" in result.stdout


# -- what does not fit ---------------------------------------------------------------------------


def test_nothing_changes_when_something_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "net.ckpt"
    source = nn.Dense(3, in_units=2)
    source.initialize(mx.init.One())
    checkpoint.save(path, net=source, other=source)
    fits, wide, deep = nn.Dense(3, in_units=2), nn.Dense(3, in_units=4), nn.HybridSequential()
    deep.add(nn.Dense(3, in_units=2))
    for net in (fits, wide, deep):
        net.initialize(mx.init.Zero())
    before = nd.random.uniform(shape=(1,)).asscalar()
    trainer = gluon.Trainer(fits.collect_params(), "sgd")
    for objects, error, words in [
        (
            {"net": fits, "other": wide},
            *(ValueError, r"'weight' must have the saved shape \(3, 2\), got \(3, 4\)"),
        ),
        ({"net": fits, "other": deep}, FileFormatError, "the network differs.*0.weight"),
        ({"nett": fits}, FileFormatError, "has no 'nett', it has 'net'.*did you mean 'net'"),
        ({"net": trainer}, FileFormatError, "must be a block as when it was saved, got a Trainer"),
        ({"net": 3}, ValueError, "net must be an object with a state, got int"),
    ]:
        with pytest.raises(error, match=words):
            checkpoint.load(path, **objects)
    assert fits.weight.data().asnumpy().sum() == 0
    assert nd.random.uniform(shape=(1,)).asscalar() != before
    checkpoint.load(path, net=fits)
    assert fits.weight.data().asnumpy().sum() == 6


# -- the manager ---------------------------------------------------------------------------------


def test_the_manager_keeps_the_last(tmp_path: Path) -> None:
    manager = checkpoint.CheckpointManager(tmp_path / "run", keep=2, keep_every=4)
    assert manager.load_latest() is None
    for step in range(1, 8):
        manager.save(step, value=step * 10)
    assert manager.steps() == [4, 6, 7]
    assert manager.load_latest() == {"step": 7, "value": 70}
    assert manager.load(4)["value"] == 40


def test_a_damaged_newest_checkpoint_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = checkpoint.CheckpointManager(tmp_path, keep=3)
    for step in (1, 2, 3):
        manager.save(step, value=nd.ones((4,)) * step)
    for step in (3, 2):
        file = Path(manager.path(step))
        content = bytearray(file.read_bytes())
        content[70] ^= 1
        file.write_bytes(content)
        state = manager.load_latest()
        assert state is not None
        assert state["step"] == step - 1
    assert "is damaged" in caplog.text
    Path(manager.path(1)).write_bytes(b"")
    with pytest.raises(
        FileFormatError, match="must have a complete checkpoint, got 3 damaged ones"
    ):
        manager.load_latest()


def test_what_a_killed_process_left_is_cleaned(tmp_path: Path) -> None:
    left = tmp_path / "checkpoint-0000000001.ckpt.123-abcdef01.tmp"
    other = tmp_path / "notes.tmp"
    left.write_bytes(b"half")
    other.write_bytes(b"mine")
    checkpoint.CheckpointManager(tmp_path).save(2, value=1)
    assert not left.exists()
    assert other.exists()


@pytest.mark.parametrize(
    "options", [{"keep": 0}, {"prefix": ""}, {"prefix": "a/b"}, {"keep_every": 0}]
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(MXNetError, match="CheckpointManager"):
        checkpoint.CheckpointManager(tmp_path, **options)
    with pytest.raises(ValueError, match="step must be an integer of 0 or more, got -1"):
        checkpoint.CheckpointManager(tmp_path).save(-1)


def _load_with_table(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Load a file whose table was changed and whose checksums fit, as another program may write."""
    mx.checkpoint.save(str(path), {"w": nd.ones((2, 3))})
    content = path.read_bytes()
    offset, length = struct.unpack("<QQ", content[-32:-16])
    table = json.loads(content[offset : offset + length])
    change(table)
    raw = json.dumps(table).encode()
    head = struct.pack("<QQI", offset, len(raw), mx._core.crc32c(raw))
    end = head + struct.pack("<I", mx._core.crc32c(head)) + content[-8:]
    path.write_bytes(content[:offset] + raw + end)
    mx.checkpoint.load(str(path))


def _load_with_entry(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    _load_with_table(path, lambda table: change(table["arrays"][0]))


_FIELDS = ["name", "kind", "offset", "bytes", "shape", "dtype", "crc32c"]


@pytest.mark.parametrize("key", _FIELDS)
def test_a_table_without_a_field_is_a_file_error(tmp_path: Path, key: str) -> None:
    with pytest.raises(mx.base.FileFormatError, match=f"not understood.*{key}"):
        _load_with_entry(tmp_path / "a.ckpt", lambda entry: entry.pop(key))


@pytest.mark.parametrize("key", _FIELDS)
@pytest.mark.parametrize("value", [None, [], [-1], {}, True, -1, 1.5, 1 << 64, float("inf")])
def test_a_table_with_a_wrong_value_is_a_file_error(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(mx.base.FileFormatError, match="a.ckpt"):
        _load_with_entry(tmp_path / "a.ckpt", lambda entry: entry.update({key: value}))


@pytest.mark.parametrize("dtype", ["(1,", "f4,(", "(" * 5000, "f4,f4", "M8[s]", "object", ""])
def test_a_type_that_numpy_would_read_as_python_is_refused(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(mx.base.FileFormatError, match=r"not understood.*(type|expected)"):
        _load_with_entry(tmp_path / "a.ckpt", lambda entry: entry.update(kind="numpy", dtype=dtype))


def test_an_array_stands_in_the_tree_once(tmp_path: Path) -> None:
    """A small table that repeats a large array would need any memory."""
    path = tmp_path / "a.ckpt"

    def repeat(table: dict[str, Any]) -> None:
        table["tree"] = {"list": [{"array": 0}] * 2}

    with pytest.raises(mx.base.FileFormatError, match=r"array '.*w' once, got it twice"):
        _load_with_table(path, repeat)
