"""Collectives inside recorded CUDA graphs (MXLITE_NCCL_GRAPHS), on the stand-in of test_nccl.py."""

from __future__ import annotations

import re

import pytest
from conftest import HERE
from test_nccl import _ENVIRONMENT, _SURVIVE, pytestmark  # noqa: F401

_GRAPHS = {**_ENVIRONMENT, "MXLITE_NCCL_GRAPHS": "1"}
_SCRIPT = str(HERE / "scripts" / "nccl_graphs.py")
_PROGRAM = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"


def _check(result, ranks: int) -> None:
    assert len(result.output) == ranks, result.text
    for rank, text in result.output.items():
        assert f"done {rank}" in text, result.text


@pytest.mark.parametrize("ranks", [2, 4])
def test_graphs_give_what_separate_calls_give(start, ranks: int) -> None:
    result = start("nccl_graphs.py", ranks, env=_GRAPHS, timeout=180)
    _check(result, ranks)
    assert "are no part of CUDA graphs" not in result.text, result.text


def test_without_the_variable_collectives_are_separate_calls(start) -> None:
    _check(start("nccl_graphs.py", 2, env=_ENVIRONMENT, timeout=180), 2)


def test_without_cuda_graphs_the_steps_are_submitted_one_by_one(start) -> None:
    environment = {**_GRAPHS, "MXLITE_CUDA_GRAPHS": "0", "EXPECT_NO_GRAPHS": "1"}
    _check(start("nccl_graphs.py", 2, env=environment, timeout=180), 2)


# One rank cannot record what the others record.
_ON_RANK_1 = """
import os, runpy, sys
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    os.environ.update(dict(pair.split("=") for pair in sys.argv[2:]))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("where", ["all", "first"])
def test_all_ranks_submit_step_by_step_if_one_cannot_record(start, ranks: int, where: str) -> None:
    if where == "all":
        given, environment = "MXLITE_CUDA_GRAPHS=0", {**_GRAPHS, "EXPECT_NO_GRAPHS": "1"}
        result = start(_ON_RANK_1, ranks, _SCRIPT, given, env=environment, timeout=180)
        return _check(result, ranks)
    program = _ON_RANK_1.replace("runpy.run_path", "scope = runpy.run_path").replace(
        "__main__", "imported"
    )
    program += """
scope["compare"]()
calls, recorded, replayed = scope["stats"]()
# One of the three executables never replays, the others do.
assert calls == 180 and 100 <= replayed < 125, (calls, recorded, replayed)
print("done", scope["rank"])
"""
    given = "MXLITE_FAKE_GPU_REFUSES_RECORDING=1"
    result = start(program, ranks, _SCRIPT, given, env=_GRAPHS, timeout=180)
    _check(result, ranks)
    for rank in set(range(ranks)) - {1}:
        assert "is not recorded, on all ranks: rank 1: the stand-in refuses" in result.output[rank]
    assert "runs without CUDA graphs: the stand-in refuses" in result.output[1], result.text


def test_an_operator_that_fails_on_one_rank_is_an_error_on_all(start) -> None:
    program = """
import os
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
if rank == 1:
    os.environ["MXLITE_FAKE_GPU_REFUSES_STEP"] = "sort_kernel"
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
gpu = mx.gpu(rank)

class Net(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        h = F.contrib.all_reduce(x)
        h = F.contrib.all_reduce(F.sort(h))
        return F.contrib.all_reduce(h * 2)

net = Net()
net.hybridize()
for attempt in range(3):
    try:
        net(mx.nd.ones((4,), ctx=gpu)).wait_to_read()
        raise SystemExit("no error")
    except mx.MXNetError as error:
        assert "rank 1: " in str(error) and "refused by the stand-in" in str(error), error
        assert "all_reduce(sum) of float32(4,)" in str(error), error
total = hvd.allreduce(mx.nd.ones((2,), ctx=gpu), op=hvd.Sum, name="later")
assert total.asnumpy().tolist() == [hvd.size()] * 2
print("done", rank)
"""
    _check(start(program, 3, env=_GRAPHS, timeout=120), 3)


def test_ranks_must_agree_on_the_variable(start) -> None:
    program = """
import os
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
os.environ["MXLITE_NCCL_GRAPHS"] = str(int(rank == 2))
import mxlite as mx, mxlite.horovod as hvd
try:
    hvd.init()
    raise SystemExit("no error")
except mx.MXNetError as error:
    assert "MXLITE_NCCL_GRAPHS is 1 on rank 2 and 0 on rank 0" in str(error), error
print("done", rank)
"""
    _check(start(program, 3, env=_ENVIRONMENT, timeout=60, ok=False), 3)


def test_ranks_with_other_collectives_in_a_graph_get_an_error(start) -> None:
    program = """
import os
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
gpu = mx.gpu(rank)

class Net(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.contrib.all_reduce(x, op="max" if rank == 1 else "sum") + 1

net = Net()
net.hybridize()
for attempt in range(3):
    try:
        net(mx.nd.ones((4,), ctx=gpu)).wait_to_read()
        raise SystemExit("no error")
    except mx.MXNetError as error:
        text = str(error)
        assert "the ranks do not make the same calls in the same order" in text, text
        assert "a graph with all_reduce(max) of float32(4,) on rank 1" in text, text
print("done", rank)
"""
    _check(start(program, 2, env=_GRAPHS, timeout=60), 2)


def test_graphs_with_messages_are_separate_calls_and_say_so(start) -> None:
    program = """
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
rank = hvd.rank()

class Net(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        h = F.contrib.all_reduce(x)
        if rank == 0:
            return F.contrib.send(h, destination=1) + h
        return F.contrib.recv(h, source=0) + h

net = Net()
net.hybridize()
for step in range(6):
    y = net(mx.nd.ones((1,), ctx=mx.gpu(rank)))
    assert y.asnumpy().tolist() == [2.0 if rank == 0 else 4.0], y
assert mx._core.comm_stats()["graph_calls"] == 0
print("done", rank)
"""
    result = start(program, 2, env=_GRAPHS, timeout=60)
    _check(result, 2)
    assert result.text.count("are no part of CUDA graphs: it sends messages") == 2, result.text


_LOST = """
import os, signal, sys, time
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
rank = hvd.rank()
processes = hvd.allgather_object(os.getpid())
gpu = mx.gpu(rank)

class Net(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        for _ in range(4):
            x = F.contrib.all_reduce(x, op="mean") + 1
        return x

net = Net()
net.hybridize()
x = mx.nd.ones((50000,), ctx=gpu)
step = 0
begin = time.monotonic()
try:
    while True:
        step += 1
        pending = [net(x) for _ in range(3)]
        if step == 10 and rank == 1:
            os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        for array in pending:
            array.wait_to_read()
        begin = time.monotonic()
except mx.MXNetError as error:
    print("seconds", time.monotonic() - begin, flush=True)
    print("replayed", mx._core.device_graph_stats()["replayed"], flush=True)
    print("error", str(error).replace(chr(10), " "), flush=True)
begin = time.monotonic()
try:
    net(x).wait_to_read()
    print("no error")
except mx.MXNetError as error:
    assert "rank 1" in str(error) and time.monotonic() - begin < 5, error
    print("later too", flush=True)
if rank == 0:
    time.sleep(2)  # until the others have seen it; then a stopped rank ends, too
    try:
        os.kill(processes[1], signal.SIGKILL)
    except ProcessLookupError:
        pass
os._exit(0)
"""


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_survivors_name_a_rank_that_is_lost_while_graphs_run(start, ranks: int, how: str) -> None:
    environment = {**_GRAPHS, "MXLITE_COMM_TIMEOUT": "5"}
    result = start(_LOST, ranks, how, env=environment, ok=False, options=_SURVIVE)
    for rank in set(range(ranks)) - {1}:
        text = result.output.get(rank, "")
        assert re.search(r"error .*rank 1", text) and "later too" in text, result.text
        replayed = re.search(r"replayed (\d+)", text)
        assert replayed and int(replayed.group(1)) > 10, result.text
        seconds = re.search(r"seconds ([\d.]+)", text)
        assert seconds and float(seconds.group(1)) < 5 + 10, result.text
        assert "a communicator ends while graphs refer to it" not in text, result.text
