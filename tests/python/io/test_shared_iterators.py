"""Threads that share an iterator: no crash, no batch twice, none lost, nobody waits forever."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest

ROWS, SIZE = 600, 4


def make_files(folder: Path) -> None:
    """Write rows and images that are numbered, with some long lines."""
    with open(folder / "a.csv", "w") as rows, open(folder / "a.svm", "w") as pairs:
        for i in range(ROWS):
            spaces = " " * (9000 if i % 50 == 0 else 0)  # no buffer has room for them at first
            rows.write(f"{i},{i},{i}{spaces}\n")
            pairs.write(f"{i} " + " ".join(f"{j}:{i}" for j in range(i % 7 + 1)) + spaces + "\n")
    writer = mx.recordio.MXRecordIO(str(folder / "a.rec"), "w")
    for i in range(ROWS):
        header = (0, float(i), i, 0)
        writer.write(mx.recordio.pack_img(header, np.zeros((4, 4, 3), "uint8"), img_fmt=".png"))
    writer.close()


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
sys.path.insert(0, sys.argv[1])
import test_shared_iterators as shared
kind, folder = sys.argv[2], Path(sys.argv[3])
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
    words = [sys.executable, "-c", RESETS, str(Path(__file__).parent), kind, str(tmp_path)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == "ended\n"


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
