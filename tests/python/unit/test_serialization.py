"""The .params format: files of MXNet are read, and written files equal those of 1.9.1."""

from __future__ import annotations

import io
import os
import pickle
import struct
import textwrap
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from mxlite.base import FileAccessError, FileFormatError, MissingFileError, MXNetError
from mxlite.ndarray.serialization import save_tobuffer
from processes import run_python

DATA = Path(__file__).parents[2] / "data" / "mxnet_1_9_1"

# formats.md, golden sample: {'arg:w': float32 [[1,2,3],[4,5,6]], 'b': int64 [7]}.
GOLDEN = b"".join(
    [
        bytes.fromhex("12 01 00 00 00 00 00 00"),
        bytes(8),
        bytes.fromhex("02 00 00 00 00 00 00 00"),
        bytes.fromhex("c9 fa 93 f9 00 00 00 00 02 00 00 00"),
        bytes.fromhex("02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00"),
        bytes.fromhex("01 00 00 00 00 00 00 00 00 00 00 00"),
        np.arange(1, 7, dtype="<f4").tobytes(),
        bytes.fromhex("c9 fa 93 f9 00 00 00 00 01 00 00 00"),
        bytes.fromhex("01 00 00 00 00 00 00 00"),
        bytes.fromhex("01 00 00 00 00 00 00 00 06 00 00 00"),
        bytes.fromhex("07 00 00 00 00 00 00 00"),
        bytes.fromhex("02 00 00 00 00 00 00 00"),
        bytes.fromhex("05 00 00 00 00 00 00 00") + b"arg:w",
        bytes.fromhex("01 00 00 00 00 00 00 00") + b"b",
    ]
)


def golden_arrays() -> dict[str, mx.nd.NDArray]:
    return {"arg:w": nd.array([[1, 2, 3], [4, 5, 6]]), "b": nd.array([7], dtype="int64")}


def array_to_blob(array: nd.NDArray) -> bytes:
    """Return the bytes of an array, as MXNet's pickles hold them."""
    return save_tobuffer([array])[24:-8]


def list_of(*blobs: bytes) -> bytes:
    return struct.pack("<QQQ", 0x112, 0, len(blobs)) + b"".join(blobs) + struct.pack("<Q", 0)


def test_the_golden_sample_is_written_exactly_and_read(tmp_path: Path) -> None:
    path = tmp_path / "a.params"
    path.write_bytes(b"old")
    path.chmod(0o640)
    nd.save(path, golden_arrays())
    assert path.read_bytes() == GOLDEN
    assert path.stat().st_mode & 0o777 == 0o640
    arrays = nd.load_frombuffer(GOLDEN)
    assert list(arrays) == ["arg:w", "b"]
    assert arrays["arg:w"].dtype == np.float32
    assert arrays["b"].dtype == np.int64
    np.testing.assert_array_equal(arrays["arg:w"].asnumpy(), [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(arrays["b"].asnumpy(), [7])


@pytest.mark.parametrize(
    "dtype",
    ["float16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool", "bfloat16"],
)
def test_every_type_comes_back_as_it_was(dtype: str, tmp_path: Path) -> None:
    values = nd.array([[0, 1, 2], [5, 3, 1]]).astype(dtype)
    nd.save(tmp_path / "a", [values])
    (back,) = nd.load(tmp_path / "a")
    assert back.dtype == values.dtype
    np.testing.assert_array_equal(
        back.astype("float32").asnumpy(), values.astype("float32").asnumpy()
    )


def test_bfloat16_is_written_as_its_upper_halves() -> None:
    blob = array_to_blob(nd.array([1.0, -2.5]).astype("bfloat16"))
    assert blob[-8:] == struct.pack("<iHH", 12, 0x3F80, 0xC020)


@pytest.mark.parametrize(
    ("given", "shapes"),
    [([nd.ones(1), nd.ones((1, 2))], [(1,), (1, 2)]), (nd.ones(2), [(2,)]), ([], []), ({}, [])],
)
def test_lists_and_single_arrays_come_back_as_lists(
    given: Any, shapes: Any, tmp_path: Path
) -> None:
    nd.save(tmp_path / "a", given)
    assert [array.shape for array in nd.load(tmp_path / "a")] == shapes


def test_a_view_is_saved_with_its_own_values(tmp_path: Path) -> None:
    whole = nd.array(np.arange(12).reshape(3, 4))
    nd.save(tmp_path / "a", {"rows": whole[1:3], "turned": whole.T})
    back = nd.load(tmp_path / "a")
    np.testing.assert_array_equal(back["rows"].asnumpy(), whole.asnumpy()[1:3])
    np.testing.assert_array_equal(back["turned"].asnumpy(), whole.asnumpy().T)


# -- what MXNet wrote ---------------------------------------------------------------------------


def test_files_of_mxnet_are_read() -> None:
    for name, array in nd.load(DATA / "types.params").items():
        assert np.dtype(array.dtype).name == name
        np.testing.assert_array_equal(array.asnumpy(), [[0, 1], [2, 3]])
    arrays = nd.load(DATA / "sparse.params")
    np.testing.assert_array_equal(arrays["rs"].asnumpy(), [[0, 0], [1, 2], [0, 0], [3, 4]])
    np.testing.assert_array_equal(arrays["csr"].asnumpy(), [[0, 5], [6, 0], [0, 0]])
    arrays = nd.load(DATA / "v3.params")
    assert float(arrays["scalar"].asnumpy().reshape(-1)[0]) == 2.5
    assert arrays["empty"].shape == (0, 3)
    assert nd.load_frombuffer(list_of(struct.pack("<Iii", 0xF993FAC9, 0, 0))) == [None]


def test_a_version_0_blob_has_32_bit_dimensions_and_no_magic() -> None:
    blob = struct.pack("<III", 2, 2, 1) + struct.pack("<iii", 1, 0, 0) + struct.pack("<ff", 1, 2)
    (array,) = nd.load_frombuffer(list_of(blob))
    np.testing.assert_array_equal(array.asnumpy(), [[1], [2]])


def test_a_version_1_blob_has_no_storage_type() -> None:
    blob = struct.pack("<IIqq", 0xF993FAC8, 2, 1, 2) + struct.pack("<iii", 2, 0, 4)
    (array,) = nd.load_frombuffer(list_of(blob + struct.pack("<ii", 8, 9)))
    assert array.dtype == np.int32
    assert array.context == mx.cpu()
    np.testing.assert_array_equal(array.asnumpy(), [[8, 9]])


def test_npz_files_of_mxnet_2_are_read() -> None:
    stream = io.BytesIO()
    np.savez(stream, **{"0.weight": np.float32([[1, 2]]), "0.bias": np.float32([3])})
    arrays = nd.load_frombuffer(stream.getvalue())
    assert sorted(arrays) == ["0.bias", "0.weight"]
    np.testing.assert_array_equal(arrays["0.weight"].asnumpy(), [[1, 2]])


# -- bad input ----------------------------------------------------------------------------------


def test_a_missing_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"no/such\.params.* does not exist") as caught:
        nd.load("no/such.params")
    assert isinstance(caught.value, (MXNetError, MissingFileError))


def test_a_truncated_file_names_itself_and_the_offset(tmp_path: Path) -> None:
    path = tmp_path / "cut.params"
    for size in range(len(GOLDEN)):
        path.write_bytes(GOLDEN[:size])
        with pytest.raises(FileFormatError, match=r"cut\.params'.*offset \d+") as caught:
            nd.load(path)
        assert isinstance(caught.value, ValueError)


UNKNOWN_TYPE = struct.pack("<Iiiqiii", 0xF993FAC9, 0, 1, 1, 1, 0, 99) + bytes(4)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (GOLDEN + b"abc", "offset 158: .*must end here, got 3 more bytes"),
        (
            struct.pack("<QQQ", 0x112, 0, 2**60) + GOLDEN[24:],
            f"offset 16: number of arrays is {2**60}",
        ),
        (list_of(UNKNOWN_TYPE), r"type code of array 0 of 1 must be in \[0, 12\], got 99"),
        (b"PK\x03\x04" + bytes(100), "damaged npz"),
    ],
)
def test_damaged_files_say_where(content: bytes, words: str) -> None:
    with pytest.raises(FileFormatError, match=words):
        nd.load_frombuffer(content)
    with pytest.raises(TypeError, match="must be bytes or a memoryview, got str"):
        nd.load_frombuffer("text")


def test_random_damage_is_an_error_or_other_values_but_never_a_crash() -> None:
    rng = np.random.RandomState(0)
    refused = 0
    for _ in range(500):
        damaged = bytearray(GOLDEN)
        for position in rng.randint(0, len(GOLDEN), size=3):
            damaged[position] = rng.randint(256)
        try:
            nd.load_frombuffer(bytes(damaged))
        except FileFormatError:
            refused += 1
    assert 100 < refused < 500


@pytest.mark.parametrize(
    "content", [b"\x89PNG\r\n\x1a\n", b"\x80\x02}q\x00.", b"\xff\xd8\xff\xe0", b"GIF89a" * 9]
)
def test_a_foreign_file_shows_what_was_found_and_expected(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other.bin"
    path.write_bytes(content)
    first = content[:4].hex(" ")
    with pytest.raises(FileFormatError, match=rf"other\.bin.*must be 12 01 00.*, got {first}"):
        nd.load(path)


def test_folders_are_errors_of_access(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Is a directory") as caught:
        nd.load(tmp_path)
    assert isinstance(caught.value, MXNetError)
    with pytest.raises(FileAccessError, match="Is a directory"):
        nd.save(tmp_path, [nd.array([1])])
    with pytest.raises(FileAccessError, match=r"cannot write file .*nowhere.*No such file"):
        nd.save(tmp_path / "nowhere" / "a.params", [nd.array([1])])


@pytest.mark.parametrize("data", [3, "text", {"a": 1}, [np.zeros(3)], None, {1: 2}])
def test_what_cannot_be_saved_is_named_and_nothing_is_written(data: object, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="save: ") as caught:
        nd.save(tmp_path / "a", data)
    assert isinstance(caught.value, MXNetError)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.params"
    nd.save(path, golden_arrays())

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device; the old file is unchanged"):
        nd.save(path, {"other": nd.ones((9, 9))})
    assert path.read_bytes() == GOLDEN
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_an_error_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.params"
    nd.save(path, golden_arrays())
    program = f"""
        import resource, signal
        import mxlite as mx
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            mx.nd.save({str(path)!r}, [mx.nd.ones((64, 64))])
        except OSError as error:
            assert isinstance(error, mx.base.MXNetError)
            print("refused:", error)
        print(mx.nd.load({str(path)!r})["b"].asnumpy())
    """
    done = run_python("-c", textwrap.dedent(program))
    assert "refused: save: cannot write file" in done.stdout
    assert "File too large; the old file is unchanged" in done.stdout
    assert "[7]" in done.stdout
    assert path.read_bytes() == GOLDEN
    assert list(tmp_path.iterdir()) == [path]


class _PickleOfMXNet:
    """Pickles as the arrays of MXNet 1.x do: a call and a state."""

    def __init__(self, blob: bytes | None) -> None:
        self.blob = blob

    def __reduce__(self) -> Any:
        return nd.NDArray, (None,), {"handle": self.blob}


def test_pickles_of_mxnet_hold_arrays() -> None:
    array = nd.array([[1, 2, 3]], dtype="int32")
    on_a_gpu = bytearray(array_to_blob(array))
    device_at = 4 + 4 + 4 + 2 * 8
    assert on_a_gpu[device_at] == 1
    on_a_gpu[device_at] = 2
    for blob in (array_to_blob(array), bytes(on_a_gpu)):
        back = pickle.loads(pickle.dumps(_PickleOfMXNet(blob)))
        assert back.dtype == np.int32 and back.context == mx.cpu()
        np.testing.assert_array_equal(back.asnumpy(), [[1, 2, 3]])
    with pytest.raises(ValueError, match="without value"):
        pickle.loads(pickle.dumps(_PickleOfMXNet(array_to_blob(array)[:8] + bytes(4))))
    with pytest.raises(mx.MXNetError):
        pickle.loads(pickle.dumps(_PickleOfMXNet(b"what")))
    for wrong in ((), (1,), (None, 1)):
        with pytest.raises(TypeError, match="cannot be made directly"):
            nd.NDArray(*wrong)
