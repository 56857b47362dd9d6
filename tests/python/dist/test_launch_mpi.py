"""launch.py: mpirun, no servers, copied directories, and real stores on all of them."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from conftest import run_python, write_program
from launch_jobs import put_on_path, stop_launcher
from mxlite.tools.launch import parse

# Sums once over all workers; a worker's rank in the job is its rank in mpirun where there is one.
STORE = """
store = mx.kv.create("dist_sync")
assert store.rank == int(os.environ.get("OMPI_COMM_WORLD_RANK", store.rank)), store.rank
store.init("w", mx.nd.full((2, 3), 7 + store.rank))
out = mx.nd.zeros((2, 3))
store.pull("w", out=out)
assert out.asnumpy().tolist() == [[7] * 3] * 2
store.push("w", mx.nd.full((2, 3), store.rank + 1))
store.pull("w", out=out)
assert out.asnumpy().tolist() == [[3] * 3] * 2
store.barrier()
print("summed", type(store).__name__, store.rank, os.environ.get("SAID"), flush=True)
"""


def test_mpirun_starts_servers_and_workers(launch, mpirun: str) -> None:
    line = f"-n 2 -s 1 --launcher mpi --env-worker THREADS:3 {sys.executable} program.py"
    code, text, _ = launch(line, hosts="localhost slots=2\n")
    assert code == 0, text
    for rank in (0, 1):
        found = re.search(rf"^\[worker {rank}\] worker {rank} (.*)", text, re.MULTILINE)
        assert found, text
        assert "'DMLC_NUM_WORKER': '2'" in found.group(1)
        assert "'DMLC_NUM_SERVER': '1'" in found.group(1)
        assert "'THREADS': '3'" in found.group(1)
        assert "DMLC_TASK_ID" not in found.group(1)  # two workers cannot have the same
    assert re.search(r"^\[server 0\] server 0 ", text, re.MULTILINE), text
    assert re.search(r"^\[scheduler\] scheduler - ", text, re.MULTILINE), text
    assert "2 workers and 1 servers meet at 127.0.0.1:" in text
    assert re.search(r"^workers +by mpirun +\d+$", text, re.MULTILINE), text


@pytest.mark.parametrize("servers", [2, 0])
def test_stores_sum_over_the_workers_of_mpirun(
    launch, mpirun: str, tmp_path: Path, servers: int
) -> None:
    write_program(STORE, tmp_path)
    # Without servers, workers must not look for those that this variable belongs to.
    code, text, _ = launch(
        f"-n 2 -s {servers} --launcher mpi --env-worker SAID:hello {sys.executable} job.py",
        DMLC_PS_ROOT_URI="127.0.0.1",
    )
    assert code == 0, text
    kind = "ServerStore" if servers else "AllReduceStore"
    for rank in (0, 1):
        assert f"[worker {rank}] summed {kind} {rank} hello" in text, text
    if not servers:
        assert "2 workers sum among themselves" in text


@pytest.mark.parametrize(
    ("servers", "mode", "code"), [(1, "fail", 7), (0, "fail", 7), (0, "die", 128 + signal.SIGKILL)]
)
def test_a_failing_worker_of_mpirun_ends_the_job_with_its_code(
    launch, mpirun: str, servers: int, mode: str, code: int
) -> None:
    line = f"-n 2 -s {servers} --launcher mpi {sys.executable} program.py {mode}"
    found, text, seconds = launch(line)
    assert found == code and seconds < 40, text
    assert mode == "die" or "workers ended with exit code 7" in text


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("mxlite.tools.launch -n 2 -s 1 --launcher mpi", 4),
        ("mxlite.tools.launch -n 2 -s 0 --launcher mpi", 2),
        ("mxlite.run -np 2", 2),
    ],
)
def test_nothing_outlives_a_launcher_that_started_mpirun(
    tmp_path: Path, mpirun: str, line: str, count: int
) -> None:
    mark = tmp_path / "stays.py"
    mark.write_text("print('up', flush=True)\nimport time\ntime.sleep(600)\n")
    words = [*line.split(), sys.executable, str(mark)]
    code = stop_launcher(words, str(mark), count, signal.SIGTERM)
    assert code == 128 + signal.SIGTERM or (code != 0 and "mxlite.run" in line)


def test_the_directory_is_copied_to_the_hosts(
    launch, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (tmp_path / "hosts").write_text("localhost\n127.0.0.1:2222\n")
    (tmp_path / "notes").write_text("from here")
    program = """
import os
if os.environ["DMLC_ROLE"] != "scheduler":  # which runs here, as the launcher
    print(os.getcwd(), open("notes").read(), os.environ["THE_HOST"])
else:
    print(os.getcwd())
"""
    (tmp_path / "where.py").write_text(program)
    target = tmp_path_factory.mktemp("target") / "job 1"
    line = f"-n 2 -s 1 -H hosts --launcher ssh --sync-dst-dir '{target}' {sys.executable} where.py"
    code, text, _ = launch(line)
    assert code == 0, text
    for rank, host in enumerate(("localhost", "127.0.0.1")):
        assert f"[worker {rank}] {target} from here {host}" in text, text
    assert f"[scheduler] {tmp_path}" in text, text
    assert text.count("rsync ") == 2
    # A place in the home directory.
    code, text, _ = launch(f"-n 1 -s 1 -H hosts --sync-dst-dir ~/job {sys.executable} where.py")
    assert code == 0, text
    assert re.search(r"^\[worker 0\] \S+/home/job from here localhost$", text, re.MULTILINE), text


def test_directories_that_cannot_be_copied_are_named(launch) -> None:
    line = f"-n 2 -s 1 --sync-dst-dir /job {sys.executable} program.py"
    code, text, _ = launch(line, hosts="localhost\nfull\n", DMLC_PS_ROOT_URI="127.0.0.1")
    assert code == 1
    assert "rsync to full failed: rsync: No space left on device" in text, text
    assert "Traceback" not in text
    for options in ("--launcher mpi", "-s 0"):
        with pytest.raises(
            ValueError, match="--sync-dst-dir must be given only for .*mpirun needs the same"
        ):
            parse(["-n", "2", "-H", "hosts", "--sync-dst-dir", "d", *options.split(), "p"])


def test_a_store_works_over_hosts_of_ssh(launch, tmp_path: Path) -> None:
    write_program(STORE, tmp_path)
    line = f"-n 2 -s 1 {sys.executable} job.py"
    code, text, _ = launch(line, hosts="localhost\n127.0.0.1\n")
    assert code == 0, text
    for rank in (0, 1):
        assert f"[worker {rank}] summed ServerStore {rank}" in text, text


@pytest.mark.parametrize("line", ["-n 2 -s 1 --launcher mpi", "-n 2 -s 0"])
@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (
            "localhost\ngone1\n",
            ("1 of 1 hosts cannot be used", "gone1: ssh: connect to host gone1: No route to host"),
        ),
        ("localhost\n", ("slots, 1 on the 1 hosts of hosts, got 2",)),
        (
            "localhost:2200\n127.0.0.1:2300\n",
            ("must have the same port, got ports 2200, 2300",),
        ),
    ],
)
def test_hosts_that_mpirun_cannot_use_are_named(
    launch, mpirun: str, line: str, hosts: str, words: tuple[str, ...]
) -> None:
    variables = {"DMLC_PS_ROOT_URI": "127.0.0.1"} if "gone1" in hosts else {}
    code, text, seconds = launch(f"{line} python train.py", hosts=hosts, **variables)
    assert code == 1 and seconds < 30
    assert all(word in text for word in words) and "Traceback" not in text, text


def test_mxlite_run_names_hosts_that_do_not_answer(tmp_path: Path, mpirun: str) -> None:
    put_on_path(tmp_path)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    hosts = "localhost:1,gone1:1,gone2:1"
    done = run_python("-m", "mxlite.run", "-np", "3", "-H", hosts, "p", PATH=path)
    assert done.returncode == 1
    assert "2 of 2 hosts cannot be used" in done.stderr, done.stderr
    assert "gone2: ssh: connect to host gone2: No route to host" in done.stderr
