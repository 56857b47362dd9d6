"""Collectives between processes through NCCL, on simulated GPUs and a fake NCCL.

`make test-cuda` runs them: MXLITE_CUDA_LIBRARY names the simulated GPU (tests/cpp/fake_gpu), whose
arrays are sent by the NCCL communicator of the CUDA plug-in and tests/cpp/fake_nccl.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from conftest import HERE, SURVIVE, write_program

pytestmark = pytest.mark.skipif(
    "mxlite_fake_gpu" not in os.environ.get("MXLITE_CUDA_LIBRARY", ""),
    reason="needs the simulated GPU: make test-cuda",
)

_ON_GPUS = """
path = sys.argv.pop(1)
with mx.gpu(int(os.environ["OMPI_COMM_WORLD_RANK"])):
    runpy.run_path(path, run_name="__main__")
if mx._core.comm_info()["size"] > 1:
    assert mx._core.comm_stats()["nccl_tensors"] > 0, mx._core.comm_stats()
"""

_ENVIRONMENT = {"MXLITE_FAKE_GPUS": "4"}


_VALUES = str(HERE / "scripts" / "nccl_values.py")


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_collectives_of_all_types_give_what_numpy_gives(start, ranks: int) -> None:
    start("nccl_values.py", ranks, env=_ENVIRONMENT, timeout=180)


# The processes give several host names. With MXLITE_NCCL_BETWEEN_HOSTS=0, NCCL is used only inside
# of hosts.
_OF_HOSTS = """
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["MXLITE_JOB_RANK"])
os.environ["MXLITE_COMM_HOST"] = sys.argv[2][rank]
hvd.init(process_sets="dynamic")
assert hvd.cross_size() == 2 or hvd.local_rank() > 0
hvd.local_rank = hvd.rank  # all GPUs are those of one machine
runpy.run_path(sys.argv[1], run_name="__main__")
assert mx._core.comm_info()["backend"] == sys.argv[3]
"""


# The memory of the simulated GPU is host memory, which every MPI takes.
@pytest.mark.parametrize("takes_gpu_memory", ["0", "1"])
@pytest.mark.parametrize("hosts", ["ab", "aabb", "aab"])
def test_nccl_inside_hosts_and_mpi_between_them(start, hosts: str, takes_gpu_memory: str) -> None:
    variables = {"MXLITE_NCCL_BETWEEN_HOSTS": "0", "MXLITE_CUDA_AWARE_MPI": takes_gpu_memory}
    env = {**_ENVIRONMENT, **variables}
    start(_OF_HOSTS, len(hosts), _VALUES, hosts, "mpi+shm", env=env, timeout=180)


def test_processes_of_several_hosts(start) -> None:
    start(_OF_HOSTS, 3, _VALUES, "aab", "mpi+shm", env=_ENVIRONMENT, timeout=180)


@pytest.mark.parametrize("between_hosts", ["0", "1"])
def test_nccl_of_hosts_that_meet_over_tcp(launch, tmp_path: Path, between_hosts: str) -> None:
    path = write_program(_OF_HOSTS, tmp_path)
    (tmp_path / "hosts").write_text("127.0.0.1 slots=2\n127.0.0.2 slots=2\n")
    line = f"-n 4 -s 0 -H hosts --launcher local {sys.executable} {path} {_VALUES} aabb tcp+shm"
    env = {**_ENVIRONMENT, "MXLITE_NCCL_BETWEEN_HOSTS": between_hosts}
    code, text, _ = launch(line, timeout=180, **env)
    assert code == 0, text


def test_ranks_must_agree_on_how_hosts_are_connected(start) -> None:
    program = """
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
os.environ["MXLITE_NCCL_BETWEEN_HOSTS"] = str(rank)
hvd.init()
fails(lambda: hvd.allreduce(mx.nd.ones((2,), ctx=mx.gpu(rank)), name="x"),
      "must be the same on all ranks, got 1 on rank 1 and 0 on rank 0")
"""
    start(program, 2, env=_ENVIRONMENT)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    "script",
    [
        "collectives.py",
        "mistakes.py",
        "collective_operators.py",
        "collective_sequences.py 77 25",
        "store_values.py values",
        "store_values.py optimizer",
        "store_values.py updater",
        "store_values.py 2bit",
        "store_training.py",
    ],
)
def test_suites_of_the_cpu_pass_on_gpus(start, script: str, ranks: int) -> None:
    path, *arguments = script.split()
    path = str(HERE / "scripts" / path)
    start(_ON_GPUS, ranks, path, *arguments, env=_ENVIRONMENT, timeout=240)


def test_mistakes_in_operators_are_errors_on_every_rank(start) -> None:
    start(_ON_GPUS, 3, str(HERE / "scripts" / "collective_mistakes.py"), env=_ENVIRONMENT)


def test_operators_on_a_cpu_and_a_gpu_are_an_error(start) -> None:
    program = """
hvd.init()
x = mx.nd.ones((2,), ctx=mx.gpu(hvd.rank()) if hvd.rank() else mx.cpu())
fails(lambda: mx.nd.contrib.all_reduce(x), "on the CPU on rank 0 and", "on a GPU on rank 1")
"""
    start(program, 2, env=_ENVIRONMENT)


_LOST = """
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
fails(lambda: hvd.allreduce(x, name="later"), "rank 1", seconds=5)
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
    result = start(_LOST, ranks, how, env=environment, ok=False, options=SURVIVE)
    for rank in set(range(ranks)) - {1}:
        text = result.output.get(rank, "")
        assert re.search(r"error .*rank 1", text) and "later too" in text, result.text


_BLOCKED = """
hvd.init()
x = mx.nd.ones((2,), ctx=mx.gpu(hvd.rank()))
hvd.allreduce(x, name="first").wait_to_read()
begin = time.time()
try:
    pending = hvd.allreduce(x, name="second")
    if sys.argv[1] == "lost" and hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    pending.wait_to_read()
except mx.MXNetError as error:
    print("error", time.time() - begin < 20, str(error).replace(chr(10), " "), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(
    ("how", "timeout", "reason"),
    [("lost", "60", "rank 1"), ("late", "2", "ncclAllReduce has waited 2 s .* for the GPUs of")],
)
def test_a_call_of_nccl_that_does_not_return_is_ended(
    start, how: str, timeout: str, reason: str
) -> None:
    """NCCL may wait for other ranks inside a call."""
    environment = {**_ENVIRONMENT, "MXLITE_FAKE_NCCL_BLOCKS": "2", "MXLITE_COMM_TIMEOUT": timeout}
    result = start(_BLOCKED, 2, how, env=environment, ok=False, options=SURVIVE)
    # If both ranks are late, the second one may see that the first one has ended.
    texts = result.output.values()
    assert any(re.search(f"error True .*{reason}", text) for text in texts), result.text


def test_another_version_of_nccl_is_an_error_on_every_rank(start) -> None:
    program = """
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    os.environ["MXLITE_FAKE_NCCL_VERSION"] = "22703"
hvd.init()
for attempt in range(2):
    fails(lambda: hvd.allreduce(mx.nd.ones((2,), ctx=mx.gpu(hvd.rank())), name="w"),
          "rank 1 has NCCL 2.27.3, rank 0 has NCCL 2.28.9", "'allreduce.w'")
assert hvd.allreduce(mx.nd.ones((1,)), op=hvd.Sum).asscalar() == 3  # the array is on the CPU
"""
    start(program, 3, env=_ENVIRONMENT)


def test_arrays_of_a_call_that_fails_are_not_written_after_its_error(start) -> None:
    # A copy to the output is in NCCL's stream when the call fails. The arrays are so large that the
    # simulated GPU unmaps them when they are freed.
    program = """
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
"""
    environment = {**_ENVIRONMENT, "MXLITE_FAKE_NCCL_REFUSES": "2"}
    result = start(program, 2, env=environment, ok=False)  # mpirun misses MPI_Finalize
    assert [text.count("done") for text in result.output.values()] == [1, 1], result.text
    assert "unhandled system error" in result.text, result.text


def test_collectives_wait_for_the_allocation_of_arrays_that_nothing_has_written(start) -> None:
    # The simulated GPU's compute stream fills the large arrays before it allocates the small one.
    program = """
hvd.init()
gpu = mx.gpu(hvd.rank())
hvd.allreduce(mx.nd.ones((2,), ctx=gpu), name="first").wait_to_read()
mine = mx.nd.ones((4,), ctx=gpu) * 3
mine.wait_to_read()
large = [mx.nd.empty((9_000_000,), ctx=gpu) for _ in range(6)]
x = mine if hvd.rank() == 0 else mx.nd.empty((4,), ctx=gpu)
hvd.broadcast_(x, 0, name="x")
assert x.asnumpy().tolist() == [3.0, 3.0, 3.0, 3.0]
"""
    start(program, 2, env=_ENVIRONMENT)


def test_more_ranks_than_gpus_is_an_error_on_every_rank(start) -> None:
    program = """
hvd.init()
x = mx.nd.ones((2,), ctx=mx.gpu(hvd.rank() % mx.num_gpus()))
fails(lambda: hvd.allreduce(x, name="w"),
      "'allreduce.w': nccl: ranks 0 and 2 use the same GPU (fake:0",
      "3 processes of this host take part, rank 2 sees 2 GPUs")
"""
    start(program, 3, env={"MXLITE_FAKE_GPUS": "2"})


def test_processes_that_share_a_gpu_can_send_through_host_memory(start) -> None:
    program = """
hvd.init()
total = hvd.allreduce(mx.nd.ones((2,), ctx=mx.gpu(0)), name="w", op=hvd.Sum)
assert total.asnumpy().tolist() == [3.0, 3.0]
"""
    start(program, 3, env={"MXLITE_FAKE_GPUS": "1", "MXLITE_NCCL": "0"})


def test_inputs_that_failed_are_errors_on_every_rank(start) -> None:
    program = """
hvd.init()
if hvd.rank() == 1:
    broken = hvd.allreduce(mx.nd.ones((3,), ctx=mx.gpu(1)), name="a")
else:
    broken = hvd.allreduce(mx.nd.ones((2,), ctx=mx.gpu(0)), name="a")
later = hvd.allreduce(broken, name="b")
fails(lambda: later, "allreduce")
assert hvd.allreduce(mx.nd.ones((1,), ctx=mx.gpu(hvd.rank())), op=hvd.Sum).asscalar() == 2
"""
    start(program, 2, env=_ENVIRONMENT)


_COPIES = """
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
"""


@pytest.mark.parametrize("ranks", [2, 4])
def test_backward_writes_gradients_into_their_buckets(start, ranks: int) -> None:
    start(_COPIES, ranks, env=_ENVIRONMENT)
