"""A forked child drops objects whose threads stayed in the parent, and ends."""

import os
import signal
import time
from pathlib import Path
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import _core


def write_records(path: str) -> None:
    writer = mx.recordio.MXRecordIO(path, "w")
    pixels = np.arange(16 * 16 * 3, dtype="uint8").reshape(16, 16, 3)
    for i in range(40):
        writer.write(mx.recordio.pack_img(mx.recordio.IRHeader(0, 1.0, i, 0), pixels))
    writer.close()


def iterator(folder: Path) -> Any:
    path = str(folder / "images.rec")
    write_records(path)
    reader = mx.io.ImageRecordIter(
        path_imgrec=path, data_shape=(3, 16, 16), batch_size=2, preprocess_threads=2
    )
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
            status = 0 if "before this process was forked" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    reader.reset()
    assert sum(batch.data[0].shape[0] for batch in reader) == 40
