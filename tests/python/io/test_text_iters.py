"""CSVIter, LibSVMIter and MNISTIter: values, tails, parts, and files that are none."""

from __future__ import annotations

import gzip
import logging
import struct
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def epochs(batches: mx.io.MXDataIter, count: int = 2) -> list[list[Any]]:
    found = []
    for _ in range(count):
        arrays = [(b.data[0].asnumpy(), b.label[0].asnumpy(), b.pad, b.index) for b in batches]
        found.append([(d.tolist(), label.tolist(), pad, i.tolist()) for d, label, pad, i in arrays])
        batches.reset()
    return found


def test_csv_rows_in_batches_the_last_one_wraps(tmp_path: Path) -> None:
    data = write(tmp_path / "d.csv", "1,2\n3, -4.5\r\n\n+5e1,6,\n")
    labels = write(tmp_path / "l.csv", "7\n8\n9")
    options = {"data_csv": data, "data_shape": (2,), "label_csv": labels, "ctx": "cpu"}
    batches = mx.io.CSVIter(batch_size=2, **options)
    assert batches.provide_data == [("data", (2, 2))]
    assert batches.provide_label == [("softmax_label", (2,))]
    first, last = ([[1, 2], [3, -4.5]], [7, 8], 0, [0, 1]), ([[50, 6], [1, 2]], [9, 7], 1, [2, 0])
    expected = [first, last]
    assert epochs(batches) == [expected, expected]
    with pytest.raises(StopIteration):
        for _ in range(3):
            batches.next()


def test_csv_without_rounding_fills_with_zeros(tmp_path: Path) -> None:
    data = write(tmp_path / "d.csv", "1,2,3,4\n5,6,7,8\n9,10,11,12\n")
    options = {"data_csv": data, "data_shape": (2, 2), "dtype": "int64"}
    batches = mx.io.CSVIter(batch_size=2, round_batch=0, **options)
    first, last = epochs(batches, 1)[0]
    assert first[:2] == ([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [0, 0])
    assert last == ([[[9, 10], [11, 12]], [[0, 0], [0, 0]]], [0, 0], 1, [2, -1])
    batches.reset()
    assert batches.next().data[0].dtype == np.int64
    # A file shorter than a batch wraps several times.
    small = mx.io.CSVIter(data_csv=data, data_shape=(4,), batch_size=7)
    assert [row[0] for row in epochs(small)[1][0][0]] == [1, 5, 9, 1, 5, 9, 1]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_csv_takes_whole_numbers_as_numpy_writes_them(tmp_path: Path, dtype: str) -> None:
    values = np.array([[0, -3], [2**31 - 1, 10]])
    np.savetxt(tmp_path / "d.csv", values, delimiter=",")
    path = str(tmp_path / "d.csv")
    batches = mx.io.CSVIter(data_csv=path, data_shape=(2,), batch_size=2, dtype=dtype)
    assert_array_equal(batches.next().data[0].asnumpy(), values)
    for number in ("1.5", "1e-1", "1e300", "2.5e9" if dtype == "int32" else "1e17", "1e"):
        path = write(tmp_path / "bad.csv", f"{number},2\n")
        bad = mx.io.CSVIter(data_csv=path, data_shape=(2,), batch_size=1, dtype=dtype)
        with pytest.raises(mx.MXNetError, match="column 1 of 2 must be a number of the dtype"):
            bad.next()


def test_csv_values_are_those_of_numpy(tmp_path: Path) -> None:
    values = np.random.RandomState(0).standard_normal((40, 5)).astype(np.float32)
    path = tmp_path / "d.csv"
    np.savetxt(path, values, delimiter=",", fmt="%.9g")
    batches = mx.io.CSVIter(data_csv=str(path), data_shape=(5,), batch_size=8)
    read = np.concatenate([batch.data[0].asnumpy() for batch in batches])
    assert_array_equal(read, values)


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("csv", "1,2\n3\n", "line 2: '3': the line must have 2 columns, got 1"),
        ("csv", "1,2\n3,4,5\n", "line 2: '3,4,5': the line must have 2 columns, got more"),
        ("csv", "1,2\n\nx,4\n", "line 3: 'x,4': column 1 of 2 must be a number"),
        ("csv", "1;2\n", "line 1: '1;2': column 1 of 2 must be a number"),
        ("csv", "1,2e999\n", "column 2 of 2 must be a number of the dtype"),
        ("libsvm", "1 3:1\n", "columns must be in [0, 2], got 3"),
        ("libsvm", "1 0:1\n0 -1:2\n", "line 2: '0 -1:2': columns must be in [0, 2], got -1"),
        ("libsvm", "1 1:1 1:2\n", "columns must be distinct, got 1 twice"),
        ("libsvm", "1 2:1 1:2 0:3 2:1\n", "columns must be distinct, got 2 twice"),
        ("libsvm", "a 1:1\n", "the line must begin with a number"),
        ("libsvm", "1 1\n", "the label must be followed by pairs column:value"),
        ("libsvm", "1 1:\n", "column 1 must have a number as its value"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, kind: str, text: str, words: str) -> None:
    path = write(tmp_path / "d.txt", text)
    with pytest.raises(mx.base.RecordError, match="d.txt") as error:
        if kind == "csv":
            list(mx.io.CSVIter(data_csv=path, data_shape=(2,), batch_size=1))
        else:
            list(mx.io.LibSVMIter(data_libsvm=path, data_shape=(3,), batch_size=1))
    assert words in str(error.value)


def test_csv_wrong_calls(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", "1,2\n3,4\n")
    short = write(tmp_path / "l.csv", "1\n")
    with pytest.raises(mx.base.RecordError, match="ends at row 1"):
        mx.io.CSVIter(data_csv=path, data_shape=(2,), label_csv=short, batch_size=2).next()
    with pytest.warns(UserWarning, match="unknown parameter 'batchsize' is ignored.*batch_size"):
        mx.io.CSVIter(data_csv=path, data_shape=(2,), batchsize=2, batch_size=1)
    for options, error, words in (
        ({"data_csv": "nowhere.csv"}, OSError, "nowhere.csv': cannot be opened: No such file"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, got 0"),
        (
            {"batch_size": 2**62},
            ValueError,
            "batch_size must be at most .*, got 4611686018427387904",
        ),
        ({"data_shape": (2**62, 2**62)}, ValueError, "must have less than 2.62 elements"),
        ({"dtype": "uint8"}, TypeError, "uint8"),
    ):
        with pytest.raises(error, match=words):
            mx.io.CSVIter(**{"data_csv": path, "data_shape": (2,), "batch_size": 1, **options})


SVM = "1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2 # words\n4 2:-1.2\n"


def test_libsvm_gives_csr_batches(tmp_path: Path) -> None:
    path = write(tmp_path / "d.svm", SVM)
    batches = mx.io.LibSVMIter(data_libsvm=path, data_shape=(3,), batch_size=3)
    for _ in range(2):
        first, last = batches
        assert first.data[0].stype == "csr" and first.label[0].stype == "default"
        assert_allclose(first.data[0], [[0.5, 0, 1.2], [0, 0, 0], [0.6, 2.4, 1.2]], rtol=1e-6)
        assert_array_equal(first.label[0].asnumpy(), [1, -2, -3])
        assert first.data[0].indptr.asnumpy().tolist() == [0, 2, 2, 5]
        assert_allclose(last.data[0].asnumpy(), [[0, 0, -1.2], [0.5, 0, 1.2], [0, 0, 0]], rtol=1e-6)
        assert (last.pad, last.index.tolist()) == (2, [3, 0, 1])
        batches.reset()
    weight = mx.nd.array([[1.0], [2.0], [3.0]])
    assert_allclose(mx.nd.dot(first.data[0], weight).asnumpy()[:, 0], [4.1, 0, 9.0], rtol=1e-6)
    *_, plain = mx.io.LibSVMIter(data_libsvm=path, data_shape=(3,), batch_size=3, round_batch=0)
    assert plain.data[0].asnumpy()[1:].any() is np.False_ and plain.index.tolist() == [3, -1, -1]


def test_libsvm_labels_of_their_own(tmp_path: Path) -> None:
    path = write(tmp_path / "d.svm", SVM)
    labels = write(tmp_path / "l.svm", "1.0\n-2.0 0:0.125\n-3.0 2:1.2\n4 1:1.0 2:-1.2\n")
    batch = mx.io.LibSVMIter(
        data_libsvm=path, data_shape=(3,), label_libsvm=labels, label_shape=(3,), batch_size=4
    ).next()
    assert batch.label[0].stype == "csr"
    expected = [[0, 0, 0], [0.125, 0, 0], [0, 0, 1.2], [0, 1, -1.2]]
    assert_allclose(batch.label[0].asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 50])
def test_libsvm_parts_cover_every_line_once(tmp_path: Path, parts: int) -> None:
    path = write(tmp_path / "d.svm", "".join(f"{i} {i % 9}:1\n" for i in range(23)))
    seen: list[float] = []
    for part in range(parts):
        options = {"num_parts": parts, "part_index": part}
        batches = mx.io.LibSVMIter(data_libsvm=path, data_shape=(9,), batch_size=1, **options)
        seen += [float(batch.label[0].asscalar()) for batch in batches]
    assert seen == list(range(23))


def test_libsvm_sizes_are_limited(tmp_path: Path) -> None:
    path = write(tmp_path / "d.svm", SVM)
    with pytest.raises(ValueError, match="batch_size must be at most .*, got 4611686018427387904"):
        mx.io.LibSVMIter(data_libsvm=path, data_shape=(3,), batch_size=2**62)
    with pytest.raises(ValueError, match="must have less than 2.62 elements"):
        mx.io.LibSVMIter(data_libsvm=path, data_shape=(2**63,), batch_size=1)
    with pytest.raises(
        mx.MXNetError, match="LibSVMIter: .*rows must be in .*, got 4611686018427387904"
    ):
        mx._core.LibSvmReader(path, 3, 0, 1).read(2**62, True)


def test_libsvm_columns_in_any_order(tmp_path: Path) -> None:
    path = write(tmp_path / "d.svm", "1 3:1 0:.5\n0 2:1\n1 2:3 3:4 1:2\n")
    batches = mx.io.LibSVMIter(data_libsvm=path, data_shape=(4,), batch_size=3)
    data = next(batches).data[0]
    assert data.asnumpy().tolist() == [[0.5, 0, 0, 1], [0, 0, 1, 0], [0, 2, 3, 4]]
    assert data.indices.asnumpy().tolist() == [0, 3, 2, 1, 2, 3]


def mnist(folder: Path, packed: bool = False) -> dict[str, str]:
    images = struct.pack(">iiii", 2051, 10, 4, 3) + bytes(range(120))
    labels = struct.pack(">ii", 2049, 10) + bytes(range(10))
    names = {"image": folder / "images", "label": folder / "labels"}
    for path, raw in zip(names.values(), (images, labels)):
        path.write_bytes(gzip.compress(raw) if packed else raw)
    return {key: str(path) for key, path in names.items()}


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_images_flat_and_not(tmp_path: Path, packed: bool) -> None:
    files = mnist(tmp_path, packed)
    batches = mx.io.MNISTIter(batch_size=3, shuffle=False, silent=True, **files)
    pixels = np.arange(120, dtype=np.float32).reshape(10, 1, 4, 3) / 256
    for _ in range(2):
        read = list(batches)
        labels = [batch.label[0].asnumpy().tolist() for batch in read]
        assert labels == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
        assert_array_equal(np.concatenate([batch.data[0].asnumpy() for batch in read]), pixels[:9])
        batches.reset()
    flat = mx.io.MNISTIter(batch_size=3, shuffle=False, flat=True, silent=True, **files)
    assert flat.provide_data == [("data", (3, 12))]
    assert_array_equal(flat.next().data[0].asnumpy(), pixels[:3].reshape(3, 12))


def test_mnist_seeds_and_parts(tmp_path: Path) -> None:
    files = mnist(tmp_path)

    def order(**options: Any) -> list[float]:
        batches = mx.io.MNISTIter(batch_size=1, silent=True, **options, **files)
        return [float(batch.label[0].asscalar()) for batch in batches]

    assert order(seed=1) == order(seed=1) != order(seed=2)
    assert sorted(order(seed=1)) == list(range(10))
    parts = [order(seed=4, num_parts=3, part_index=part) for part in range(3)]
    assert sum(parts, []) == order(seed=4)


def test_mnist_ignores_what_other_iterators_take(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="'data_shape' is ignored"):
        batches = mx.io.MNISTIter(batch_size=3, data_shape=(12,), silent=True, **mnist(tmp_path))
    assert batches.provide_data == [("data", (3, 1, 4, 3))]


def test_mnist_leaves_the_root_logger_to_the_script(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    mx.io.MNISTIter(batch_size=3, **mnist(tmp_path))
    assert logging.root.handlers == []


def test_mnist_wrong_files(tmp_path: Path) -> None:
    files = mnist(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        mx.io.MNISTIter(image="nowhere", label=files["label"])
    with pytest.raises(
        mx.base.RecordError, match="offset 0: first bytes must be 00000803, .*got 00000801"
    ):
        mx.io.MNISTIter(image=files["label"], label=files["label"], silent=True)
    raw = Path(files["image"]).read_bytes()
    Path(files["image"]).write_bytes(raw[:-1])
    with pytest.raises(mx.base.RecordError, match=r"must be 120 for shape \(10, 4, 3\), got 119"):
        mx.io.MNISTIter(batch_size=1, silent=True, **files)


def test_the_parts_of_a_batch_one_by_one(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", "1,2\n3,4\n5,6\n")
    batches = mx.io.CSVIter(data_csv=path, data_shape=(2,), batch_size=2)
    assert isinstance(batches, mx.io.MXDataIter)
    assert batches.iter_next()
    assert batches.getdata().asnumpy().tolist() == [[1, 2], [3, 4]]
    assert batches.getlabel().shape == (2,)
    assert (batches.getpad(), batches.getindex().tolist()) == (0, [0, 1])
    assert batches.iter_next() and batches.getpad() == 1
    assert not batches.iter_next()
    batches.reset()
    batches.debug_skip_load()
    assert all(batches.next().index.tolist() == [0, 1] for _ in range(5))


def made(kind: str, folder: Path, **options: Any) -> mx.io.MXDataIter:
    if kind == "csv":
        data = write(folder / "d.csv", "".join(f"{i},{i + 0.5}\n" for i in range(7)))
        labels = write(folder / "l.csv", "".join(f"{i}\n" for i in range(7)))
        given = {"data_csv": data, "data_shape": (2,), "label_csv": labels, "batch_size": 3}
        return mx.io.CSVIter(**{**given, **options})
    if kind == "libsvm":
        data = write(folder / "d.svm", "".join(f"{i} 0:{i} 2:{i + 0.5}\n" for i in range(7)))
        given = {"data_libsvm": data, "data_shape": (3,), "batch_size": 3}
        return mx.io.LibSVMIter(**{**given, **options})
    return mx.io.MNISTIter(**{**mnist(folder), "batch_size": 2, "seed": 4, "silent": 1, **options})


@pytest.mark.parametrize("kind", ["csv", "libsvm", "mnist"])
def test_another_iterator_goes_on_from_a_saved_position(tmp_path: Path, kind: str) -> None:
    expected = epochs(made(kind, tmp_path))[0]
    for position in range(len(expected) + 1):
        first, second = made(kind, tmp_path), made(kind, tmp_path)
        for _ in range(position):
            first.next()
        second.load_state_dict(first.state_dict())
        rest, whole = epochs(second)
        assert rest == expected[position:]
        assert whole == expected


@pytest.mark.parametrize("kind", ["csv", "libsvm", "mnist"])
def test_positions_of_other_data_are_refused(tmp_path: Path, kind: str) -> None:
    state = made(kind, tmp_path).state_dict()
    with pytest.raises(ValueError, match="the saved position has batch_size"):
        made(kind, tmp_path, batch_size=1).load_state_dict(state)


def test_positions_behind_the_end_are_refused(tmp_path: Path) -> None:
    state = made("csv", tmp_path).state_dict()
    state["row"] = 8
    with pytest.raises(ValueError, match="after row 8, the file has 7 rows"):
        made("csv", tmp_path).load_state_dict(state)
