"""Iterators in threads that share them, and in forked processes: no batch twice, none lost."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import _core
from processes import run_python
from record_files import write_records

ROWS, SIZE = 600, 4


def make_files(folder: Path) -> None:
    """Write rows and images that are numbered, with some long lines."""
    with open(folder / "a.csv", "w") as rows, open(folder / "a.svm", "w") as pairs:
        for i in range(ROWS):
            spaces = " " * (9000 if i % 50 == 0 else 0)  # no buffer has room for them at first
            rows.write(f"{i},{i},{i}{spaces}\n")
            pairs.write(f"{i} " + " ".join(f"{j}:{i}" for j in range(i % 7 + 1)) + spaces + "\n")
    write_records(folder, [np.zeros((4, 4, 3), "uint8")] * ROWS, png=True)


MAKERS: dict[str, Callable[[Path], Any]] = {
    "csv": lambda f: mx.io.CSVIter(data_csv=str(f / "a.csv"), data_shape=(3,), batch_size=SIZE),
    "libsvm": lambda f: mx.io.LibSVMIter(str(f / "a.svm"), data_shape=(9,), batch_size=SIZE),
    "images": lambda f: mx.io.ImageRecordIter(
        path_imgrec=str(f / "a.rec"), data_shape=(3, 4, 4), batch_size=SIZE
    ),
    "prefetched": lambda f: mx.io.PrefetchingIter(
        mx.io.NDArrayIter(np.arange(ROWS), np.arange(ROWS), SIZE)
    ),
}
FIRST = {
    "csv": lambda batch: batch.data[0].asnumpy()[:, 0],
    "libsvm": lambda batch: batch.label[0].asnumpy().reshape(-1),
    "images": lambda batch: batch.label[0].asnumpy(),
    "prefetched": lambda batch: batch.data[0].asnumpy(),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_each_batch_goes_to_one_thread(kind: str, tmp_path: Path) -> None:
    make_files(tmp_path)
    iterator = MAKERS[kind](tmp_path)
    found: list[list[float]] = [[] for _ in range(4)]

    def take(mine: list[float]) -> None:
        for batch in iter(iterator.next, None):
            mine.extend(FIRST[kind](batch))

    threads = [threading.Thread(target=take, args=(mine,), daemon=True) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert sorted(number for mine in found for number in mine) == list(range(ROWS))


# Runs in a process of its own, because the fault was a crash.
RESETS = """
import sys, threading, time
from pathlib import Path
import test_shared_iterators as shared
kind, folder = sys.argv[1], Path(sys.argv[2])
iterator = shared.MAKERS[kind](folder)
end = time.monotonic() + 1.5
def work(resets):
    while time.monotonic() < end:
        try:
            shared.FIRST[kind](iterator.next())
        except StopIteration:
            iterator.reset()
        if resets:
            iterator.reset()
        if kind == "images":
            iterator.state_dict()
            iterator.skipped
threads = [threading.Thread(target=work, args=(i < 2,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("ended")
"""


@pytest.mark.parametrize("kind", MAKERS)
def test_threads_that_begin_again(kind: str, tmp_path: Path) -> None:
    make_files(tmp_path)
    folders = {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert run_python("-c", RESETS, kind, tmp_path, environment=folders).stdout == "ended\n"


def test_prefetching_iterator_of_a_parent_process_is_an_error() -> None:
    iterator = mx.io.PrefetchingIter(mx.io.NDArrayIter(np.arange(40), None, 2))
    iterator.next()
    time.sleep(0.2)  # the thread has put its next batch and waits
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for _ in range(3):
                iterator.next()
        except mx.MXNetError as error:
            code = 0 if "does not run in this process" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert iterator.next() is not None


def iterator(folder: Path) -> Any:
    path = write_records(folder, [np.zeros((16, 16, 3), np.uint8)] * 40)
    options = {"batch_size": 2, "preprocess_threads": 2}
    reader = mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 16, 16), **options)
    reader.next()
    return reader


def packer(folder: Path) -> Any:
    return _core.ImagePacker(
        pass_through=False, color=1, center_crop=False, resize=0, png=False, quality=95, threads=2
    )


def fork() -> int:
    """Fork; a child that hangs is killed after 20 s."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
    return child


@pytest.mark.parametrize("make", [iterator, packer])
def test_a_forked_child_drops_waiting_threads(make: Callable[[Path], Any], tmp_path: Path) -> None:
    thing = make(tmp_path)
    time.sleep(0.2)  # the threads wait for work
    child = fork()
    if child == 0:
        del thing
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_child_may_not_read_on(tmp_path: Path) -> None:
    reader = iterator(tmp_path)
    child = fork()
    if child == 0:
        status = 1
        try:
            for _ in range(20):
                reader.next()
        except (mx.MXNetError, StopIteration) as error:
            status = 0 if "must be used in the process that made it" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    reader.reset()
    assert sum(batch.data[0].shape[0] for batch in reader) == 40
