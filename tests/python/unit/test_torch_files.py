"""Files of ``torch.save`` are read without PyTorch; wrong ones are refused."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch_files
from mxlite._files.torch_files import is_torch, read_torch
from mxlite.base import FileFormatError
from torch_files import Storage, Tensor, old_file, state_dict, zip_file

FORMATS = {"zip": zip_file, "old": old_file}


@pytest.mark.parametrize("kind", FORMATS)
def test_state_dicts_are_read_with_all_types(tmp_path: Path, kind: str) -> None:
    arrays = {code: np.arange(6).reshape(2, 3).astype(code) for code in torch_files.CODES
              if code != "bfloat16"}  # fmt: skip
    arrays["scalar"], arrays["empty"] = np.array(7, "int64"), np.zeros((0, 2), "float32")
    arrays["tied"] = arrays["<f4"]
    path = tmp_path / "model.pth"
    content = state_dict(arrays)
    content["half"] = Tensor(Storage("b", np.array([0x3FC0, 0xC000], "<u2"), "bfloat16"))
    content["part"] = Tensor(content["<f8"].storage, (3, 2), (1, 3), 0)
    content["row"] = Tensor(content["<f8"].storage, (3,), (1,), 3)
    path.write_bytes(FORMATS[kind](content))
    found = read_torch(str(path))
    for name, array in arrays.items():
        dtype, bits = found[name]
        assert dtype == array.dtype.name
        assert np.array_equal(bits.astype(array.dtype), array), name
    assert found["tied"][1] is found["<f4"][1]
    assert found["half"][0] == "bfloat16" and found["half"][1].tolist() == [0x3FC0, 0xC000]
    assert found["part"][1].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["row"][1].tolist() == [3, 4, 5]


@pytest.mark.parametrize("place", ["state_dict", "model_state_dict", "model"])
def test_the_state_dict_of_a_checkpoint_is_found(tmp_path: Path, place: str) -> None:
    path = tmp_path / "checkpoint.pt"
    content = {"epoch": 3, "best": np.float64(0.5), place: state_dict({"w": np.ones(2)})}
    path.write_bytes(zip_file(content))
    assert [*read_torch(str(path))] == ["w"]


@pytest.mark.parametrize("kind", FORMATS)
def test_files_at_addresses_are_read(kind: str) -> None:
    files = pytest.importorskip("fsspec").filesystem("memory")
    files.pipe_file("/torch/model.pth", FORMATS[kind](state_dict({"w": np.ones(2)})))
    assert is_torch("memory://torch/model.pth")
    dtype, bits = read_torch("memory://torch/model.pth")["w"]
    assert dtype == "float64" and bits.tolist() == [1, 1]


STORAGE = Storage("0", np.arange(6, dtype="float32"))
LARGE = Storage("0", np.zeros(1 << 16, "float32"))


class Runs:
    def __reduce__(self) -> Any:
        return os.mkdir, ("/tmp/must-not-exist",)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"w": Tensor(STORAGE, (7,), (1,))}, "reaches beyond its storage of 6 elements"),
        ({"w": Tensor(STORAGE, (2,), (1,), 5)}, "reaches beyond"),
        ({"w": Tensor(STORAGE, (2, 2), (4, 2))}, "reaches beyond"),
        ({"w": Tensor(STORAGE, (2,), (-1,), 1)}, "must be integers of at least 0"),
        ({"w": Tensor(STORAGE, (2,), (1,), -1)}, "offset of a tensor must be an integer"),
        ({"w": Tensor(STORAGE, (2, 2), (1,))}, "must be integers of at least 0"),
        ({"w": Tensor(STORAGE, (True,), (1,))}, "must be integers of at least 0"),
        ({"w": Tensor(STORAGE, [2], (1,))}, "must be tuples, got list"),
        ({"w": Tensor(STORAGE, (1 << 60, 1 << 60), (0, 0))}, "at most"),
        (
            {str(i): Tensor(LARGE, (1 << 15,), (1,), i) for i in range(1200)},
            "at most",
        ),
        ({"w": Tensor(STORAGE), "n": 3}, "entry 'n' must be a tensor, got int"),
        ({3: Tensor(STORAGE)}, "entry '3' must be a tensor"),
        ({"epoch": 3}, "it must hold tensors by name, got the keys epoch"),
        ([Tensor(STORAGE)], "it must hold tensors by name, got the keys list"),
        ({"w": Runs()}, r"the name posix.mkdir is not allowed"),
    ],
)
def test_wrong_state_dicts_are_refused(
    tmp_path: Path, kind: str, content: Any, message: str
) -> None:
    path = tmp_path / "model.pth"
    path.write_bytes(FORMATS[kind](content))
    with pytest.raises(FileFormatError, match=message):
        read_torch(str(path))
    assert not os.path.exists("/tmp/must-not-exist")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    for kind in FORMATS.values():
        content = kind(state_dict({"w": np.ones(40), "v": np.ones(3)}))
        for size in range(0, len(content), 7):
            path.write_bytes(content[:size])
            with pytest.raises(FileFormatError, match="model.pth"):
                read_torch(str(path))
    path.write_bytes(zip_file(state_dict({"w": np.ones(4)}), b"big"))
    with pytest.raises(FileFormatError, match="big-endian"):
        read_torch(str(path))


def test_members_of_archives_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    content = zip_file(state_dict({"w": np.ones(40)}))
    for change in ("short", "packed", "absent"):
        stream = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w") as new:
            for name in old.namelist():
                data = name.endswith("data/0")
                if not (data and change == "absent"):
                    new.writestr(
                        name,
                        old.read(name)[: -4 if data and change == "short" else None],
                        zipfile.ZIP_DEFLATED if data and change == "packed" else None,
                    )
        path.write_bytes(stream.getvalue())
        with pytest.raises(
            FileFormatError, match="must have 320 bytes, got 316|must be uncompressed|no item named"
        ):
            read_torch(str(path))


def test_the_reader_imports_no_pickle_names(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    path.write_bytes(pickle.dumps({"w": [1, 2]}))
    with pytest.raises(FileFormatError, match="was not written by torch.save"):
        read_torch(str(path))
