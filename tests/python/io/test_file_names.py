"""Names of files that the system takes otherwise than the user means them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite.base import RecordError
from processes import run_python
from record_files import write_records

READERS: dict[str, Callable[[str], object]] = {
    "MXRecordIO": lambda path: mx.recordio.MXRecordIO(path, "r").read(),
    "CSVIter": lambda path: mx.io.CSVIter(data_csv=path, data_shape=(1,)),
    "LibSVMIter": lambda path: mx.io.LibSVMIter(path, data_shape=(1,)),
    "ImageRecordIter": lambda path: mx.io.ImageRecordIter(
        path_imgrec=path, data_shape=(3, 4, 4), batch_size=1
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_name_is_not_cut_at_a_zero_byte(reader: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    with pytest.raises((RecordError, FileNotFoundError)):
        READERS[reader](f"{tmp_path}/a\0.rec")


def test_a_record_file_is_not_written_under_a_cut_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"precious")
    with pytest.raises(RecordError, match="its name holds a zero byte"):
        mx.recordio.MXRecordIO(f"{tmp_path}/a\0.rec", "w")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"precious"]


# Runs in a process of its own: a reader that waits for the pipe holds up every thread.
PIPE = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/../unit"]
import test_file_names
try:
    test_file_names.READERS[sys.argv[2]](sys.argv[3])
except test_file_names.RecordError as error:
    print(error)
"""


@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_is_refused_and_not_waited_for(reader: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = run_python("-c", PIPE, Path(__file__).parent, reader, tmp_path / "pipe", timeout=60)
    assert "is not a regular file" in done.stdout


@pytest.mark.skipif(os.fsencode("\udcff") != b"\xff", reason="needs names of any bytes")
def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    """``os.listdir`` gives such names with surrogates."""
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xe9")
    os.mkdir(folder)
    record = write_records(Path(folder), [np.zeros((4, 4, 3), np.uint8)], [3.0], png=True)
    index = f"{folder}/a.idx"
    assert mx.recordio.MXIndexedRecordIO(index, record, "r").read_idx(0)
    images = mx.io.ImageRecordIter(
        path_imgrec=record, path_imgidx=index, data_shape=(3, 4, 4), batch_size=1
    )
    assert images.next().label[0].asscalar() == 3
    with open(f"{folder}/a.csv", "w") as file:
        file.write("5\n")
    assert mx.io.CSVIter(data_csv=f"{folder}/a.csv", data_shape=(1,)).next().data[0].asscalar() == 5
    assert mx.io.LibSVMIter(f"{folder}/a.csv", data_shape=(1,)).next().label[0].asscalar() == 5
    assert len(mx.gluon.data.RecordFileDataset(record)) == 1
    with pytest.raises(RecordError, match="cannot be opened"):
        mx.io.CSVIter(data_csv=f"{folder}/missing.csv", data_shape=(1,))
