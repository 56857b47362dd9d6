"""Collectives between processes through NCCL, on simulated GPUs and a fake NCCL.

`make test-cuda` runs them: MXLITE_CUDA_LIBRARY names the simulated GPU (tests/cpp/fake_gpu), whose
arrays travel through the NCCL communicator of the CUDA plug-in and tests/cpp/fake_nccl.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from conftest import HERE

pytestmark = pytest.mark.skipif(
    "mxlite_fake_gpu" not in os.environ.get("MXLITE_CUDA_LIBRARY", ""),
    reason="needs the simulated GPU: make test-cuda",
)

_ON_GPUS = """
import os, runpy, sys
import mxlite as mx
path = sys.argv.pop(1)
with mx.gpu(int(os.environ["OMPI_COMM_WORLD_RANK"])):
    runpy.run_path(path, run_name="__main__")
if mx._core.comm_info()["size"] > 1:
    assert mx._core.comm_stats()["nccl_tensors"] > 0, mx._core.comm_stats()
print("on GPUs")
"""

_ENVIRONMENT = {"MXLITE_FAKE_GPUS": "4"}
_SURVIVE = ("--mca", "orte_abort_on_non_zero_status", "0", "--enable-recovery")


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_collectives_of_all_types_give_what_numpy_gives(start, ranks: int) -> None:
    result = start("nccl_values.py", ranks, env=_ENVIRONMENT, timeout=180)
    assert [text.strip() for _, text in sorted(result.output.items())] == [
        f"done {r}" for r in range(ranks)
    ]


def test_processes_of_several_hosts(start) -> None:
    # Two names for this machine: the processes meet through MPI instead of shared memory.
    program = """
import os, runpy, sys
os.environ["MXLITE_COMM_HOST"] = "aab"[int(os.environ["OMPI_COMM_WORLD_RANK"])]
import mxlite as mx
import mxlite.horovod as hvd
hvd.init()
hvd.local_rank = hvd.rank  # all GPUs are those of one machine
runpy.run_path(sys.argv[1], run_name="__main__")
assert mx._core.comm_info()["backend"] == "mpi+shm"
"""
    path = HERE / "scripts" / "nccl_values.py"
    result = start(program, 3, str(path), env=_ENVIRONMENT, timeout=180)
    assert all("done" in text for text in result.output.values()) and len(result.output) == 3


# NCCL inside a host, and the network of the processes between hosts.
_BY_LEVELS = """
import os, runpy, sys
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["MXLITE_JOB_RANK"])
os.environ["MXLITE_COMM_HOST"] = sys.argv[2][rank]
os.environ["MXLITE_NCCL_BETWEEN_HOSTS"] = "0"
import mxlite as mx
import mxlite.horovod as hvd
hvd.init(process_sets="dynamic")
assert hvd.cross_size() == 2 or hvd.local_rank() > 0
hvd.local_rank = hvd.rank  # all GPUs are those of one machine
runpy.run_path(sys.argv[1], run_name="__main__")
assert mx._core.comm_info()["backend"] == sys.argv[3]
"""


# The memory of the stand-in is host memory, which every MPI takes.
@pytest.mark.parametrize("takes_gpu_memory", ["0", "1"])
@pytest.mark.parametrize("hosts", ["ab", "aabb", "aab"])
def test_nccl_inside_hosts_and_mpi_between_them(start, hosts: str, takes_gpu_memory: str) -> None:
    arguments = (str(HERE / "scripts" / "nccl_values.py"), hosts, "mpi+shm")
    env = {**_ENVIRONMENT, "MXLITE_CUDA_AWARE_MPI": takes_gpu_memory}
    result = start(_BY_LEVELS, len(hosts), *arguments, env=env, timeout=180)
    assert all("done" in text for text in result.output.values()), result.text
    assert len(result.output) == len(hosts)


@pytest.mark.parametrize("by_levels", [False, True])
def test_nccl_of_hosts_that_meet_over_tcp(launch, tmp_path: Path, by_levels: bool) -> None:
    program = _BY_LEVELS if by_levels else _BY_LEVELS.replace('"0"', '"1"')
    (tmp_path / "job.py").write_text(program)
    (tmp_path / "hosts").write_text("127.0.0.1 slots=2\n127.0.0.2 slots=2\n")
    script = HERE / "scripts" / "nccl_values.py"
    line = f"-n 4 -s 0 -H hosts --launcher local {sys.executable} job.py {script} aabb tcp+shm"
    code, text, _ = launch(line, timeout=180, **_ENVIRONMENT)
    assert code == 0 and text.count("done") == 4, text


def test_ranks_must_agree_on_how_hosts_are_connected(start) -> None:
    program = """
import os
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
os.environ["MXLITE_NCCL_BETWEEN_HOSTS"] = str(rank)
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
try:
    hvd.allreduce(mx.nd.ones((2,), ctx=mx.gpu(rank)), name="x").wait_to_read()
    raise SystemExit("no error")
except mx.MXNetError as error:
    assert "MXLITE_NCCL_BETWEEN_HOSTS is 1 on rank 1 and 0 on rank 0" in str(error), error
print("done")
"""
    result = start(program, 2, env=_ENVIRONMENT)
    assert all("done" in text for text in result.output.values()), result.text


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("script", ["collectives.py", "mistakes.py", "collective_operators.py"])
def test_suites_of_the_cpu_pass_on_gpus(start, script: str, ranks: int) -> None:
    path = HERE / "scripts" / script
    result = start(_ON_GPUS, ranks, str(path), env=_ENVIRONMENT, timeout=240)
    assert all("on GPUs" in text for text in result.output.values()), result.text
    assert len(result.output) == ranks


def test_mistakes_in_operators_are_errors_on_every_rank(start) -> None:
    path = HERE / "scripts" / "collective_mistakes.py"
    result = start(_ON_GPUS, 3, str(path), env=_ENVIRONMENT, timeout=120)
    assert all("on GPUs" in text for text in result.output.values()), result.text
    assert len(result.output) == 3


def test_operators_on_a_cpu_and_a_gpu_are_an_error(start) -> None:
    program = """
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
x = mx.nd.ones((2,), ctx=mx.gpu(hvd.rank()) if hvd.rank() else mx.cpu())
try:
    mx.nd.contrib.all_reduce(x).wait_to_read()
    raise SystemExit("no error")
except mx.MXNetError as error:
    assert "on the CPU on rank 0 and" in str(error) and "on a GPU on rank 1" in str(error), error
print("done")
"""
    result = start(program, 2, env=_ENVIRONMENT)
    assert all("done" in text for text in result.output.values())


@pytest.mark.parametrize("ranks", [2, 4])
def test_random_sequences_on_gpus(start, ranks: int) -> None:
    path = HERE / "scripts" / "collective_sequences.py"
    result = start(_ON_GPUS, ranks, str(path), "77", "25", env=_ENVIRONMENT, timeout=240)
    assert all("25 sequences" in text for text in result.output.values()), result.text


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    "script",
    [
        ("store_values.py", "--check", "values"),
        ("store_values.py", "--check", "optimizer"),
        ("store_values.py", "--check", "updater"),
        ("store_values.py", "--check", "2bit"),
        ("store_training.py", "--all"),
    ],
)
def test_stores_sum_through_nccl(start, script: tuple[str, ...], ranks: int) -> None:
    path = HERE / "scripts" / script[0]
    result = start(_ON_GPUS, ranks, str(path), *script[1:], env=_ENVIRONMENT, timeout=240)
    assert all("on GPUs" in text for text in result.output.values()), result.text


_LOST = """
import os, signal, sys, time
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
processes = hvd.allgather_object(os.getpid())
x = mx.nd.ones((200000,), ctx=mx.gpu(hvd.rank()))
hvd.allreduce(x, name="first").wait_to_read()
step = 0
try:
    while True:
        step += 1
        pending = [hvd.allreduce(x, name=f"{k}") for k in range(4)]
        if step == 10 and hvd.rank() == 1:
            os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        for array in pending:
            array.wait_to_read()
except mx.MXNetError as error:
    print("error", str(error).replace(chr(10), " "), flush=True)
begin = time.monotonic()
try:
    hvd.allreduce(x, name="later").wait_to_read()
    print("no error")
except mx.MXNetError as error:
    assert "rank 1" in str(error) and time.monotonic() - begin < 5, error
    print("later too", flush=True)
if hvd.rank() == 0:
    time.sleep(2)  # until the others have seen it; then a stopped rank ends, too
    try:
        os.kill(processes[1], signal.SIGKILL)
    except ProcessLookupError:
        pass
os._exit(0)
"""


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_survivors_name_a_lost_rank(start, ranks: int, how: str) -> None:
    environment = {**_ENVIRONMENT, "MXLITE_COMM_TIMEOUT": "5"}
    result = start(_LOST, ranks, how, env=environment, ok=False, options=_SURVIVE)
    for rank in set(range(ranks)) - {1}:
        text = result.output.get(rank, "")
        assert re.search(r"error .*rank 1", text) and "later too" in text, result.text


def test_another_version_of_nccl_is_an_error_on_every_rank(start) -> None:
    program = """
import os
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    os.environ["MXLITE_FAKE_NCCL_VERSION"] = "22703"
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
for attempt in range(2):
    try:
        hvd.allreduce(mx.nd.ones((2,), ctx=mx.gpu(hvd.rank())), name="w").wait_to_read()
        raise SystemExit("no error")
    except mx.MXNetError as error:
        assert "rank 1 has NCCL 2.27.3, rank 0 has NCCL 2.28.9" in str(error), error
        assert "'allreduce.w'" in str(error), error
assert hvd.allreduce(mx.nd.ones((1,)), op=hvd.Sum).asscalar() == 3  # on the CPU
print("done")
"""
    result = start(program, 3, env=_ENVIRONMENT)
    assert all("done" in text for text in result.output.values())


def test_arrays_of_a_call_that_fails_are_not_written_after_its_error(start) -> None:
    # A copy to the output is in NCCL's stream when the call fails. The arrays are so large that the
    # stand-in unmaps them when they are freed.
    program = """
import time
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
gpu = mx.gpu(hvd.rank())
hvd.allreduce(mx.nd.ones((2,), ctx=gpu), name="first").wait_to_read()
x = mx.nd.ones((12_000_000,), ctx=gpu)
x.wait_to_read()
y = hvd.allreduce(x, name="second", prescale_factor=0.5)
try:
    y.wait_to_read()
    raise SystemExit("no error")
except mx.MXNetError as error:
    print("error", str(error).replace(chr(10), " "))
del x, y
time.sleep(1)  # for work that NCCL's stream may still have
print("done")
"""
    environment = {**_ENVIRONMENT, "MXLITE_FAKE_NCCL_REFUSES": "2"}
    result = start(program, 2, env=environment, ok=False)  # mpirun misses MPI_Finalize
    assert [text.count("done") for text in result.output.values()] == [1, 1], result.text
    assert "unhandled system error" in result.text, result.text


def test_collectives_wait_for_the_allocation_of_arrays_that_nothing_has_written(start) -> None:
    # The stand-in's compute stream fills the large arrays before it allocates the small one.
    program = """
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
gpu = mx.gpu(hvd.rank())
hvd.allreduce(mx.nd.ones((2,), ctx=gpu), name="first").wait_to_read()
mine = mx.nd.ones((4,), ctx=gpu) * 3
mine.wait_to_read()
large = [mx.nd.empty((9_000_000,), ctx=gpu) for _ in range(6)]
x = mine if hvd.rank() == 0 else mx.nd.empty((4,), ctx=gpu)
hvd.broadcast_(x, 0, name="x")
print("done", x.asnumpy().tolist())
"""
    result = start(program, 2, env=_ENVIRONMENT)
    assert result.text.count("done [3.0, 3.0, 3.0, 3.0]") == 2, result.text


_TOO_FEW = """
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
x = mx.nd.ones((2,), ctx=mx.gpu(hvd.rank() % mx.num_gpus()))
try:
    total = hvd.allreduce(x, name="w", op=hvd.Sum).asnumpy()
    print("sum", total.tolist())
except mx.MXNetError as error:
    print("error", error)
"""


def test_more_ranks_than_gpus_is_an_error_on_every_rank(start) -> None:
    result = start(_TOO_FEW, 3, env={"MXLITE_FAKE_GPUS": "2"})
    for text in result.output.values():
        assert re.search(r"'allreduce.w': nccl: ranks 0 and 2 use the same GPU \(fake:0", text), (
            text
        )
        assert "3 processes of this host take part, rank 2 sees 2 GPUs" in text, text
    assert len(result.output) == 3


def test_processes_that_share_a_gpu_can_send_through_host_memory(start) -> None:
    result = start(_TOO_FEW, 3, env={"MXLITE_FAKE_GPUS": "1", "MXLITE_NCCL": "0"})
    assert all("sum [3.0, 3.0]" in text for text in result.output.values()), result.text


def test_inputs_that_failed_are_errors_on_every_rank(start) -> None:
    program = """
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
if hvd.rank() == 1:
    broken = hvd.allreduce(mx.nd.ones((3,), ctx=mx.gpu(1)), name="a")
else:
    broken = hvd.allreduce(mx.nd.ones((2,), ctx=mx.gpu(0)), name="a")
later = hvd.allreduce(broken, name="b")
try:
    later.wait_to_read()
    raise SystemExit("no error")
except mx.MXNetError as error:
    assert "allreduce" in str(error), error
assert hvd.allreduce(mx.nd.ones((1,), ctx=mx.gpu(hvd.rank())), op=hvd.Sum).asscalar() == 2
print("done")
"""
    result = start(program, 2, env=_ENVIRONMENT)
    assert all("done" in text for text in result.output.values())


_COPIES = """
import mxlite as mx, mxlite.horovod as hvd
from mxlite import gluon
from mxlite.gluon import nn
from mxlite.tools.trace import read_trace

hvd.init()
gpu = mx.gpu(hvd.rank())


def copies(distributed):
    mx.random.seed(3)
    net = nn.HybridSequential()
    for _ in range(8):
        net.add(nn.Dense(11, activation="tanh", in_units=11))
    net.initialize(mx.init.Xavier(), ctx=gpu)
    net.hybridize()
    params = net.collect_params()
    options = {"learning_rate": 0.05}
    if distributed:
        trainer = hvd.DistributedTrainer(params, "sgd", options)
    else:
        trainer = gluon.Trainer(params, "sgd", options, kvstore=None)
    data = mx.nd.ones((6, 11), ctx=gpu)

    def step():
        with mx.autograd.record():
            loss = (net(data) ** 2).sum()
        loss.backward()
        trainer.step(6)
        mx.nd.waitall()

    before = mx._core.device_graph_stats()
    for _ in range(8):
        step()
    path = f"trace.{hvd.rank()}.json"
    mx.profiler.set_config(profile_all=True, filename=path)
    mx.profiler.set_state("run")
    step()
    mx.profiler.set_state("stop")
    mx.profiler.dump()
    after = mx._core.device_graph_stats()
    assert after["replayed"] > before["replayed"]
    found = [i for i in read_trace(path).intervals if "copyto" in i.name]
    weights = [p.data().asnumpy() for p in params.values()]
    return len(found), after["copied_arrays"] - before["copied_arrays"], weights


found, in_graphs, weights = copies(True)
_, _, weights_alone = copies(False)
assert found == 0, found
# Graphs write gradients where they are: only their inputs and the outputs of forward are copied.
assert in_graphs < len(weights) / 2, in_graphs
# All ranks have the same data, and a mean over 2 or 4 of them is exact.
for one, other in zip(weights, weights_alone):
    assert (one == other).all()
assert mx._core.comm_stats()["nccl_tensors"] > 0
print("counted")
"""


@pytest.mark.parametrize("ranks", [2, 4])
def test_backward_writes_gradients_into_their_buckets(start, ranks: int) -> None:
    result = start(_COPIES, ranks, env=_ENVIRONMENT, timeout=120)
    assert all("counted" in text for text in result.output.values()), result.text
