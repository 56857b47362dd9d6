"""Small collective operators in flight while ranks leave, end, fork or change process sets."""

from __future__ import annotations

from pathlib import Path

import pytest


def _done(result) -> list[int]:
    return sorted(rank for rank, text in result.output.items() if "done" in text)


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_rank_may_end_while_its_call_waits_for_others(start, late: int) -> None:
    """Rank 0 has made the call; one of the others is late; or rank 0 is late and ends at once."""
    program = """
import sys, time
import mxlite as mx, mxlite.horovod as hvd
late = int(sys.argv[1])
hvd.init()
rank = hvd.rank()
mx.nd.contrib.all_reduce(mx.nd.ones((2,))).wait_to_read()
x = mx.nd.full((4,), rank + 1)
x.wait_to_read()
if rank == late:
    time.sleep(0.4)
y = mx.nd.contrib.all_reduce(x)
if rank > 0:
    assert (y.asnumpy() == 6).all(), y
print("done", rank)
"""
    for _ in range(4):
        assert _done(start(program, 3, str(late))) == [0, 1, 2]


def test_sessions_of_one_process_follow_each_other(start) -> None:
    program = """
import mxlite as mx, mxlite.horovod as hvd
for session in range(25):
    hvd.init()
    rank, total = hvd.rank(), sum(range(1, hvd.size() + 1))
    x = mx.nd.full((4,), rank + 1)
    results = [mx.nd.contrib.all_reduce(x * i) for i in range(session)]
    for i, result in enumerate(results):
        assert (result.asnumpy() == i * total).all(), (session, i, result)
    hvd.shutdown()
print("done", rank)
"""
    for ranks in (2, 3):
        assert _done(start(program, ranks)) == list(range(ranks))


@pytest.mark.parametrize("engine", ["threaded", "naive"])
def test_a_program_may_end_with_calls_in_flight(start, engine: str) -> None:
    program = """
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
for step in range(100):
    y = mx.nd.contrib.all_reduce(mx.nd.ones((8,)) * step)
    z = mx.nd.contrib.all_gather(y)
print("done", hvd.rank())
"""
    for ranks in (2, 3):
        result = start(program, ranks, env={"MXLITE_ENGINE": engine})
        assert _done(result) == list(range(ranks))


def test_a_forked_child_leaves_the_calls_of_its_parent_alone(start) -> None:
    program = """
import os, time
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
rank = hvd.rank()
for step in range(15):
    x = mx.nd.full((16,), rank + step)
    x.wait_to_read()
    if rank == step % 2:
        time.sleep(0.03)
    y = mx.nd.contrib.all_reduce(x)
    child = os.fork()
    if child == 0:
        ok = (mx.nd.ones((100,)) * 2 + 1).sum().asscalar() == 300
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0, step
    assert (y.asnumpy() == 1 + 2 * step).all(), (step, y)
print("done", rank)
"""
    assert _done(start(program, 2)) == [0, 1]


def test_a_process_set_is_removed_while_a_call_of_it_waits(start) -> None:
    """The call fails where it waits; calls of other sets and of later sets succeed."""
    program = """
import time
import mxlite as mx, mxlite.horovod as hvd
hvd.init(process_sets="dynamic")
rank = hvd.rank()
for step in range(10):
    some = hvd.add_process_set(hvd.ProcessSet([0, 1]))
    x = mx.nd.full((4,), rank + 1)
    if rank < 2:
        y = mx.nd.contrib.all_reduce(x, process_set=some)
        assert (y.asnumpy() == 3).all()
    lonely = mx.nd.contrib.all_reduce(x, process_set=some) if rank == 0 else None
    all_ranks = mx.nd.contrib.all_reduce(x)
    if step % 2:
        time.sleep(0.05)
    hvd.remove_process_set(some)
    if lonely is not None:
        try:
            lonely.asnumpy()
            raise SystemExit("no error")
        except mx.MXNetError as error:
            assert "was removed before the call ran" in str(error), error
    assert (all_ranks.asnumpy() == 6).all()
print("done", rank)
"""
    assert _done(start(program, 3)) == [0, 1, 2]


_LOST = """
import os, pathlib, signal, sys, time
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
ended = pathlib.Path(sys.argv[2])  # has a file of each rank that got the error
rank = hvd.rank()
for _ in range(200):
    mx.nd.contrib.all_reduce(mx.nd.ones((8,))).wait_to_read()
if rank == 1:
    if sys.argv[1] == "SIGSTOP" and os.fork() == 0:
        lost = os.getppid()
        while len(list(ended.iterdir())) < hvd.size() - 1:  # the job's time limit ends this
            time.sleep(0.02)
        os.kill(lost, signal.SIGKILL)  # a stopped process would not end
        os._exit(0)
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
try:
    mx.nd.contrib.all_reduce(mx.nd.ones((8,))).wait_to_read()
    raise SystemExit("no error")
except mx.MXNetError as error:
    assert "rank 1" in str(error), error
print("done", rank, flush=True)
(ended / str(rank)).touch()
os._exit(0)
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_wait_for_a_killed_one_get_an_error(start, ranks: int, tmp_path: Path) -> None:
    (tmp_path / "ended").mkdir()
    options = ("--mca", "orte_abort_on_non_zero_status", "0", "--enable-recovery")
    arguments = ("SIGKILL", str(tmp_path / "ended"))
    result = start(_LOST, ranks, *arguments, ok=False, options=options)
    assert _done(result) == [r for r in range(ranks) if r != 1], result.text


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_wait_for_a_stopped_one_get_an_error(serve, ranks: int, tmp_path: Path) -> None:
    (tmp_path / "ended").mkdir()
    arguments = ("SIGSTOP", str(tmp_path / "ended"))
    usual = {"MXLITE_COMM_TIMEOUT": "30"}
    result = serve(_LOST, *arguments, workers=ranks, servers=0, env=usual, ok=False, timeout=120)
    assert _done(result) == [r for r in range(ranks) if r != 1], result.text


@pytest.mark.parametrize(
    ("script", "ranks"),
    [("collective_operators.py", 2), ("collective_operators.py", 3), ("collective_mistakes.py", 3)],
)
def test_operators_in_jobs_that_launch_started(serve, script: str, ranks: int) -> None:
    serve(script, workers=ranks, servers=0, timeout=120)


@pytest.mark.parametrize("ranks", [2, 3])
def test_graphs_run_as_one_task(start, ranks: int) -> None:
    result = start("joined_parts.py", ranks, timeout=180)
    assert _done(result) == list(range(ranks))


@pytest.mark.parametrize("ranks", [3])
def test_graphs_that_wait_for_a_killed_rank_name_it(start, ranks: int) -> None:
    program = """
import os, signal
import mxlite as mx, mxlite.horovod as hvd
from mxlite.gluon import HybridBlock
hvd.init()
class Net(HybridBlock):
    def hybrid_forward(self, F, x):
        for _ in range(10):
            x = F.contrib.all_reduce(x * 0.5)
        return x
net = Net()
net.hybridize()
x = mx.nd.ones((4,))
x.wait_to_read()
for step in range(1000000):
    if step == 20 and hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        net(x).wait_to_read()
    except mx.MXNetError as error:
        assert "rank 1" in str(error), error
        print("done", flush=True)
        break
os._exit(0)
"""
    options = ("--mca", "orte_abort_on_non_zero_status", "0", "--enable-recovery")
    result = start(program, ranks, ok=False, timeout=60, options=options)
    assert _done(result) == [r for r in range(ranks) if r != 1], result.text
