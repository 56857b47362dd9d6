"""Small collective operators in flight while ranks leave, end, fork or change process sets."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_rank_may_end_while_its_call_waits_for_others(start, late: int) -> None:
    """Rank 0 has made the call; one of the others is late; or rank 0 is late and ends at once."""
    program = """
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
"""
    for _ in range(4):
        start(program, 3, str(late))


def test_sessions_of_one_process_follow_each_other(start) -> None:
    program = """
for session in range(25):
    hvd.init()
    rank, total = hvd.rank(), sum(range(1, hvd.size() + 1))
    x = mx.nd.full((4,), rank + 1)
    results = [mx.nd.contrib.all_reduce(x * i) for i in range(session)]
    for i, result in enumerate(results):
        assert (result.asnumpy() == i * total).all(), (session, i, result)
    hvd.shutdown()
"""
    for ranks in (2, 3):
        start(program, ranks)


@pytest.mark.parametrize("engine", ["threaded", "naive"])
def test_a_program_may_end_with_calls_in_flight(start, engine: str) -> None:
    program = """
hvd.init()
for step in range(100):
    y = mx.nd.contrib.all_reduce(mx.nd.ones((8,)) * step)
    z = mx.nd.contrib.all_gather(y)
"""
    for ranks in (2, 3):
        start(program, ranks, env={"MXLITE_ENGINE": engine})


def test_a_forked_child_leaves_the_calls_of_its_parent_alone(start) -> None:
    program = """
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
"""
    start(program, 2)


def test_a_process_set_is_removed_while_a_call_of_it_waits(start) -> None:
    """The call fails where it waits; calls of other sets and of later sets succeed."""
    program = """
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
        fails(lambda: lonely, "was removed before the call ran")
    assert (all_ranks.asnumpy() == 6).all()
"""
    start(program, 3)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_wait_for_a_stopped_one_get_an_error(serve, ranks: int, tmp_path: Path) -> None:
    program = """
hvd.init()
ended = pathlib.Path(sys.argv[1])  # has a file of each rank that got the error
rank = hvd.rank()
for _ in range(200):
    mx.nd.contrib.all_reduce(mx.nd.ones((8,))).wait_to_read()
if rank == 1:
    if os.fork() == 0:
        lost = os.getppid()
        while len(list(ended.iterdir())) < hvd.size() - 1:  # the job's time limit ends this
            time.sleep(0.02)
        os.kill(lost, signal.SIGKILL)  # a stopped process would not end
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)
fails(lambda: mx.nd.contrib.all_reduce(mx.nd.ones((8,))), "rank 1", seconds=100)
print("done", flush=True)
(ended / str(rank)).touch()
os._exit(0)
"""
    (tmp_path / "ended").mkdir()
    usual = {"MXLITE_COMM_TIMEOUT": "30"}
    result = serve(program, str(tmp_path / "ended"), workers=ranks, servers=0, env=usual, ok=False)
    assert result.ranks_with("done") == [r for r in range(ranks) if r != 1], result.text


@pytest.mark.parametrize(
    ("script", "ranks"),
    [("collective_operators.py", 2), ("collective_operators.py", 3), ("collective_mistakes.py", 3)],
)
def test_operators_in_jobs_that_launch_started(serve, script: str, ranks: int) -> None:
    serve(script, workers=ranks, servers=0)
