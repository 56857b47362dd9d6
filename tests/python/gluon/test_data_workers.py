"""The processes of a DataLoader: what they deliver, and how they end."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import random
import signal
import time
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from mxlite.base import MXNetError
from mxlite.gluon import data
from mxlite.gluon.data.channel import Channel
from mxlite.gluon.data.dataloader import WorkerDiedError, WorkerError, WorkerTimeoutError
from numpy.testing import assert_allclose, assert_array_equal
from processes import run_python


@pytest.fixture(autouse=True)
def _no_workers_of_others() -> None:
    gc.collect()  # loaders that the traceback of an error held
    assert not multiprocessing.active_children()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def process_of(number: int) -> int:
    return os.getpid()


def loader_of(
    samples: Any, function: Any = None, batch_size: int = 1, num_workers: int = 2, **options: Any
) -> data.DataLoader:
    """Return a loader of samples that a function in the workers changes."""
    rows = data.SimpleDataset(list(samples))
    rows = rows if function is None else rows.transform(function)
    return data.DataLoader(rows, batch_size, num_workers=num_workers, **options)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, "two", (3.0, {"four": b"5"})],
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.zeros((0, 3), np.float32),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(100000.0).reshape(10, 10000),
        np.arange(20000.0)[::2],
        [np.full(3, i) for i in range(1500)],
        b"x" * 100000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_message_arrives_as_it_was(value: Any) -> None:
    first, second = Channel.pair()
    before = open_files()
    first.send(value)
    np.testing.assert_equal(second.receive(), value)
    assert open_files() == before
    first.close()
    with pytest.raises(EOFError):
        second.receive()
    second.close()


@pytest.mark.parametrize("shape", [(2, 3), (0, 4), (3, 40000)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8"])
def test_an_array_arrives_with_its_type_and_can_be_written(shape: Any, dtype: str) -> None:
    first, second = Channel.pair()
    sent = nd.ones(shape, dtype=dtype) * 3
    first.send((sent, 1))
    received, _ = second.receive()
    first.close()
    second.close()
    assert received.dtype == sent.dtype
    assert received.shape == shape
    received += 1
    assert (received.astype("float32").asnumpy() == 4).all()


def test_batches_come_from_other_processes_and_live_on_without_the_loader() -> None:
    rows = np.random.rand(12, 50, 40).astype(np.float32)
    pairs = data.ArrayDataset(nd.array(rows), np.arange(12, dtype=np.int32))
    workers = set()
    rows_of_workers = pairs.transform(lambda row, label: (row * 2, label, os.getpid()))
    loader = data.DataLoader(rows_of_workers, 5, num_workers=2)
    batches = list(loader)
    for image, label, pid in batches:
        assert image.context == mx.cpu()
        assert label.dtype == np.int32
        workers.update(pid.asnumpy().tolist())
    assert os.getpid() not in workers
    assert len(workers) == 2
    del loader, image, label, pid
    gc.collect()
    assert_array_equal(np.concatenate([image.asnumpy() for image, _, _ in batches]), rows * 2)


@pytest.mark.parametrize("prefetch", [0, 1, 7])
def test_two_passes_at_once_do_not_mix(prefetch: int) -> None:
    loader = loader_of(range(9), None, 2, prefetch=prefetch)
    pairs = [(a.asnumpy().tolist(), b.asnumpy().tolist()) for a, b in zip(loader, loader)]
    assert pairs == [([i, i + 1][: 9 - i], [i, i + 1][: 9 - i]) for i in range(0, 9, 2)]


def test_a_pool_of_threads_stays_in_this_process() -> None:
    loader = loader_of([1, 2], process_of, thread_pool=True)
    assert [batch.asscalar() for batch in loader] == [os.getpid()] * 2


def test_operators_and_blocks_work_in_workers() -> None:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(3, 3, in_channels=2), mx.gluon.nn.Dense(4, in_units=108))
    net.initialize()
    net.hybridize()
    images = nd.random.normal(shape=(6, 2, 8, 8))
    expected = net(images).asnumpy()  # OpenMP threads exist before the fork
    rows = data.ArrayDataset(images).transform(lambda x: net(x.expand_dims(0))[0])
    got = [batch.asnumpy() for batch in data.DataLoader(rows, 2, num_workers=2)]
    assert_allclose(np.concatenate(got), expected, rtol=1e-5, atol=1e-6)


class _Awkward(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


@pytest.mark.parametrize(
    ("raised", "caught"),
    [
        (KeyError("sample 3"), KeyError),
        (_Awkward(1, 2), WorkerError),
        (SystemExit(7), WorkerError),
        (mx.base.ShapeError("conv: too small"), mx.base.ShapeError),
    ],
)
def test_an_error_keeps_its_type_and_shows_the_worker_s_traceback(
    raised: BaseException, caught: type[Exception]
) -> None:
    def explode(number: int) -> int:
        if number == 3:
            raise raised
        return number

    loader = loader_of(range(8), explode)
    seen = []
    with pytest.raises(caught) as error:
        for batch in loader:
            seen.append(batch.asscalar())
    assert seen == [0, 1, 2]
    assert "in explode" in str(error.value.__cause__)
    with pytest.raises(caught):  # the workers are still there
        list(loader)


def test_a_batch_that_cannot_be_sent_is_an_error() -> None:
    loader = loader_of([1], batchify_fn=lambda batch: lambda: batch)
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda|pickle"):
        list(loader)


@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGSTOP, "stopped")]
)
def test_a_killed_or_stopped_worker_is_named_within_five_seconds(number: int, words: str) -> None:
    parent = os.getpid()

    def hurt(index: int) -> int:
        if index == 5:
            assert os.getpid() != parent
            os.kill(os.getpid(), number)
        return index

    loader = loader_of(range(20), hurt)
    begin = time.monotonic()
    with pytest.raises(WorkerDiedError, match=rf"worker \d of 2 \(process \d+\).*{words}.*batch 5"):
        list(loader)
    assert time.monotonic() - begin < 5
    assert not multiprocessing.active_children()


def test_workers_killed_between_two_passes_are_an_error_then_replaced() -> None:
    loader = loader_of([0, 1, 2], process_of, num_workers=1)
    first = {batch.asscalar() for batch in loader}
    os.kill(first.pop(), signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match="SIGKILL"):
        list(loader)
    assert len(list(loader)) == 3


def test_a_hanging_worker_is_named_and_ended() -> None:
    loader = loader_of([0], lambda n: time.sleep(60), num_workers=1, timeout=0.2)
    with pytest.raises(WorkerTimeoutError, match=r"worker 0 of 1 .* within 0.2 seconds") as error:
        list(loader)
    assert isinstance(error.value, (MXNetError, TimeoutError))
    assert not multiprocessing.active_children()


def test_many_passes_complete_or_not_leave_no_files_and_no_processes() -> None:
    rows = data.ArrayDataset(np.zeros((8, 100, 100), np.float32))
    loader = data.DataLoader(rows, 2, num_workers=2)
    list(loader)
    gc.collect()
    before = open_files()
    for _ in range(60):
        assert len(list(loader)) == 4
        for _batch in loader:
            break
    del _batch
    list(loader)
    gc.collect()
    assert open_files() == before
    del loader
    gc.collect()
    assert not multiprocessing.active_children()
    assert open_files() < before


def test_samples_drawn_at_random_follow_the_seeds_and_not_the_workers() -> None:
    def draw(index: int) -> tuple[float, float, float]:
        return random.random(), np.random.rand(), nd.random.uniform(shape=(1,)).asscalar()

    def draws(workers: int, seed: int) -> Any:
        mx.random.seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        loader = loader_of(range(6), draw, 2, workers)
        return [
            np.stack([np.concatenate([part.asnumpy() for part in parts]) for parts in zip(*loader)])
            for _ in range(2)
        ]

    one, three, other = draws(1, 5), draws(3, 5), draws(1, 6)
    assert_array_equal(one, three)
    values = np.stack([*one, *other])
    assert len(np.unique(values)) == values.size  # no two samples, passes or seeds alike


def test_shuffling_is_the_same_with_and_without_workers() -> None:
    orders = []
    for workers in (0, 2):
        np.random.seed(3)
        loader = loader_of(range(10), None, 4, workers, shuffle=True)
        orders.append([batch.asnumpy().tolist() for _ in range(2) for batch in loader])
    assert orders[0] == orders[1]


def test_auto_reload_starts_before_it_is_asked() -> None:
    loader = loader_of([1, 2], num_workers=1, auto_reload=True, prefetch=2)
    assert multiprocessing.active_children()
    assert [len(list(loader)) for _ in range(3)] == [2, 2, 2]


SCRIPT = """
import os, sys, time
import numpy as np
from mxlite.gluon import data

def main(how):
    rows = data.ArrayDataset(np.zeros((50, 64, 64), np.float32)).transform(slow)
    loader = data.DataLoader(rows, 1, num_workers=2)
    for number, batch in enumerate(loader):
        print("workers", *[w.process.pid for w in loader._processes._workers], flush=True)
        if how == "exit":
            sys.exit(3)
        if how == "raise":
            raise RuntimeError("enough")
        if how == "kill":
            os.kill(os.getpid(), 9)
        if how == "global":
            globals()["kept"] = [loader, batch]
            return

def slow(row):
    time.sleep(0.05)
    return row

main(sys.argv[1])
"""


@pytest.mark.parametrize(
    ("how", "code"), [("exit", 3), ("raise", 1), ("kill", -9), ("global", 0), ("end", 0)]
)
def test_the_interpreter_can_end_in_the_middle_of_a_pass(
    how: str, code: int, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = run_python(script, how, status=code, timeout=60)
    if how != "raise":
        assert done.stderr == ""
    pids = {int(pid) for line in done.stdout.splitlines() for pid in line.split()[1:]}
    assert len(pids) == 2
    deadline = time.monotonic() + 10
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, pids))


def is_running(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
