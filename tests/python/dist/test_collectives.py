"""Collective operators on several processes of this machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_operators_give_what_numpy_gives(start, ranks: int) -> None:
    result = start("collective_operators.py", ranks, timeout=120)
    assert [text.strip() for _, text in sorted(result.output.items())] == [
        f"done {r}" for r in range(ranks)
    ]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_random_sequences_agree_with_a_model_of_all_ranks(start, ranks: int) -> None:
    result = start("collective_sequences.py", ranks, str(100 + ranks), "60", timeout=180)
    assert all("60 sequences" in text for text in result.output.values())
    assert len(result.output) == ranks


def test_random_sequences_over_mpi(start) -> None:
    # Two names for this machine: shared memory within each, MPI between them.
    program = """
import os
os.environ["MXLITE_COMM_HOST"] = "aab"[int(os.environ["OMPI_COMM_WORLD_RANK"])]
import runpy, sys
path = sys.argv.pop(1)
runpy.run_path(path, run_name="__main__")
import mxlite as mx
assert mx._core.comm_info()["backend"] == "mpi+shm"
"""
    from conftest import HERE

    path = HERE / "scripts" / "collective_sequences.py"
    result = start(program, 3, str(path), "9", "30", timeout=180)
    assert all("30 sequences" in text for text in result.output.values())


def test_mistakes_are_errors_on_every_rank(start) -> None:
    result = start("collective_mistakes.py", 3, timeout=120)
    assert all("done" in text for text in result.output.values()) and len(result.output) == 3


@pytest.mark.parametrize("engine", ["threaded", "naive"])
def test_a_graph_that_one_rank_gives_up_is_an_error_of_the_others(start, engine: str) -> None:
    result = start("graph_refusals.py", 2, env={"MXLITE_ENGINE": engine}, timeout=120)
    assert all("done" in text for text in result.output.values()) and len(result.output) == 2


@pytest.mark.parametrize("engine", ["threaded", "naive"])
def test_a_graph_of_two_process_sets_that_one_rank_gives_up(start, engine: str) -> None:
    result = start("two_set_refusals.py", 3, env={"MXLITE_ENGINE": engine}, timeout=120)
    assert all("done" in text for text in result.output.values()) and len(result.output) == 3


def test_ranks_that_call_forward_and_backward_get_an_error(start) -> None:
    program = """
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
reduce = mx.nd.contrib.all_reduce
for hybrid in (False, True):
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.contrib.all_reduce(x * 2))
    if hybrid:
        net.hybridize()
    x = mx.nd.ones((2,))
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    if hvd.rank() == 0:
        y.backward()
        result = x.grad
    else:
        result = reduce(mx.nd.ones((2,)))
    try:
        result.wait_to_read()
        raise SystemExit("no error")
    except mx.MXNetError as error:
        wanted = "backward's all_reduce(sum) of float32(2,) on rank 0 and all_reduce(sum) of "
        assert wanted + "float32(2,) on rank 1" in str(error), error
    assert reduce(mx.nd.ones((2,))).asnumpy().tolist() == [2, 2]
print("done")
"""
    result = start(program, 2)
    assert all("done" in text for text in result.output.values()) and len(result.output) == 2


_KILLED = """
import os, signal, sys
import mxlite as mx, mxlite.horovod as hvd
from mxlite.gluon import HybridBlock
hvd.init()
class Net(HybridBlock):
    def hybrid_forward(self, F, x):
        return F.contrib.all_gather(F.contrib.all_reduce(x * 2) + 1)
net = Net()
net.hybridize()
x = mx.nd.ones((4,))
x.attach_grad()
for step in range(1000000):
    if step == 20 and hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        with mx.autograd.record():
            y = net(x)
        y.backward()
        x.grad.wait_to_read()
    except mx.MXNetError as error:
        print("error", str(error).replace(chr(10), " "), flush=True)
        break
os._exit(0)
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_survivors_name_a_killed_rank(start, ranks: int) -> None:
    options = ("--mca", "orte_abort_on_non_zero_status", "0")
    options += ("--enable-recovery",)
    result = start(_KILLED, ranks, ok=False, timeout=60, options=options)
    for rank in set(range(ranks)) - {1}:
        assert re.search(r"error .*rank 1", result.output.get(rank, "")), result.text


def test_a_process_of_a_job_must_join_it(start) -> None:
    program = """
import mxlite as mx
try:
    mx.nd.contrib.all_reduce(mx.nd.ones((2,)))
    raise SystemExit("no error")
except mx.MXNetError as error:
    assert "one of 2 and has not joined them" in str(error), error
"""
    start(program, 2)


def test_a_call_that_one_rank_leaves_out_ends_in_an_error(start, tmp_path: Path) -> None:
    program = """
import pathlib, sys, time
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
named = pathlib.Path(sys.argv[1])
if hvd.rank() == 1:
    while not named.exists():  # the job's time limit ends this
        time.sleep(0.02)
else:
    try:
        mx.nd.contrib.all_reduce(mx.nd.ones((2,))).wait_to_read()
        raise SystemExit("no error")
    except mx.MXNetError as error:
        assert "'all_reduce(sum)' misses rank 1" in str(error), error
        print("named")
    named.touch()
"""
    result = start(program, 2, str(tmp_path / "named"), ok=False, timeout=120)
    assert "named" in result.output[0], result.text


def test_hybridized_blocks_compute_what_needs_no_result_of_others(start, tmp_path: Path) -> None:
    program = """
import pathlib, sys, time
import mxlite as mx, mxlite.horovod as hvd
from mxlite.gluon import HybridBlock
hvd.init()
computed = pathlib.Path(sys.argv[1])
class Net(HybridBlock):
    def hybrid_forward(self, F, x):
        total = F.contrib.all_reduce(x)
        return total * 2, F.dot(x, x) + 1
net = Net()
net.hybridize()
x = mx.nd.ones((3, 3))
if hvd.rank() == 1:
    while not computed.exists():  # if rank 0 waited for this rank, the job would reach its limit
        time.sleep(0.02)
doubled, product = net(x)
product.wait_to_read()
computed.touch()
assert (product.asnumpy() == 4).all() and (doubled.asnumpy() == 4).all()
print("done")
"""
    result = start(program, 2, str(tmp_path / "computed"))
    assert all("done" in text for text in result.output.values())


def test_sets_whose_calls_are_ready_in_other_orders_do_not_wait_for_each_other(start) -> None:
    """Each rank's only worker has calls of two sets, in another order on every rank.

    The input of one call needs the result of another set's call. Arrays are small, so the worker
    itself carries calls out; a rank is late, so calls are handed to the thread that communicates.
    """
    program = """
import os, time
import mxlite as mx, mxlite.horovod as hvd
sets = [hvd.ProcessSet([0, 1]), hvd.ProcessSet([1, 2]), hvd.ProcessSet([0, 2])]
hvd.init(process_sets=sets)
mine = [s for s in sets if s.included()]
if hvd.rank() == 1:
    mine.reverse()
reduce = mx.nd.contrib.all_reduce
for step in range(60):
    values = {}
    for s in mine:  # no call of this loop needs another one
        x = mx.nd.full((16,), hvd.rank() + 1) * (step + 1)
        values[s.process_set_id] = reduce(x, process_set=s)
    for s in mine:
        total = sum(r + 1 for r in s.ranks) * (step + 1)
        assert (values[s.process_set_id].asnumpy() == total).all(), (step, s)
    if os.environ["MXLITE_ENGINE"] == "naive":  # each call waits: the ranks would wait in a ring
        continue
    # A ring: set 0 waits for set 2 on rank 0, set 1 for set 0 on rank 1. Set 2 has all it needs.
    x = mx.nd.full((16,), 1.0)
    if hvd.rank() == 0:
        last = reduce(x, process_set=sets[2])
        result = reduce(last, process_set=sets[0])
    elif hvd.rank() == 1:
        first = reduce(x, process_set=sets[0])
        result = reduce(first, process_set=sets[1])
    else:
        late = reduce(x, process_set=sets[1])
        result = reduce(x, process_set=sets[2])
        assert (late.asnumpy() == 4).all()
    assert (result.asnumpy() == {0: 3, 1: 4, 2: 2}[hvd.rank()]).all(), result
    if step % 20 == hvd.rank():
        time.sleep(0.2)
print("done", hvd.rank())
"""
    for engine in ("threaded", "naive"):
        result = start(program, 3, timeout=120, env={"MXLITE_ENGINE": engine})
        assert len(result.output) == 3 and all("done" in t for t in result.output.values()), engine


def test_process_sets_are_parameters_of_operators(start) -> None:
    program = """
import mxlite as mx, mxlite.horovod as hvd
pair = hvd.ProcessSet([0, 1])
hvd.init(process_sets=[pair])
x = mx.nd.full((3,), hvd.rank() + 1)
assert mx.nd.contrib.all_reduce(x, process_set=hvd.global_process_set).asnumpy()[0] == 6
if pair.included():
    assert mx.nd.contrib.all_reduce(x, process_set=pair).asnumpy().tolist() == [3.0] * 3
symbol = mx.sym.contrib.all_reduce(mx.sym.var("x"), process_set=pair)
assert symbol.attr("process_set") == str(pair.process_set_id)
for make in (lambda s: mx.nd.contrib.all_reduce(x, process_set=s),
             lambda s: mx.sym.contrib.all_reduce(mx.sym.var("x"), process_set=s)):
    try:
        make(hvd.ProcessSet([0]))
    except ValueError as error:
        assert "not part of the job" in str(error), error
    else:
        raise SystemExit("a process set that is not part of the job was taken")
print("done", hvd.rank())
"""
    result = start(program, 3)
    assert len(result.output) == 3 and all("done" in t for t in result.output.values())
