"""launch.py without servers and without MPI: the processes of one host share memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from launch_jobs import PACKAGE

# Everything of a job runs: collectives, process sets, operators, stores, and a second job.
JOB = """
import os
import numpy as np
import mxlite as mx
import mxlite.horovod as hvd

pair = hvd.ProcessSet([0, 2])
hvd.init(process_sets=[pair])
rank, size = hvd.rank(), hvd.size()
assert (rank, size) == (int(os.environ["MXLITE_JOB_RANK"]), 3)
assert (hvd.local_rank(), hvd.local_size(), hvd.cross_size()) == (rank, size, 1)
assert not hvd.mpi_enabled()
x = mx.nd.full((5,), rank + 1)
assert hvd.allreduce(x, op=hvd.Sum).asnumpy().tolist() == [6] * 5
assert mx.nd.contrib.all_gather(x[:1]).asnumpy().tolist() == [1, 2, 3]
if rank != 1:
    y = mx.nd.contrib.all_reduce(x, process_set=pair.process_set_id)
    assert y.asnumpy().tolist() == [4] * 5
large = mx.nd.array(np.random.RandomState(rank).normal(size=(300, 1000)))
want = sum(np.random.RandomState(r).normal(size=(300, 1000)).astype("float32") for r in range(3))
np.testing.assert_allclose(hvd.allreduce(large, op=hvd.Sum).asnumpy(), want, rtol=1e-4, atol=1e-5)
hvd.shutdown()
hvd.init([2, 1])  # in this order; rank 0 stays alone
assert (hvd.rank(), hvd.size()) == ((0, 1), (1, 2), (0, 2))[rank]
assert hvd.allreduce(mx.nd.ones((2,)), op=hvd.Sum).asnumpy().tolist() == [hvd.size()] * 2
hvd.shutdown()
store = mx.kv.create("dist_sync")
assert (store.rank, store.num_workers) == (rank, 3)
store.init("w", mx.nd.zeros((2,)))
out = mx.nd.zeros((2,))
store.pushpull("w", x[:2], out=out)
assert out.asnumpy().tolist() == [6, 6]
print("done", rank, flush=True)
"""


@pytest.fixture
def start(launch, tmp_path: Path):
    """Return a function that runs a program on three processes without mpirun."""

    def run(program: str, **variables: str) -> tuple[int, str, float]:
        first = "import os; print('memory', os.environ['MXLITE_JOB_MEMORY'], flush=True)\n"
        (tmp_path / "job.py").write_text(first + program)
        line = f"-n 3 -s 0 --launcher local {sys.executable} job.py"
        result = launch(line, MXLITE_MPIRUN="none", **variables)
        names = re.findall(r"memory (/\S+):\d+$", result[1], re.MULTILINE)
        assert len(names) == 3 and len(set(names)) == 1, result[1]
        assert not Path("/dev/shm" + names[0]).exists()
        return result

    return run


def test_processes_of_one_host_need_no_mpi(start) -> None:
    code, text, _ = start(JOB)
    assert code == 0, text
    assert sorted(re.findall(r"^\[worker (\d)\] done (\d)$", text, re.MULTILINE)) == [
        ("0", "0"), ("1", "1"), ("2", "2"),
    ]  # fmt: skip
    assert "3 workers sum among themselves" in text and "mpirun" not in text


def test_a_killed_process_is_named(start) -> None:
    program = """
import os, signal
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
try:
    for step in range(10**6):
        if step == 20 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(mx.nd.ones((2,)), name="x").wait_to_read()
except mx.MXNetError as error:
    print("error", str(error).replace(chr(10), " "), flush=True)
    os._exit(3)
"""
    code, text, seconds = start(program)
    assert code == 137 and seconds < 20, text
    for rank in (0, 2):
        assert re.search(rf"^\[worker {rank}\] error .*rank 1", text, re.MULTILINE), text


def test_a_process_that_does_not_join_is_an_error(start) -> None:
    program = """
import os, time
import mxlite as mx, mxlite.horovod as hvd
if os.environ["MXLITE_JOB_RANK"] == "2":
    time.sleep(6)
    raise SystemExit
try:
    hvd.init()
    raise SystemExit("no error")
except mx.MXNetError as error:
    print("error", error, flush=True)
"""
    code, text, _ = start(program, MXLITE_COMM_TIMEOUT="2")
    assert code == 0, text
    for rank in (0, 1):
        words = "only 2 of 3 ranks have joined the shared memory in 2 s"
        assert re.search(rf"^\[worker {rank}\] error init: .*{words}", text, re.MULTILINE), text


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"MXLITE_JOB_RANK": "2"}, "MXLITE_JOB_RANK='2' given, a number from 0 to 1"),
        ({"MXLITE_JOB_RANK": ""}, "MXLITE_JOB_RANK='' given"),
        ({"MXLITE_JOB_SIZE": "-3"}, "MXLITE_JOB_SIZE='-3' given, a number from 1 to 4096"),
        ({"MXLITE_JOB_SIZE": "two"}, "MXLITE_JOB_SIZE='two' is not an integer"),
        ({"MXLITE_JOB_MEMORY": ""}, "MXLITE_JOB_MEMORY='' given, '/name:bytes' expected"),
        ({"MXLITE_JOB_MEMORY": "/a/b:4096"}, "'/name:bytes' expected"),
        ({"MXLITE_JOB_MEMORY": "/a:4096x"}, "'/name:bytes' expected"),
        ({"MXLITE_JOB_MEMORY": "/a:99999999999999999999"}, "'/name:bytes' expected"),
        ({"MXLITE_JOB_MEMORY": "/" + "a" * 80 + ":4096"}, "'/name:bytes' expected"),
        ({"MXLITE_JOB_MEMORY": "/mxlite-none:4096"}, "/mxlite-none of"),
    ],
    ids=str,
)
def test_wrong_variables_are_named(variables: dict[str, str], words: str) -> None:
    program = "import mxlite.horovod as hvd\nhvd.init()\n"
    own = {"MXLITE_JOB_SIZE": "2", "MXLITE_JOB_RANK": "1", "MXLITE_JOB_MEMORY": "/a:4096"}
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(PACKAGE), **own, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1 and words in result.stderr, result.stderr
