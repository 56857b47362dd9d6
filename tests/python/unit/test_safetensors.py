"""safetensors files: written, read, refused if damaged; the package is optional."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from mxlite.base import FileFormatError, MissingFileError, NotSupportedError
from mxlite.gluon import nn

safetensors = pytest.importorskip("safetensors")

DTYPES = (
    "bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
    "float32", "float64",
)  # fmt: skip


def file_of(header: Any, content: bytes = b"") -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + content


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_package_reads_what_save_writes_and_the_reverse(tmp_path: Path, dtype: str) -> None:
    from safetensors.numpy import load_file, save_file

    values = np.arange(6).reshape(2, 3).astype(dtype)
    mx.nd.save(tmp_path / "a.safetensors", {"x": nd.array(values, dtype=dtype)})
    found = load_file(tmp_path / "a.safetensors")["x"]
    assert found.dtype == dtype and np.array_equal(found, values)
    save_file({"y": values[::-1].copy(), "z": values[:0].copy()}, tmp_path / "b.safetensors")
    arrays = mx.nd.load(tmp_path / "b.safetensors")
    assert np.dtype(arrays["y"].dtype) == dtype and arrays["z"].shape == (0, 3)
    assert np.array_equal(arrays["y"].asnumpy(), values[::-1])


def test_bfloat16_keeps_its_bits(tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    values = nd.array([1, -2.5, 3e38, 1e-3]).astype("bfloat16")
    path = tmp_path / "a.safetensors"
    nd.save(path, {"x": values})
    with safetensors.safe_open(path, "np") as file:
        assert file.get_slice("x").get_dtype() == "BF16"
    again = nd.load(path)["x"]
    assert again.dtype == values.dtype
    assert np.array_equal(again.astype("float32").asnumpy(), values.astype("float32").asnumpy())


def test_a_scalar_and_the_format_argument(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    nd.save(path, {"x": nd.array([7.0])}, format="safetensors")
    assert nd.load(path)["x"].asnumpy() == [7]
    scalar = file_of({"n": entry("I64", [], 0, 8)}, struct.pack("<q", 5))
    assert nd.load_frombuffer(scalar)["n"].asscalar() == 5
    with pytest.raises(ValueError, match="format must be one of params, safetensors, got 'pt'"):
        nd.save(path, {}, format="pt")
    for data in ([nd.ones(1)], nd.ones(1)):
        with pytest.raises(TypeError, match="must be a dict of names"):
            nd.save(path, data, format="safetensors")
    with pytest.raises(TypeError, match="'x' must be a dense array"):
        nd.save(path, {"x": nd.ones((2, 2)).tostype("csr")}, format="safetensors")
    assert nd.load(path)["x"].asnumpy() == [7]


class Tied(nn.HybridSequential):
    def __init__(self) -> None:
        super().__init__()
        self.add(nn.Dense(3, in_units=3))
        self.add(nn.Dense(3, in_units=3, params=self[0].params), nn.BatchNorm(in_channels=3))


def test_tied_parameters_are_saved_once_and_loaded_under_all_names(tmp_path: Path) -> None:
    net, other = Tied(), Tied()
    net.initialize(mx.init.Xavier())
    path = tmp_path / "net.safetensors"
    net.save_parameters(path)
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() == {
            "format": "pt", "1.weight": "0.weight", "1.bias": "0.bias",
        }  # fmt: skip
        assert "1.weight" not in file.keys()  # noqa: SIM118 - it has no __contains__
    arrays = nd.load(path)
    assert arrays["1.weight"] is arrays["0.weight"]
    other.load_parameters(path)
    data = nd.random.uniform(shape=(2, 3))
    assert np.array_equal(other(data).asnumpy(), net(data).asnumpy())


def write_shards(folder: Path, files: dict[str, str], index: Any = None) -> Path:
    by_file: dict[str, dict[str, nd.NDArray]] = {}
    for number, (name, file) in enumerate(files.items()):
        by_file.setdefault(file, {})[name] = nd.full((2,), number)
    for file, arrays in by_file.items():
        nd.save(folder / file, arrays, format="safetensors")
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": files} if index is None else index))
    return path


def test_sharded_models_are_loaded_by_their_index(tmp_path: Path) -> None:
    files = {"a": "m-1-of-2.safetensors", "b": "m-2-of-2.safetensors", "c": "m-1-of-2.safetensors"}
    arrays = nd.load(write_shards(tmp_path, files))
    assert {name: array.asnumpy().tolist() for name, array in arrays.items()} == {
        "a": [0, 0], "c": [2, 2], "b": [1, 1],
    }  # fmt: skip
    (tmp_path / "m-2-of-2.safetensors").unlink()
    with pytest.raises(MissingFileError, match="m-2-of-2"):
        nd.load(tmp_path / "model.safetensors.index.json")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([], "must have a weight_map"),
        ({"weight_map": {"a": 3}}, "must have a weight_map"),
        ({"weight_map": {"a": "../m.safetensors"}}, "in the folder of the index"),
        ({"weight_map": {"a": "/etc/passwd"}}, "in the folder of the index"),
        ({"weight_map": {"a": "m.pickle"}}, "must be a .safetensors file"),
        ({"weight_map": {"x": "m.safetensors"}}, "'x' is missing in 'm.safetensors'"),
        (
            {"weight_map": {"a": "m.safetensors", "b": "n.safetensors"}},
            "'a' is in two shards in 'n.safetensors'",
        ),
    ],
)
def test_wrong_indices_are_refused(tmp_path: Path, index: Any, message: str) -> None:
    write_shards(tmp_path, {"a": "m.safetensors"})
    nd.save(tmp_path / "n.safetensors", {"a": nd.ones(1), "b": nd.ones(1)})
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    with pytest.raises(FileFormatError, match=message):
        nd.load(path)


GOOD = file_of({"x": entry("F32", [2], 0, 8)}, bytes(8))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD[:-1], "not fully covered"),
        (GOOD + b"1", "not fully covered"),
        (GOOD[:20], "at most 12 bytes here"),
        (struct.pack("<Q", 1 << 62) + GOOD[8:], "at most"),
        (file_of({"x": entry("F32", [3], 0, 8)}, bytes(8)), "invalid shape"),
        (file_of({"x": entry("F32", [2**62, 2**62], 0, 8)}, bytes(8)), "overflow"),
        (file_of({"x": entry("U8", [2], 0, 2), "y": entry("U8", [2], 1, 3)}, bytes(3)), "offset"),
        (file_of({"x": entry("U8", [2], 0, 2), "y": entry("U8", [2], 3, 5)}, bytes(5)), "offset"),
        (file_of({"x": entry("X7", [2], 0, 2)}, bytes(2)), "X7"),
        (file_of({"x": entry("U8", [-2], 0, 2)}, bytes(2)), "-2"),
        (file_of(b'{"x": 1, "x": 2}'), "'x' occurs twice"),
        (file_of(b'{"x": '), "damaged header"),
        (file_of(b'{"x": ' + b"[" * 100_000), "damaged header"),
        (file_of({"__metadata__": {"a": 3}}), "damaged"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message) as caught:
        nd.load(path)
    assert "bad.safetensors" in str(caught.value)
    with pytest.raises(FileFormatError, match="the buffer"):
        nd.load_frombuffer(content)


@pytest.mark.parametrize("dtype", ["F8_E4M3", "C64"])
def test_types_that_arrays_cannot_have_are_named(dtype: str) -> None:
    size = {"F8_E4M3": 1, "C64": 8}[dtype]
    content = file_of({"x": entry(dtype, [1], 0, size)}, bytes(size))
    with pytest.raises(mx.base.DTypeError, match=f"'x' must be of type .* got {dtype}"):
        nd.load_frombuffer(content)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(NotSupportedError, match="pip install safetensors"):
        nd.save(tmp_path / "a.safetensors", {"x": nd.ones(1)})
    assert not (tmp_path / "a.safetensors").exists()
    with pytest.raises(NotSupportedError, match="pip install safetensors"):
        nd.load_frombuffer(GOOD)
