"""mxlite.horovod on several processes of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import mxlite as mx
import pytest
from conftest import HERE, run_python


@pytest.mark.parametrize(
    ("script", "ranks", "variables"),
    [
        *(("collectives.py", ranks, {}) for ranks in (1, 2, 3)),
        ("collectives.py", 2, {"HOROVOD_FUSION_THRESHOLD": "0"}),
        ("collectives.py", 2, {"HOROVOD_CACHE_CAPACITY": "0"}),
        *(("mistakes.py", ranks, {}) for ranks in (2, 3)),
        *(
            ("orders.py", ranks, {"HOROVOD_CACHE_CAPACITY": capacity})
            for ranks in (2, 3)
            for capacity in ("1024", "5")
        ),
        *(
            ("large.py", 2, {**shared, **size})
            for shared in ({}, {"MXLITE_COMM_SHARED_ARRAYS": "0"})
            for size in ({}, {"MXLITE_BUCKET_MB": "2"})
        ),
    ],
    ids=str,
)
def test_scripts(start, script: str, ranks: int, variables: dict[str, str]) -> None:
    start(script, ranks, env=variables)


@pytest.mark.parametrize(
    ("script", "hosts"),
    [("collectives.py", "aabb"), ("mistakes.py", "aab"), ("collective_sequences.py 9 30", "aab")],
)
def test_hosts_meet_through_mpi(start, script: str, hosts: str) -> None:
    # Two names for this machine: shared memory within each, MPI between them.
    program = """
path, hosts = sys.argv.pop(1), sys.argv.pop(1)
os.environ["MXLITE_COMM_HOST"] = hosts[int(os.environ["OMPI_COMM_WORLD_RANK"])]
runpy.run_path(path, run_name="__main__")
info, even = mx._core.comm_info(), hosts == "aabb"
assert info["backend"] == "mpi+shm", info
assert hvd.is_homogeneous() == even
assert hvd.cross_size() == (2 if even or hvd.local_rank() == 0 else 1)
assert info["local_size"] == hosts.count(os.environ["MXLITE_COMM_HOST"]), info
"""
    name, *arguments = script.split()
    path = str(HERE / "scripts" / name)
    start(program, len(hosts), path, hosts, *arguments, timeout=180)


def test_without_mpirun_a_process_is_alone() -> None:
    import mxlite.horovod as hvd

    with pytest.raises(ValueError, match="has not been initialized"):
        hvd.rank()
    hvd.init()
    try:
        assert (hvd.rank(), hvd.size(), hvd.local_size(), hvd.cross_size()) == (0, 1, 1, 1)
        assert not hvd.mpi_enabled() and hvd.nccl_built() == 0
        assert hvd.allreduce(mx.nd.ones((2,))).asnumpy().tolist() == [1, 1]
        assert hvd.allgather_object({"a": 1}) == [{"a": 1}]
        assert hvd.allgather(mx.nd.ones((2, 2))).shape == (2, 2)
    finally:
        hvd.shutdown()
    assert not hvd.is_initialized()


PROCESS_SETS = """
static = hvd.ProcessSet([0, 2])
hvd.init(process_sets=[static])
rank = hvd.rank()
assert static.process_set_id == 1 and static.included() == (rank != 1)
if static.included():
    total = hvd.allreduce(mx.nd.ones((3,)) * rank, op=hvd.Sum, process_set=static)
    assert total.asnumpy().tolist() == [2, 2, 2]
    assert static.rank() == rank // 2 and static.size() == 2
    same = hvd.broadcast(mx.nd.ones((1,)) * rank, 2, process_set=static)
    assert same.asscalar() == 2  # the root is a rank of the job
else:
    fails(lambda: hvd.allreduce(mx.nd.ones((3,)), process_set=static), "not in", kind=ValueError)
dynamic = hvd.add_process_set([1, 2])
assert dynamic.process_set_id == 2
fails(lambda: hvd.add_process_set([2, 1]), "already", kind=ValueError)
if dynamic.included():
    gathered = hvd.allgather(mx.nd.ones((1,)) * rank, process_set=dynamic)
    assert gathered.asnumpy().tolist() == [1, 2]
assert hvd.remove_process_set(dynamic) and not hvd.remove_process_set(dynamic)
assert not hvd.remove_process_set(hvd.global_process_set)
assert hvd.allreduce(mx.nd.ones((1,)), op=hvd.Sum).asscalar() == 3
"""


def test_process_sets(start) -> None:
    start(PROCESS_SETS, 3, env={"HOROVOD_DYNAMIC_PROCESS_SETS": "1"})


REMOVED_SET = """
hvd.init(process_sets="dynamic")
rank = hvd.rank()
pair = hvd.add_process_set([0, 2])
number = pair.process_set_id
for _ in range(2):
    if pair.included():
        hvd.allreduce(mx.nd.ones((3,)), name="known", process_set=pair).wait_to_read()
waiting = []
if rank == 0:
    waiting = [hvd.allreduce(mx.nd.ones((3,)), name="known", process_set=pair)]
    waiting += hvd.grouped_allreduce([mx.nd.ones((2,)), mx.nd.ones((1,))], process_set=pair)
if rank == 2:
    waiting = [hvd.broadcast(mx.nd.ones((3,)), 0, name="new", process_set=pair)]
assert hvd.remove_process_set(pair)
for array in waiting:
    fails(lambda: array, f"process set {number} was removed before rank {2 - rank} called it")
again = hvd.add_process_set([0, 2])
if again.included():
    total = hvd.allreduce(mx.nd.ones((3,)), name="known", op=hvd.Sum, process_set=again)
    assert total.asnumpy().tolist() == [2, 2, 2]
assert hvd.allreduce(mx.nd.ones((1,)), op=hvd.Sum).asscalar() == 3
"""


def test_what_waits_for_a_removed_process_set_raises(start) -> None:
    start(REMOVED_SET, 3)


TIMELINE = """
hvd.init()
for i in range(3):
    hvd.grouped_allreduce([mx.nd.ones((4,)), mx.nd.ones((5,))], name=f"g{i}")
    hvd.allgather(mx.nd.ones((2,)), name=f"h{i}")
"""


def test_timeline(start, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    env = {"HOROVOD_TIMELINE": str(path), "HOROVOD_TIMELINE_MARK_CYCLES": "1"}
    start(TIMELINE, 2, env=env)
    events = json.loads(path.read_text())
    names = {event.get("name") for event in events}
    assert {
        "NEGOTIATE_ALLREDUCE",
        "ALLREDUCE",
        "MEMCPY_IN_FUSION_BUFFER",
        "MPI_ALLREDUCE",
        "MEMCPY_OUT_FUSION_BUFFER",
        "NEGOTIATE_ALLGATHER",
        "MPI_ALLGATHER",
        "CYCLE_START",
    } <= names
    open_by_row: dict[int, int] = {}
    for event in events:
        change = {"B": 1, "E": -1}.get(event["ph"], 0)
        open_by_row[event["pid"]] = open_by_row.get(event["pid"], 0) + change
        assert open_by_row[event["pid"]] >= 0
    assert not any(open_by_row.values())


def test_an_uncaught_exception_ends_the_job_everywhere(start) -> None:
    program = """
hvd.init()
for step in range(10**6):
    if hvd.rank() == 1 and step == 50:
        raise KeyError("the data are gone")
    hvd.allreduce(mx.nd.ones((2,)), name="x").wait_to_read()
"""
    result = start(program, 3, ok=False, timeout=30)
    assert result.code != 0 and "the data are gone" in result.text


def test_shutdown_of_one_rank_fails_the_operations_of_others(start) -> None:
    program = """
hvd.init()
rank = hvd.rank()
if rank == 1:
    hvd.shutdown()
else:
    fails(lambda: hvd.allreduce(mx.nd.ones((2,)), name="x"), "shut down by rank 1")
    hvd.shutdown()
hvd.init()  # again, all of them
assert hvd.allreduce(mx.nd.ones((2,)), op=hvd.Sum).asnumpy().tolist() == [2, 2]
"""
    start(program, 2)


def test_a_wrong_variable_is_named(start) -> None:
    program = """fails(hvd.init, "HOROVOD_CYCLE_TIME must be a number", kind=ValueError)"""
    start(program, 1, env={"HOROVOD_CYCLE_TIME": "soon"})


def test_digits_learn_alike_with_one_and_two_processes(mpirun: str, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    script = Path(__file__).resolve().parents[3] / "examples" / "distributed" / "digits.py"
    result = run_python(str(script), "--compare", "1", "2", "--epochs", "3", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 processes: largest relative difference" in result.stdout


ALIASED = """
import mxnet as mx
from mxnet import autograd, gluon
import horovod.mxnet as hvd
from horovod.mxnet.mpi_ops import allreduce
hvd.init()
net = gluon.nn.Dense(2)
net.initialize(mx.init.Constant(hvd.rank() + 1.0))
hvd.broadcast_parameters(net.collect_params(), root_rank=1)  # before the shape is known
opt = mx.optimizer.create("sgd", learning_rate=0.5)
trainer = hvd.DistributedTrainer(net.collect_params(), opt, gradient_predivide_factor=2.0)
with autograd.record():
    loss = net(mx.nd.ones((4, 3)) * (hvd.rank() + 1)).sum()
loss.backward()
trainer.step(4)
# Weights of rank 1 were 2; gradients 4 and 8 in each column, of batches of 4: the mean is 1.5.
assert abs(net.weight.data().asnumpy() - (2 - 0.5 * 1.5)).max() < 1e-6, net.weight.data()
assert allreduce(mx.nd.ones((1,)), op=hvd.Sum).asscalar() == hvd.size()
"""


def test_scripts_for_horovod_mxnet_run_through_the_alias(start) -> None:
    start("from mxlite import compat\ncompat.install()\n" + ALIASED, 2)


OPTIMIZER = """
hvd.init()
rank, size = hvd.rank(), hvd.size()
opt = hvd.DistributedOptimizer(mx.optimizer.SGD(learning_rate=1.0))
weight, grad = mx.nd.zeros((2,)), mx.nd.ones((2,)) * (rank + 1)
opt.update(0, weight, grad, opt.create_state(0, weight))
np.testing.assert_allclose(weight.asnumpy(), -(size + 1) / 2)
grads = [mx.nd.ones(shape) * (rank + 1) for shape in [(2, 3), (4,), (1,)]]
opt._reduce([5, 6, 7], grads)  # a list: some megabytes at once
for grad in grads:
    np.testing.assert_array_equal(grad.asnumpy(), np.full(grad.shape, size * (size + 1) / 2))
fails(lambda: opt._reduce([5, 6], [grads[1], np.ones(3)]))
listed = hvd.DistributedOptimizer(mx.optimizer.SGD(learning_rate=1.0))
weights = [mx.nd.zeros((k + 1,)) for k in range(5)]
before = mx._core.comm_stats()["tensors"]
for step in (1, 2):
    grads = [mx.nd.ones(weight.shape) * (rank + 1) for weight in weights]
    update = mx.optimizer.get_updater(listed)
    update(list(range(5)), grads, weights)
    for weight in weights:
        np.testing.assert_allclose(weight.asnumpy(), -step * (size + 1) / 2)
# All gradients of a list are summed in one bucket; each of the two plans is an all-gather.
assert mx._core.comm_stats()["tensors"] - before == 4
opt.rescale_grad = 0.25
assert opt._optimizer.rescale_grad == 0.25 and opt.learning_rate == 1.0
"""


def test_the_optimizer_averages(start) -> None:
    start(OPTIMIZER, 2)


def test_the_trainer_clips_the_norm_of_averaged_gradients(start) -> None:
    program = """
import mxlite as mx, mxlite.horovod as hvd, numpy as np
hvd.init()
for limit, predivide in ((1.0, 1.0), (1.0, 2.0), (10.0, 1.0), (None, 1.0)):
    values = [mx.gluon.Parameter(f"w{i}", shape=(2,), init="zeros") for i in range(2)]
    for value in values:
        value.initialize()
    trainer = hvd.DistributedTrainer(
        values, "sgd", {"learning_rate": 1.0}, gradient_predivide_factor=predivide,
        prefix=f"{limit}{predivide}", clip_global_norm=limit,
    )
    # The mean over the ranks is (3, 0) and (0, 4): its norm is 5.
    with mx.autograd.record():
        first, second = (value.data() for value in values)
        loss = (first * mx.nd.array([2.0 + 2 * hvd.rank(), 0])).sum()
        loss = loss + (second * mx.nd.array([0, 8.0 * hvd.rank()])).sum()
    loss.backward()
    trainer.step(1)
    found = np.concatenate([-value.data().asnumpy() for value in values])
    factor = 1 if limit is None else min(1, limit / 5)
    np.testing.assert_allclose(found, factor * np.array([3, 0, 0, 4]), rtol=1e-5)
"""
    start(program, 2)
