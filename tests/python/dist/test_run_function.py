"""hvd.run: a function on several processes, its results, its failures, its messages."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
import pytest
from conftest import run_python
from launch_jobs import PACKAGE
from mxlite.horovod.secret_channel import Channel, ChannelError

pytestmark = pytest.mark.usefixtures("mpirun")


def summed(base: float, times: int = 1) -> tuple[int, Any]:
    hvd.init()
    total = hvd.allreduce(mx.nd.full((3,), base + hvd.rank()), op=hvd.Sum)
    return hvd.rank(), total.asnumpy() * times


def fails_on_one() -> None:
    hvd.init()
    for _ in range(10**6):
        if hvd.rank() == 1:
            raise KeyError("the data are gone")
        hvd.allreduce(mx.nd.ones((2,)), name="x").wait_to_read()


def dies_on_one() -> None:
    hvd.init()
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    hvd.allreduce(mx.nd.ones((2,)), name="x").wait_to_read()


def fails_before_it_joins() -> None:
    if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
        raise ValueError("no such file")
    hvd.init()


def returns_what_cannot_be_sent() -> Any:
    return threading.Lock()


def test_results_come_in_the_order_of_ranks() -> None:
    results = hvd.run(summed, args=(1.5,), kwargs={"times": 2}, num_proc=2, hosts="localhost:2")
    assert [rank for rank, _ in results] == [0, 1]
    for _, total in results:
        np.testing.assert_array_equal(total, np.full(3, 8.0, "float32"))
    with pytest.warns(DeprecationWarning, match="num_proc"):
        assert len(hvd.run(summed, (1.0,), np=1)) == 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (fails_on_one, ("rank 1 failed", "KeyError: 'the data are gone'", "in fails_on_one")),
        (dies_on_one, ("rank 1 failed", "the process is gone")),
        (fails_before_it_joins, ("rank 0 failed", "ValueError: no such file")),
        (returns_what_cannot_be_sent, ("rank 0 failed", "pickle")),
    ],
)
def test_a_failure_names_the_rank_and_what_it_raised(function, words: tuple[str, ...]) -> None:
    begin = time.monotonic()
    with pytest.raises(hvd.runner.RunError) as caught:
        hvd.run(function, num_proc=2)
    for word in words:
        assert word in str(caught.value)
    assert time.monotonic() - begin < 40


@pytest.mark.parametrize(
    ("function", "options", "kind", "words"),
    [
        (3, {"num_proc": 2}, TypeError, "func must be a function, got 3"),
        (summed, {"num_proc": 0}, ValueError, "num_proc must be a number above 0, got 0"),
        (
            summed,
            {"hosts": "a:1", "hostfile": "b"},
            ValueError,
            "hosts or hostfile must be None",
        ),
        (
            summed,
            {"num_proc": 2, "min_num_proc": 1},
            NotImplementedError,
            "mxlite-run --elastic",
        ),
        (
            summed,
            {"args": (1,), "num_proc": 3, "hosts": "localhost:2"},
            mx.MXNetError,
            "at most that of slots, 2, got 3",
        ),
        (summed, {"args": (threading.Lock(),), "num_proc": 2}, TypeError, "must be picklable"),
    ],
)
def test_arguments_that_make_no_job_are_refused(function, options, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        hvd.run(function, **options)


def test_a_process_of_a_job_starts_no_other_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    with pytest.raises(mx.MXNetError, match="part of a job of mpirun"):
        hvd.run(summed, num_proc=2)


SCRIPT = """
import horovod
import horovod.mxnet as hvd
import mxnet as mx
from horovod.runner import run

def train(values):
    hvd.init()
    total = hvd.allreduce(mx.nd.array(values), op=hvd.Sum)
    return hvd.rank(), total.asnumpy().tolist()

def main():
    assert run is horovod.run
    factor = 3.0
    print("by name", horovod.run(train, args=([1.0, 2.0],), np=2))
    if WHOLE:
        print("closure", horovod.run(lambda: train([factor]), num_proc=2))
    else:
        try:
            horovod.run(lambda: train([factor]), num_proc=2)
        except TypeError as error:
            print("closure", "pip install cloudpickle" in str(error))

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("whole", [True, False], ids=["cloudpickle", "pickle"])
def test_functions_of_a_script_through_the_alias(tmp_path: Path, whole: bool) -> None:
    if whole:
        pytest.importorskip("cloudpickle")
    else:
        (tmp_path / "cloudpickle.py").write_text("raise ImportError('not installed')\n")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("WHOLE", str(whole)))
    words = ["-W", "ignore::DeprecationWarning", "-m", "mxlite.compat", str(script)]
    path = f"{tmp_path}{os.pathsep}{PACKAGE}"
    done = run_python(*words, cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by name [(0, [2.0, 4.0]), (1, [2.0, 4.0])]" in done.stdout
    if whole:
        assert "closure [(0, [6.0]), (1, [6.0])]" in done.stdout
    else:
        assert "closure True" in done.stdout


def _both_ends(*keys: bytes) -> Any:
    """Return the channels of a caller and a task, and the connections that they use."""
    ends = Pipe()
    with ThreadPoolExecutor(2) as pool:  # each waits for the other
        roles, seconds = ("caller", "task"), (5.0, 5.0)
        return (*pool.map(Channel, ends, keys, roles, seconds), *ends)


def test_only_who_has_the_key_is_heard() -> None:
    caller, task, here, there = _both_ends(b"k" * 32, b"k" * 32)
    task.send(b"hello")
    caller.send(b"")
    assert caller.receive() == b"hello"
    assert task.receive() == b""
    # A repeated message, one sent back to its sender, and one that was changed.
    for change in ("again", "back", "changed"):
        caller, task, here, there = _both_ends(b"k" * 32, b"k" * 32)
        task.send(b"pickle")
        message = here.recv_bytes()
        if change == "again":
            there.send_bytes(message)
            assert caller.receive() == b"pickle"
            there.send_bytes(message)
        elif change == "back":
            here.send_bytes(message)
        else:
            there.send_bytes(message[:-1] + b"x")
        with pytest.raises(ChannelError, match="must be sealed with the key of the job"):
            (task if change == "back" else caller).receive()
    caller, task, here, there = _both_ends(b"k" * 32, b"q" * 32)
    task.send(b"pickle")
    with pytest.raises(ChannelError, match="must be sealed with the key of the job"):
        caller.receive()


def test_strangers_at_the_port_are_left_alone() -> None:
    here, there = Pipe()
    with pytest.raises(ChannelError, match="no message within"):
        Channel(here, b"k" * 32, "caller", 0.1)
    there.send_bytes(b"GET / HTTP/1.1")
    with pytest.raises(ChannelError, match="number of bytes must be 32, got 14"):
        Channel(here, b"k" * 32, "caller", 0.1)
    there.send_bytes(b"x" * 33)
    with pytest.raises(OSError):  # more than a stranger may send
        Channel(here, b"k" * 32, "caller", 0.1)
