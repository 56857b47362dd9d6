"""Jobs whose processes may have few open files."""

from __future__ import annotations

import errno
import sys
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import mxlite as mx
import mxlite.horovod as hvd
import pytest

# Lowers a limit of this process to a few more descriptors than it has; then joins.
LIMITED = """
import os, resource, sys
what, who = sys.argv[1:3]
me = os.environ.get("MXLITE_JOB_RANK") or os.environ["DMLC_ROLE"]
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
if who in (me, "all"):
    low = len(os.listdir("/proc/self/fd")) + 14
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, low if what == "hard" else most))
"""

JOINS = """
import mxlite as mx, mxlite.horovod as hvd
hvd.init()
total = hvd.allreduce(mx.nd.ones((3,)), op=hvd.Sum).asnumpy()
assert total.tolist() == [hvd.size()] * 3
if what == "soft":
    assert low < resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= most
print("done")
"""

STORES = """
import mxlite as mx
store = mx.kv.create("dist_sync")
store.init("a", mx.nd.zeros((3,)))
store.push("a", mx.nd.ones((3,)))
out = mx.nd.zeros((3,))
store.pull("a", out=out)
assert out.asnumpy().tolist() == [2, 2, 2]
assert low < resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= most
"""


def run_on_two_addresses(launch: Any, folder: Path, *arguments: str) -> tuple[int, str, float]:
    (folder / "job.py").write_text(LIMITED + JOINS)
    hosts = "127.0.0.1 slots=1\n127.0.0.2 slots=2\n"
    line = f"-n 3 -s 0 --launcher local {sys.executable} job.py {' '.join(arguments)}"
    return launch(line, timeout=90, hosts=hosts, MXLITE_COMM_TIMEOUT="30")


def test_ranks_raise_their_soft_limit_for_connections(launch, tmp_path: Path) -> None:
    code, text, _ = run_on_two_addresses(launch, tmp_path, "soft", "all")
    assert code == 0 and text.count("done") == 3, text


def test_a_rank_with_a_low_hard_limit_ends_the_job_with_the_numbers(launch, tmp_path: Path) -> None:
    code, text, seconds = run_on_two_addresses(launch, tmp_path, "hard", "1")
    assert code != 0 and "done" not in text, text
    wanted = "rank 1: connections of a group of 3 ranks: 19 descriptors are needed in addition to "
    assert wanted in text and "the hard limit is " in text and "ulimit -Hn" in text, text
    assert seconds < 25, text


def test_all_roles_of_a_job_with_servers_raise_their_soft_limit(serve) -> None:
    serve(LIMITED + STORES, "soft", "all", prelude="")


@pytest.mark.parametrize(
    ("role", "what"),
    [
        ("scheduler", "the scheduler of 4 processes: 20"),
        ("server", "a server with 3 connections: 19"),
        ("worker", "a worker with 3 connections: 19"),
    ],
)
def test_a_role_with_a_low_hard_limit_says_so(serve, role: str, what: str) -> None:
    options = {"env": {"MXLITE_PS_TIMEOUT": "8"}, "timeout": 60, "prelude": ""}
    result = serve(LIMITED + STORES, "hard", role, ok=False, **options)
    assert result.code != 0, result.text
    assert f"parameter server: {what} descriptors are needed in addition to " in result.text, (
        result.text
    )


def ranks() -> int:
    hvd.init()
    return hvd.rank()


def test_the_caller_of_a_function_waits_for_descriptors(
    mpirun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [errno.EMFILE, errno.ENFILE]

    class Short(Listener):
        def accept(self) -> Any:
            if left:
                raise OSError(left.pop(), "no descriptor")
            return super().accept()

    monkeypatch.setattr(hvd.runner, "Listener", Short)
    assert hvd.run(ranks, num_proc=2) == [0, 1] and not left


def test_a_limit_that_is_too_low_is_a_communicator_error() -> None:
    with pytest.raises(mx.base.CommunicatorError, match="^a test: 1099511627776 descriptors are"):
        mx._core.reserve_descriptors("a test", 1 << 40, 0)
